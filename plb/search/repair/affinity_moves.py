"""Affinity moves: children move to the node of a parent that has moved (docs/constraints/affinity.md)."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.affinity import has_company, parts_from_parent, was_apart
from plb.model.role import PRIMARY
from plb.model.rules import JOINING, Rule, RuleMask
from plb.search.transactions import Draft, is_allowed, may_move, random_target, try_move, undo_transaction
from plb.state.arrays import Problem, Solution, proposed

_WITHOUT_AFFINITY = ~(1 << int(Rule.AFFINITY))


@kernel
def move_children(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, first: int) -> bool:
    """Move children that are apart from the partition of `row` since entry `first`; return whether all could move.

    A child that was apart before the search stays, unless this step moved a replica off its node.
    """
    moved = draft.transaction.length[0]
    child = problem.first_child[row]
    while child != NOWHERE:
        this = child
        while True:
            at = solution.node[this]
            counts = at != NOWHERE and not problem.unspread[this]
            if counts and parts_from_parent(problem, solution, this, at):
                left_alone = at == problem.origin[this] and was_apart(problem, this)
                for entry in range(first, moved):
                    left_alone = left_alone and draft.transaction.source[entry] != at
                if not left_alone and not rejoin(problem, solution, draft, enforced, this):
                    return False
            this = problem.sibling[this]
            if this == child:
                break
        child = problem.next_child[child]
    return True


@kernel
def move_with_children(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move `row` to a random other feasible node, then its children; return whether all could move."""
    target = random_target(problem, solution, draft.extension_state, enforced, row, draft.rng)
    if target == NOWHERE:
        return False
    return move_to_with_children(problem, solution, draft, enforced, row, target)


@kernel
def move_to_with_children(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, target: int
) -> bool:
    """Move `row` to `target`, then its children; return whether all could move."""
    before = draft.transaction.length[0]
    try_move(problem, solution, draft.transaction, row, target)
    if move_children(problem, solution, draft, enforced, row, before):
        return True
    undo_transaction(problem, solution, draft.transaction, before)
    return False


@kernel
def rejoin(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move a child's replica to its parent, or swap roles where the other stays with one; return whether it worked."""
    if problem.origin[row] != NOWHERE and not problem.movable[row]:
        return False
    at = solution.node[row]
    target = random_target(problem, solution, draft.extension_state, enforced | JOINING, row, draft.rng)
    if target != NOWHERE:
        try_move(problem, solution, draft.transaction, row, target)
        return True
    sibling = problem.sibling[row]
    while sibling != row:
        there = solution.node[sibling]
        swaps = there != NOWHERE and problem.role[sibling] != problem.role[row] and problem.movable[sibling]
        helps = swaps and not parts_from_parent(problem, solution, row, there)
        parts = parts_from_parent(problem, solution, sibling, at) and not parts_from_parent(
            problem, solution, sibling, there
        )
        swap = proposed(solution, row, there, sibling)
        if (
            helps
            and not parts
            and is_allowed(problem, solution, draft.extension_state, enforced & _WITHOUT_AFFINITY, swap)
        ):
            try_move(problem, solution, draft.transaction, row, there)
            try_move(problem, solution, draft.transaction, sibling, at)
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def lacks_child(problem: Problem, solution: Solution, row: int, parent: int) -> bool:
    """Return whether a replica of the parent of `row` may move, has its role, and no replica of the child beside it."""
    fits = problem.movable[parent] and solution.node[parent] != NOWHERE and not problem.unspread[parent]
    same_role = (problem.role[parent] == PRIMARY) == (problem.role[row] == PRIMARY)
    return bool(fits and same_role and not has_company(problem, solution.node, row, solution.node[parent]))


@kernel
def bring_parent(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move a replica of the parent of `row`, so that both are on one node; return whether it worked.

    The target is the child's node if the parent may move there, else a random node to which the child moves too.
    """
    parent = problem.parent_row[row]
    this = parent
    while True:
        if lacks_child(problem, solution, row, this):
            before = draft.transaction.length[0]
            at, loose = solution.node[row], enforced & _WITHOUT_AFFINITY
            target = at
            if not may_move(problem, solution, draft.extension_state, loose, this, at):
                target = random_target(problem, solution, draft.extension_state, loose, this, draft.rng)
            if target != NOWHERE:
                try_move(problem, solution, draft.transaction, this, target)
                if target == at or rejoin(problem, solution, draft, enforced, row):
                    return True
                undo_transaction(problem, solution, draft.transaction, before)
        this = problem.sibling[this]
        if this == parent:
            return False
