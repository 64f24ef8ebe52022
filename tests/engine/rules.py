"""The rules of docs/service-fabric.md in plain Python: the size of each breach, from the user's input.

A rule that holds gives nothing. A breach gives a number above 0 under a key of its rule and place. A plan may leave
no number of a hard rule larger than before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

import attrs

from plb import Application, Node, Partition, PlbConfig, Role, Service
from plb.model import DeactivationIntent, DeactivationStatus

from .whole_strategies import TESTS

Breaches = dict[tuple[Hashable, ...], Fraction]


@attrs.frozen
class Seat:
    """A replica slot; `node` is None while it waits, `load` is in whole units.

    No plan may move a `fixed` slot; only an upgrade may change the role of a `marked` one.
    """

    index: int
    partition: str
    role: Role
    node: str | None
    leaving: bool
    standby: bool
    fixed: bool
    load: Mapping[str, int]
    marked: bool = False

    @property
    def counts(self) -> bool:
        """Whether the replica counts towards the target of its partition."""
        return self.node is not None and not self.leaving and not self.standby


@attrs.frozen
class UserInput:
    """The user's descriptions of a cluster, by name, and the settings."""

    config: PlbConfig
    nodes: Mapping[str, Node]
    services: Mapping[str, Service]
    partitions: Mapping[str, Partition]
    applications: Mapping[str, Application] = attrs.field(factory=dict)

    def service_of(self, partition: str) -> Service:
        """Return the service of a partition."""
        return self.services[self.partitions[partition].service]

    def application_of(self, partition: str) -> str | None:
        """Return the name of the application of a partition, if it is known."""
        name = self.service_of(partition).application
        return name if name in self.applications else None


def receives(node: Node, *, new: bool, everywhere: bool) -> bool:
    """Return whether a node takes a new or an existing replica; `everywhere`: of a stateless service on every node."""
    if not node.up or node.deactivation_intent is DeactivationIntent.NONE:
        return node.up
    if node.deactivation_intent not in (DeactivationIntent.PAUSE, DeactivationIntent.RESTART) or not new:
        return False
    complete = node.deactivation_status is DeactivationStatus.SAFETY_CHECK_COMPLETE
    return node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS or (complete and everywhere)


def lets_go(node: Node, *, drains: bool) -> bool:
    """Return whether replicas may leave a node: it is active, is checked before restart or removal, or is drained.

    `drains`: whether nodes to be removed are drained.
    """
    if receives(node, new=False, everywhere=False):
        return True
    goes = node.deactivation_intent not in (DeactivationIntent.NONE, DeactivationIntent.PAUSE)
    checked = goes and node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    return node.up and (checked or (drains and is_drained(node)))


def is_drained(node: Node) -> bool:
    """Return whether a node is to be removed, and not being activated again."""
    back = node.deactivation_status is DeactivationStatus.ACTIVATION_IN_PROGRESS
    return node.up and "remove" in node.deactivation_intent.value and not back


def is_feasible(service: Service, node: Node, *, primary: bool) -> bool:
    """Return whether block list and placement constraint allow a service on a node."""
    holds = TESTS[service.placement_constraint]
    meets = holds(node.properties["zone"], node.properties["ssd"] == "true", primary)
    return node.name not in service.blocked_nodes and bool(meets)


def breaches(given: UserInput, seats: Iterable[Seat], rules: Iterable[str]) -> Breaches:
    """Return the size and place of each breach of the named rules."""
    known = list(seats)
    standing = [seat for seat in known if seat.node is not None]
    found: Breaches = {}
    for rule in rules:
        if rule == "capacity":
            found |= _overloads(given, standing)
        elif rule == "scale_out":
            found |= _nodes_too_many(given, standing)
        elif rule == "application_capacity":
            found |= _overloads_of_applications(given, standing)
        elif rule == "placement":
            found |= _misplaced(given, standing)
        elif rule == "affinity":
            found |= _apart_from_parents(given, known)
        else:
            found |= _crowds(given, standing, rule)
    return {key: much for key, much in found.items() if much > 0}


def limit_of(config: PlbConfig, node: Node, metric: str) -> Fraction | None:
    """Return the largest allowed load of a node in whole units; None if it has no limit."""
    if metric not in node.capacities:
        return None
    described = next(m for m in config.metrics if m.name == metric)
    if described.node_overbooking_percentage is None:
        return None
    total = math.floor(Fraction(node.capacities[metric]) * (1 + Fraction(str(described.node_overbooking_percentage))))
    if config.capacity_limit.value == "capacity":
        return Fraction(total)
    return Fraction(max(0, math.ceil(Fraction(str(described.violation_threshold)) * total) - 1))


def node_loads(seats: Iterable[Seat]) -> Counter[tuple[str, str]]:
    """Return load by node and metric; leaving replicas count."""
    load: Counter[tuple[str, str]] = Counter()
    for seat in seats:
        for metric, value in seat.load.items() if seat.node is not None else ():
            load[str(seat.node), metric] += value
    return load


def _overloads(given: UserInput, standing: Sequence[Seat]) -> Breaches:
    found: Breaches = {}
    for (node, metric), load in node_loads(standing).items():
        limit = limit_of(given.config, given.nodes[node], metric)
        if limit is not None:
            kept = sum(_kept_free(given, standing, node, metric, name) for name in given.applications)
            found["capacity", node, metric] = load + kept - limit
    return found


def _members(given: UserInput, standing: Sequence[Seat], application: str) -> list[Seat]:
    """Return the replicas of an application, without those that leave."""
    return [s for s in standing if not s.leaving and given.application_of(s.partition) == application]


def _kept_free(given: UserInput, standing: Sequence[Seat], node: str, metric: str, application: str) -> int:
    """Return what a node keeps free for an application beyond its load there, in whole units."""
    there = [seat for seat in _members(given, standing, application) if seat.node == node]
    reserved = math.ceil(given.applications[application].node_reservation.get(metric, 0))
    return max(0, reserved - sum(seat.load[metric] for seat in there)) if there else 0


def _nodes_too_many(given: UserInput, standing: Sequence[Seat]) -> Breaches:
    found: Breaches = {}
    for name, application in given.applications.items():
        used = {seat.node for seat in _members(given, standing, name)}
        if application.most_nodes is not None:
            found["scale_out", name] = Fraction(len(used) - application.most_nodes)
    return found


def _overloads_of_applications(given: UserInput, standing: Sequence[Seat]) -> Breaches:
    """Return the excess of the load of each application in all, and with what leaves on each node."""
    found: Breaches = {}
    for name, application in given.applications.items():
        members = _members(given, standing, name)
        for metric, capacity in application.total_capacity.items():
            load = sum(seat.load[metric] for seat in members)
            found["application_capacity", name, metric] = Fraction(load) - Fraction(capacity)
        with_leaving = [seat for seat in standing if given.application_of(seat.partition) == name]
        for (node, metric), load in node_loads(with_leaving).items():
            if metric in application.node_capacity:
                limit = Fraction(application.node_capacity[metric])
                found["application_capacity", name, node, metric] = load - limit
    return found


def _misplaced(given: UserInput, standing: Sequence[Seat]) -> Breaches:
    found: Counter[tuple[Hashable, ...]] = Counter()
    for seat in standing:
        service = given.service_of(seat.partition)
        if seat.counts and not is_feasible(service, given.nodes[str(seat.node)], primary=seat.role == Role.PRIMARY):
            found["placement", seat.partition] += 1
    return {key: Fraction(count) for key, count in found.items()}


def _levels(given: UserInput, kind: str) -> list[dict[str, tuple[Hashable, Hashable]]]:
    """Return parent and domain of every node, level by level; no level where each node is its own top domain."""
    paths = {
        n.name: n.fault_domain_path if kind == "fault_domain" else (n.upgrade_domain_name,)
        for n in given.nodes.values()
    }
    if len({path[0] for path in paths.values()}) == len(paths):
        return []
    deepest = max(map(len, paths.values()))
    return [
        {n: (path[: min(depth - 1, len(path))], path[:depth]) for n, path in paths.items()}
        for depth in range(1, deepest + 1)
    ]


def _crowds(given: UserInput, standing: Sequence[Seat], kind: str) -> Breaches:
    found: Breaches = {}
    for name, partition in given.partitions.items():
        service = given.services[partition.service]
        policy = service.placement_constraint.partition("FDPolicy ~ ")[2] if kind == "fault_domain" else ""
        if service.on_every_node or policy == "Ignore":
            continue
        levels = _levels(given, kind)
        places = [str(seat.node) for seat in standing if seat.partition == name and seat.counts]
        most = _quorum(given, service, kind)
        if policy == "Nonpacking":
            most = (0, 1)
        for depth, level in enumerate(levels):
            usable = _usable_domains(given, service, level)
            per_domain = Counter(level[node] for node in places if level[node] in usable)
            if most is not None:
                if depth == most[0]:
                    found[kind, name] = Fraction(sum(max(0, count - most[1]) for count in per_domain.values()))
                continue
            for parent in {above for above, _ in usable}:
                counts = [per_domain[group] for group in usable if group[0] == parent]
                mean = Fraction(sum(counts), len(counts))
                uneven = sum(max(0, c - math.ceil(mean)) + max(0, math.floor(mean) - c) for c in counts)
                found[kind, name, depth, parent] = Fraction(uneven)
    return found


def _usable_domains(
    given: UserInput, service: Service, level: Mapping[str, tuple[Hashable, Hashable]]
) -> set[tuple[Hashable, Hashable]]:
    """Return the domains with a node that accepts new replicas of the service."""
    return {
        level[node.name]
        for node in given.nodes.values()
        if receives(node, new=True, everywhere=False) and is_feasible(service, node, primary=False)
    }


def _quorum(given: UserInput, service: Service, kind: str) -> tuple[int, int] | None:
    """Return the level of the quorum and the most replicas in one domain; None if replicas spread evenly."""
    config, target = given.config, service.target_replicas
    counts = []
    for other in ("fault_domain", "upgrade_domain"):
        levels = _levels(given, other) if getattr(config, f"{other}_constraint_priority") >= 0 else []
        counts.append(len(_usable_domains(given, service, levels[-1])) if levels else 0)
    active = [n for n in given.nodes.values() if receives(n, new=False, everywhere=False)]
    nodes = sum(is_feasible(service, node, primary=False) for node in active)
    even = all(count and target and target % count == 0 for count in counts)
    auto = config.quorum_based_logic_auto_switch and even and nodes <= math.prod(counts)
    if not (auto or getattr(config, f"quorum_based_replica_distribution_per_{kind}s")):
        return None
    for depth, level in enumerate(_levels(given, kind)):
        domains = len(_usable_domains(given, service, level))
        if domains >= 2:
            most = max(target - (target // 2 + 1), 1)
            return depth, most + (domains * most < target)
    return -1, 0


def _apart_from_parents(given: UserInput, seats: Sequence[Seat]) -> Breaches:
    """Return the number of child replicas apart from their parent, by partition."""
    found: Breaches = {}
    led = {seat.partition for seat in seats if seat.role == Role.PRIMARY}
    for name, partition in given.partitions.items():
        service = given.services[partition.service]
        parents = [p.name for p in given.partitions.values() if p.service == service.affinity_to]
        if service.affinity_to not in given.services or len(parents) != 1:
            continue
        parent = given.services[str(service.affinity_to)]
        both = service.aligned and {name, parents[0]} <= led
        roles = {str(s.node): s.role for s in seats if s.partition == parents[0] and s.counts}
        standing = [seat for seat in seats if seat.partition == name and seat.counts]
        apart = [
            seat
            for seat in standing
            if seat.node not in roles
            or (both and (roles[str(seat.node)] == Role.PRIMARY) != (seat.role == Role.PRIMARY))
        ]
        larger = service.target_replicas > parent.target_replicas > 0
        loose = larger and given.config.allow_higher_child_target_replica_count_for_affinity
        if not (loose and set(roles) <= {seat.node for seat in standing}):
            found["affinity", name] = Fraction(len(apart))
    return found
