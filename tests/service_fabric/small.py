"""Small clusters and their actions as short texts, under Service Fabric's settings with short searches.

Nodes are numbers. ``P0 S1 I2`` are a primary, a secondary and an instance on nodes 0, 1 and 2, ``B3`` is a standby and
``D4`` a dropped replica; a suffix says more of a replica (`SUFFIXES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from plb import Application, Metric, Move, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service

ROLES = {"P": Role.PRIMARY, "S": Role.SECONDARY, "I": Role.INSTANCE, "B": Role.SECONDARY, "D": Role.SECONDARY}
STATES = {"B": "standby", "D": "dropped"}
SUFFIXES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "+": {"state": "in_build"},
    "-": {"state": "down"},
    "~": {"leaving": True},
    "!": {"to_be_dropped": True},
    "=": {"pinned": True},
    "/": {"upgrade": "swap_out"},
    "^": {"upgrade": "primary_returns"},
    "_": {"upgrade": "replica_returns"},
}
"""Fields of a replica by its suffix."""

QUICK: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("MinPlacementInterval", "MinConstraintCheckInterval", "MinLoadBalancingInterval"), 0),
        **dict.fromkeys(("BalancingDelayAfterNewNode", "ConstraintFixPartialDelayAfterNewNode"), 0),
        **dict.fromkeys(("BalancingDelayAfterNodeDown", "ConstraintFixPartialDelayAfterNodeDown"), 0),
        **dict.fromkeys(("PlacementSearchTimeout", "ConstraintCheckSearchTimeout"), "max"),
        **dict.fromkeys(("FastBalancingSearchTimeout", "SlowBalancingSearchTimeout"), "max"),
        "PLBActionRetryTimes": 1,
        "MaxPercentageToMove": 1.0,
        "MaxSimulatedAnnealingIterations": 8,
        "SimulatedAnnealingIterationsPerRound": 60,
    }
)
"""No phase waits, and every search ends after some rounds."""


def nodes(count: int, *, racks: str = "", upgrades: str = "", **fields: Any) -> list[Node]:
    """Return numbered nodes; letters give the fault and upgrade domain of each. A tuple has a value for each node."""
    return [
        Node(
            str(index),
            fault_domain=f"fd:/{'/'.join(racks.split()[index])}" if racks else None,
            upgrade_domain=upgrades[index] if upgrades else None,
            **{field: value[index] if isinstance(value, tuple) else value for field, value in fields.items()},
        )
        for index in range(count)
    ]


def limits(*loads: float) -> tuple[dict[str, float], ...]:
    return tuple({"load": load} for load in loads)


class Fabric:
    """One engine and its host, which describes the cluster and carries out no plan by itself."""

    def __init__(self, described: Iterable[Node], *metrics: Metric | str, seed: int = 1, **settings: Any) -> None:
        units = [Metric(one, quantum=1, violation_threshold=1.0) if isinstance(one, str) else one for one in metrics]
        config = PlbConfig.from_service_fabric(
            {**QUICK, **settings},
            metrics=units or [Metric("load", quantum=1, violation_threshold=1.0)],
            refuse_applications_without_capacity=True,
        )
        self.engine = PlacementAndLoadBalancing(config, seed=seed)
        self.nodes = list(described)
        self.engine.update_nodes(self.nodes, now=0.0)

    def service(self, name: str, load: float | tuple[float, float] = 1, metric: str = "load", **fields: Any) -> None:
        """Add a service with one metric; a tuple has the loads of primary and secondary. Targets are unknown."""
        stateful = fields.get("stateful", True)
        primary, secondary = load if isinstance(load, tuple) else (load, load)
        roles = {Role.PRIMARY: primary, Role.SECONDARY: secondary} if stateful else {Role.INSTANCE: primary}
        loads = {role: {metric: value} for role, value in roles.items()}
        self.engine.update_service(
            Service(name, **{"target_replicas": 0, "metrics": {metric: 1}, "default_load": loads, **fields})
        )

    def partitions(self, missing: int = 0, /, **described: str) -> None:
        """Describe partitions by their replicas; the letters of a name give its service."""
        for name, replicas in described.items():
            self.partition(name, replicas, missing=missing)

    def partition(self, name: str, replicas: str = "", *, missing: int | None = 0, **fields: Any) -> None:
        """Describe a partition."""
        service = name.rstrip("0123456789")
        present = [replica_of(text) for text in replicas.split()]
        self.engine.update_partition(Partition(name, service=service, replicas=present, missing=missing, **fields))

    def application(self, name: str, **fields: Any) -> None:
        """Add or update an application."""
        self.engine.update_application(Application(name, **fields))

    def refresh(self, at: float = 1.0) -> list[str]:
        """Return the sorted actions of a refresh."""
        self.plan = self.engine.refresh(at)
        return sorted(text_of(move) for move in self.plan.moves)

    def settled(self, rounds: int = 6, *, at: float = 1.0) -> list[str]:
        """Refresh some times, apply every plan, and return the sorted actions of all."""
        actions = []
        for turn in range(rounds):
            actions += self.refresh(at + 20.0 * turn)
            self.engine.apply(self.plan)
        return sorted(actions)

    def last_actions(self) -> set[str]:
        """Return the last action of each service domain."""
        return {domain.last_action for domain in self.engine.service_domains()}


def replica_of(text: str) -> Replica:
    """Return the replica of a text such as ``S1~``."""
    letter, node, suffix = text[0], text[1], text[2:]
    return Replica(ROLES[letter], node, **{"state": STATES.get(letter, "ready"), **SUFFIXES[suffix]})


def text_of(move: Move) -> str:
    """Return an action such as ``db0 move P 1>2`` or ``db0 add S >2``."""
    return f"{move.partition} {move.kind.value} {move.role.name[0]} {move.source or ''}>{move.target or ''}"


def targets(actions: Iterable[str]) -> list[str]:
    return [action.rpartition(">")[2] for action in actions]
