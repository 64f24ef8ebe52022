"""Fault and upgrade domains: an even spread of the replicas of a partition (docs/constraints/fault_domain.md).

With r replicas under a parent with k usable domains, every domain has between floor(r/k) and ceil(r/k) of them, at
every level of the tree. Replicas that are leaving, or in a domain without a usable node, do not count.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Bool, Int, Int32
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution

EVEN, ANY = 0, -1
"""Values of `Problem.most_in_domain` for an even spread and for no rule."""


@kernel(inline=True)
def breaks_spread(problem: Problem, solution: Solution, level: int, row: int, target: int) -> bool:
    """Return whether `row` on `target` would violate its service's rule at this level: even spread, or a maximum."""
    most = problem.most_in_domain[problem.service[row], level]
    if most == ANY:
        return False
    domain = problem.domain[:, level]
    if most == EVEN:
        return spreads_badly(
            domain,
            problem.parent[:, level],
            problem.siblings[problem.feasibility_class[row], :, level],
            solution.node,
            problem.sibling,
            problem.unspread,
            problem.unspread_rows > 0,
            row,
            target,
        )
    source = solution.node[row]
    if source != NOWHERE and domain[source] == domain[target]:
        return False
    return bool(_siblings_in_domain(domain, solution.node, problem.sibling, problem.unspread, row, target) + 1 > most)


@kernel(inline=True)
def excess_in_domain(problem: Problem, solution: Solution, level: int, row: int) -> int:
    """Return the number of excess replicas of its partition in the domain of `row` at this level."""
    most = problem.most_in_domain[problem.service[row], level]
    at = solution.node[row]
    if most == ANY or at == NOWHERE or problem.unspread[row]:
        return 0
    siblings = problem.siblings[problem.feasibility_class[row], :, level]
    if most == EVEN:
        return misses_of_spread(
            problem.domain[:, level],
            problem.parent[:, level],
            siblings,
            solution.node,
            problem.sibling,
            problem.unspread,
            row,
        )
    if siblings[at] == 0:
        return 0
    inside = 1 + _siblings_in_domain(
        problem.domain[:, level], solution.node, problem.sibling, problem.unspread, row, at
    )
    return int(max(0, inside - most))


@kernel
def stands_wrongly(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether the domain of `row` has excess replicas of its partition, or more than its share (below)."""
    if problem.sibling[row] == row:
        return False
    return excess_in_domain(problem, solution, level, row) > 0 or starves_another(problem, solution, level, row)


@kernel
def starves_another(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether the domain of `row` has more than floor(r/k) replicas of its partition while another has fewer."""
    at = solution.node[row]
    siblings = problem.siblings[problem.feasibility_class[row], :, level]
    even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not even or at == NOWHERE or problem.unspread[row] or siblings[at] == 0:
        return False
    domain = problem.domain[:, level]
    parent = problem.parent[:, level]
    replicas, inside = _under_parent(
        domain, parent, siblings, solution.node, problem.sibling, problem.unspread, row, at
    )
    floor = replicas // siblings[at]
    return inside > floor > 0 and _some_domain_below(
        domain, parent, siblings, solution.node, problem.sibling, problem.unspread, row, at, floor
    )


@kernel(inline=True)
def _siblings_in_domain(domain: Int32, node: Int, sibling: Int, unspread: Bool, row: int, target: int) -> int:
    """Return the number of siblings of `row` in the domain of `target`."""
    count = 0
    other = sibling[row]
    while other != row:
        at = node[other]
        count += at != NOWHERE and not unspread[other] and domain[at] == domain[target]
        other = sibling[other]
    return int(count)


@kernel(inline=True)
def spreads_badly(
    domain: Int32,
    parent: Int32,
    siblings: Int32,
    node: Int,
    sibling: Int,
    unspread: Bool,
    any_unspread: bool,
    row: int,
    target: int,
) -> bool:
    """Return whether `row` on `target` would violate the even spread at this level.

    An empty domain always accepts a replica. A domain at the ceiling accepts none, nor does a domain at the floor while
    another is below it. No domain may fall below the floor. So a violated spread can improve but never get worse.

    Parameters
    ----------
    domain, parent, siblings
        (N,) a level of `Problem.domain`, `Problem.parent` and `Problem.siblings`.
    node, sibling, unspread
        (M,) see `plb.state.arrays`.
    any_unspread
        Whether there is any such row.
    """
    source = node[row]
    if sibling[row] == row or (source != NOWHERE and domain[source] == domain[target]):
        return False
    under_target = 0  # siblings under the parent of the target, and in its domain
    in_target = 0
    under_source = 0
    in_source = 0
    other = sibling[row]
    while other != row:
        at = node[other]
        if at != NOWHERE and not (any_unspread and unspread[other]) and siblings[at] > 0:
            if parent[at] == parent[target]:
                under_target += 1
                in_target += domain[at] == domain[target]
            if source != NOWHERE and parent[at] == parent[source]:
                under_source += 1
                in_source += domain[at] == domain[source]
        other = sibling[other]
    if source != NOWHERE and siblings[source] > 0:
        stays_inside = parent[source] == parent[target]
        left = under_source + 1 if stays_inside else under_source
        if (in_source + 1) * siblings[source] <= left:  # below the floor
            return True
    if in_target == 0:
        return False
    replicas = under_target + 1
    domains = siblings[target]
    if in_target * domains >= replicas:  # at the ceiling
        return True
    if replicas < domains or replicas >= (in_target + 1) * domains:  # the floor is 0, or not reached yet
        return False
    floor = replicas // domains
    return _some_domain_below(domain, parent, siblings, node, sibling, unspread, row, target, floor)


@kernel
def _some_domain_below(
    domain: Int32,
    parent: Int32,
    siblings: Int32,
    node: Int,
    sibling: Int,
    unspread: Bool,
    row: int,
    target: int,
    floor: int,
) -> bool:
    """Return whether, without `row`, some usable domain count that of `target` holds fewer than `floor` replicas."""
    occupied = 0
    other = sibling[row]
    while other != row:
        at = node[other]
        if at != NOWHERE and not unspread[other] and siblings[at] > 0 and parent[at] == parent[target]:
            inside = 0
            first = True
            again = sibling[row]
            while again != row:
                where = node[again]
                if where != NOWHERE and not unspread[again] and domain[where] == domain[at]:
                    first = first and (inside > 0 or again == other)
                    inside += 1
                again = sibling[again]
            if inside < floor:
                return True
            occupied += first
        other = sibling[other]
    return occupied < int(siblings[target])


@kernel
def misses_of_spread(
    domain: Int32, parent: Int32, siblings: Int32, node: Int, sibling: Int, unspread: Bool, row: int
) -> int:
    """Return the replicas of its partition in the domain of `row` above the ceiling at this level, at least 0.

    Parameters
    ----------
    domain, parent, siblings
        (N,) a level of `Problem.domain`, `Problem.parent` and `Problem.siblings`.
    node, sibling, unspread
        (M,) see `plb.state.arrays`.
    """
    at = node[row]
    if at == NOWHERE or unspread[row] or siblings[at] == 0:
        return 0
    replicas, inside = _under_parent(domain, parent, siblings, node, sibling, unspread, row, at)
    ceiling = (replicas + siblings[at] - 1) // siblings[at]
    return int(max(0, inside - ceiling))


@kernel
def _under_parent(
    domain: Int32, parent: Int32, siblings: Int32, node: Int, sibling: Int, unspread: Bool, row: int, at: int
) -> tuple[int, int]:
    """Return the counted replicas of the partition, with `row` on `at`, under the parent and in the domain of `at`.

    Parameters
    ----------
    domain, parent, siblings, node, sibling, unspread
        See `misses_of_spread`.
    """
    replicas = 1
    inside = 1
    other = sibling[row]
    while other != row:
        where = node[other]
        if where != NOWHERE and not unspread[other] and siblings[where] > 0 and parent[where] == parent[at]:
            replicas += 1
            inside += domain[where] == domain[at]
        other = sibling[other]
    return replicas, inside
