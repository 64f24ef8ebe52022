"""The chain of constraints: the first rule that refuses a replica on a node, or an exchange of two replicas."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.affinity import FREE, leaves_siblings_apart, parts_from_parent, was_apart
from plb.constraints.capacity import overfills
from plb.constraints.domains import breaks_spread
from plb.constraints.exclusion import is_excluded, swap_is_excluded
from plb.constraints.range import exceeds_range
from plb.constraints.throttling import is_throttled
from plb.model.rules import JOINING, NO_REFUSAL, Rule
from plb.state.arrays import Problem, Solution

# Numba compiles plain module integers, but not enum members, as constants.
_NODE = int(Rule.NODE)
_EXCLUSION = int(Rule.EXCLUSION)
_PLACEMENT = int(Rule.PLACEMENT)
_PREFERRED = int(Rule.PREFERRED_LOCATION)
_THROTTLING = int(Rule.THROTTLING)
_CAPACITY = int(Rule.CAPACITY)
_AFFINITY = int(Rule.AFFINITY)
_RANGE = int(Rule.RANGE)


@kernel(inline=True)
def refusal_of_move(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> int:
    """Return the first enforced rule that refuses `row` on `target`, or NO_REFUSAL.

    Parameters
    ----------
    enforced
        Bit mask over `Rule`.
    """
    refused = refusal_of_place(problem, solution, enforced, row, target)
    if refused != NO_REFUSAL:
        return refused
    if enforced >> _CAPACITY & 1 and overfills(
        problem, solution, row, standby_on(problem, solution, row, target), target
    ):
        return _CAPACITY
    if exceeds_range(solution.ceiling, problem.peak_ceiling, row, target):
        return _RANGE
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_place(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> int:
    """Return the first enforced rule other than capacity that refuses `row` on `target`, or NO_REFUSAL."""
    if not problem.receives[problem.kind[row], target]:
        return _NODE
    if is_excluded(problem, solution, row, target):
        return _EXCLUSION
    if enforced >> _PLACEMENT & 1 and not problem.feasibility_classes[problem.feasibility_class[row], target]:
        return _PLACEMENT
    prefers = problem.preferring and enforced >> _PREFERRED & 1 and problem.prefers_siblings[row]
    if prefers and not problem.upgraded[target] and standby_on(problem, solution, row, target) == NOWHERE:
        return _PREFERRED
    if problem.throttles and enforced >> _THROTTLING & 1 and is_throttled(problem, solution, row, target):
        return _THROTTLING
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1 and breaks_spread(problem, solution, level, row, target):
            return int(problem.domain_rule[level])
    if (
        problem.related
        and enforced >> _AFFINITY & 1
        and problem.affinity[row] != FREE
        and (_leaves_parent(problem, solution, enforced, row, target) or leaves_siblings_apart(problem, solution, row))
    ):
        return _AFFINITY
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_exchange(problem: Problem, solution: Solution, enforced: int, row: int, partner: int) -> int:
    """Return the first enforced rule that refuses an exchange of the nodes of `row` and `partner`, or NO_REFUSAL.

    An exchange within a partition is a swap of roles. No domain rule refuses it, and no placement constraint except
    those of the primary only.
    """
    here = solution.node[row]
    there = solution.node[partner]
    if here == NOWHERE or there == NOWHERE:
        return _NODE
    if not are_siblings(problem, row, partner):
        refused = refusal_of_place(problem, solution, enforced, row, there)
        if refused == NO_REFUSAL:
            refused = refusal_of_place(problem, solution, enforced, partner, here)
        if refused != NO_REFUSAL:
            return refused
    elif not (problem.receives[0, here] and problem.receives[0, there]):
        return _NODE
    elif swap_is_excluded(solution.node, problem.origin, problem.sibling, row, partner):
        return _EXCLUSION
    elif enforced >> _PLACEMENT & 1 and not (
        problem.feasibility_classes[problem.feasibility_class[row], there]
        and problem.feasibility_classes[problem.feasibility_class[partner], here]
    ):
        return _PLACEMENT
    elif (
        enforced >> _AFFINITY & 1
        and problem.affinity[row] != FREE
        and (
            _leaves_parent(problem, solution, enforced, row, there)
            or _leaves_parent(problem, solution, enforced, partner, here)
        )
    ):
        return _AFFINITY
    if enforced >> _CAPACITY & 1 and (
        overfills(problem, solution, row, partner, there) or overfills(problem, solution, partner, row, here)
    ):
        return _CAPACITY
    if exceeds_range(solution.ceiling, problem.peak_ceiling, row, there):
        return _RANGE
    if exceeds_range(solution.ceiling, problem.peak_ceiling, partner, here):
        return _RANGE
    return NO_REFUSAL


@kernel
def _leaves_parent(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether a child would be apart from its parent on `target`.

    A child that was apart before the search and still is may stay apart, unless JOINING is enforced.
    """
    if not parts_from_parent(problem, solution, row, target):
        return False
    here = solution.node[row]
    if enforced & JOINING or here == NOWHERE or not was_apart(problem, row):
        return True
    return not parts_from_parent(problem, solution, row, here)


@kernel
def standby_on(problem: Problem, solution: Solution, row: int, target: int) -> int:
    """Return the standby of the partition of `row` on `target`, whose load `row` replaces, or NOWHERE."""
    if problem.standbys == 0:
        return NOWHERE
    other = problem.sibling[row]
    while other != row:
        if problem.standby[other] and solution.node[other] == target:
            return int(other)
        other = problem.sibling[other]
    return NOWHERE


@kernel
def are_siblings(problem: Problem, row: int, partner: int) -> bool:
    """Return whether the two rows belong to one partition."""
    other = problem.sibling[row]
    while other != row:
        if other == partner:
            return True
        other = problem.sibling[other]
    return False
