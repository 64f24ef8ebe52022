"""The journal of a chain: what it accepted since the best solution, so that it can return there."""

from __future__ import annotations

from typing import NamedTuple

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.search.cooling_schedule import BEST_ENERGY, ENERGY, JOURNAL
from plb.search.extended.compiled import Carried, carry_out, copy_values
from plb.state.arrays import Problem, Solution


class Journal(NamedTuple):
    """The accepted proposals since the best solution, so that the chain can return to it."""

    row: Int
    source: Int
    partner: Int


@kernel
def note_accepted(schedule: Float, journal: Journal, row: int, source: int, partner: int) -> None:
    """Enter an accepted proposal in the journal."""
    entry = int(schedule[JOURNAL])
    journal.row[entry] = row
    journal.source[entry] = source
    journal.partner[entry] = partner
    schedule[JOURNAL] += 1.0


@kernel
def return_to_best(problem: Problem, solution: Solution, schedule: Float, journal: Journal, carried: Carried) -> None:
    """Undo what was accepted after the best solution."""
    for entry in range(int(schedule[JOURNAL]) - 1, -1, -1):
        row, source, partner = journal.row[entry], journal.source[entry], journal.partner[entry]
        carry_out(problem, solution, carried, row, source, partner)
    copy_values(carried.best, carried.value)
    schedule[JOURNAL] = 0.0
    schedule[ENERGY] = schedule[BEST_ENERGY]
