"""Repair: random moves that mend broken constraints, then annealing over the replicas concerned.

Hard constraints first; a repair is kept if it leaves fewer places broken, then less overload, then less energy
(semantics.md section 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.arrays import DISPLACED, MOVES, NOWHERE, Bool, Int, Problem, Solution
from plb.config import PlbConfig
from plb.constraints import NO_REFUSAL, Rule
from plb.constraints.affinity import parts_from_parent
from plb.constraints.domains import stands_wrongly
from plb.kernel import kernel
from plb.search.annealing import Annealed, Budget, EndReason, anneal_chains, new_tally
from plb.search.attempts import (
    Attempt,
    has_room,
    keep_attempt,
    new_attempt,
    random_target,
    redo_attempt,
    try_move,
    undo_attempt,
)
from plb.search.following import bring_parent, children_follow, rejoin
from plb.search.proposal import Choice, refusal
from plb.search.transition import present_energy

_CAPACITY = int(Rule.CAPACITY)
_PLACEMENT = int(Rule.PLACEMENT)
_AFFINITY = int(Rule.AFFINITY)


@attrs.frozen(eq=False)
class Breaches:
    """Where constraints are broken.

    Parameters
    ----------
    overloaded
        (N, R) whether a watched node carries more than its limit.
    misplaced
        (D, M) whether a replica stands in a domain that holds too many of its partition.
    astray
        (M,) whether a replica that may move stands where its service does not want it, or apart from its parent.
    """

    overloaded: Bool
    misplaced: Bool
    astray: Bool

    def __bool__(self) -> bool:
        return bool(self.overloaded.any() or self.misplaced.any() or self.astray.any())


def find_breaches(problem: Problem, solution: Solution, enforced: int) -> Breaches:
    """Return where an enforced constraint is broken."""
    watched = problem.watched & bool(enforced >> _CAPACITY & 1)
    overloaded = (solution.node_load > problem.limit) & watched[:, None]
    misplaced = np.zeros((len(problem.domain), len(solution.node)), np.bool_)
    for level, rule in enumerate(problem.domain_rule):
        if enforced >> int(rule) & 1:
            _mark_misplaced(problem, solution, level, misplaced[level])
    astray = np.zeros(len(solution.node), np.bool_)
    _mark_astray(problem, solution, enforced, astray)
    return Breaches(overloaded, misplaced, astray)


@kernel
def _mark_astray(problem: Problem, solution: Solution, enforced: int, astray: Bool) -> None:
    for row in range(astray.shape[0]):
        astray[row] = is_astray(problem, solution, enforced, row)


@kernel
def is_astray(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Tell whether a movable replica breaks the placement constraint, exclusion or affinity where it stands."""
    at = solution.node[row]
    if at == NOWHERE or not problem.movable[row]:
        return False
    if enforced >> _PLACEMENT & 1 and not problem.suits[problem.suit[row], at]:
        return True
    return bool(enforced >> _AFFINITY & 1 and parts_from_parent(problem, solution, row, at))


@kernel
def _mark_misplaced(problem: Problem, solution: Solution, level: int, misplaced: Bool) -> None:
    for row in range(misplaced.shape[0]):
        misplaced[row] = stands_wrongly(problem, solution, level, row)


def repair(
    problem: Problem,
    start: Solution,
    config: PlbConfig,
    masks: Sequence[int],
    seed: np.random.SeedSequence,
    budget: Budget,
) -> Annealed:
    """Mend what is broken, with as few moves as the search finds; `start` is not changed.

    Parameters
    ----------
    masks
        Enforced rules, from all to only the hard ones. What stays broken under one is tried again under the next, so
        that a soft rule that could be mended never leaves a hard one broken.
    """
    result = Annealed(start, present_energy(problem, start), new_tally(), EndReason.NOTHING_TO_DO)
    for mask, stream in zip(masks, seed.spawn(len(masks)), strict=True):
        if budget.is_up:
            return attrs.evolve(result, end_reason=EndReason.OUT_OF_TIME)
        breaches = find_breaches(problem, result.solution, mask)
        if not breaches:
            continue
        attempts, annealing = stream.spawn(2)
        solution = result.solution.copy()
        rng = np.random.Generator(np.random.PCG64(attempts))
        if not _repair_randomly(problem, solution, mask, config, rng):
            continue
        movable = _concerned(problem, result.solution, breaches)
        displaced = int(solution.counts[DISPLACED])
        choice = Choice(movable[:0], movable, displaced, mask, config.swap_primary_probability, 0.0, spare=1)
        mended = anneal_chains(problem, solution, choice, config, annealing, budget)
        if mended.solution.counts[MOVES] > solution.counts[MOVES]:
            mended = attrs.evolve(mended, solution=solution, energy=present_energy(problem, solution))
        result = attrs.evolve(mended, tally=result.tally + mended.tally)
    return result


def _relatives(problem: Problem, concerned: Bool) -> Bool:
    """Return the rows of the partitions of `concerned`, of their parents and of their children."""
    found = np.zeros(len(concerned), np.bool_)
    for row in np.flatnonzero(concerned).tolist():
        heads = [row, int(problem.parent_row[row]), int(problem.first_child[row])]
        while heads[-1] != NOWHERE and problem.next_child[heads[-1]] != NOWHERE:
            heads.append(int(problem.next_child[heads[-1]]))
        for head in heads:
            this = head
            while this != NOWHERE and not found[this]:
                found[this] = True
                this = int(problem.sibling[this])
    return found


def _concerned(problem: Problem, start: Solution, breaches: Breaches) -> Int:
    """Return the movable rows on overloaded nodes and in crowded domains."""
    on_overloaded = np.zeros(len(start.node), np.bool_)
    standing = start.node != NOWHERE
    crowded = np.any(breaches.overloaded, axis=1)
    on_overloaded[standing] = crowded[start.node[standing]]
    concerned = on_overloaded | breaches.misplaced.any(axis=0) | breaches.astray
    if (problem.parent_row != NOWHERE).any():
        concerned |= _relatives(problem, concerned)
    concerned &= problem.movable
    return np.flatnonzero(concerned)


def _repair_randomly(
    problem: Problem, solution: Solution, enforced: int, config: PlbConfig, rng: np.random.Generator
) -> bool:
    """Repair `solution` by the best of several random attempts; tell whether it became better."""
    room = 8 * len(solution.node) + 8
    attempt, best = new_attempt(room), new_attempt(room)
    load = solution.node_load.copy()
    attempts = max(1, config.constraint_check_iterations_per_round)
    swaps, scores = config.enable_preferred_swap_solution_in_constraint_check, config.use_score_in_constraint_check
    _try_repairs(problem, solution, enforced, attempts, swaps, scores, load, rng, attempt, best)
    return bool(best.length[0] > 0)


@kernel
def _try_repairs(
    problem: Problem,
    solution: Solution,
    enforced: int,
    attempts: int,
    swaps: bool,
    scores: bool,
    load: Int,
    rng: np.random.Generator,
    attempt: Attempt,
    best: Attempt,
) -> None:
    """Try random repairs and make the best one; none may overfill a node that was not, or fill one more than it was.

    Parameters
    ----------
    swaps
        Whether roles may be swapped where no replica can move.
    scores
        Whether the energy decides between repairs that mend equally much.
    load
        (N, R) steps that the nodes carry at first.
    """
    fewest, least = remaining_breaches(problem, solution, enforced)
    lowest = -np.inf  # energy decides between repairs; it does not make one out of what mends nothing
    for index in range(attempts):
        if index % 2 == 1:
            _mend(problem, solution, enforced, enforced & ~(1 << _CAPACITY), swaps, rng, attempt)
        _mend(problem, solution, enforced, enforced, swaps, rng, attempt)
        broken, overload = remaining_breaches(problem, solution, enforced)
        energy = present_energy(problem, solution)
        better = broken < fewest or (broken == fewest and overload < least)
        better = better or (scores and broken == fewest and overload == least and energy < lowest)
        if better and not (enforced >> _CAPACITY & 1 and _fills_further(problem, solution, load)):
            fewest = broken
            least = overload
            lowest = energy
            keep_attempt(attempt, best)
        undo_attempt(problem, solution, attempt, 0)
    redo_attempt(problem, solution, best)


@kernel
def _fills_further(problem: Problem, solution: Solution, load: Int) -> bool:
    """Tell whether some node is over its limit and carries more than `load`, (N, R), says."""
    for node in range(load.shape[0]):
        for metric in range(load.shape[1]):
            full = solution.node_load[node, metric] + problem.leaving_load[node, metric] > problem.limit[node, metric]
            if full and solution.node_load[node, metric] > load[node, metric]:
                return True
    return False


@kernel
def _mend(
    problem: Problem,
    solution: Solution,
    enforced: int,
    binding: int,
    swaps: bool,
    rng: np.random.Generator,
    attempt: Attempt,
) -> None:
    """Mend one rule after the other.

    Parameters
    ----------
    enforced
        Rules that are mended.
    binding
        Rules that bind the moves: without capacity, nodes may be overfilled, to be unloaded by a second call.
    swaps
        Whether roles may be swapped where no replica can move.
    """
    if enforced >> _CAPACITY & 1:
        _unload(problem, solution, binding, swaps, rng, attempt)
    _spread(problem, solution, binding, rng, attempt)
    _gather(problem, solution, binding, rng, attempt)


@kernel
def remaining_breaches(problem: Problem, solution: Solution, enforced: int) -> tuple[int, float]:
    """Return how many nodes are overloaded or replicas misplaced, and the overload summed in shares of the limits."""
    broken = 0
    overload = 0.0
    watched = enforced >> _CAPACITY & 1
    for node in range(problem.limit.shape[0]):
        over = False
        for metric in range(problem.limit.shape[1]):
            excess = solution.node_load[node, metric] - problem.limit[node, metric]
            if watched and problem.watched[node] and excess > 0:
                over = True
                overload += excess / max(1, problem.limit[node, metric])
        broken += over
    for level in range(problem.domain.shape[0]):
        if not enforced >> problem.domain_rule[level] & 1:
            continue
        for row in range(solution.node.shape[0]):
            broken += stands_wrongly(problem, solution, level, row)
    for row in range(solution.node.shape[0]):
        broken += is_astray(problem, solution, enforced, row)
    return broken, overload


@kernel
def _unload(
    problem: Problem, solution: Solution, enforced: int, swaps: bool, rng: np.random.Generator, attempt: Attempt
) -> None:
    """Let random replicas leave each overloaded node until it is within its limits or none can leave."""
    for node in range(problem.limit.shape[0]):
        if not problem.watched[node]:
            continue
        for metric in range(problem.limit.shape[1]):
            while solution.node_load[node, metric] > problem.limit[node, metric]:
                row = _random_leaver(problem, solution, enforced, node, metric, rng)
                if row == NOWHERE or not has_room(solution, attempt):
                    break
                target = random_target(problem, solution, enforced, row, node, rng)
                if target != NOWHERE:
                    before = attempt.length[0]
                    try_move(problem, solution, attempt, row, target)
                    if children_follow(problem, solution, enforced, row, before, rng, attempt):
                        continue
                    undo_attempt(problem, solution, attempt, before)
                if _move_another(problem, solution, enforced, node, metric, rng, attempt):
                    continue
                if not swaps or not _swap_another(problem, solution, enforced, node, metric, rng, attempt):
                    break


@kernel
def _random_leaver(
    problem: Problem, solution: Solution, enforced: int, node: int, metric: int, rng: np.random.Generator
) -> int:
    """Return a random replica that may leave `node` for the sake of `metric`, or NOWHERE."""
    chosen = NOWHERE
    seen = 0
    for row in range(solution.node.shape[0]):
        if solution.node[row] == node and _may_leave(problem, solution, enforced, row, metric):
            seen += 1
            if rng.random() * seen < 1.0:
                chosen = row
    return int(chosen)


@kernel
def _may_leave(problem: Problem, solution: Solution, enforced: int, row: int, metric: int) -> bool:
    """Tell whether `row` is movable and carries load of `metric`.

    Where capacity does not bind, a replica that has moved stays: it would only be sent to and fro.
    """
    settled = not enforced >> _CAPACITY & 1 and solution.node[row] != problem.origin[row]
    return bool(problem.movable[row] and problem.load[row, metric] > 0 and not settled)


@kernel
def _move_another(
    problem: Problem,
    solution: Solution,
    enforced: int,
    node: int,
    metric: int,
    rng: np.random.Generator,
    attempt: Attempt,
) -> bool:
    """Move any replica that fits elsewhere away from `node`, where a random one fitted nowhere; tell if so."""
    rows = solution.node.shape[0]
    first = int(rng.random() * rows)
    for index in range(rows):
        row = (first + index) % rows
        if solution.node[row] == node and _may_leave(problem, solution, enforced, row, metric):
            target = random_target(problem, solution, enforced, row, node, rng)
            if target == NOWHERE:
                continue
            before = attempt.length[0]
            try_move(problem, solution, attempt, row, target)
            if children_follow(problem, solution, enforced, row, before, rng, attempt):
                return True
            undo_attempt(problem, solution, attempt, before)
    return False


@kernel
def _swap_another(
    problem: Problem,
    solution: Solution,
    enforced: int,
    node: int,
    metric: int,
    rng: np.random.Generator,
    attempt: Attempt,
) -> bool:
    """Swap any replica on `node`, where none can move away, with one of another role that carries less; tell if so."""
    rows = solution.node.shape[0]
    first = int(rng.random() * rows)
    for index in range(rows):
        row = (first + index) % rows
        if solution.node[row] != node or not problem.movable[row]:
            continue
        other = problem.sibling[row]
        while other != row:
            place = solution.node[other]
            lighter = problem.load[other, metric] < problem.load[row, metric]
            swappable = place != NOWHERE and problem.movable[other] and problem.role[other] != problem.role[row]
            if lighter and swappable and refusal(problem, solution, enforced, row, place, other) == NO_REFUSAL:
                before = attempt.length[0]
                try_move(problem, solution, attempt, row, place)
                try_move(problem, solution, attempt, other, node)
                if children_follow(problem, solution, enforced, row, before, rng, attempt):
                    return True
                undo_attempt(problem, solution, attempt, before)
            other = problem.sibling[other]
    return False


@kernel
def _gather(problem: Problem, solution: Solution, enforced: int, rng: np.random.Generator, attempt: Attempt) -> None:
    """Move replicas that are astray to where they may stand, and their children after them."""
    for row in range(solution.node.shape[0]):
        if is_astray(problem, solution, enforced, row) and has_room(solution, attempt):
            before = attempt.length[0]
            head = row
            moved = rejoin(problem, solution, enforced, row, rng, attempt)
            if not moved and problem.parents_move and problem.parent_row[row] != NOWHERE:
                head = problem.parent_row[row]
                moved = bring_parent(problem, solution, enforced, row, rng, attempt)
            if moved and not children_follow(problem, solution, enforced, head, before, rng, attempt):
                undo_attempt(problem, solution, attempt, before)


@kernel
def _spread(problem: Problem, solution: Solution, enforced: int, rng: np.random.Generator, attempt: Attempt) -> None:
    """Move replicas out of domains that hold too many of their partition."""
    for level in range(problem.domain.shape[0]):
        if not enforced >> problem.domain_rule[level] & 1:
            continue
        for row in range(solution.node.shape[0]):
            if not problem.movable[row]:
                continue
            if stands_wrongly(problem, solution, level, row) and has_room(solution, attempt):
                target = random_target(problem, solution, enforced, row, solution.node[row], rng)
                if target == NOWHERE:
                    continue
                before = attempt.length[0]
                try_move(problem, solution, attempt, row, target)
                if not children_follow(problem, solution, enforced, row, before, rng, attempt):
                    undo_attempt(problem, solution, attempt, before)
