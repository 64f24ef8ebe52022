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
from plb.model.rules import Rule, RuleMask, Violation
from plb.phrasing import amount, listed
from plb.state.arrays import Problem, Proposal, Solution, siblings_of
from plb.state.cluster_state import ClusterState, load_by_node, reserved_load, standing_load
from plb.state.topology import Topology, move_limits

RULE = int(Rule.CAPACITY)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` would overfill `target`, where it replaces a standby of its partition."""
    if not enforced >> RULE & 1:
        return False
    return overfills(problem, solution, row, standby_on(problem, solution, row, target), target)


@kernel(inline=True)
def refuses_exchange(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> bool:
    """Return whether an exchange of two replicas would overfill one of the nodes; false if not `enforced`."""
    if not enforced >> RULE & 1:
        return False
    row, target, partner, source = proposal
    return overfills(problem, solution, row, partner, target) or overfills(problem, solution, partner, row, source)


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether the node of a placed replica `row` is overloaded; false if the rule is not `enforced`."""
    return bool(enforced >> RULE & 1 and is_overloaded(problem, solution, solution.node[row]))


@kernel
def is_overloaded(problem: Problem, solution: Solution, node: int) -> bool:
    """Return whether a node is watched and above `Problem.repair_limit` for some metric."""
    if not problem.watched[node]:
        return False
    largest = 0
    for metric in range(problem.limit.shape[1]):
        largest = max(largest, excess_of(problem, solution, node, metric))
    return largest > 0


@kernel
def excess_of(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return by how many quanta of `metric` a node is above `Problem.repair_limit`, at least 0.

    Standbys that siblings replace do not count.
    """
    excess = occupied(problem, solution, node, metric) - problem.repair_limit[node, metric]
    if excess > 0:
        excess -= freed_by_replacing(problem, solution, node, metric)
    return max(0, int(excess))


@kernel
def freed_by_replacing(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return by how many quanta of `metric` load and reservations of a node fall when its replaced standbys go."""
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
    """Return whether replica `row` would overfill `target`.

    `outgoing`: the row that leaves `target` in exchange or is a replaced standby, or NOWHERE.
    """
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
    """Return whether replica `row` on `target` would use reserved capacity, or capacity that this plan has yet to free.

    Reserved is capacity for applications, and the buffer for moves; `outgoing`: row that leaves `target`, or NOWHERE.
    """
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
    """Return whether load and reservations of `target` grow above its limit if `row` joins and `outgoing` leaves."""
    limit = problem.limit if problem.origin[row] == NOWHERE else problem.move_limit
    for metric in range(problem.load.shape[1]):
        growth = growth_with_reservations(problem, solution, row, outgoing, target, metric)
        present = occupied(problem, solution, target, metric) + problem.leaving_load[target, metric]
        if growth > 0 and present + growth > limit[target, metric]:
            return True
    return False


@kernel
def _overcommits_temporarily(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `row` on `target` would exceed its limit while the plan is executed, with loads yet to depart.

    `target` is not the origin of `row`; `outgoing`: the row that leaves `target` in exchange, or NOWHERE.
    """
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
    """Return the quanta that leave a node in this plan and still count there, 0 for a metric that is not transient."""
    if problem.counts_departed and problem.transient[metric]:
        return int(solution.departed[node, metric])
    return 0


@kernel
def _is_free_at_once(problem: Problem, row: int, outgoing: int, target: int) -> bool:
    """Return whether the load of `outgoing` no longer counts on `target` once it leaves, before the plan is executed.

    It came by this plan, or is a sibling of replica `row`, with which it only swaps roles.
    """
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
    """Add `sign` times the load that replica `row` has moved off its origin to `Solution.departed`.

    The load of a sibling that has swapped nodes with `row` is subtracted.
    """
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

    `limit`, `leaving_load`, `node_load`: (N, R) quanta; `incoming`, `outgoing`: (R,) quanta that join and leave.
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
    """Return whether `row` would exceed the capacity of `target` after the load `without`, (R,) quanta, has left it."""
    limit, leaving, load = problem.limit, problem.leaving_load, solution.node_load
    return exceeds_capacity(limit, leaving, load, problem.load[row], without, target)


def overloads(problem: Problem, solution: Solution, enforced: RuleMask) -> Bool:
    """Return whether a node is watched and above `Problem.repair_limit`, (N, R); all False if not `enforced`."""
    watched = problem.watched & bool(enforced >> RULE & 1)
    exceeds: Bool = (occupied_nodes(problem, solution) > problem.repair_limit) & watched[:, None]
    return exceeds


@attrs.frozen
class Shortage:
    """A metric with too little free capacity on nodes."""

    metric: str
    nodes: int
    """Number of nodes with too little of it, among the nodes that capacity excludes; a node may be short of several
    metrics.
    """
    needed: float
    """The load of the replica, and what the node has to reserve for its application, in user units."""
    free: float
    """The free capacity of the emptiest of these nodes, in user units."""
    emptiest: str
    """Name of the emptiest node."""
    missing: float
    """Missing free capacity of the emptiest node, in user units; more than `needed` if its load exceeds its limit."""
    reserved_for: tuple[str, ...] = ()
    """Names of the applications for which the emptiest node keeps some free."""

    def __str__(self) -> str:
        text = f"{amount(self.needed)} {self.metric} needed, at most {amount(self.free)} free, on {self.emptiest}"
        return f"{text}, which reserves some for {listed(self.reserved_for)}" if self.reserved_for else text


@attrs.frozen
class Full(RuledOut):
    """Nodes without enough free capacity."""

    rule: ClassVar[str] = "capacity"

    nodes: int
    """Number of these nodes."""
    shortages: tuple[Shortage, ...]
    """The shortages on these nodes, one for each metric."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.shortages))

    @property
    def distance(self) -> float:
        """What is missing, as a share of what is needed, of the metric with the largest share; 1 without shortages."""
        return max((shortage.missing / shortage.needed for shortage in self.shortages), default=1.0)

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
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
    """Load of the node in user units, without departing replicas."""
    threshold: float
    """In user units."""
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
    """Return the verdicts on counted nodes at their violation thresholds, then on nodes above them by reservations."""
    problem, load, quanta = named.problem, named.solution.node_load, named.state.quanta
    reached = np.argwhere((load >= problem.threshold) & (problem.limit < UNLIMITED) & problem.counted[:, None])
    metrics = named.state.config.metric_names
    load_violations = [
        NodeViolation(
            named.state.nodes[node].name,
            metrics[metric],
            quanta.to_user(metrics[metric], int(load[node, metric])),
            quanta.to_user(metrics[metric], int(problem.threshold[node, metric])),
            quanta.to_user(metrics[metric], int(problem.limit[node, metric])),
        )
        for node, metric in reached.tolist()
    ]
    return [*load_violations, *reservation_violations(named)]


def _ruled_out(excluded: ExcludedNodes) -> Full:
    """Return the metrics with too little free capacity, each with the emptiest node."""
    needed, free, short = _needed_and_free(excluded)
    shortages = []
    for metric in np.flatnonzero(short.any(axis=0)).tolist():
        short_nodes = np.flatnonzero(short[:, metric])
        best = int(short_nodes[np.argmax((free - needed)[short_nodes, metric])])
        quanta = int(needed[best, metric]), int(free[best, metric])
        shortages.append(_shortage(excluded, metric, int(excluded.nodes[best]), *quanta, len(short_nodes)))
    return Full(len(excluded.nodes), tuple(shortages))


def _ruled_out_alone(excluded: ExcludedNodes) -> list[Full]:
    """Return the metrics with too little free capacity of each node."""
    needed, free, short = _needed_and_free(excluded)
    shortages: list[list[Shortage]] = [[] for _ in excluded.nodes]
    position, metric = np.nonzero(short)
    for index, metric_index in zip(position.tolist(), metric.tolist(), strict=True):
        quanta = int(needed[index, metric_index]), int(free[index, metric_index])
        shortages[index].append(_shortage(excluded, metric_index, int(excluded.nodes[index]), *quanta, 1))
    return [Full(1, tuple(shortages_of_node)) for shortages_of_node in shortages]


def _needed_and_free(excluded: ExcludedNodes) -> tuple[Int, Int, Bool]:
    """Return what the excluded nodes need and have free, (n, R) quanta, and whether that is too little, (n, R).

    The load of a standby on a node counts there already.
    """
    problem, solution = excluded.named.problem, excluded.named.solution
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
    return needed, free, (free < needed) & grows


def _shortage(excluded: ExcludedNodes, metric: int, node: int, needed: int, free: int, count: int) -> Shortage:
    """Return the shortage of a metric on `count` nodes; `needed`, `free`: quanta of `node`, the emptiest of them."""
    state, problem = excluded.named.state, excluded.named.problem
    name, to_user = state.config.metrics[metric].name, state.quanta.to_user
    return Shortage(
        metric=name,
        nodes=count,
        needed=to_user(name, needed),
        free=to_user(name, max(0, free)),
        emptiest=state.nodes[node].name,
        missing=to_user(name, needed - free),
        reserved_for=applications_kept(excluded.named, node, metric) if problem.reserves else (),
    )


def _reason(named: NamedSolution, phase: Phase, row: int) -> Reason:
    """Return as reason the first metric for which the node of replica `row` is above `Problem.repair_limit`."""
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
    """Return the fields of `Problem` that only this rule needs, by name."""
    transient = np.array(
        [state.config.prevent_transient_overcommit or metric.transient for metric in state.config.metrics]
    )
    any_transient = bool(transient.any())
    move_limit = topology.limit
    if topology.buffered:
        move_limit = move_limits(topology.limit, topology.move_limit, standing_load(state) + reserved_load(state))
    return {
        "limit": topology.limit,
        "move_limit": move_limit,
        "repair_limit": topology.move_limit if topology.buffered else topology.limit,
        "leaving_load": load_by_node(state, state.rows.leaving),
        "tight": any_transient or topology.buffered or state.applications.capacity > 0,
        "keeps_departed": any_transient,
        "counts_departed": any_transient,
        "transient": transient,
        "watched": topology.watched,
    }


DESCRIPTION = RuleDescription(
    Rule.CAPACITY,
    _ruled_out,
    ruled_out_alone=_ruled_out_alone,
    priority=lambda config: config.capacity_constraint_priority,
    fields=_fields,
    node_violations=_node_violations,
    reason=_reason,
)
