"""Terms and constraints of users as chains see them: addresses of kernels, and the sums and values they keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import CallByAddress, by_pointer, kernel
from plb.evaluation.delta import apply_proposal
from plb.state.arrays import Problem, Solution

NO_KERNEL = 0
ALLOWED = -1

_change = CallByAddress(float)
_keep = CallByAddress(None)
_test = CallByAddress(bool)


@by_pointer
class ExtensionState(NamedTuple):
    """The T terms and C constraints that one chain carries along; the widest sums have W numbers."""

    change: Int
    """(T,) address of the kernel of each term."""
    keep: Int
    """(T,) address of the kernel that keeps its sums, or NO_KERNEL."""
    weight: Float
    """(T,)"""
    value: Float
    """(T,) the terms of the present solution."""
    after: Float
    """(T,) scratch: the terms after a proposal."""
    best: Float
    """(T,) the terms of the best solution so far."""
    sums: Int
    """(T, W)"""
    width: Int
    """(T,) how many of its W sums each term has."""
    rejected: Int
    """(T,) proposals rejected for the sake of each term."""
    test: Int
    """(C,) address of the kernel of each constraint."""
    refused: Int
    """(C,) proposals refused by each constraint."""
    tally: Int
    """(TALLY_SIZE,) scratch."""


def no_extension_state(tally: Int) -> ExtensionState:
    """Return what a chain without additions carries along: nothing."""
    none, nothing = np.empty(0, np.int64), np.empty(0)
    return ExtensionState(
        none, none, nothing, nothing, nothing, nothing, none.reshape(0, 0), none, none, none, none, tally
    )


@kernel
def refusing(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> int:
    """Return which constraint refuses a proposal first, or ALLOWED."""
    for index in range(extension_state.test.shape[0]):
        if _test(extension_state.test[index], problem, solution, row, target, partner):
            return index
    return ALLOWED


@kernel
def foresee(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> None:
    """Add what a proposal changes to the terms in `after`."""
    for term in range(extension_state.change.shape[0]):
        sums = extension_state.sums[term, : extension_state.width[term]]
        extension_state.after[term] += _change(
            extension_state.change[term], problem, solution, sums, row, target, partner
        )


@kernel
def weighed(extension_state: ExtensionState, values: Float) -> float:
    """Return what values of the terms add to the energy."""
    energy = 0.0
    for term in range(values.shape[0]):
        energy += extension_state.weight[term] * values[term]
    return energy


@kernel
def worst_of(extension_state: ExtensionState) -> int:
    """Return the term that `after` worsens most, or NOWHERE if it worsens none."""
    worst, most = NOWHERE, 0.0
    for term in range(extension_state.weight.shape[0]):
        worsening = extension_state.weight[term] * (extension_state.after[term] - extension_state.value[term])
        if worsening > most:
            worst, most = term, worsening
    return worst


@kernel
def copy_values(values: Float, into: Float) -> None:
    """Copy the values of the terms."""
    for term in range(values.shape[0]):
        into[term] = values[term]


@kernel
def apply_proposal_of_terms(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> None:
    """Carry a proposal out with the sums of the terms; the same with the old node as target undoes it exactly."""
    for term in range(extension_state.keep.shape[0]):
        if extension_state.keep[term] != NO_KERNEL:
            sums = extension_state.sums[term, : extension_state.width[term]]
            _keep(extension_state.keep[term], problem, solution, sums, row, target, partner)
    apply_proposal(problem, solution, row, target, partner)
