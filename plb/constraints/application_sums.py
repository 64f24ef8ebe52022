"""The sums of applications: replicas and loads of each on each node, and what nodes keep free for them.

A node with a replica of an application counts at least the reservation of the application instead of its load there
(docs/constraints/applications.md). Leaving replicas do not count. All sums are whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import NamedSolution
from plb.model.rules import Violation
from plb.phrasing import amount, listed
from plb.state.arrays import Problem, Solution


def new_sums(problem: Problem) -> dict[str, Any]:
    """Return the arrays of `Solution` on applications by name, all 0; without applications they have size 0."""
    applications, metrics = problem.reservation.shape
    nodes = len(problem.limit)
    return {
        "application_load": np.zeros((applications, nodes, metrics), np.int64),
        "application_total": np.zeros((applications, metrics), np.int64),
        "application_replicas": np.zeros((applications, nodes), np.int64),
        "application_nodes": np.zeros(applications, np.int64),
        "reserved": np.zeros((nodes if problem.grouped else 0, metrics), np.int64),
    }


@kernel(shared=True)
def count_replica(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `row` (`sign` 1) to its application's sums on `node` in `solution`, or take it away (-1)."""
    application = problem.application[row]
    if application == NOWHERE:
        return
    _add_reserved(problem, solution, application, node, -1)
    for metric in range(problem.load.shape[1]):
        change = sign * problem.load[row, metric]
        solution.application_load[application, node, metric] += change
        solution.application_total[application, metric] += change
    before = solution.application_replicas[application, node]
    after = before + sign
    solution.application_replicas[application, node] = after
    solution.application_nodes[application] += int(after > 0) - int(before > 0)
    _add_reserved(problem, solution, application, node, 1)


@kernel
def _add_reserved(problem: Problem, solution: Solution, application: int, node: int, sign: int) -> None:
    """Add `sign` times what `node` keeps free for an application to `Solution.reserved`."""
    if problem.reserves:
        for metric in range(problem.reservation.shape[1]):
            solution.reserved[node, metric] += sign * kept_free(problem, solution, application, node, metric, 0, 0)


@kernel
def kept_free(
    problem: Problem, solution: Solution, application: int, node: int, metric: int, growth: int, joining: int
) -> int:
    """Return the quanta of `metric` that a node keeps free for an application after a change of its replicas there.

    `growth`: by how many quanta their load grows; `joining`: how many replicas join, below 0 if they leave.
    """
    if solution.application_replicas[application, node] + joining <= 0:
        return 0
    load = solution.application_load[application, node, metric] + growth
    return max(0, int(problem.reservation[application, metric] - load))


@kernel
def growth_with_reservations(
    problem: Problem, solution: Solution, row: int, outgoing: int, target: int, metric: int
) -> int:
    """Return by how many quanta of `metric` load and reservations of `target` grow if `row` joins.

    `outgoing`: the row that leaves at the same time, or NOWHERE.
    """
    joining = problem.application[row]
    leaving = NOWHERE if outgoing == NOWHERE else problem.application[outgoing]
    added, freed = problem.load[row, metric], problem.load[outgoing, metric]
    growth = added - freed
    if joining == leaving and joining != NOWHERE:
        return int(growth + _change(problem, solution, joining, target, metric, growth, 0))
    if joining != NOWHERE:
        growth += _change(problem, solution, joining, target, metric, added, 1)
    if leaving != NOWHERE:
        growth += _change(problem, solution, leaving, target, metric, -freed, -1)
    return int(growth)


@kernel
def _change(
    problem: Problem, solution: Solution, application: int, node: int, metric: int, growth: int, joining: int
) -> int:
    """Return by how many quanta `kept_free` rises if `joining` replicas join and the load grows by `growth` quanta."""
    after = kept_free(problem, solution, application, node, metric, growth, joining)
    return after - kept_free(problem, solution, application, node, metric, 0, 0)


@kernel
def count_leaving(problem: Problem, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of a leaving row on `node` to `Problem.application_leaving`."""
    application = problem.application[row]
    if application == NOWHERE:
        return
    for metric in range(problem.load.shape[1]):
        problem.application_leaving[application, node, metric] += sign * problem.load[row, metric]


@kernel
def sum_reserved(problem: Problem, solution: Solution) -> None:
    """Compute `Solution.reserved` from the sums of the applications."""
    for node in range(solution.reserved.shape[0]):
        for metric in range(solution.reserved.shape[1]):
            reserved = 0
            for application in range(problem.reservation.shape[0]):
                reserved += kept_free(problem, solution, application, node, metric, 0, 0)
            solution.reserved[node, metric] = reserved


@kernel(inline=True)
def occupied(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return the load of `metric` of a node plus what it keeps free for applications, in quanta."""
    load = solution.node_load[node, metric]
    if problem.reserves:
        load += solution.reserved[node, metric]
    return int(load)


def occupied_nodes(problem: Problem, solution: Solution) -> Int:
    """Return the load of every node plus what it keeps free for applications, (N, R) quanta."""
    return solution.node_load + solution.reserved if problem.reserves else solution.node_load


@kernel
def has_standby(problem: Problem, row: int) -> bool:
    """Return whether a sibling of replica `row` is a standby."""
    sibling = problem.sibling[row]
    while sibling != row:
        if problem.standby[sibling]:
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def standby_on(problem: Problem, solution: Solution, row: int, target: int) -> int:
    """Return the standby of the partition of replica `row` on `target`, whose load `row` replaces, or NOWHERE."""
    if problem.standbys == 0:
        return NOWHERE
    sibling = problem.sibling[row]
    while sibling != row:
        if problem.standby[sibling] and solution.node[sibling] == target:
            return int(sibling)
        sibling = problem.sibling[sibling]
    return NOWHERE


@kernel
def is_replaced(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether replica `row` is a standby on `node` that a sibling replaces, which this plan has placed there."""
    if not problem.standby[row] or problem.leaving[row] or solution.node[row] != node:
        return False
    sibling = problem.sibling[row]
    while sibling != row:
        if solution.node[sibling] == node and problem.origin[sibling] != node and not problem.standby[sibling]:
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def replaced_load(problem: Problem, solution: Solution, application: int, node: int, metric: int, below: int) -> int:
    """Return the load of `metric` of an application's standbys on a node that siblings replace, in quanta.

    Only rows with a number less than `below` count.
    """
    replaced = 0
    for row in range(below if problem.standbys else 0):
        if problem.application[row] == application and is_replaced(problem, solution, row, node):
            replaced += problem.load[row, metric]
    return int(replaced)


@attrs.frozen
class ReservationViolation(Violation):
    """A node below its violation threshold, but above its limit with what it keeps free for applications."""

    rule: ClassVar[str] = "capacity"

    node: str
    metric: str
    load: float
    """Load of the node, without departing replicas, in user units."""
    reserved: float
    """What the node keeps free for applications beyond their loads, in user units."""
    limit: float
    """Load to which the engine fills the node, inclusive, in user units."""
    applications: tuple[str, ...]
    """Names of the applications for which it keeps some free."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"load": self.load, "reserved": self.reserved, "limit": self.limit}

    def __str__(self) -> str:
        load = f"{self.metric} of node {self.node} is {amount(self.load)}"
        kept = f"{amount(self.reserved)} more reserved for {listed(self.applications)}"
        return f"{load}, with {kept}, above its limit of {amount(self.limit)}"


def reservation_violations(named: NamedSolution) -> list[ReservationViolation]:
    """Return the verdicts on counted nodes and metrics whose limit is exceeded only because of reservations."""
    problem, solution = named.problem, named.solution
    if not problem.reserves:
        return []
    above = occupied_nodes(problem, solution) > problem.limit
    violating = above & (solution.node_load < problem.threshold) & problem.counted[:, None]
    return [_violation(named, node, metric) for node, metric in np.argwhere(violating).tolist()]


def _violation(named: NamedSolution, node: int, metric: int) -> ReservationViolation:
    """Return the verdict on a node that exceeds its limit of a metric by reservations; both are indices."""
    problem, solution, quanta = named.problem, named.solution, named.state.quanta
    name = named.state.config.metrics[metric].name
    return ReservationViolation(
        node=named.state.nodes[node].name,
        metric=name,
        load=quanta.to_user(name, int(solution.node_load[node, metric])),
        reserved=quanta.to_user(name, int(solution.reserved[node, metric])),
        limit=quanta.to_user(name, int(problem.limit[node, metric])),
        applications=applications_kept(named, node, metric),
    )


def applications_kept(named: NamedSolution, node: int, metric: int) -> tuple[str, ...]:
    """Return the names of the applications for which a node keeps some of a metric free."""
    problem, solution = named.problem, named.solution
    unused = problem.reservation[:, metric] > solution.application_load[:, node, metric]
    kept = np.flatnonzero(unused & (solution.application_replicas[:, node] > 0))
    return tuple(named.state.applications.name_of(application) for application in kept.tolist())


def needed_with_reservations(named: NamedSolution, row: int, node: int) -> list[int]:
    """Return by how many quanta of each metric load and reservations of `node` grow if replica `row` joins it."""
    problem, solution = named.problem, named.solution
    outgoing = standby_on(problem, solution, row, node)
    return [
        growth_with_reservations(problem, solution, row, outgoing, node, metric)
        for metric in range(problem.load.shape[1])
    ]


def gains_too_much(problem: Problem, solution: Solution, row: int, growth: Int) -> bool:
    """Return whether `growth`, (R,) quanta, of the load of a placed `row` would exceed a limit.

    The limits of its node and of its application there count.
    """
    node, application = int(solution.node[row]), int(problem.application[row])
    load = occupied_nodes(problem, solution)[node] + problem.leaving_load[node]
    node_growth = growth
    if problem.grouped and application != NOWHERE:
        application_load = solution.application_load[application, node]
        node_growth = growth - np.clip(problem.reservation[application] - application_load, 0, growth)
        present = application_load + problem.application_leaving[application, node]
        if ((growth > 0) & (present + growth > problem.application_node_limit[application])).any():
            return True
    return bool(((node_growth > 0) & (load + node_growth > problem.limit[node])).any())
