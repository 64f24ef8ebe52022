"""Budgets: how many moves a plan may have, in all, at one node, and of one service."""

from __future__ import annotations

from plb.arrays import NOWHERE, TENTHS, Problem, Solution
from plb.constraints import NO_REFUSAL, Rule
from plb.kernel import kernel

_MOVES = int(Rule.MOVES)
_NODE_MOVES = int(Rule.NODE_MOVES)
_SERVICE_MOVES = int(Rule.SERVICE_MOVES)


@kernel(inline=True)
def refusal_of_budget(problem: Problem, solution: Solution, moves: int, row: int, target: int) -> int:
    """Return the budget that `row` on `target` would overdraw, or NO_REFUSAL.

    A proposal that makes no more moves than there are now is never refused.

    Parameters
    ----------
    moves
        Moves of the whole solution after the proposal, in tenths.
    """
    if moves > problem.max_moves * TENTHS:
        return _MOVES
    origin = problem.origin[row]
    if origin == NOWHERE or target == origin:
        return NO_REFUSAL
    at_origin = solution.node[row] == origin
    if solution.node_moves[target] >= problem.max_node_moves:
        return _NODE_MOVES
    if at_origin and solution.node_moves[origin] >= problem.max_node_moves:
        return _NODE_MOVES
    if at_origin and solution.service_moves[problem.service[row]] >= problem.max_service_moves[problem.service[row]]:
        return _SERVICE_MOVES
    return NO_REFUSAL
