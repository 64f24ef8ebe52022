"""The chain of constraints: the first rule that refuses a replica on a node, or an exchange of two replicas.

Each rule is asked by one line; its file in `plb.constraints` has its kernels, with the conditions under which it binds.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints import (
    affinity,
    application_capacity,
    capacity,
    domains,
    exclusion,
    node,
    placement,
    preferred_location,
    scale_out,
    throttling,
)
from plb.constraints import range as peak_range
from plb.model.rules import NO_REFUSAL
from plb.state.arrays import Problem, Solution, are_siblings
from plb.state.proposal import Proposal


@kernel(inline=True)
def refusal_of_move(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> int:
    """Return the first enforced rule that refuses a move of one replica, or NO_REFUSAL.

    Parameters
    ----------
    enforced
        Bit mask over `Rule`.
    """
    row, target = proposal.row, proposal.target
    refused = refusal_of_place(problem, solution, enforced, row, target)
    if refused != NO_REFUSAL:
        return refused
    if capacity.refuses(problem, solution, enforced, row, target):
        return capacity.RULE
    if problem.tight:  # known from the rule of capacity, so that it costs nothing without applications
        refused = _refusal_by_application(problem, solution, enforced, row, target)
        if refused != NO_REFUSAL:
            return refused
    if peak_range.refuses(problem, solution, enforced, row, target):
        return peak_range.RULE
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_place(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> int:
    """Return the first enforced rule that refuses `row` on `target`, other than capacity and those of applications."""
    if node.refuses(problem, solution, enforced, row, target):
        return node.RULE
    if exclusion.refuses(problem, solution, enforced, row, target):
        return exclusion.RULE
    if placement.refuses(problem, solution, enforced, row, target):
        return placement.RULE
    if preferred_location.refuses(problem, solution, enforced, row, target):
        return preferred_location.RULE
    if throttling.refuses(problem, solution, enforced, row, target):
        return throttling.RULE
    refused = domains.refusal(problem, solution, enforced, row, target)
    if refused != NO_REFUSAL:
        return refused
    if affinity.refuses(problem, solution, enforced, row, target):
        return affinity.RULE
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_exchange(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> int:
    """Return the first enforced rule that refuses an exchange of two replicas, or NO_REFUSAL.

    An exchange within a partition is a swap of roles. No domain rule refuses it, and no placement constraint except
    those of the primary only.
    """
    row, there, partner, here = proposal
    if here == NOWHERE or there == NOWHERE:
        return node.RULE
    if are_siblings(problem, row, partner):
        refused = _refusal_of_swap(problem, solution, enforced, proposal)
    else:
        refused = refusal_of_place(problem, solution, enforced, row, there)
        if refused == NO_REFUSAL:
            refused = refusal_of_place(problem, solution, enforced, partner, here)
    if refused != NO_REFUSAL:
        return refused
    if capacity.refuses_exchange(problem, solution, enforced, proposal):
        return capacity.RULE
    if problem.tight:
        refused = _refusal_of_exchange_by_application(problem, solution, enforced, proposal)
        if refused != NO_REFUSAL:
            return refused
    if peak_range.refuses(problem, solution, enforced, row, there):
        return peak_range.RULE
    if peak_range.refuses(problem, solution, enforced, partner, here):
        return peak_range.RULE
    return NO_REFUSAL


@kernel(shared=True)
def _refusal_by_application(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> int:
    """Return the first enforced rule of applications that refuses a move, or NO_REFUSAL."""
    if scale_out.refuses(problem, solution, enforced, row, target):
        return scale_out.RULE
    if application_capacity.refuses(problem, solution, enforced, row, target):
        return application_capacity.RULE
    return NO_REFUSAL


@kernel(shared=True)
def _refusal_of_exchange_by_application(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> int:
    """Return the first enforced rule of applications that refuses an exchange, or NO_REFUSAL."""
    row, there, partner, here = proposal
    if scale_out.refuses(problem, solution, enforced, row, there):
        return scale_out.RULE
    if scale_out.refuses(problem, solution, enforced, partner, here):
        return scale_out.RULE
    if application_capacity.refuses_exchange(problem, solution, enforced, proposal):
        return application_capacity.RULE
    return NO_REFUSAL


@kernel
def _refusal_of_swap(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> int:
    """Return the first enforced rule other than capacity that refuses a swap of two placed siblings, or NO_REFUSAL."""
    if node.refuses_swap(problem, solution, enforced, proposal):
        return node.RULE
    if exclusion.refuses_swap(problem, solution, enforced, proposal):
        return exclusion.RULE
    if placement.refuses_swap(problem, solution, enforced, proposal):
        return placement.RULE
    if affinity.refuses_swap(problem, solution, enforced, proposal):
        return affinity.RULE
    return NO_REFUSAL
