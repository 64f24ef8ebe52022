"""The undo log of an annealing chain, which takes the chain back to its best solution."""

from __future__ import annotations

from typing import NamedTuple

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.search.cooling_schedule import BEST_ENERGY, ENERGY, UNDO_LENGTH
from plb.search.extended.compiled import ExtensionState, apply_proposal_of_terms, copy_values
from plb.state.arrays import Problem, Solution


class UndoLog(NamedTuple):
    """The proposals accepted since the best solution, in order."""

    row: Int
    source: Int
    partner: Int


@kernel
def note_accepted(schedule: Float, undo_log: UndoLog, row: int, source: int, partner: int) -> None:
    """Append an accepted proposal to the undo log."""
    entry = int(schedule[UNDO_LENGTH])
    undo_log.row[entry] = row
    undo_log.source[entry] = source
    undo_log.partner[entry] = partner
    schedule[UNDO_LENGTH] += 1.0


@kernel
def return_to_best(
    problem: Problem, solution: Solution, schedule: Float, undo_log: UndoLog, extension_state: ExtensionState
) -> None:
    """Undo the proposals accepted since the best solution."""
    for entry in range(int(schedule[UNDO_LENGTH]) - 1, -1, -1):
        row, source, partner = undo_log.row[entry], undo_log.source[entry], undo_log.partner[entry]
        apply_proposal_of_terms(problem, solution, extension_state, row, source, partner)
    copy_values(extension_state.best, extension_state.value)
    schedule[UNDO_LENGTH] = 0.0
    schedule[ENERGY] = schedule[BEST_ENERGY]
