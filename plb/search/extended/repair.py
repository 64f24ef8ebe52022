"""Mending what breaks constraints of the user's own: each replica concerned goes to a random node that they allow."""

from __future__ import annotations

import attrs

from plb.compiler import Stream
from plb.evaluation.delta import present_energy
from plb.search.extended.extensions import Extensions
from plb.search.extended.placement import find_target
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
    """Return a repair after which no constraint of the user's own is broken by more replicas than before it.

    Parameters
    ----------
    before
        The solution before any repair.
    repaired
        What the repair of the built-in rules came to; where it breaks what cannot be mended, nothing of it is left.
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
    """Return `start` with each replica that breaks a constraint moved, one after the other, as far as one can."""
    solution = start.copy()
    configuration = extensions.configuration(problem, solution)
    for row in sorted(extensions.broken(configuration)):
        if not problem.movable[row] or row not in extensions.broken(configuration):
            continue
        found = find_target(extensions, configuration, row, enforced, rng.permutation(problem.targets))
        if found is not None:
            configuration.apply(found)
    return solution
