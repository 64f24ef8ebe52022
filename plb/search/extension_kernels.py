"""Extension terms, constraints and neighbourhoods of a chain, as kernels use them.

Extensions with kernels are called by the addresses of these; extensions in plain Python by one callback of the chain.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import CallByAddress, by_pointer, call_python, kernel, pointer_to
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import Tally
from plb.state.arrays import Problem, Proposal, Solution, inverse_of

NO_KERNEL = 0
IN_PYTHON = 1
"""In place of an address: the extension is in plain Python."""
ALLOWED = -1
NOTHING = -1
CHANGE, APPLY, UNDO, TEST, NOTE_BROKEN, NEWLY_BROKEN, COUNT, NODE_COST, PROPOSE = range(9)
"""What kernels ask of extensions in Python."""
OUT_OF_RANGE = 9
"""Instead of what a kernel is asked: the moves that it has proposed are out of range."""

_change = CallByAddress(float)
_keep = CallByAddress(None)
_node_cost = CallByAddress(float)
_test = CallByAddress(bool)
_count = CallByAddress(None)


@by_pointer
class ExtensionState(NamedTuple):
    """State of T terms, C constraints and P neighbourhoods in one chain.

    Data and sums are by the address of a named tuple (`plb.compiler.address_of`).
    """

    change: Int
    """(T,) address of each term's kernel `change`, or IN_PYTHON."""
    keep: Int
    """(T,) address of the kernel that updates the term's sums, or IN_PYTHON, or NO_KERNEL."""
    node_cost: Int
    """(T,) address of the kernel that says what a node contributes to the term, or IN_PYTHON, or NO_KERNEL."""
    weight: Float
    """(T,)"""
    value: Float
    """(T,) values of the terms in the present solution."""
    after: Float
    """(T,) scratch: values after a proposal."""
    best: Float
    """(T,) values in the best solution so far."""
    data: Int
    """(T,) data of each term, or NO_KERNEL of one in Python."""
    sums: Int
    """(T,) sums of each term, or NO_KERNEL of one in Python."""
    rejected: Int
    """(T,) number of proposals rejected because of each term."""
    test: Int
    """(C,) address of each constraint's kernel `test`, or IN_PYTHON."""
    adding: Int
    """(C,) address of the kernel that updates the constraint's sums, or NO_KERNEL."""
    test_data: Int
    """(C,) data of each constraint, or NO_KERNEL of one in Python."""
    test_sums: Int
    """(C,) sums of each constraint, or NO_KERNEL of one in Python."""
    counted: Int
    """(C,) up to where in `Solution.journal` the sums follow the solution."""
    refused: Int
    """(C,) number of proposals refused by each constraint."""
    propose: Int
    """(P,) address of each neighbourhood's kernel `propose`, or IN_PYTHON."""
    propose_data: Int
    """(P,) data of each neighbourhood, or NO_KERNEL of one in Python."""
    proposed_row: Int
    """(MOST_PROPOSED,) rows of the moves that a neighbourhood proposes; empty without any."""
    proposed_target: Int
    """(MOST_PROPOSED,) their new nodes."""
    moves: Int
    """(1,) address of a named tuple of both."""
    tally: Tally
    """(TALLY_SIZE,) scratch."""
    python: Int
    """(1,) address of the callback of extensions in Python (`plb.search.extension_state`), or NO_KERNEL."""
    running: Int
    """(7,) what the running kernel of an extension answers, such as CHANGE or TEST, and the extension's index.

    NOTHING between calls, so that the kernel is known after an error. After OUT_OF_RANGE follow the number of proposed
    moves, row and node of the wrong one, and the numbers of rows and nodes.
    """
    vanishing: Int
    """Indices of the terms that have to be 0 in the best solution."""
    unfit: Int
    """(1,) index of a term whose kernel has returned a change that is no finite number, or NOTHING."""


def no_extension_state(tally: Tally) -> ExtensionState:
    """Return the state of a chain without extensions: empty arrays, and `tally` as scratch."""
    values = ("weight", "value", "after", "best")
    empty: Any = {name: np.empty(0, np.float64 if name in values else np.int64) for name in ExtensionState._fields}
    return ExtensionState(**{**empty, "tally": tally})


@kernel
def _ask(extension_state: ExtensionState, question: int, index: int, proposal: Proposal) -> float:
    """Return the answer of the extension in Python with the number `index` to `question`, such as CHANGE or TEST."""
    row, target, partner, source = proposal
    return call_python(extension_state.python[0], question, index, row, target, partner, source)


@kernel
def begin_call(extension_state: ExtensionState, question: int, index: int) -> None:
    """Note that the kernel which answers `question`, such as CHANGE or TEST, of the extension `index` runs."""
    extension_state.running[0] = question
    extension_state.running[1] = index


@kernel
def end_call(extension_state: ExtensionState) -> None:
    """Note that no kernel of an extension runs."""
    extension_state.running[0] = NOTHING


@kernel
def _refuses(
    problem: Problem, solution: Solution, extension_state: ExtensionState, constraint: int, proposal: Proposal
) -> bool:
    """Return whether the constraint with index `constraint`, which has kernels, refuses a proposal."""
    data, sums = pointer_to(extension_state.test_data[constraint]), pointer_to(extension_state.test_sums[constraint])
    if extension_state.adding[constraint] != NO_KERNEL:
        _count_moves(problem, solution, extension_state, constraint)
    begin_call(extension_state, TEST, constraint)
    refused: bool = _test(extension_state.test[constraint], problem, solution, data, sums, proposal)
    end_call(extension_state)
    return refused


@kernel
def _count_moves(problem: Problem, solution: Solution, extension_state: ExtensionState, constraint: int) -> None:
    """Bring the sums of the constraint with this index up to date by the moves in the journal, or from scratch."""
    journal = solution.journal
    entries = journal.shape[0] - 1
    if entries < 1 or journal[0, 0] - extension_state.counted[constraint] > entries:
        call_python(extension_state.python[0], COUNT, constraint, 0, 0, 0, 0)
    else:
        data, sums = (
            pointer_to(extension_state.test_data[constraint]),
            pointer_to(extension_state.test_sums[constraint]),
        )
        begin_call(extension_state, COUNT, constraint)
        for number in range(extension_state.counted[constraint], journal[0, 0]):
            entry = 1 + number % entries
            row, node, sign = journal[entry, 0], journal[entry, 1], journal[entry, 2]
            _count(extension_state.adding[constraint], problem, data, sums, row, node, sign)
        end_call(extension_state)
    if entries >= 1:
        extension_state.counted[constraint] = journal[0, 0]


@kernel
def refusing(problem: Problem, solution: Solution, extension_state: ExtensionState, proposal: Proposal) -> int:
    """Return the index of the first constraint that refuses a proposal, or ALLOWED."""
    for constraint in range(extension_state.test.shape[0]):
        test = extension_state.test[constraint]
        if test == IN_PYTHON:
            refused = _ask(extension_state, TEST, constraint, proposal) != 0.0
        else:
            refused = _refuses(problem, solution, extension_state, constraint, proposal)
        if refused:
            return constraint
    return ALLOWED


@kernel(shared=True)
def is_refused(problem: Problem, solution: Solution, extension_state: ExtensionState, proposal: Proposal) -> bool:
    """Return whether some constraint refuses a proposal, and count the refusal for that constraint."""
    constraint = refusing(problem, solution, extension_state, proposal)
    if constraint != ALLOWED:
        extension_state.refused[constraint] += 1
    return constraint != ALLOWED


@kernel
def change_of(
    problem: Problem, solution: Solution, extension_state: ExtensionState, term: int, proposal: Proposal
) -> float:
    """Return the change of the term with index `term`, which has kernels, by a proposal; 0 if it is not finite."""
    data, sums = pointer_to(extension_state.data[term]), pointer_to(extension_state.sums[term])
    begin_call(extension_state, CHANGE, term)
    change: float = _change(extension_state.change[term], problem, solution, data, sums, proposal)
    end_call(extension_state)
    if not math.isfinite(change):
        extension_state.unfit[0] = term
        return 0.0  # until the search ends with the error
    return change


@kernel
def foresee(problem: Problem, solution: Solution, extension_state: ExtensionState, proposal: Proposal) -> None:
    """Add the changes of the terms by a proposal to their values in `extension_state.after`."""
    for term in range(extension_state.change.shape[0]):
        if extension_state.change[term] == IN_PYTHON:
            change = _ask(extension_state, CHANGE, term, proposal)
        else:
            change = change_of(problem, solution, extension_state, term, proposal)
        extension_state.after[term] += change


@kernel
def weighed(extension_state: ExtensionState, values: Float) -> float:
    """Return the weighted sum of `values` of the terms, (T,): their contribution to the energy."""
    energy = 0.0
    for term in range(values.shape[0]):
        energy += extension_state.weight[term] * values[term]
    return energy


@kernel
def cost_in_terms(problem: Problem, solution: Solution, extension_state: ExtensionState, node: int) -> float:
    """Return what `node` contributes to the energy by the extension terms that have the method `node_cost`."""
    cost = 0.0
    for term in range(extension_state.node_cost.shape[0]):
        address = extension_state.node_cost[term]
        if address == IN_PYTHON:
            node_cost = call_python(extension_state.python[0], NODE_COST, term, NOWHERE, node, NOWHERE, NOWHERE)
            cost += extension_state.weight[term] * node_cost
        elif address != NO_KERNEL:
            data, sums = pointer_to(extension_state.data[term]), pointer_to(extension_state.sums[term])
            begin_call(extension_state, NODE_COST, term)
            kernel_cost: float = _node_cost(address, problem, solution, data, sums, node)
            end_call(extension_state)
            cost += extension_state.weight[term] * kernel_cost
    return cost


@kernel
def worst_of(extension_state: ExtensionState) -> int:
    """Return the index of the term with the largest weighted increase from `value` to `after`, or NOWHERE."""
    worst, most = NOWHERE, 0.0
    for term in range(extension_state.weight.shape[0]):
        worsening = extension_state.weight[term] * (extension_state.after[term] - extension_state.value[term])
        if worsening > most:
            worst, most = term, worsening
    return worst


@kernel
def copy_values(values: Float, destination: Float) -> None:
    """Copy the values of the terms, (T,), to `destination`, (T,)."""
    for term in range(values.shape[0]):
        destination[term] = values[term]


@kernel
def apply_with_terms(problem: Problem, solution: Solution, extension_state: ExtensionState, proposal: Proposal) -> None:
    """Apply a proposal to the solution, and update the sums of the terms before."""
    for term in range(extension_state.keep.shape[0]):
        if extension_state.keep[term] == IN_PYTHON:
            _ask(extension_state, APPLY, term, proposal)
        else:
            _update_sums(problem, solution, extension_state, term, proposal)
    apply_proposal(problem, solution, proposal)


@kernel
def undo_with_terms(problem: Problem, solution: Solution, extension_state: ExtensionState, proposal: Proposal) -> None:
    """Undo the last proposal, and restore the sums of the terms.

    Kernels update sums by the inverse proposal, before the solution goes back; terms in Python undo it afterwards.
    """
    back = inverse_of(proposal)
    for term in range(extension_state.keep.shape[0]):
        if extension_state.keep[term] != IN_PYTHON:
            _update_sums(problem, solution, extension_state, term, back)
    apply_proposal(problem, solution, back)
    for term in range(extension_state.keep.shape[0]):
        if extension_state.keep[term] == IN_PYTHON:
            _ask(extension_state, UNDO, term, proposal)


@kernel
def _update_sums(
    problem: Problem, solution: Solution, extension_state: ExtensionState, term: int, proposal: Proposal
) -> None:
    """Update the sums of the term with this index, unless it is in Python, for a proposal that is applied next."""
    keep = extension_state.keep[term]
    if keep != NO_KERNEL:
        data, sums = pointer_to(extension_state.data[term]), pointer_to(extension_state.sums[term])
        begin_call(extension_state, APPLY, term)
        _keep(keep, problem, solution, data, sums, proposal)
        end_call(extension_state)


@kernel
def note_broken(extension_state: ExtensionState) -> None:
    """Let Python note which replicas break a constraint now, for `newly_broken`."""
    call_python(extension_state.python[0], NOTE_BROKEN, 0, 0, 0, 0, 0)


@kernel
def newly_broken(extension_state: ExtensionState) -> int:
    """Return the index of the first constraint that some replica breaks and at `note_broken` did not, or ALLOWED."""
    return int(call_python(extension_state.python[0], NEWLY_BROKEN, 0, 0, 0, 0, 0))
