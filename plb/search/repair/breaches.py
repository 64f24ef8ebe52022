"""Violated constraints: the rules that a row breaks where it is, and the rows and nodes at which rules are broken."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints import affinity, application_capacity, capacity, domains, exclusion, node, placement, scale_out
from plb.model.rules import RuleMask
from plb.search.transactions import NO_ROWS, moved_rows
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.replica_table import merged

PARTS = 2.0**20
"""Overloads are summed up in whole parts of a limit, so that sums do not depend on the order of the nodes."""


def broken_applications(problem: Problem, solution: Solution, enforced: RuleMask) -> Int:
    """Return the applications, ascending, that break an enforced rule which moves can repair."""
    if not problem.grouped:
        return NO_ROWS
    overfull = application_capacity.overfull(problem, solution, enforced).any(axis=(1, 2))
    return merged(scale_out.broken_applications(problem, solution, enforced), np.flatnonzero(overfull))


def movable_rows_of(problem: Problem, solution: Solution, applications: Int) -> Int:
    """Return the movable placed rows, ascending, of `applications`, (n,) indices."""
    placed = problem.movable & (solution.node != NOWHERE)
    return np.flatnonzero(placed & np.isin(problem.application, applications))


@kernel
def count_breaches_of(problem: Problem, solution: Solution, enforced: RuleMask, application: int) -> tuple[int, float]:
    """Return the number of breaches of an application, and the sum of its overloads relative to its limits.

    A breach is a node too many, or a metric in which the application exceeds its limit on a node; only rules in
    `enforced` count.
    """
    breaches = 0
    overload = 0.0
    if enforced >> scale_out.RULE & 1:
        breaches += scale_out.nodes_above_limit(problem, solution, application)
    if not enforced >> application_capacity.RULE & 1:
        return breaches, overload
    for node_index in range(solution.application_replicas.shape[1]):
        for metric in range(problem.load.shape[1]):
            excess = application_capacity.excess_on_node(problem, solution, application, node_index, metric)
            limit = problem.application_node_limit[application, metric]
            if excess > 0:
                breaches += 1
                overload += np.floor(excess / max(1, limit) * PARTS) / PARTS
    return breaches, overload


@kernel
def broken_rules(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> RuleMask:
    """Return the enforced rules that replica `row`, or its node, breaks where it is."""
    if solution.node[row] == NOWHERE:
        return 0
    broken = domains.broken_rules(problem, solution, enforced, row)
    if node.is_broken(problem, solution, enforced, row):
        broken |= 1 << node.RULE
    if exclusion.is_broken(problem, solution, row):
        broken |= 1 << exclusion.RULE
    if placement.is_broken(problem, solution, enforced, row):
        broken |= 1 << placement.RULE
    if capacity.is_broken(problem, solution, enforced, row):
        broken |= 1 << capacity.RULE
    if scale_out.is_broken(problem, solution, enforced, row):
        broken |= 1 << scale_out.RULE
    if application_capacity.is_broken(problem, solution, enforced, row):
        broken |= 1 << application_capacity.RULE
    if affinity.is_broken(problem, solution, enforced, row):
        broken |= 1 << affinity.RULE
    return broken


@kernel
def note_broken_rules(problem: Problem, solution: Solution, enforced: RuleMask, rows: Int, broken: Int) -> None:
    """Write to `broken`, (m,) of RuleMask, which `enforced` rules each replica of `rows`, (m,), breaks."""
    for index in range(rows.shape[0]):
        broken[index] = broken_rules(problem, solution, enforced, rows[index])


@kernel
def count_breaches(
    problem: Problem, solution: Solution, enforced: RuleMask, row: int, may_move: bool, by_partition: bool
) -> int:
    """Return how many `enforced` rules and levels replica `row` breaks: crowded domains, and a wrong node.

    `may_move`: whether a wrong node counts; `by_partition`: whether crowded domains of a rule count once for a
    partition, with the first of its rows in one.
    """
    if solution.node[row] == NOWHERE:
        return 0
    if by_partition:
        breaches = domains.count_by_partition(problem, solution, enforced, row)
    else:
        breaches = domains.count_breaches(problem, solution, enforced, row)
    return breaches + (may_move and is_misplaced(problem, solution, enforced, row))


@kernel
def is_misplaced(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether a placed `row` is on a wrong node by `enforced` rules, beside a sibling, or without its parent."""
    if node.is_broken(problem, solution, enforced, row):
        return True
    if exclusion.is_broken(problem, solution, row):
        return True
    if placement.is_broken(problem, solution, enforced, row):
        return True
    return affinity.is_broken(problem, solution, enforced, row)


@kernel
def mark_breaking(
    problem: Problem, solution: Solution, enforced: RuleMask, rows: Int, may_move: Bool, breaks: Bool
) -> None:
    """Write to `breaks`, (m,), whether each replica of `rows`, (m,), breaks an `enforced` rule but capacity.

    `may_move`: (M,) whether the row may move; a wrong node counts only for rows that may.
    """
    for index in range(rows.shape[0]):
        row = rows[index]
        breaks[index] = count_breaches(problem, solution, enforced, row, may_move[row], False) > 0


@attrs.frozen(eq=False)
class Breaches:
    """Locations of violated constraints."""

    overloaded: Bool
    """(N, R) whether a watched node exceeds its limit."""
    rows: Int
    """The rows that break a rule of single rows, ascending."""
    applications: Int
    """The applications that break one of theirs, ascending."""

    def __bool__(self) -> bool:
        return bool(len(self.rows) or len(self.applications) or self.overloaded.any())


def find_breaches(problem: Problem, solution: Solution, enforced: RuleMask, suspects: Int) -> Breaches:
    """Return the violations of the enforced rules, anywhere in the cluster.

    Rules of single rows are tested for `suspects`, (n,), only: ascending, they have to include each row that breaks
    one.
    """
    return Breaches(
        capacity.overloads(problem, solution, enforced),
        breaking_rows(problem, solution, enforced, suspects),
        broken_applications(problem, solution, enforced),
    )


def breaking_rows(problem: Problem, solution: Solution, enforced: RuleMask, suspects: Int) -> Int:
    """Return the rows of `suspects`, (n,), that break an enforced rule other than capacity."""
    breaks = np.zeros(len(suspects), np.bool_)
    if len(suspects):
        mark_breaking(problem, solution, enforced, suspects, problem.movable, breaks)
    return suspects[breaks]


def rows_judged_by(problem: Problem, changed: Int) -> Int:
    """Return the rows, ascending, whose breaches may change as rows `changed`, (n,), move.

    These are the rows of the same partitions and of their affinity children.
    """
    rows_of_children: set[int] = set()
    rows_of_partitions: set[int] = set()
    for row in changed.tolist():
        if row in rows_of_partitions:
            continue
        rows_of_partitions.update(siblings_of(problem, row))
        child = int(problem.first_child[row])
        while child != NOWHERE:
            rows_of_children.update(siblings_of(problem, child))
            child = int(problem.next_child[child])
    return np.array(sorted(rows_of_children | rows_of_partitions), np.int64)


def suspects_after(problem: Problem, solution: Solution, breaking: Int, others: Int = NO_ROWS) -> Int:
    """Return the rows, ascending, that may break a rule in `solution`.

    `breaking`: (n,) rows that may break one on their origins; `others`: rows that an earlier search may have placed or
    dropped.
    """
    moved = moved_rows(problem, solution, others)
    return merged(breaking, rows_judged_by(problem, moved)) if len(moved) else breaking
