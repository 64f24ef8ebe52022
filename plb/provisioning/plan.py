"""Plans: the node of each replica, checks whether that is allowed, and the moves between two plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import attrs
import numpy as np

from plb.array_types import Int, Int32
from plb.errors import ConflictError
from plb.provisioning.instance import Instance

FAULTS_NAMED = 20
"""Largest number of faults of a sort that are described; further ones are only counted."""


@attrs.frozen(eq=False)
class ProvisioningPlan:
    """A place for each replica."""

    instance: Instance
    """What was to be placed."""
    kind: Int32
    """(N,) index of the node type of each node in use, in `Instance.nodes`."""
    application: Int32
    """(P,) index of an application; the plan has a row for each pair of an application and one of its nodes."""
    node: Int32
    """(P,) node in use, an index of `kind`."""
    count: Int32
    """(P,) number of replicas of the application on the node."""
    algorithm: str
    """Name of the algorithm."""
    seconds: float
    """How long the algorithm took."""
    lower_bound: int
    """Number of nodes that every plan needs at least."""
    names: tuple[str, ...] | None = None
    """(N,) unique names of the nodes; None: they are called by their type and a number."""

    @property
    def nodes(self) -> int:
        """N, the nodes in use."""
        return len(self.kind)

    @property
    def deviation_percent(self) -> float:
        """By how much the nodes in use exceed the lower bound ([3] section 5.1)."""
        return 100.0 * (self.nodes - self.lower_bound) / self.lower_bound

    def node_names(self) -> tuple[str, ...]:
        """Return the name of each node; where they have none, its type and a number."""
        if self.names is not None:
            return self.names
        counted = dict.fromkeys(range(len(self.instance.nodes)), 0)
        names = []
        for kind in self.kind.tolist():
            names.append(f"{self.instance.nodes[kind].name}-{counted[kind]}")
            counted[kind] += 1
        return tuple(names)

    def faults(self) -> tuple[str, ...]:
        """Return the faults of the plan in words, from the instance alone; empty if it is valid."""
        return tuple(_faults(self, (_row_faults, _too_many_nodes, _wrongly_placed, _overfull, _beyond_limits)))

    @property
    def valid(self) -> bool:
        """Whether the plan has no faults."""
        return not self.faults()


def faults_of_rows(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield the faults of the rows and nodes of a plan, apart from demand and limits."""
    return _faults(plan, (_row_faults, _too_many_nodes))


def _faults(plan: ProvisioningPlan, checks: Sequence[Callable[[ProvisioningPlan], Iterator[str]]]) -> Iterator[str]:
    """Yield the faults of indices and names; if there are none, the faults that the checks find."""
    index_faults = tuple(_index_faults(plan))
    yield from index_faults
    if not index_faults:
        yield from chain.from_iterable(check(plan) for check in checks)


def _first_faults(faulty: Int, descriptions: Iterator[str], plural: str) -> Iterator[str]:
    """Yield the first descriptions, one for each faulty index, and the number of further faults, called `plural`."""
    for _, description in zip(faulty[:FAULTS_NAMED], descriptions, strict=False):
        yield description
    if len(faulty) > FAULTS_NAMED:
        yield f"{len(faulty) - FAULTS_NAMED:,} more {plural}"


def _index_faults(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield invalid indices of nodes, types and applications, and names that are not unique."""
    columns = (
        ("kind", plan.kind, len(plan.instance.nodes)),
        ("application", plan.application, len(plan.instance.applications)),
        ("node", plan.node, plan.nodes),
    )
    for name, column, count in columns:
        bad = np.flatnonzero((column < 0) | (column >= count))
        texts = (f"row {row}: {name} {column[row]} is none of the {count:,} there are" for row in bad)
        yield from _first_faults(bad, texts, f"rows with such a {name}")
    lengths = {len(plan.application), len(plan.node), len(plan.count)}
    if len(lengths) > 1:
        yield f"application, node and count have {sorted(lengths)} rows; expected equally many"
    if plan.names is not None and not len(plan.names) == len(set(plan.names)) == plan.nodes:
        yield f"{plan.nodes} nodes have {len(set(plan.names))} names; expected a different one for each"


def _row_faults(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield rows without replicas, and pairs of application and node with several rows."""
    names = plan.node_names()
    empty = np.flatnonzero(plan.count < 1)
    yield from _first_faults(
        empty, (f"row {row}: {plan.count[row]} replicas" for row in empty), "rows without replicas"
    )
    _, first, times = np.unique(_pairs(plan), return_index=True, return_counts=True)
    twice = first[times > 1]
    yield from _first_faults(
        twice,
        (
            f"application {plan.instance.applications[application]}: node {names[node]} is named twice"
            for application, node in zip(plan.application[twice], plan.node[twice], strict=True)
        ),
        "pairs that are named twice",
    )


def _wrongly_placed(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield in words the applications with more or fewer replicas on nodes than they have."""
    instance = plan.instance
    placed = np.bincount(plan.application, plan.count, minlength=len(instance.applications)).astype(np.int64)
    wrong = np.flatnonzero(placed != instance.replicas)
    yield from _first_faults(
        wrong,
        (
            f"application {instance.applications[application]}: {placed[application]} of "
            f"{instance.replicas[application]} replicas are placed"
            for application in wrong
        ),
        "applications of which not every replica is placed once",
    )


def _too_many_nodes(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield in words each node type of which more nodes are in use than there are."""
    used = np.bincount(plan.kind, minlength=len(plan.instance.nodes))
    for kind, node_type in enumerate(plan.instance.nodes):
        if node_type.count is not None and used[kind] > node_type.count:
            yield f"node type {node_type.name}: {used[kind]} nodes are in use, there are {node_type.count}"


def _overfull(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield in words each node, resource and time point at which demand exceeds capacity."""
    instance = plan.instance
    names, capacity = plan.node_names(), np.stack([node_type.capacity for node_type in instance.nodes])
    for resource, name in enumerate(instance.resources):
        for time in range(instance.time_points):
            demand = instance.demand[plan.application, resource, time].astype(np.int64) * plan.count
            # sums of whole numbers are exact in 64 bits, which bincount's weights are not beyond 2^53
            node_demand = np.zeros(plan.nodes, np.int64)
            np.add.at(node_demand, plan.node, demand)
            limit = capacity[plan.kind, resource]
            full = np.flatnonzero(node_demand > limit)
            unit = instance.units[resource]
            yield from _first_faults(
                full,
                (
                    f"node {names[node]}: {node_demand[node] * unit:g} {name} are asked for at time point {time}, "
                    f"it has {limit[node] * unit:g}"
                    for node in full
                ),
                f"nodes with too little {name} at time point {time}",
            )


def _beyond_limits(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield in words each limit between applications that is exceeded on a node."""
    instance, limits = plan.instance, plan.instance.affinity
    names, pairs = plan.node_names(), _pairs(plan)
    by_pair = np.argsort(pairs, kind="stable")
    by_application = np.argsort(plan.application, kind="stable")
    start = np.searchsorted(plan.application[by_application], np.arange(len(instance.applications) + 1))
    rows_of = np.diff(start)
    for begin in range(0, len(limits), 1_000_000):
        source, target, most = (
            column[begin : begin + 1_000_000] for column in (limits.source, limits.target, limits.most)
        )
        arc = np.repeat(np.arange(len(source)), rows_of[source])
        offset = np.arange(len(arc)) - np.repeat(np.cumsum(rows_of[source]) - rows_of[source], rows_of[source])
        row = by_application[start[source[arc]] + offset]
        required = plan.node[row].astype(np.int64) * len(instance.applications) + target[arc]
        match = np.minimum(np.searchsorted(pairs[by_pair], required), max(len(pairs) - 1, 0))
        beside = np.where(pairs[by_pair][match] == required, plan.count[by_pair[match]], 0)
        broken = np.flatnonzero(beside > most[arc])
        yield from _first_faults(
            broken,
            (
                f"node {names[plan.node[row[pair]]]}: {beside[pair]} replicas of application "
                f"{instance.applications[target[arc[pair]]]} stand beside "
                f"{instance.applications[source[arc[pair]]]}, which allows {most[arc[pair]]}"
                for pair in broken
            ),
            "limits that do not hold",
        )


def _pairs(plan: ProvisioningPlan) -> Int:
    """Return a number, (P,), for the pair of node and application of each row."""
    return plan.node.astype(np.int64) * len(plan.instance.applications) + plan.application


NOWHERE = -1
"""No node."""
_RANKS = 2**31
"""More than the replicas of an application."""


@attrs.frozen(eq=False)
class Moves:
    """Moves from one plan to another, not in an order in which they could be applied."""

    nodes: tuple[str, ...]
    """Names of the nodes of both plans."""
    application: Int32
    """(M,) application, by index in the instance."""
    source: Int32
    target: Int32
    """(M,) source and target, by index in `nodes`. `NOWHERE`: a replica is new, or is removed."""
    count: Int32
    """(M,) number of replicas."""

    @property
    def moved(self) -> int:
        """Number of replicas on another node."""
        return int(self.count[(self.source != NOWHERE) & (self.target != NOWHERE)].sum())

    @property
    def placed(self) -> int:
        """Number of new replicas."""
        return int(self.count[self.source == NOWHERE].sum())

    @property
    def removed(self) -> int:
        """Number of removed replicas."""
        return int(self.count[self.target == NOWHERE].sum())


def moves_between(before: ProvisioningPlan, after: ProvisioningPlan) -> Moves:
    """Return the moves that lead from one plan to another, as few as possible; nodes are known by their names.

    Raises
    ------
    ConflictError
        The plans are for different applications.
    """
    if before.instance.applications != after.instance.applications:
        raise ConflictError(
            f"plans for {before.instance.name} and {after.instance.name}: they have different applications"
        )
    names = tuple(dict.fromkeys((*before.node_names(), *after.node_names())))
    pairs, change = _changes(before, after, names)
    removed, added = (np.divmod(np.repeat(pairs, np.maximum(0, sign * change)), len(names)) for sign in (-1, 1))
    removed_key, added_key = _application_keys(removed[0]), _application_keys(added[0])
    keys = np.union1d(removed_key, added_key)
    rows = np.full((3, len(keys)), NOWHERE)
    rows[0] = keys // _RANKS
    rows[1, np.searchsorted(keys, removed_key)] = removed[1]
    rows[2, np.searchsorted(keys, added_key)] = added[1]
    (application, source, target), count = np.unique(rows.astype(np.int32), axis=1, return_counts=True)
    return Moves(names, application, source, target, count.astype(np.int32))


def _changes(before: ProvisioningPlan, after: ProvisioningPlan, names: tuple[str, ...]) -> tuple[Int, Int]:
    """Return the pairs of application and node in either plan, ascending, and by how many replicas each changes.

    A pair is application times number of names plus node; nodes are indices of `names`, the nodes of both plans.
    """
    index = {name: position for position, name in enumerate(names)}
    pairs_of_plans, counts = [], []
    for plan, sign in ((before, -1), (after, 1)):
        node = np.array([index[name] for name in plan.node_names()], np.int64)
        pairs_of_plans.append(plan.application.astype(np.int64) * len(index) + node[plan.node])
        counts.append(sign * plan.count.astype(np.int64))
    pairs, position = np.unique(np.concatenate(pairs_of_plans), return_inverse=True)
    change = np.zeros(len(pairs), np.int64)
    np.add.at(change, position, np.concatenate(counts))
    return pairs, change


def _application_keys(application: Int) -> Int:
    """Return unique keys, (n,), for an ascending column `application`, (n,): times `_RANKS`, plus rank among equals."""
    first = np.searchsorted(application, application)
    return application * _RANKS + np.arange(len(application)) - first
