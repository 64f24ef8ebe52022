"""The undo log of an annealing chain, which takes the chain back to its best solution, and to its start."""

from __future__ import annotations

from typing import NamedTuple

from plb.array_types import Int
from plb.compiler import kernel
from plb.evaluation.delta import apply_proposal
from plb.search.cooling_schedule import Schedule
from plb.search.extension_kernels import ExtensionState, copy_values, undo_with_terms
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal, inverse_of


class UndoLog(NamedTuple):
    """The proposals accepted since the start, in order, or since the best solution after `forget_start`."""

    row: Int
    source: Int
    partner: Int


@kernel
def note_accepted(schedule: Schedule, undo_log: UndoLog, proposal: Proposal) -> None:
    """Append an accepted proposal to the undo log."""
    entry = schedule.undo_length
    undo_log.row[entry] = proposal.row
    undo_log.source[entry] = proposal.source
    undo_log.partner[entry] = proposal.partner
    schedule.undo_length += 1


@kernel
def _accepted(solution: Solution, undo_log: UndoLog, entry: int) -> Proposal:
    """Return the proposal of the last entry, whose row is now on its target."""
    row = undo_log.row[entry]
    return Proposal(row, solution.node[row], undo_log.partner[entry], undo_log.source[entry])


@kernel
def return_to_best(
    problem: Problem, solution: Solution, schedule: Schedule, undo_log: UndoLog, extension_state: ExtensionState
) -> None:
    """Undo the proposals accepted since the best solution."""
    for entry in range(schedule.undo_length - 1, schedule.best_length - 1, -1):
        undo_with_terms(problem, solution, extension_state, _accepted(solution, undo_log, entry))
    copy_values(extension_state.best, extension_state.value)
    schedule.undo_length = schedule.best_length
    schedule.energy = schedule.best_energy


@kernel
def return_to_start(problem: Problem, solution: Solution, schedule: Schedule, undo_log: UndoLog) -> None:
    """Undo all proposals of the log, without the sums of extension terms."""
    for entry in range(schedule.undo_length - 1, -1, -1):
        apply_proposal(problem, solution, inverse_of(_accepted(solution, undo_log, entry)))


@kernel
def is_full(schedule: Schedule, undo_log: UndoLog, most: int) -> bool:
    """Return whether the log has no room for a step of `most` moves, or of one."""
    return bool(schedule.undo_length + most >= undo_log.row.shape[0])


@kernel
def forget_start(schedule: Schedule, undo_log: UndoLog) -> None:
    """Remove the entries up to the best solution from the log; the chain cannot return to its start any more."""
    first, length = schedule.best_length, schedule.undo_length
    for entry in range(first, length):
        undo_log.row[entry - first] = undo_log.row[entry]
        undo_log.source[entry - first] = undo_log.source[entry]
        undo_log.partner[entry - first] = undo_log.partner[entry]
    schedule.undo_length -= schedule.best_length
    schedule.best_length = 0
