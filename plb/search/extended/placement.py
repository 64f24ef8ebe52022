"""Placing replicas one after the other in plain Python, and the random walk that keeps to constraints of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream
from plb.extensions.configuration import Configuration, Proposal
from plb.search.extended.extensions import Extensions
from plb.state.arrays import Problem, Solution

Place = Callable[[int], Sequence[Proposal]]
"""Places a row and returns what undoes that, to be carried out from the last to the first; none: it has no place."""


def walk(
    extensions: Extensions,
    problem: Problem,
    solution: Solution,
    rows: Int,
    all_or_nothing: Int,
    enforced: int,
    tries: int,
    last: bool,
    rng: Stream,
) -> None:
    """Place `rows` one after the other on random nodes that fit, and keep the try that places most.

    Parameters
    ----------
    solution
        Changed.
    all_or_nothing, last
        See `plb.search.placement.place_rows`.
    """
    configuration = extensions.configuration(problem, solution)

    def place(row: int) -> Sequence[Proposal]:
        order = problem.targets[::-1] if last else rng.permutation(problem.targets)
        found = find_target(extensions, configuration, row, enforced, order)
        return [] if found is None else [configuration.apply(found)]

    most, best = -1, solution.node[rows]
    for _ in range(tries):
        done = place_in_turn(configuration, rows, all_or_nothing, place)
        places = solution.node[rows]
        take_back(configuration, done)
        if len(done) > most:
            most, best = len(done), places
        if most == len(rows):
            break
    for row, node in zip(rows.tolist(), best.tolist(), strict=True):
        if node != NOWHERE:
            configuration.apply(Proposal(row, node))


def find_target(
    extensions: Extensions, configuration: Configuration, row: int, enforced: int, targets: Int
) -> Proposal | None:
    """Return the move of `row` to the first of `targets` that no rule and no constraint refuses, or None."""
    for target in targets.tolist():
        proposal = Proposal(row, target)
        if target == configuration.node_of(row) or configuration.refusal(proposal, enforced) is not None:
            continue
        if extensions.refuse(configuration, proposal) is None:
            return proposal
    return None


def place_in_turn(configuration: Configuration, rows: Int, all_or_nothing: Int, place: Place) -> list[Proposal]:
    """Place each of `rows` that finds a place; return what undoes that.

    Parameters
    ----------
    all_or_nothing
        See `plb.search.placement.place_rows`.
    """
    done: list[Proposal] = []
    group, before, given_up = NOWHERE, 0, False
    for row, this in zip(rows.tolist(), all_or_nothing.tolist(), strict=True):
        if this != group or group == NOWHERE:
            group, before, given_up = this, len(done), False
        if given_up:
            continue
        placed = place(row)
        done += placed
        if not placed and group != NOWHERE:
            take_back(configuration, done[before:])
            del done[before:]
            given_up = True
    return done


def take_back(configuration: Configuration, done: Sequence[Proposal]) -> None:
    """Undo what `place_in_turn` did."""
    for back in reversed(done):
        configuration.apply(back)
