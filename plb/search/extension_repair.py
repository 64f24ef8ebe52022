"""Repair of extension constraints: each replica that violates one moves to a random allowed node."""

from __future__ import annotations

import attrs

from plb.compiler import Stream
from plb.evaluation.delta import present_energy
from plb.search.extensions import Extensions
from plb.search.one_at_a_time import find_target
from plb.search.result import Annealed
from plb.state.arrays import Problem, Solution


def repair_randomly(
    extensions: Extensions,
    problem: Problem,
    before: Solution,
    repaired: Annealed,
    enforced: int,
    rng: Stream,
) -> Annealed:
    """Return a repair after which no replica violates an extension constraint that it did not violate before.

    Parameters
    ----------
    before
        The solution before any repair.
    repaired
        The repair of the built-in rules. It is discarded if it causes a violation that cannot be repaired.
    enforced
        Bit mask over `Rule`.
    """
    solution = _repaired(extensions, problem, repaired.solution, enforced, rng)
    if not extensions.keeps(problem, before, solution):
        solution = _repaired(extensions, problem, before, enforced, rng)
    if not extensions.keeps(problem, before, solution):
        solution = before
    return attrs.evolve(repaired, solution=solution, energy=float(present_energy(problem, solution)))


def _repaired(extensions: Extensions, problem: Problem, start: Solution, enforced: int, rng: Stream) -> Solution:
    """Return `start` after moving, in turn, each replica that violates a constraint and has an allowed node."""
    solution = start.copy()
    configuration = extensions.configuration(problem, solution)
    for row in sorted(extensions.broken(configuration)):
        if not problem.movable[row] or row not in extensions.broken(configuration):
            continue
        found = find_target(extensions, configuration, row, enforced, rng.permutation(problem.targets))
        if found is not None:
            configuration.apply(found)
    return solution
