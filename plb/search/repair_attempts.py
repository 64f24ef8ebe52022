"""One attempt of a repair: the rules are repaired one after the other."""

from __future__ import annotations

from typing import NamedTuple

from plb.compiler import Stream, kernel
from plb.constraints.capacity import RULE
from plb.search.application_repair import repair_applications
from plb.search.capacity_repair import unload
from plb.search.extension_kernels import ExtensionState
from plb.search.misplaced_repair import leave_crowded_domains, move_misplaced
from plb.search.repair_lists import RepairState
from plb.state.arrays import Problem, Solution


class Attempt(NamedTuple):
    """What an attempt repairs, and how."""

    repaired: int
    """Bit mask of the rules to repair."""
    binding: int
    """Bit mask of the rules that bind the moves. Without capacity, nodes may be overfilled; a second call unloads."""
    swaps: bool
    """Whether roles may be swapped where no replica can move."""
    prefers: bool
    """Whether replicas draw among moves and swaps."""
    parents: bool
    """Whether parents may move to their children."""
    unusable_first: bool
    """Whether replicas in unusable domains leave a crowded one before others (`leave_crowded_domains`)."""


@kernel
def repair_each_rule(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    attempt: Attempt,
    rng: Stream,
    state: RepairState,
) -> None:
    """Repair one rule after the other."""
    repaired, binding, swaps, prefers = attempt.repaired, attempt.binding, attempt.swaps, attempt.prefers
    if repaired >> RULE & 1:
        unload(problem, solution, extension_state, binding, swaps, prefers, rng, state)
    if problem.grouped:
        repair_applications(problem, solution, extension_state, repaired, binding, swaps, rng, state)
    leave_crowded_domains(problem, solution, extension_state, repaired, binding, attempt.unusable_first, rng, state)
    move_misplaced(problem, solution, extension_state, binding, prefers, attempt.parents, rng, state)
