"""Repair of extension constraints: each replica that violates one moves to a random allowed node."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream
from plb.extensions.configuration import Proposal
from plb.search.extension_state import constraints_of
from plb.search.extensions import Extensions
from plb.search.transactions import random_target
from plb.state.arrays import Problem, Solution


def repair_constraints(
    extensions: Extensions, problem: Problem, solution: Solution, enforced: int, rng: Stream
) -> None:
    """Move, in turn, each replica that violates a constraint and has an allowed node.

    Parameters
    ----------
    solution
        Modified.
    enforced
        Bit mask over `Rule`.
    """
    configuration = extensions.configuration(problem, solution)
    constraints = constraints_of(extensions, problem, solution)
    for row in sorted(extensions.broken(configuration)):
        if not problem.movable[row] or row not in extensions.broken(configuration):
            continue
        here = configuration.node_of(row)
        with constraints.calls():
            target = int(random_target(problem, solution, constraints.state, enforced, row, here, rng))
        constraints.raise_error()
        if target != NOWHERE:
            configuration.apply(Proposal(row, target))
    constraints.finish()
