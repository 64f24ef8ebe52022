"""A million random events, after each of which every kept array equals one computed from scratch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, PlbError, Replica, Role, Service
from plb.planning.live import live_state
from plb.risk import DemandHistory

from .kept_arrays import check_kept

RUNS, EVENTS, FEW_EVENTS = 20, 50_000, 1_500
NODES, PARTITIONS = 7, 12
METRICS = [Metric("cpu", quantum=0.5), Metric("memory", quantum=1.0, trend=False)]
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"w_failovers": 10.0, "w_overload": 1.0, "evaluation": "timeline"},
    {"w_failovers": 10.0, "replay": "as_recorded", "held_out_nodes": 2, "w_fragmentation": 1.0},
    {"w_failovers": 10.0, "evaluation": "timeline", "replay": "from_present", "estimator": "monte-carlo:horizon=0.5"},
    {"w_failovers": 10.0, "estimator": "gaussian:warmup=2,history=4"},
    {"w_failovers": 10.0, "w_overload": 1.0, "estimator": "historical-simulation:slots=6,slot_minutes=5,horizon=2"},
    {"violation_cost": 3.0, "estimator": "historical-simulation:slots=6,slot_minutes=5,horizon=2"},
    {"one_action_per_refresh": True, "min_load_balancing_interval": 300.0, "local_domain_weight": 0.5},
    {"prevent_transient_overcommit": True, "spread_moves": True, "exchange_probability": 0.2},
    {"move_existing_replica_for_placement": True, "max_moves": 3, "max_moves_per_node": 2, "chains": 2},
    {"combination": "service_fabric", "allow_higher_child_target_replica_count_for_affinity": True},
)
"""Settings of the runs, which follow one another."""


class Cluster:
    """A small cluster to which things happen, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = SETTINGS[seed % len(SETTINGS)]
        config = PlbConfig(metrics=METRICS, repetitions=5, max_percentage_to_move=1.0, **settings)
        self.engine = PlacementAndLoadBalancing(config, seed=seed, history=self._history())
        self.now = 0.0
        self.moves: list[tuple[str, str]] = []
        """Partitions and nodes with departing ends."""
        for index in range(NODES):
            self.engine.update_node(self._node(index))
        parents = {"web": None, "db": None, "beside": "db"}
        for name, parent in parents.items():
            loads = {role: {"cpu": 3.0, "memory": 2.0} for role in self._roles(name)}
            target = 3 if name == "db" else 2
            self.engine.update_service(
                Service(
                    name,
                    stateful=name == "db",
                    target_replicas=target,
                    tenant_class="gold",
                    default_load=loads,
                    affinity_to=parent,
                )
            )

    def happen(self) -> None:
        """Let one event happen; the engine may refuse it."""
        events: tuple[tuple[Callable[[], None], int], ...] = (
            (self._report, 8),
            (self._report_many, 4),
            (self._describe, 4),
            (self._remove, 1),
            (self._change_node, 2),
            (self._plan, 5),
            (self._vacate, 3),
            (self._wait, 3),
        )
        chosen = self.random.choices([event for event, _ in events], [weight for _, weight in events])[0]
        with suppress(PlbError):
            chosen()

    def _report(self) -> None:
        name = self._name()
        replicas = [one for one in self.engine.replicas(name) if one.node is not None]
        if replicas:
            node = self.random.choice(replicas).node
            self.engine.report_load(name, str(node), {"cpu": self.random.randint(0, 30) / 2})

    def _report_many(self) -> None:
        rows = [one.index for name in self._known() for one in self.engine.replicas(name)]
        some = sorted(self.random.sample(rows, self.random.randint(0, len(rows))))
        loads = [[self.random.randint(0, 20) / 2, self.random.randint(0, 9)] for _ in some]
        self.engine.report_loads(some, loads, at=self.random.choice((None, self.now)))

    def _describe(self) -> None:
        name = self._name()
        service = name.partition("/")[0]
        nodes = self.random.sample(range(NODES), self.random.randint(0, 3))
        roles = self._roles(service)
        replicas = [Replica(roles[min(at, len(roles) - 1)], f"n{node}") for at, node in enumerate(nodes)]
        self.engine.update_partition(Partition(name, service=service, replicas=replicas, created=self.now))

    def _remove(self) -> None:
        self.engine.remove_partition(self._name())

    def _change_node(self) -> None:
        index = self.random.randrange(NODES)
        self.engine.update_node(self._node(index, up=self.random.random() < 0.7), now=self.now)

    def _plan(self) -> None:
        kind = self.random.choice(("place", "repair", "balance", "refresh"))
        plan: Plan = getattr(self.engine, kind)(now=self.now, budget=self.random.choice((0, 20, 60)))
        fate = self.random.random()
        if fate < 0.8:
            self.engine.apply(plan, leaving=fate < 0.3)
            moves = [(move.partition, move.source) for move in plan.moves if move.source is not None]
            self.moves += moves if fate < 0.3 else []

    def _vacate(self) -> None:
        if self.moves:
            self.engine.vacate(*self.moves.pop(self.random.randrange(len(self.moves))))

    def _wait(self) -> None:
        self.now += self.random.choice((1.0, 60.0, 600.0, 86_400.0))

    def _known(self) -> list[str]:
        return sorted(self.engine._state.partitions)

    def _name(self) -> str:
        """Return the name of a partition that may not be known."""
        index = self.random.randrange(PARTITIONS)
        return f"{('web', 'db', 'beside')[min(2, index % 4)]}/{index if index % 4 != 2 else 0}"

    def _node(self, index: int, *, up: bool = True) -> Node:
        capacity, rack = {"cpu": 40.0, "memory": 30.0 + index}, f"fd:/r{index % 3}"
        return Node(f"n{index}", capacities=capacity, fault_domain=rack, upgrade_domain=f"u{index}", up=up)

    def _roles(self, service: str) -> list[Role]:
        return [Role.PRIMARY, Role.SECONDARY] if service == "db" else [Role.INSTANCE]

    def _history(self) -> DemandHistory:
        """Return a few traces that grow for up to a day and live for up to a month."""
        random = np.random.default_rng(self.random.randrange(2**32))
        traces = 12
        level = random.integers(1, 20, (traces, 2)).astype(float)
        return DemandHistory.from_columns(
            [metric.name for metric in METRICS],
            tenant_class=["gold"] * traces,
            role=[role for role in Role for _ in range(traces // 3)],
            lifetime=random.uniform(600.0, 30 * 86_400.0, traces),
            level=level,
            initial=level / 2,
            growth=random.uniform(0.0, 86_400.0, (traces, 2)),
            maximum=level * 1.2,
        )


def follow(seed: int, events: int) -> None:
    """Let events happen, and compare all arrays after each.

    With an odd seed, any row that is described again counts as one of many, after which all arrays are made new.
    """
    cluster = Cluster(seed)
    with patch.multiple(live_state, MOST_FOLLOWED=0 if seed % 2 else 1000, SHARE_FOR_ALL=1_000_000):
        for number in range(events):
            cluster.happen()
            try:
                check_kept(cluster.engine)
            except Exception as error:
                error.add_note(f"after event {number} of seed {seed}")
                raise


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(len(SETTINGS)))
def test_every_array_equals_one_from_scratch_after_each_event(seed):
    """A short run under each of the settings."""
    follow(seed, FEW_EVENTS // len(SETTINGS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
def test_every_array_equals_one_from_scratch_after_each_of_a_million_events(seed):
    """Twenty runs of fifty thousand events, with other events than the short ones."""
    follow(1000 + seed, EVENTS)
