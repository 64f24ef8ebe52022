"""Affinity: the replicas of a child are on the nodes of its parent's replicas (docs/constraints/affinity.md).

Each replica of a child is on a node with a replica of the parent. If the two are aligned and both have a primary, the
primaries share a node, and secondaries share nodes with secondaries. A child with more replicas than its parent only
needs one on the node of every replica of the parent. Standbys and leaving replicas do not count.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.model import Role
from plb.state.arrays import Problem, Solution

FREE, AFFINITY_CHILD, STRANDED = 0, 1, 2
"""Values of `Problem.affinity`: no parent, one parent partition, or a parent that is absent or not one partition."""
_PRIMARY = int(Role.PRIMARY)


@kernel
def parts_from_parent(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether `row`, a replica of a child, would be apart from its parent on `target`."""
    return _is_apart(problem, solution.node, row, target)


@kernel
def was_apart(problem: Problem, row: int) -> bool:
    """Return whether `row` was apart from its parent before this search."""
    origin_node = problem.origin[row]
    if origin_node == NOWHERE:
        return bool(problem.affinity[row] == STRANDED)
    return _is_apart(problem, problem.origin, row, origin_node)


@kernel
def _is_apart(problem: Problem, places: Int, row: int, target: int) -> bool:
    """Return whether `row` on `target` is apart from its parent, with all other rows on `places`, (M,)."""
    if problem.affinity[row] == FREE:
        return False
    if problem.affinity[row] == STRANDED:
        return True
    parent = problem.parent_row[row]
    aligned = problem.aligned[row] and _has_primary(problem, parent) and _has_primary(problem, row)
    this = parent
    while True:
        if places[this] == target and not problem.unspread[this]:
            return bool(aligned and (problem.role[this] == _PRIMARY) != (problem.role[row] == _PRIMARY))
        this = problem.sibling[this]
        if this == parent:
            break
    return not (problem.loose[row] and _accompanies_all(problem, places, row, parent))


@kernel
def leaves_siblings_apart(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether siblings of `row` are apart from their parent once `row` has left its node.

    They may be on any node only while each replica of the parent has a replica of the child on its node.
    """
    here = solution.node[row]
    if not problem.loose[row] or problem.unspread[row] or here == NOWHERE:
        return False
    parent = problem.parent_row[row]
    if has_company(problem, solution.node, row, here) or not _has_replica_on(problem, solution, parent, here):
        return False
    this = parent
    while True:
        at = solution.node[this]
        is_elsewhere = at not in (NOWHERE, here) and not problem.unspread[this]
        if is_elsewhere and not has_company(problem, solution.node, row, at):
            return False  # they are apart already
        this = problem.sibling[this]
        if this == parent:
            break
    other = problem.sibling[row]
    while other != row:
        at = solution.node[other]
        if at != NOWHERE and not problem.unspread[other] and not _has_replica_on(problem, solution, parent, at):
            return True
        other = problem.sibling[other]
    return False


@kernel
def breaks_pair(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether a replica of a parent or child is on the node of `row`, so that dropping `row` separates them.

    Children with more replicas than their parent are ignored: not each of them needs a parent replica on its node.
    """
    at = solution.node[row]
    parent = problem.parent_row[row]
    if parent != NOWHERE and _has_replica_on(problem, solution, parent, at):
        return True
    child = problem.first_child[row]
    while child != NOWHERE:
        if not problem.loose[child] and _has_replica_on(problem, solution, child, at):
            return True
        child = problem.next_child[child]
    return False


@kernel
def _has_replica_on(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether a replica of the partition of `row` is on `node`."""
    if solution.node[row] == node and not problem.unspread[row]:
        return True
    return has_company(problem, solution.node, row, node)


@kernel
def has_company(problem: Problem, places: Int, row: int, node: int) -> bool:
    """Return whether a sibling of `row` is on `node`, with all rows on `places`, (M,)."""
    other = problem.sibling[row]
    while other != row:
        if places[other] == node and not problem.unspread[other]:
            return True
        other = problem.sibling[other]
    return False


@kernel
def _has_primary(problem: Problem, row: int) -> bool:
    """Return whether the partition of `row` has a primary."""
    this = row
    while True:
        if problem.role[this] == _PRIMARY:
            return True
        this = problem.sibling[this]
        if this == row:
            return False


@kernel
def _accompanies_all(problem: Problem, places: Int, row: int, parent: int) -> bool:
    """Return whether every replica of the parent has a replica of the child, other than `row`, on its node."""
    this = parent
    while True:
        at = places[this]
        if at != NOWHERE and not problem.unspread[this] and not has_company(problem, places, row, at):
            return False
        this = problem.sibling[this]
        if this == parent:
            return True
