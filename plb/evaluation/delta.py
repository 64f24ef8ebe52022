"""Application of a proposal: every sum changes by what it changes; and the comparison with sums from scratch."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.application_sums import count_replica
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.node_sums import change_list
from plb.energy.terms import add_to_terms, apply_after_rows, apply_before_rows
from plb.errors import CheckFailedError
from plb.state.arrays import SCRATCH, Problem, Proposal, Solution, Totals, proposed


@kernel(shared=True)
def apply_proposal(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Apply the proposal to `solution`; `inverse_of` it, applied next, undoes it exactly."""
    apply_before_rows(problem, solution, proposal)
    _move_row(problem, solution, proposal.row, proposal.source, proposal.target)
    if proposal.partner != NOWHERE:
        _move_row(problem, solution, proposal.partner, proposal.target, proposal.source)
    apply_after_rows(problem, solution)


@kernel(shared=True)
def move_row(problem: Problem, solution: Solution, row: int, target: int) -> None:
    """Move one row from its present node to `target`; NOWHERE removes it."""
    apply_proposal(problem, solution, proposed(solution, row, target, NOWHERE))


@kernel
def _move_row(problem: Problem, solution: Solution, row: int, source: int, target: int) -> None:
    """Move replica `row` from `source` to `target` in all loads, aggregates and move counts."""
    _change_sums_of_rules(problem, solution, row, -1)
    add_to_node(problem, solution, row, source, -1)
    add_to_node(problem, solution, row, target, 1)
    _count_moves(problem, solution, row, source, -1)
    solution.node[row] = target
    _count_moves(problem, solution, row, target, 1)
    _change_sums_of_rules(problem, solution, row, 1)


@kernel
def _change_sums_of_rules(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add (`sign` 1) or subtract (-1) what `row` and its partition contribute to the sums that only rules read."""
    if not (problem.keeps_departed or problem.throttles or problem.grouped):
        return
    if problem.grouped and solution.node[row] != NOWHERE:
        count_replica(problem, solution, row, solution.node[row], sign)
    member = row
    while True:
        if problem.keeps_departed:
            leave_behind(problem, solution, member, sign)
        if problem.throttles:
            arrive(problem, solution, member, sign)
        member = problem.sibling[member]
        if member == row:
            return


@kernel
def add_to_node(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign`, 1 or -1, times the load and the peaks of `row` to `node` and list it there; NOWHERE has no sums."""
    if node == NOWHERE:
        return
    add_to_terms(problem, solution, row, node, sign)
    change_list(problem, solution, row, node, sign)
    if solution.journal.shape[0] > 0:
        _write_to_journal(solution.journal, row, node, sign)


@kernel
def _write_to_journal(journal: Int, row: int, node: int, sign: int) -> None:
    """Write to `journal`, as in `Solution`, that replica `row` joins (`sign` 1) or leaves (-1) `node`."""
    entry = 1 + journal[0, 0] % (journal.shape[0] - 1)
    journal[entry, 0], journal[entry, 1], journal[entry, 2] = row, node, sign
    journal[0, 0] += 1


@kernel
def _count_moves(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Count `row` as displaced to `node`, its node, unless that is its origin; `sign` -1: count it no more."""
    origin = problem.origin[row]
    if origin == NOWHERE or node == origin or node == NOWHERE:  # noqa: SIM109
        return
    solution.node_moves[origin] += sign
    solution.node_moves[node] += sign
    solution.service_moves[problem.service[row]] += sign
    if sign > 0:
        solution.displaced[solution.totals.displaced] = row
        solution.displaced_at[row] = solution.totals.displaced
        solution.totals.displaced += 1
    else:
        solution.totals.displaced -= 1
        last = solution.displaced[solution.totals.displaced]
        solution.displaced[solution.displaced_at[row]] = last
        solution.displaced_at[last] = solution.displaced_at[row]
        solution.displaced_at[row] = NOWHERE


ACCUMULATORS = tuple(name for name in Solution._fields if name not in (*SCRATCH, "totals"))
"""The arrays of a solution that searches keep current."""


def compare_with_scratch(problem: Problem, solution: Solution, moment: str) -> None:
    """Raise `CheckFailedError`, which names `moment`, if an accumulator differs from one computed from scratch."""
    recomputed = solution_from_scratch(problem, solution.node)
    for name in Totals.names():
        present, correct = (getattr(state.totals, name) for state in (solution, recomputed))
        if present != correct:
            raise CheckFailedError(f"{moment}: {name} is {present}, from scratch it is {correct}")
    for name in ACCUMULATORS:
        present, correct = (comparable_values(state, name) for state in (solution, recomputed))
        if present.shape != correct.shape:
            raise CheckFailedError(f"{moment}: accumulator {name} has {len(present)} rows, from scratch {len(correct)}")
        if not np.array_equal(present, correct):
            index = tuple(int(i) for i in np.argwhere(present != correct)[0])
            raise CheckFailedError(
                f"{moment}: accumulator {name}{list(index)} is {present[index]}, from scratch it is {correct[index]}"
            )


def comparable_values(solution: Solution, name: str) -> np.ndarray:
    """Return the array of the field `name`; of displaced rows only what does not depend on their order."""
    values: np.ndarray = getattr(solution, name)
    if name == "displaced":
        return np.sort(values[: solution.totals.displaced])
    return values >= 0 if name == "displaced_at" else values
