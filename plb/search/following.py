"""Children follow: after a parent has moved, its children are moved beside it (semantics.md section 4, affinity)."""

from __future__ import annotations

import numpy as np

from plb.arrays import NOWHERE, Problem, Solution
from plb.constraints import NO_REFUSAL, Rule
from plb.constraints.affinity import parts_from_parent, was_apart
from plb.kernel import kernel
from plb.model import Role
from plb.search.attempts import Attempt, random_target, try_move, undo_attempt
from plb.search.proposal import refusal

_PRIMARY = int(Role.PRIMARY)
_AFFINITY = int(Rule.AFFINITY)
_WITHOUT_AFFINITY = ~(1 << int(Rule.AFFINITY))


@kernel
def children_follow(
    problem: Problem, solution: Solution, enforced: int, row: int, rng: np.random.Generator, attempt: Attempt
) -> bool:
    """Move the children of the partition of `row` that are apart from it now; tell whether all could follow.

    A child that was apart before the search and has not moved is left alone; where affinity is not enforced, all are.
    """
    if not enforced >> _AFFINITY & 1:
        return True
    child = problem.first_child[row]
    while child != NOWHERE:
        this = child
        while True:
            at = solution.node[this]
            counts = at != NOWHERE and not problem.unspread[this]
            if counts and parts_from_parent(problem, solution, this, at):
                left_alone = at == problem.origin[this] and was_apart(problem, this)
                if not left_alone and not rejoin(problem, solution, enforced, this, rng, attempt):
                    return False
            this = problem.sibling[this]
            if this == child:
                break
        child = problem.next_child[child]
    return True


@kernel
def move_with_children(
    problem: Problem,
    solution: Solution,
    enforced: int,
    row: int,
    target: int,
    partner: int,
    rng: np.random.Generator,
    attempt: Attempt,
) -> bool:
    """Move `row`, or swap it with its sibling `partner`, and its children after it; undo it all if one cannot follow.

    Returns
    -------
    bool
        Whether it worked; False too if the attempt may have no room for all the moves.
    """
    before = attempt.length[0]
    most = 2 if problem.first_child[row] == NOWHERE else 2 * solution.node.shape[0] + 2
    if before + most > attempt.row.shape[0]:
        return False
    source = solution.node[row]
    try_move(problem, solution, attempt, row, target)
    if partner != NOWHERE:
        try_move(problem, solution, attempt, partner, source)
    if children_follow(problem, solution, enforced, row, rng, attempt):
        return True
    undo_attempt(problem, solution, attempt, before)
    return False


@kernel
def rejoin(
    problem: Problem, solution: Solution, enforced: int, row: int, rng: np.random.Generator, attempt: Attempt
) -> bool:
    """Move a child's replica beside its parent: by a swap of roles where that is enough; tell whether it worked."""
    if problem.origin[row] != NOWHERE and not problem.movable[row]:
        return False
    at = solution.node[row]
    if problem.parent_row[row] == NOWHERE:
        target = random_target(problem, solution, enforced, row, at, rng)
    else:
        target = _random_beside(problem, solution, enforced, row, rng)
    if target != NOWHERE:
        try_move(problem, solution, attempt, row, target)
        return True
    other = problem.sibling[row]
    while other != row:
        there = solution.node[other]
        swaps = there != NOWHERE and problem.role[other] != problem.role[row] and problem.movable[other]
        helps = swaps and not parts_from_parent(problem, solution, row, there)
        if helps and refusal(problem, solution, enforced & _WITHOUT_AFFINITY, row, there, other) == NO_REFUSAL:
            try_move(problem, solution, attempt, row, there)
            try_move(problem, solution, attempt, other, at)
            return True
        other = problem.sibling[other]
    return False


@kernel
def _random_beside(problem: Problem, solution: Solution, enforced: int, row: int, rng: np.random.Generator) -> int:
    """Return a node drawn from those of the parent that every enforced rule allows for its child `row`, or NOWHERE.

    A rule alone would not do: it lets a child that is apart from its parent already go anywhere.
    """
    chosen = NOWHERE
    seen = 0
    parent = problem.parent_row[row]
    this = parent
    while True:
        target = solution.node[this]
        elsewhere = target != NOWHERE and target != solution.node[row] and not problem.unspread[this]
        beside = elsewhere and not parts_from_parent(problem, solution, row, target)
        if beside and refusal(problem, solution, enforced, row, target, NOWHERE) == NO_REFUSAL:
            seen += 1
            if rng.random() * seen < 1.0:
                chosen = target
        this = problem.sibling[this]
        if this == parent:
            return int(chosen)


@kernel
def bring_parent(
    problem: Problem, solution: Solution, enforced: int, row: int, rng: np.random.Generator, attempt: Attempt
) -> bool:
    """Move a replica of the parent so that `row`, a child apart from it, can stand beside it; tell whether it worked.

    Tried: the child's own node, then a random one to which the child goes as well.
    """
    parent = problem.parent_row[row]
    this = parent
    while True:
        fits = problem.movable[this] and solution.node[this] != NOWHERE and not problem.unspread[this]
        alike = (problem.role[this] == _PRIMARY) == (problem.role[row] == _PRIMARY)
        if fits and alike and not _has_company(problem, solution, row, solution.node[this]):
            before = attempt.length[0]
            at = solution.node[row]
            target = at
            if refusal(problem, solution, enforced & _WITHOUT_AFFINITY, this, at, NOWHERE) != NO_REFUSAL:
                target = random_target(problem, solution, enforced & _WITHOUT_AFFINITY, this, at, rng)
            if target != NOWHERE:
                try_move(problem, solution, attempt, this, target)
                if target == at or rejoin(problem, solution, enforced, row, rng, attempt):
                    return True
                undo_attempt(problem, solution, attempt, before)
        this = problem.sibling[this]
        if this == parent:
            return False


@kernel
def _has_company(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Tell whether a replica of the partition of `row` stands on `node`."""
    other = problem.sibling[row]
    while other != row:
        if solution.node[other] == node and not problem.unspread[other]:
            return True
        other = problem.sibling[other]
    return False
