"""Placement of replicas one after the other in plain Python, and a random walk with extension constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream
from plb.extensions.configuration import Configuration, Proposal
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Solution

Place = Callable[[int], Sequence[Proposal]]
"""Places a row and returns the moves that undo this, to be applied in reverse order; empty if the row has no node."""


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
    """Place `rows` in turn on random feasible nodes, `tries` times, and keep the attempt that places most rows.

    Parameters
    ----------
    solution
        Modified.
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
    """Place each of `rows` that has a feasible node; return the moves that undo this, to be applied in reverse order.

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
    """Apply the moves that `place_in_turn` returned, in reverse order."""
    for back in reversed(done):
        configuration.apply(back)
