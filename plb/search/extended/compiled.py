"""Compiled extension terms and constraints of a chain: addresses of their kernels, their sums and their values."""

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
    """State of T terms and C constraints in one chain. W is the largest number of sums of a term."""

    change: Int
    """(T,) address of each term's kernel `change`."""
    keep: Int
    """(T,) address of the kernel that updates the term's sums, or NO_KERNEL."""
    weight: Float
    """(T,)"""
    value: Float
    """(T,) values of the terms in the present solution."""
    after: Float
    """(T,) scratch: values after a proposal."""
    best: Float
    """(T,) values in the best solution so far."""
    sums: Int
    """(T, W)"""
    width: Int
    """(T,) number of sums of each term."""
    rejected: Int
    """(T,) number of proposals rejected because of each term."""
    test: Int
    """(C,) address of each constraint's kernel `test`."""
    refused: Int
    """(C,) number of proposals refused by each constraint."""
    tally: Int
    """(TALLY_SIZE,) scratch."""


def no_extension_state(tally: Int) -> ExtensionState:
    """Return the state of a chain without extensions."""
    none, nothing = np.empty(0, np.int64), np.empty(0)
    return ExtensionState(
        none, none, nothing, nothing, nothing, nothing, none.reshape(0, 0), none, none, none, none, tally
    )


@kernel
def refusing(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> int:
    """Return the index of the first constraint that refuses a proposal, or ALLOWED."""
    for index in range(extension_state.test.shape[0]):
        if _test(extension_state.test[index], problem, solution, row, target, partner):
            return index
    return ALLOWED


@kernel
def foresee(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> None:
    """Add the changes of the terms by a proposal to `after`."""
    for term in range(extension_state.change.shape[0]):
        sums = extension_state.sums[term, : extension_state.width[term]]
        extension_state.after[term] += _change(
            extension_state.change[term], problem, solution, sums, row, target, partner
        )


@kernel
def weighed(extension_state: ExtensionState, values: Float) -> float:
    """Return the weighted sum of values of the terms, (T,): their contribution to the energy."""
    energy = 0.0
    for term in range(values.shape[0]):
        energy += extension_state.weight[term] * values[term]
    return energy


@kernel
def worst_of(extension_state: ExtensionState) -> int:
    """Return the index of the term with the largest weighted increase in `after`, or NOWHERE if none increases."""
    worst, most = NOWHERE, 0.0
    for term in range(extension_state.weight.shape[0]):
        worsening = extension_state.weight[term] * (extension_state.after[term] - extension_state.value[term])
        if worsening > most:
            worst, most = term, worsening
    return worst


@kernel
def copy_values(values: Float, into: Float) -> None:
    """Copy values of the terms, (T,)."""
    for term in range(values.shape[0]):
        into[term] = values[term]


@kernel
def apply_proposal_of_terms(
    problem: Problem, solution: Solution, extension_state: ExtensionState, row: int, target: int, partner: int
) -> None:
    """Apply a proposal and update the sums of the terms; the same call with the old node as target undoes it."""
    for term in range(extension_state.keep.shape[0]):
        if extension_state.keep[term] != NO_KERNEL:
            sums = extension_state.sums[term, : extension_state.width[term]]
            _keep(extension_state.keep[term], problem, solution, sums, row, target, partner)
    apply_proposal(problem, solution, row, target, partner)
