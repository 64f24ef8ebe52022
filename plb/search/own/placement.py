"""The random walk of a placement that keeps to constraints of the user's own, in plain Python."""

from __future__ import annotations

import numpy as np

from plb.arrays import NOWHERE, Int, Problem, Solution
from plb.configuration import Configuration, Proposal
from plb.search.own.additions import Additions


def walk(
    additions: Additions,
    problem: Problem,
    solution: Solution,
    rows: Int,
    wholly: Int,
    enforced: int,
    tries: int,
    last: bool,
    rng: np.random.Generator,
) -> None:
    """Place `rows` one after the other on random nodes that fit, and keep the try that places most.

    Parameters
    ----------
    solution
        Changed.
    wholly, last
        See `plb.search.placement`.
    """
    configuration = additions.configuration(problem, solution)
    best: list[Proposal] = []
    for _ in range(tries):
        placed = _place_in_turn(additions, configuration, rows, wholly, enforced, last, rng)
        _take_off(configuration, placed)
        if len(placed) > len(best):
            best = placed
        if len(best) == len(rows):
            break
    for proposal in best:
        configuration.apply(proposal)


def find_target(
    additions: Additions, configuration: Configuration, row: int, enforced: int, targets: Int
) -> Proposal | None:
    """Return the move of `row` to the first of `targets` that no rule and no constraint refuses, or None."""
    for target in targets.tolist():
        proposal = Proposal(row, target)
        if target == configuration.node_of(row) or configuration.refusal(proposal, enforced) is not None:
            continue
        if additions.refuse(configuration, proposal) is None:
            return proposal
    return None


def _place_in_turn(
    additions: Additions,
    configuration: Configuration,
    rows: Int,
    wholly: Int,
    enforced: int,
    last: bool,
    rng: np.random.Generator,
) -> list[Proposal]:
    """Place each of `rows` that fits somewhere; those of one number in `wholly` all or not at all."""
    placed: list[Proposal] = []
    given_up: set[int] = set()
    targets = configuration.problem.targets
    for row, group in zip(rows.tolist(), wholly.tolist(), strict=True):
        if group in given_up:
            continue
        order = targets[::-1] if last else rng.permutation(targets)
        found = find_target(additions, configuration, row, enforced, order)
        if found is not None:
            configuration.apply(found)
            placed.append(found)
        elif group != NOWHERE:
            given_up.add(group)
            members = set(rows[wholly == group].tolist())
            _take_off(configuration, [one for one in placed if one.row in members])
            placed = [one for one in placed if one.row not in members]
    return placed


def _take_off(configuration: Configuration, placed: list[Proposal]) -> None:
    for one in reversed(placed):
        configuration.apply(Proposal(one.row, NOWHERE))
