"""Which replicas a placement moves from the nodes that they were on before the search.

Two replicas of one partition that end on each other's node swap their roles: they have not moved, as no data move.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.extensions.configuration import Configuration
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.proposal import Proposal


@kernel
def _place_after(solution: Solution, proposal: Proposal, row: int) -> int:
    """Return the node of a replica after a proposal."""
    if row == proposal.row:
        return proposal.target
    if row == proposal.partner:
        return proposal.source
    return int(solution.node[row])


@kernel
def moved_to(problem: Problem, solution: Solution, proposal: Proposal, row: int) -> int:
    """Return the node to which a replica has moved after a proposal, or NOWHERE if it has not; O(siblings).

    A new replica, a dropped one and one that has swapped roles has not moved. A proposal with the row NOWHERE changes
    nothing.
    """
    origin, place = problem.origin[row], _place_after(solution, proposal, row)
    if NOWHERE in (origin, place) or place == origin or problem.leaving[row]:
        return NOWHERE
    other = problem.sibling[row]
    while other != row:
        swaps = problem.origin[other] == place and not problem.leaving[other]
        if swaps and _place_after(solution, proposal, other) == origin:
            return NOWHERE
        other = problem.sibling[other]
    return place


def moved_rows(configuration: Configuration) -> list[int]:
    """Return the replicas that have moved, in ascending order, from the placement alone."""
    problem, node = configuration.problem, configuration.solution.node
    known = configuration.rows
    origin = problem.origin[known]
    displaced = known[(origin != NOWHERE) & (node[known] != NOWHERE) & (node[known] != origin)].tolist()
    ends = {(row, int(problem.origin[row]), int(node[row])) for row in displaced}
    return [
        row
        for row, start, end in sorted(ends)
        if not any((other, end, start) in ends for other in siblings_of(problem, row))
    ]
