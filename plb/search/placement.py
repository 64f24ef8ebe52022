"""Placement of new replicas: a random walk over the nodes that fit, then annealing over the new replicas only.

Soft constraints are given up, from the softest, for replicas that fit nowhere; last, replicas that stand make room
(semantics.md section 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plb.arrays import NOWHERE, Int, Problem, Solution
from plb.config import PlbConfig
from plb.constraints import NO_REFUSAL
from plb.constraints.capacity import exceeds_capacity
from plb.constraints.check import refusal_of_place
from plb.kernel import kernel
from plb.search.annealing import Annealed, Budget, EndReason, anneal_chains, new_tally
from plb.search.attempts import (
    Attempt,
    keep_attempt,
    new_attempt,
    random_target,
    redo_attempt,
    try_move,
    undo_attempt,
)
from plb.search.following import move_with_children
from plb.search.proposal import Choice, refusal
from plb.search.transition import apply_proposal, present_energy


def place_rows(
    problem: Problem,
    start: Solution,
    rows: Sequence[int],
    config: PlbConfig,
    masks: Sequence[int],
    seed: np.random.SeedSequence,
    budget: Budget,
    *,
    with_moves: bool,
) -> Annealed:
    """Find a place for each of `rows`; those that found none stay NOWHERE. `start` is not changed.

    Parameters
    ----------
    masks
        Enforced rules, from all to only the hard ones.
    with_moves
        Whether replicas that stand may move to make room.
    """
    solution = start.copy()
    tally = new_tally()
    reason = EndReason.NOTHING_TO_DO
    left = np.array(rows, np.int64)
    for mask, stream in zip(masks, seed.spawn(len(masks)), strict=True):
        walk, annealing = stream.spawn(2)
        rng = np.random.Generator(np.random.PCG64(walk))
        _walk(
            problem,
            solution,
            left,
            mask,
            config.placement_search_iterations_per_round,
            rng,
            new_attempt(len(left)),
            left.copy(),
        )
        placed = left[solution.node[left] != NOWHERE]
        if len(placed):
            choice = Choice(placed, placed[:0], 0, mask, 0.0, 0.0)
            result = anneal_chains(problem, solution, choice, config, annealing, budget)
            solution = result.solution
            reason = reason if reason is EndReason.OUT_OF_TIME else result.end_reason
            tally += result.tally
        left = left[solution.node[left] == NOWHERE]
        if not len(left):
            break
    if len(left) and with_moves:
        rng = np.random.Generator(np.random.PCG64(seed.spawn(1)[0]))
        for row in left:
            _make_room(problem, solution, int(row), masks[-1], config.placement_search_iterations_per_round, rng)
    return Annealed(solution, present_energy(problem, solution), tally, reason)


@kernel
def _walk(
    problem: Problem,
    solution: Solution,
    rows: Int,
    enforced: int,
    attempts: int,
    rng: np.random.Generator,
    attempt: Attempt,
    places: Int,
) -> None:
    """Place `rows` one after the other on random nodes that fit, and keep the attempt that places most.

    Parameters
    ----------
    places
        Scratch of the shape of `rows`.
    """
    most = -1
    for _ in range(max(1, attempts)):
        for row in rows:
            target = random_target(problem, solution, enforced, row, NOWHERE, rng)
            if target != NOWHERE:
                try_move(problem, solution, attempt, row, target)
        if attempt.length[0] > most:
            most = attempt.length[0]
            for index in range(rows.shape[0]):
                places[index] = solution.node[rows[index]]
        if most == rows.shape[0]:
            return
        undo_attempt(problem, solution, attempt, 0)
    for index in range(rows.shape[0]):
        if places[index] != NOWHERE:
            apply_proposal(problem, solution, rows[index], places[index], NOWHERE)


def _make_room(
    problem: Problem, solution: Solution, row: int, enforced: int, attempts: int, rng: np.random.Generator
) -> None:
    """Place `row` where replicas that stand can move out of its way, with the lowest energy of several attempts."""
    room = len(solution.node)
    attempt, best = new_attempt(4 * room + 1), new_attempt(4 * room + 1)
    _try_rooms(problem, solution, row, enforced, max(1, attempts) * 5, rng, attempt, best)


@kernel
def _try_rooms(
    problem: Problem,
    solution: Solution,
    row: int,
    enforced: int,
    attempts: int,
    rng: np.random.Generator,
    attempt: Attempt,
    best: Attempt,
) -> None:
    lowest = np.inf
    if problem.targets.shape[0] == 0:
        return
    for _ in range(attempts):
        target = problem.targets[int(rng.random() * problem.targets.shape[0])]
        if refusal_of_place(problem, solution, enforced, row, target) != NO_REFUSAL:
            continue
        fits = _clear(problem, solution, row, target, enforced, rng, attempt)
        if fits and refusal(problem, solution, enforced, row, target, NOWHERE) == NO_REFUSAL:
            try_move(problem, solution, attempt, row, target)
            energy = present_energy(problem, solution)
            if energy < lowest:
                lowest = energy
                keep_attempt(attempt, best)
        undo_attempt(problem, solution, attempt, 0)
    if lowest < np.inf:
        redo_attempt(problem, solution, best)


@kernel
def _clear(
    problem: Problem,
    solution: Solution,
    row: int,
    target: int,
    enforced: int,
    rng: np.random.Generator,
    attempt: Attempt,
) -> bool:
    """Move random replicas away from `target` until `row` fits there; tell whether it does."""
    none = problem.load[NOWHERE]
    while exceeds_capacity(problem.limit, problem.leaving_load, solution.node_load, problem.load[row], none, target):
        leaver = _random_on(problem, solution, target, rng)
        if leaver == NOWHERE:
            return False
        place = random_target(problem, solution, enforced, leaver, target, rng)
        if place == NOWHERE:
            return False
        if not move_with_children(problem, solution, enforced, leaver, place, NOWHERE, rng, attempt):
            return False
    return True


@kernel
def _random_on(problem: Problem, solution: Solution, node: int, rng: np.random.Generator) -> int:
    """Return a random movable replica that stood on `node` before this search, or NOWHERE."""
    chosen = NOWHERE
    seen = 0
    for row in range(solution.node.shape[0]):
        if solution.node[row] == node and problem.origin[row] == node and problem.movable[row]:
            seen += 1
            if rng.random() * seen < 1.0:
                chosen = row
    return int(chosen)
