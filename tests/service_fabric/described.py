"""Converts nodes, services and partitions of a scenario to objects of `plb`.

Only this module converts the ids of a scenario to names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from plb import Application, Metric, Node, Partition, Replica, Role, Service
from plb.errors import InvalidValueError
from plb.model import ReplicaState, UpgradeMark
from plb.model.expressions import parse_expression
from tests.service_fabric.scenario import Scenario, Step

METRICS_OF_SERVICE_WITHOUT = {"PrimaryCount": 1.0, "ReplicaCount": 0.3, "Count": 0.1}
"""Metrics and weights of a service without metrics."""

BUILT_IN_LOADS: Mapping[str, Mapping[Role, float]] = {
    "PrimaryCount": {Role.PRIMARY: 1, Role.SECONDARY: 0, Role.INSTANCE: 0},
    "SecondaryCount": {Role.PRIMARY: 0, Role.SECONDARY: 1, Role.INSTANCE: 0},
    "ReplicaCount": {Role.PRIMARY: 1, Role.SECONDARY: 1, Role.INSTANCE: 0},
    "InstanceCount": {Role.PRIMARY: 0, Role.SECONDARY: 0, Role.INSTANCE: 1},
    "Count": {Role.PRIMARY: 1, Role.SECONDARY: 1, Role.INSTANCE: 1},
}
"""Default loads of metrics whose written loads are ignored."""

ALL_ELIGIBLE_NODES = 2**31 - 1
"""The replica difference that means one replica on every eligible node."""

DROPPING_FLAGS = frozenset({"to_be_dropped_by_fm", "to_be_dropped_by_plb", "to_be_dropped_for_node_deactivation"})
MOVING = "move_in_progress"

UPGRADE_FLAGS = {
    "primary_to_be_swapped_out": UpgradeMark.SWAP_OUT,
    "primary_to_be_placed": UpgradeMark.PRIMARY_RETURNS,
    "replica_to_be_placed": UpgradeMark.REPLICA_RETURNS,
}
"""The marks of the upgrade pass."""

UPGRADING = "upgrading"
"""The flag of a partition in an upgrade; the marks of its replicas say what is to be done."""

PROMOTED = "to_be_promoted"
"""The flag of a replica in transition to primary, which does not move."""

OF_FAILOVER_MANAGER = frozenset({"preferred_primary_location", "preferred_replica_location"})
"""Flags that the failover manager keeps for itself; placement does not read them."""

KNOWN_FLAGS = DROPPING_FLAGS | UPGRADE_FLAGS.keys() | OF_FAILOVER_MANAGER | {MOVING, PROMOTED}


def name_of(identifier: int) -> str:
    return str(identifier)


def identifier_of(name: str) -> int:
    return int(name)


# metrics


def metrics_of(scenario: Scenario) -> tuple[Metric, ...]:
    """Return every metric of any service or application in the scenario, in order of appearance, services first."""
    names = dict.fromkeys(name for step in scenario.steps_of("service") for name in weights_of(step))
    names = names or dict.fromkeys(METRICS_OF_SERVICE_WITHOUT)
    names |= dict.fromkeys(name for step in scenario.steps_of("application") for name in step["capacities"])
    return tuple(Metric(name, quantum=1, violation_threshold=1.0) for name in names)


def weights_of(service: Step) -> dict[str, float]:
    return {metric["name"]: metric["weight"] for metric in service["metrics"]} or dict(METRICS_OF_SERVICE_WITHOUT)


APPLICATION_AMOUNTS = {
    "total_capacity": "total_capacity",
    "max_instance_capacity": "node_capacity",
    "reservation_capacity": "node_reservation",
}
"""The amounts of an application by metric, by their original names."""


# nodes


def node_from(step: Step, metrics: Collection[str]) -> Node:
    """Return the node of a step. Capacities for metrics without a service have no effect and are omitted.

    The instance of the node is ignored: a restarted node is a node that is up.
    """
    return Node(
        name_of(step["id"]),
        capacities={name: capacity for name, capacity in step["capacities"].items() if name in metrics},
        fault_domain=_fault_domain(step),
        upgrade_domain=step["ud"],
        properties={**_implicit_properties(step), **step["node_properties"]},
        up=step["up"],
        deactivation_intent=step["deactivation"]["intent"],
        deactivation_status=step["deactivation"]["status"],
    )


def _fault_domain(step: Step) -> str | None:
    return None if step["fd"] is None else "fd:/" + "/".join(step["fd_path"])


def _implicit_properties(step: Step) -> dict[str, str]:
    domains = {"FaultDomain": _fault_domain(step), "UpgradeDomain": step["ud"]}
    return {name: value for name, value in domains.items() if value is not None}


# applications


def application_from(step: Step, metrics: Collection[str]) -> Application:
    """Return the application of a step. Capacities for metrics without a service have no effect and are omitted."""
    amounts: dict[str, dict[str, float]] = {field: {} for field in APPLICATION_AMOUNTS.values()}
    for metric, capacities in step["capacities"].items():
        for original, field in APPLICATION_AMOUNTS.items():
            if metric in metrics and capacities[original] >= 0:
                amounts[field][metric] = capacities[original]
    return Application(
        step["name"],
        most_nodes=step["scaleout_count"],
        minimum_nodes=step["minimum_nodes"],
        upgrade_in_progress=step["upgrade_in_progress"],
        completed_upgrade_domains=step["upgrade_completed_uds"],
        **amounts,
    )


# services


def stateful_services(scenario: Scenario) -> frozenset[str]:
    """Return the stateful services, including stateless ones with a primary.

    The original accepts such partitions, and the engine refuses a primary of a stateless service.
    """
    marked = {step["name"] for step in scenario.steps_of("service") if step["stateful"]}
    with_primary = {
        step["service"]
        for step in scenario.steps_of("partition")
        if any(replica["role"] == "primary" for replica in step["replicas"])
    }
    return frozenset(marked | with_primary)


def service_from(step: Step, *, stateful: bool, blocked_nodes: Iterable[int]) -> Service:
    """Return the service of a step; `blocked_nodes`: ids of the nodes for which its type is blocked."""
    blocked: frozenset[str] = frozenset(name_of(node) for node in blocked_nodes)
    return Service(
        step["name"],
        stateful=stateful,
        target_replicas=0 if step["on_every_node"] else step["target_replica_set_size"],
        default_load=default_loads(step, stateful=stateful),
        placement_constraint=_parsed(step["placement_constraint"]),
        move_cost=step["default_move_cost"],
        metrics=weights_of(step),
        affinity_to=step["affinity_parent"] or None,
        aligned=step["aligned_affinity"],
        on_every_node=step["on_every_node"],
        blocked_nodes=blocked,
        application=step["application"] or None,
    )


def _parsed(constraint: str) -> str:
    """Return a placement constraint, or none if it does not parse: in the original, it then has no effect."""
    try:
        return parse_expression(constraint).text
    except InvalidValueError:
        return ""


def default_loads(step: Step, *, stateful: bool) -> dict[Role, dict[str, float]]:
    """Return the load by role and metric before the first report (docs/service-fabric.md, Loads)."""
    written = {metric["name"]: metric for metric in step["metrics"]}
    roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
    single = stateful and step["target_replica_set_size"] == 1
    return {
        role: {name: _default_load(name, written, Role.PRIMARY if single else role) for name in weights_of(step)}
        for role in roles
    }


def _default_load(name: str, written: Mapping[str, Mapping[str, Any]], role: Role) -> float:
    if name in BUILT_IN_LOADS:
        return BUILT_IN_LOADS[name][role]
    load: float = written[name]["primary" if role is Role.PRIMARY else "secondary"]
    return load


# partitions


def partition_from(step: Step, *, stateful: bool, on_every_node: bool, nodes: Collection[int]) -> Partition:
    """Return the partition of a step; replicas on unknown nodes are omitted, because the original ignores them."""
    present = [item for item in step["replicas"] if item["node"] in nodes and not _is_gone(item)]
    return Partition(
        name_of(step["id"]),
        service=step["service"],
        replicas=tuple(replica_from(item, stateful=stateful) for item in present),
        missing=None if on_every_node else _missing(step["replica_diff"], len(nodes) - len(present)),
        version=step["version"],
        in_transition=step["reconfiguration_in_progress"] or bool({*step["flags"]} - {UPGRADING}),
        upgrading=UPGRADING in step["flags"],
        in_quorum_loss=step["in_quorum_lost"],
    )


def _is_gone(item: Mapping[str, Any]) -> bool:
    """Return whether a replica was dropped, and no mark keeps its place."""
    return item["role"] == "dropped" and not UPGRADE_FLAGS.keys() & {*item["flags"]}


def _missing(difference: int, free_nodes: int) -> int:
    return max(free_nodes, 0) if difference == ALL_ELIGIBLE_NODES else difference


def replica_from(item: Mapping[str, Any], *, stateful: bool) -> Replica:
    """Return a replica of the step of a partition; one with role ``none`` has no load but occupies its node."""
    flags = set(item["flags"])
    if flags - KNOWN_FLAGS:
        raise NotImplementedError(f"replica flags {sorted(flags - KNOWN_FLAGS)}: not played, as they are not described")
    role = _role(item["role"], stateful=stateful)
    return Replica(
        role,
        name_of(item["node"]),
        state=_state(item),
        leaving=MOVING in flags,
        to_be_dropped=bool(flags & DROPPING_FLAGS),
        pinned=PROMOTED in flags,
        upgrade=_upgrade(flags, role),
    )


def _upgrade(flags: Collection[str], role: Role) -> UpgradeMark:
    """Return the mark of a replica; the original ignores those of roles that they do not concern."""
    marks = [mark for flag, mark in UPGRADE_FLAGS.items() if flag in flags]
    if role is Role.INSTANCE:
        return UpgradeMark.NONE
    return next((mark for mark in marks if role is Role.PRIMARY or mark is not UpgradeMark.SWAP_OUT), UpgradeMark.NONE)


def _role(written: str, *, stateful: bool) -> Role:
    if not stateful:
        return Role.INSTANCE
    return Role.PRIMARY if written == "primary" else Role.SECONDARY


def _state(item: Mapping[str, Any]) -> ReplicaState:
    if item["role"] in ("dropped", "none"):
        return ReplicaState.DROPPED
    if item["role"] == "standby":
        return ReplicaState.STANDBY
    if not item["up"]:
        return ReplicaState.DOWN
    return ReplicaState.IN_BUILD if item["state"] == "inbuild" else ReplicaState.READY
