"""Steps in the neighbourhoods of users (`plb.extensions.neighbourhoods`)."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import CallByAddress, Stream, call_python, kernel, pointer_to, uniform
from plb.extensions.neighbourhoods import MOST_PROPOSED
from plb.search.extension_kernels import IN_PYTHON, OUT_OF_RANGE, PROPOSE, ExtensionState, begin_call, end_call
from plb.search.move_generation import Choice, costly_row
from plb.search.neighbourhoods import Scratch
from plb.search.transactions import Transaction, may_move, try_with_terms
from plb.state.arrays import Problem, Solution

SEEDS = 2.0**53
"""Number of seeds that a number of the stream stands for."""
_propose = CallByAddress(int)


@kernel
def make_proposed_step(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    extension_state: ExtensionState,
    index: int,
    scratch: Scratch,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Make the moves that a neighbourhood of users proposes; return whether all rows found their places.

    All rows leave their nodes before the first one goes to its new node, so that replicas of full nodes change places.
    """
    row = costly_row(problem, solution, choice, extension_state, rng)
    if solution.node[row] == NOWHERE:
        return False
    count = _ask_for_moves(problem, solution, extension_state, index, row, rng)
    rows, targets = extension_state.proposed_row, extension_state.proposed_target
    for number in range(count):
        may_go = _is_among(choice.movable, rows[number]) and _is_among(problem.targets, targets[number])
        if not may_go or solution.node[rows[number]] == NOWHERE:  # also a row that is proposed twice
            return False
        try_with_terms(problem, solution, extension_state, transaction, rows[number], NOWHERE)
    for number in range(count):
        scratch.asked[0] += 1
        if not may_move(problem, solution, extension_state, choice.enforced, rows[number], targets[number]):
            return False
        try_with_terms(problem, solution, extension_state, transaction, rows[number], targets[number])
    return bool(count > 0)


@kernel
def _ask_for_moves(
    problem: Problem, solution: Solution, extension_state: ExtensionState, index: int, row: int, rng: Stream
) -> int:
    """Let a neighbourhood write its moves to the state; return their number, all within the arrays."""
    address = extension_state.propose[index]
    if address == IN_PYTHON:
        seed = int(uniform(rng) * SEEDS)
        return int(call_python(extension_state.python[0], PROPOSE, index, row, seed, NOWHERE, NOWHERE))
    data, sums = pointer_to(extension_state.propose_data[index]), pointer_to(extension_state.no_sums[0])
    moves = pointer_to(extension_state.moves[0])
    begin_call(extension_state, PROPOSE, index)
    count = int(_propose(address, problem, solution, data, sums, row, rng, moves))
    if not 0 <= count <= MOST_PROPOSED:
        _refuse(problem, solution, extension_state, count, NOWHERE, NOWHERE)
    for number in range(count):
        moved, target = extension_state.proposed_row[number], extension_state.proposed_target[number]
        if not (0 <= moved < solution.node.shape[0] and 0 <= target < problem.limit.shape[0]):
            _refuse(problem, solution, extension_state, count, moved, target)
    end_call(extension_state)
    return count


@kernel
def _refuse(
    problem: Problem, solution: Solution, extension_state: ExtensionState, count: int, row: int, target: int
) -> None:
    """End the search with an error, for which it notes what is out of range (`plb.search.extensions`)."""
    running = extension_state.running
    running[0] = OUT_OF_RANGE
    running[2], running[3], running[4] = count, row, target
    running[5], running[6] = solution.node.shape[0], problem.limit.shape[0]
    raise IndexError("out of range")


@kernel
def _is_among(values: Int, value: int) -> bool:
    """Return whether a value is among others in ascending order."""
    low, high = 0, values.shape[0]
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < values.shape[0] and values[low] == value)
