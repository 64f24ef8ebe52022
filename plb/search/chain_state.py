"""The state of an annealing chain, which its kernels share, and the record of its energy."""

from __future__ import annotations

import math
from typing import NamedTuple

from plb.array_types import Int
from plb.compiler import Stream, by_pointer, kernel, uniform
from plb.search.cooling_schedule import Schedule
from plb.search.extension_kernels import NO_KERNEL, ExtensionState, copy_values
from plb.search.neighbourhoods import Neighbourhoods
from plb.search.transactions import Transaction
from plb.search.undo_log import UndoLog
from plb.state.arrays import Solution
from plb.state.proposal import Proposal


class StepAddresses(NamedTuple):
    """Addresses of the kernels for steps that few chains have; NO_KERNEL where a chain has no such steps."""

    compound: int = NO_KERNEL
    """`compound_proposal`, for steps of several moves."""
    extended: int = NO_KERNEL
    """`extended_step`, for extension terms and constraints."""
    larger: int = NO_KERNEL
    """`larger_proposal`, for larger neighbourhoods."""


@by_pointer
class ChainState(NamedTuple):
    """State, undo log and counters of a chain."""

    schedule: Schedule
    undo_log: UndoLog
    """When it is full, the chain forgets its start, and if that is not enough, returns to its best solution."""
    tally: Int
    """(TALLY_SIZE,) number of proposals by outcome."""
    transaction: Transaction
    """Scratch for steps of several moves; its capacity is 0 where such steps cannot occur."""
    neighbourhoods: Neighbourhoods
    """Weights and counts of the larger neighbourhoods."""
    addresses: StepAddresses = StepAddresses()


class Step(NamedTuple):
    """A proposal that passed the constraints."""

    proposal: Proposal
    makes_spread_moves: bool
    """Whether siblings have to move to restore the spread over domains."""
    highest: float
    """Highest accepted energy."""


@kernel
def record_energy(solution: Solution, schedule: Schedule, extension_state: ExtensionState, energy: float) -> None:
    """Record the energy of the solution; if it is the best so far, record that too, with its place in the undo log."""
    schedule.energy = energy
    for term in extension_state.vanishing:
        if extension_state.value[term] != 0.0:
            return
    movement = solution.totals.movement
    best = schedule.best_energy
    if energy < best or (energy == best and movement < schedule.best_movement):
        schedule.best_energy = energy
        schedule.best_movement = movement
        schedule.round_had_best = True
        schedule.best_length = schedule.undo_length
        copy_values(extension_state.value, extension_state.best)


@kernel
def highest_energy(schedule: Schedule, rng: Stream) -> float:
    """Return the highest energy that the next step may reach: a rise by d is accepted with probability exp(−d/T)."""
    return float(schedule.energy - schedule.temperature * math.log(1.0 - uniform(rng)))
