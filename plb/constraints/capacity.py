"""Capacity: a node accepts a replica only if its load stays within its limit (docs/constraints/capacity.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.application_sums import (
    applications_kept,
    growth_with_reservations,
    is_replaced,
    kept_free,
    needed_with_reservations,
    occupied,
    occupied_nodes,
    replaced_load,
    reservation_violations,
    standby_on,
)
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import RuledOut
from plb.model.quanta import UNLIMITED
from plb.model.rules import Rule, Violation
from plb.phrasing import amount, listed
from plb.state.arrays import Problem, Proposal, Solution, siblings_of
from plb.state.cluster_state import ClusterState, load_by_node, reserved_load, standing_load
from plb.state.topology import Topology, move_limits

RULE = int(Rule.CAPACITY)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether `row` would overfill `target`, where it replaces a standby of its partition."""
    if not enforced >> RULE & 1:
        return False
    return overfills(problem, solution, row, standby_on(problem, solution, row, target), target)


@kernel(inline=True)
def refuses_exchange(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> bool:
    """Return whether an exchange would overfill one of them."""
    if not enforced >> RULE & 1:
        return False
    row, there, partner, here = proposal
    return overfills(problem, solution, row, partner, there) or overfills(problem, solution, partner, row, here)


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Return whether the node of a placed `row` is overloaded."""
    return bool(enforced >> RULE & 1 and is_overloaded(problem, solution, solution.node[row]))


@kernel
def is_overloaded(problem: Problem, solution: Solution, node: int) -> bool:
    """Return whether a node is watched and exceeds its limit for some metric, less the buffer."""
    if not problem.watched[node]:
        return False
    largest = 0
    for metric in range(problem.limit.shape[1]):
        largest = max(largest, excess_of(problem, solution, node, metric))
    return largest > 0


@kernel
def excess_of(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return by how many quanta a node exceeds its limit, less the buffer and the standbys that others replace."""
    excess = occupied(problem, solution, node, metric) - problem.repair_limit[node, metric]
    if excess > 0:
        excess -= freed_by_replacing(problem, solution, node, metric)
    return max(0, int(excess))


@kernel
def freed_by_replacing(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return the load and reservations of a node that end with its standbys, as other replicas replace them."""
    freed = 0
    for row in range(solution.node.shape[0] if problem.standbys else 0):
        if not is_replaced(problem, solution, row, node):
            continue
        load, application = problem.load[row, metric], problem.application[row]
        freed += load
        if problem.reserves and application != NOWHERE:
            earlier = replaced_load(problem, solution, application, node, metric, row)
            freed += kept_free(problem, solution, application, node, metric, -earlier, 0)
            freed -= kept_free(problem, solution, application, node, metric, -earlier - load, 0)
    return int(freed)


@kernel(inline=True)
def overfills(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `row` would overfill `target`; `outgoing` leaves it in exchange or is replaced, or is NOWHERE."""
    if exceeds_capacity(
        problem.limit,
        problem.leaving_load,
        solution.node_load,
        problem.load[row],
        problem.load[outgoing],
        target,
    ):
        return True
    return problem.tight and _exceeds_tight_limits(problem, solution, row, outgoing, target)


@kernel
def _exceeds_tight_limits(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `row` would use capacity reserved for applications or new replicas, or that only moves free."""
    origin_node = problem.origin[row]
    if problem.reserves and exceeds_with_reservations(problem, solution, row, outgoing, target):
        return True
    if origin_node != NOWHERE and exceeds_capacity(
        problem.move_limit,
        problem.leaving_load,
        solution.node_load,
        problem.load[row],
        problem.load[outgoing],
        target,
    ):
        return True
    return (
        problem.counts_departed
        and origin_node != target
        and _overcommits_temporarily(problem, solution, row, outgoing, target)
    )


@kernel(shared=True)
def exceeds_with_reservations(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether load and reservations of `target` would grow together and exceed its limit."""
    limit = problem.limit if problem.origin[row] == NOWHERE else problem.move_limit
    for metric in range(problem.load.shape[1]):
        growth = growth_with_reservations(problem, solution, row, outgoing, target, metric)
        present = occupied(problem, solution, target, metric) + problem.leaving_load[target, metric]
        if growth > 0 and present + growth > limit[target, metric]:
            return True
    return False


@kernel
def _overcommits_temporarily(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `target`, not the origin of `row`, would exceed its limit until the plan is executed."""
    replaced = outgoing if outgoing == NOWHERE or _is_free_at_once(problem, row, outgoing, target) else NOWHERE
    for metric in range(problem.load.shape[1]):
        growth = problem.load[row, metric] - problem.load[replaced, metric]
        if not problem.transient[metric] or growth <= 0:
            continue
        present = solution.node_load[target, metric] + problem.leaving_load[target, metric]
        if present + solution.departed[target, metric] + growth > problem.limit[target, metric]:
            return True
    return False


@kernel
def load_in_transit(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return the load that leaves a node in this plan, if it still counts there; else 0."""
    if problem.counts_departed and problem.transient[metric]:
        return int(solution.departed[node, metric])
    return 0


@kernel
def _is_free_at_once(problem: Problem, row: int, outgoing: int, target: int) -> bool:
    """Return whether the load of `outgoing` is free at once: it came by this plan, or only swaps its role."""
    if problem.origin[outgoing] != target:
        return True
    sibling = problem.sibling[row]
    while sibling != row:
        if sibling == outgoing:
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def leave_behind(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add `sign` times the load that `row` has moved off its origin, less a sibling's that swapped with it."""
    origin_node = problem.origin[row]
    if origin_node == NOWHERE or solution.node[row] == origin_node:
        return
    replacement = NOWHERE
    sibling = problem.sibling[row]
    while sibling != row:
        crossed = solution.node[sibling] == origin_node and problem.origin[sibling] == solution.node[row]
        if crossed and not problem.unspread[sibling]:
            replacement = sibling
        sibling = problem.sibling[sibling]
    for metric in range(problem.load.shape[1]):
        freed = problem.load[row, metric] - problem.load[replacement, metric]
        solution.departed[origin_node, metric] += sign * max(0, freed)


@kernel(inline=True)
def exceeds_capacity(limit: Int, leaving_load: Int, node_load: Int, incoming: Int, outgoing: Int, target: int) -> bool:
    """Return whether the load of `target`, with leaving replicas, would grow above its limit for some metric.

    `limit`, `leaving_load`, `node_load`: (N, R) quanta; `incoming`, `outgoing`: (R,) quanta.
    """
    for metric in range(incoming.shape[0]):
        growth = incoming[metric] - outgoing[metric]
        if growth > 0:
            load = node_load[target, metric] + leaving_load[target, metric] + growth
            if load > limit[target, metric]:
                return True
    return False


@kernel
def is_full_for(problem: Problem, solution: Solution, row: int, without: Int, target: int) -> bool:
    """Return whether `row` would exceed the capacity of `target` if some load, (R,), were gone from it."""
    limit, leaving, load = problem.limit, problem.leaving_load, solution.node_load
    return exceeds_capacity(limit, leaving, load, problem.load[row], without, target)


def overloads(problem: Problem, solution: Solution, enforced: int) -> Bool:
    """Return a mask, (N, R), of the metrics of which a watched node exceeds its limit; all False if not enforced."""
    watched = problem.watched & bool(enforced >> RULE & 1)
    over: Bool = (occupied_nodes(problem, solution) > problem.repair_limit) & watched[:, None]
    return over


@attrs.frozen
class Shortage:
    """A metric with too little free capacity on nodes."""

    metric: str
    nodes: int
    """Number of nodes with too little of it, among the nodes that capacity excludes; a node may be short of several
    metrics.
    """
    needed: float
    free: float
    """The load of the replica, and the largest free capacity of these nodes; user units."""
    emptiest: str
    """Name of that node."""
    missing: float
    """Missing free capacity of that node, in user units; more than `needed` if its load exceeds its limit."""
    reserved_for: tuple[str, ...] = ()
    """Names of the applications for which that node keeps some free; `needed` counts the reservation of the replica's
    own application.
    """

    def __str__(self) -> str:
        text = f"{amount(self.needed)} {self.metric} needed, at most {amount(self.free)} free, on {self.emptiest}"
        return f"{text}, which reserves some for {listed(self.reserved_for)}" if self.reserved_for else text


@attrs.frozen
class Full(RuledOut):
    """Nodes without enough free capacity."""

    rule: ClassVar[str] = "capacity"

    nodes: int
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.shortages))

    @property
    def distance(self) -> float:
        """The largest missing share of the need."""
        return max((shortage.missing / shortage.needed for shortage in self.shortages), default=1.0)

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield what must change on a node."""
        for shortage in self.shortages:
            has = f"it needs {amount(shortage.needed)} and {amount(shortage.free)} is free"
            yield f"{amount(shortage.missing)} more {shortage.metric} must be free on {node} ({has})"


@attrs.frozen
class NodeViolation(Violation):
    """A node whose load of a metric has reached the violation threshold."""

    rule: ClassVar[str] = "capacity"

    node: str
    metric: str
    load: float
    threshold: float
    """Load in user units, without departing replicas."""
    limit: float | None = None
    """Load to which the engine fills the node, inclusive, in user units; None: unknown."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        numbers = {"load": self.load, "threshold": self.threshold}
        return numbers if self.limit is None else {**numbers, "limit": self.limit}

    def __str__(self) -> str:
        text = f"{self.metric} of node {self.node} is {amount(self.load)}"
        if self.limit is not None and self.load > self.limit >= self.threshold:
            return f"{text}, above its limit of {amount(self.limit)}"
        return f"{text}, at or above its threshold of {amount(self.threshold)}"


def _node_violations(named: NamedSolution) -> list[Violation]:
    """Return the nodes in the statistics whose load has reached a violation threshold, then those with reservations."""
    problem, load, quanta = named.problem, named.solution.node_load, named.state.quanta
    places = np.argwhere((load >= problem.threshold) & (problem.limit < UNLIMITED) & problem.counted[:, None])
    metrics = named.state.config.metric_names
    of_loads = [
        NodeViolation(
            named.state.nodes[node].name,
            metrics[metric],
            quanta.to_user(metrics[metric], int(load[node, metric])),
            quanta.to_user(metrics[metric], int(problem.threshold[node, metric])),
            quanta.to_user(metrics[metric], int(problem.limit[node, metric])),
        )
        for node, metric in places.tolist()
    ]
    return [*of_loads, *reservation_violations(named)]


def _ruled_out(excluded: ExcludedNodes) -> Full:
    """Return the metrics with too little free capacity; the load of a standby on a node counts there already."""
    problem, solution, state = excluded.named.problem, excluded.named.solution, excluded.named.state
    nodes = excluded.nodes
    needed = np.tile(problem.load[excluded.row], (len(nodes), 1))
    standby = np.full(len(nodes), NOWHERE)
    for row in siblings_of(problem, excluded.row):
        if problem.standby[row]:
            standby[nodes == solution.node[row]] = row
    free = problem.limit[nodes] - solution.node_load[nodes] - problem.leaving_load[nodes] + problem.load[standby]
    if problem.counts_departed:
        free -= solution.departed[nodes] * problem.transient
    grows = needed > problem.load[standby]
    if problem.reserves:
        growth = np.array([needed_with_reservations(excluded.named, excluded.row, node) for node in nodes.tolist()])
        grows, needed = growth > 0, growth + problem.load[standby]
        free -= solution.reserved[nodes]
    short = (free < needed) & grows
    shortages = []
    for metric in np.flatnonzero(short.any(axis=0)).tolist():
        name = state.config.metrics[metric].name
        of_metric = np.flatnonzero(short[:, metric])
        best = int(of_metric[np.argmax((free - needed)[of_metric, metric])])
        shortages.append(
            Shortage(
                metric=name,
                nodes=len(of_metric),
                needed=state.quanta.to_user(name, int(needed[best, metric])),
                free=state.quanta.to_user(name, max(0, int(free[best, metric]))),
                emptiest=state.nodes[int(nodes[best])].name,
                missing=state.quanta.to_user(name, int(needed[best, metric] - free[best, metric])),
                reserved_for=applications_kept(excluded.named, int(nodes[best]), metric) if problem.reserves else (),
            )
        )
    return Full(len(nodes), tuple(shortages))


def _reason(named: NamedSolution, phase: Phase, row: int) -> Reason:
    """Return the first metric of which the node of `row` exceeds its limit."""
    node, state = int(named.solution.node[row]), named.state
    load, limit = named.solution.node_load[node], named.problem.repair_limit[node]
    metric = int(np.flatnonzero(occupied_nodes(named.problem, named.solution)[node] > limit)[0])
    name = state.config.metrics[metric].name
    numbers = {
        "load": state.quanta.to_user(name, int(load[metric])),
        "limit": state.quanta.to_user(name, int(limit[metric])),
    }
    if named.problem.reserves and named.solution.reserved[node, metric]:
        numbers["reserved"] = state.quanta.to_user(name, int(named.solution.reserved[node, metric]))
    return Reason(phase, "capacity", named.node_of(row), name, numbers)


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    transient = np.array(
        [state.config.prevent_transient_overcommit or metric.transient for metric in state.config.metrics]
    )
    kept = bool(transient.any())
    moved = topology.limit
    if topology.buffered:
        moved = move_limits(topology.limit, topology.move_limit, standing_load(state) + reserved_load(state))
    return {
        "limit": topology.limit,
        "move_limit": moved,
        "repair_limit": topology.move_limit if topology.buffered else topology.limit,
        "leaving_load": load_by_node(state, state.rows.leaving),
        "tight": kept or topology.buffered or state.applications.capacity > 0,
        "keeps_departed": kept,
        "counts_departed": kept,
        "transient": transient,
        "watched": topology.watched,
    }


DESCRIPTION = RuleDescription(
    Rule.CAPACITY,
    _ruled_out,
    priority=lambda config: config.capacity_constraint_priority,
    fields=_fields,
    node_violations=_node_violations,
    reason=_reason,
)
