"""The scope of a search: the partitions of a service domain, and which of their replicas may not move, and why.

See docs/service-fabric.md, Movable replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from plb.array_types import NOWHERE
from plb.model.outcome import Immovable
from plb.planning.service_domains import ServiceDomain
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState


def concerned(state: ClusterState, domain: ServiceDomain | None) -> tuple[str, Sequence[str]]:
    """Return the name of a service domain, that of its first service, and the names of its partitions."""
    if domain is None:
        return next(iter(state.service_index), ""), state.partition_names()
    services = set(domain.services)
    names = tuple(record.name for record in state.partitions.values() if record.service in services)
    return state.services[domain.key].name, names


def immovable_replicas(
    state: ClusterState, problem: Problem, domain: ServiceDomain | None, rows: Iterable[int]
) -> dict[str, dict[Immovable, int]]:
    """Return, for each partition that has any, how many replicas may not move, by why.

    Departing ends and standbys are not counted.

    Parameters
    ----------
    domain
        The service domain of the partitions; None: all services.
    rows
        The replicas of all service domains that may not move.
    """
    found: dict[str, Counter[Immovable]] = {}
    for row in rows:
        if domain is not None and int(problem.service[row]) not in domain.services:
            continue
        found.setdefault(state.row_partition[row], Counter())[why_immovable(state, problem, row)] += 1
    return {name: dict(counts) for name, counts in found.items()}


def why_immovable(state: ClusterState, problem: Problem, row: int) -> Immovable:
    """Return why a placed replica that no plan may move is immovable."""
    table = state.rows
    if table.pinned[row]:
        return Immovable.PINNED
    if state.partitions[state.row_partition[row]].still:
        return Immovable.IN_TRANSITION
    if table.upgrading[row]:
        return Immovable.UPGRADING
    if table.still[row]:
        return Immovable.NOT_READY
    if table.arriving[row] != NOWHERE:
        return Immovable.UNDER_WAY
    node = int(problem.origin[row])
    if not problem.watched[node]:
        return Immovable.NODE_OUT_OF_SERVICE
    blocked = state.feasibility_class_of(int(problem.service[row])).blocked
    return Immovable.NODE_BLOCKED if state.nodes[node].name in blocked else Immovable.THROTTLED
