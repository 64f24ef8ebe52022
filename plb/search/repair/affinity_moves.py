"""Affinity moves: children move to the node of a parent that has moved (docs/constraints/affinity.md)."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.affinity import has_sibling_on, is_apart_on, was_apart
from plb.model.role import PRIMARY
from plb.model.rules import JOINING, Rule, RuleMask
from plb.search.transactions import Draft, is_allowed, may_move, random_target, try_move, undo_transaction
from plb.state.arrays import Problem, Solution, proposed

_WITHOUT_AFFINITY = ~(1 << int(Rule.AFFINITY))


@kernel
def move_children(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, first_entry: int
) -> bool:
    """Move replicas of children that are apart from the partition of `row`; return whether all could move.

    A replica already apart before the search stays, unless a move of the transaction from entry `first_entry` on took a
    row off its node. The `enforced` rules bind the moves.
    """
    length = draft.transaction.length[0]
    child = problem.first_child[row]
    while child != NOWHERE:
        member = child
        while True:
            node = solution.node[member]
            is_placed = node != NOWHERE and not problem.unspread[member]
            if is_placed and is_apart_on(problem, solution, member, node):
                may_stay = node == problem.origin[member] and was_apart(problem, member)
                for entry in range(first_entry, length):
                    may_stay = may_stay and draft.transaction.source[entry] != node
                if not may_stay and not rejoin(problem, solution, draft, enforced, member):
                    return False
            member = problem.sibling[member]
            if member == child:
                break
        child = problem.next_child[child]
    return True


@kernel
def move_with_children(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move `row` to a random other node that `enforced` rules allow, then its children; return whether all could."""
    target = random_target(problem, solution, draft.extension_state, enforced, row, draft.rng)
    if target == NOWHERE:
        return False
    return move_to_with_children(problem, solution, draft, enforced, row, target)


@kernel
def move_to_with_children(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, target: int
) -> bool:
    """Move `row` to `target`, then its children by `enforced` rules; return whether all could move, else undo all."""
    length_before = draft.transaction.length[0]
    try_move(problem, solution, draft.transaction, row, target)
    if move_children(problem, solution, draft, enforced, row, length_before):
        return True
    undo_transaction(problem, solution, draft.transaction, length_before)
    return False


@kernel
def rejoin(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move `row`, a child's replica, to a node of its parent, or swap its role with a sibling there.

    The swap may not part the sibling from a parent. Return whether the `enforced` rules allowed a move or a swap.
    """
    if problem.origin[row] != NOWHERE and not problem.movable[row]:
        return False
    source = solution.node[row]
    target = random_target(problem, solution, draft.extension_state, enforced | JOINING, row, draft.rng)
    if target != NOWHERE:
        try_move(problem, solution, draft.transaction, row, target)
        return True
    sibling = problem.sibling[row]
    while sibling != row:
        target = solution.node[sibling]
        may_swap = target != NOWHERE and problem.role[sibling] != problem.role[row] and problem.movable[sibling]
        joins_parent = may_swap and not is_apart_on(problem, solution, row, target)
        partner_parts = is_apart_on(problem, solution, sibling, source) and not is_apart_on(
            problem, solution, sibling, target
        )
        swap = proposed(solution, row, target, sibling)
        if (
            joins_parent
            and not partner_parts
            and is_allowed(problem, solution, draft.extension_state, enforced & _WITHOUT_AFFINITY, swap)
        ):
            try_move(problem, solution, draft.transaction, row, target)
            try_move(problem, solution, draft.transaction, sibling, source)
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def lacks_child(problem: Problem, solution: Solution, row: int, parent: int) -> bool:
    """Return whether `parent`, a row of the parent of `row`, may move, has `row`'s role, and no child beside it."""
    can_move = problem.movable[parent] and solution.node[parent] != NOWHERE and not problem.unspread[parent]
    same_role = (problem.role[parent] == PRIMARY) == (problem.role[row] == PRIMARY)
    return bool(can_move and same_role and not has_sibling_on(problem, solution.node, row, solution.node[parent]))


@kernel
def bring_parent(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move a replica of the parent of `row`, so that both are on one node; return whether `enforced` rules allow it.

    The target is the child's node if the parent may move there, else a random node to which the child moves too.
    """
    parent_row = problem.parent_row[row]
    member = parent_row
    while True:
        if lacks_child(problem, solution, row, member):
            length_before = draft.transaction.length[0]
            child_node, without_affinity = solution.node[row], enforced & _WITHOUT_AFFINITY
            target = child_node
            if not may_move(problem, solution, draft.extension_state, without_affinity, member, child_node):
                target = random_target(problem, solution, draft.extension_state, without_affinity, member, draft.rng)
            if target != NOWHERE:
                try_move(problem, solution, draft.transaction, member, target)
                if target == child_node or rejoin(problem, solution, draft, enforced, row):
                    return True
                undo_transaction(problem, solution, draft.transaction, length_before)
        member = problem.sibling[member]
        if member == parent_row:
            return False
