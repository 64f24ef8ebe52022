"""Repair of the rules of applications by a placement policy, which chooses the nodes of the replicas that leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from plb.array_types import NOWHERE
from plb.constraints import application_capacity, scale_out
from plb.extensions.configuration import Configuration, Proposal
from plb.search.application_breaches import broken_applications

Place = Callable[[int], Sequence[Proposal]]
"""Places a row and returns the moves that undo this, to be applied in reverse order; empty if it stays."""


def repair_applications_by_policy(configuration: Configuration, repaired: int, place: Place) -> None:
    """Move replicas of each application off nodes too many, then off nodes on which it exceeds its capacity.

    Parameters
    ----------
    repaired
        Bit mask over `Rule`: the rules to repair.
    """
    for application in broken_applications(configuration.problem, configuration.solution, repaired).tolist():
        if repaired >> scale_out.RULE & 1:
            _leave_nodes(configuration, application, place)
        if repaired >> application_capacity.RULE & 1:
            for row in _overfilling(configuration, application):
                place(row)


def _leave_nodes(configuration: Configuration, application: int, place: Place) -> None:
    """Leave the nodes with the fewest replicas of an application, each wholly or not at all."""
    problem, solution = configuration.problem, configuration.solution
    replicas = solution.application_replicas[application].copy()
    for node in np.argsort(replicas, kind="stable")[np.count_nonzero(replicas == 0) :].tolist():
        if solution.application_nodes[application] <= problem.most_nodes[application]:
            return
        rows = _rows_on(configuration, application, node)
        done: list[Proposal] = []
        if problem.movable[rows].all():
            for row in rows:
                if solution.node[row] == node:  # a child may have moved already
                    done += place(row)
        if solution.application_replicas[application, node]:
            for back in reversed(done):
                configuration.apply(back)


def _overfilling(configuration: Configuration, application: int) -> Iterator[int]:
    """Yield movable rows that add to an excess of an application on their node, while there is one."""
    problem, solution = configuration.problem, configuration.solution
    for node in range(configuration.nodes):
        for row in _rows_on(configuration, application, node):
            excess = solution.application_load[application, node] - problem.application_node_limit[application]
            adds = (excess > 0) & (problem.load[row] > 0)
            if problem.movable[row] and solution.node[row] == node and adds.any():
                yield row


def _rows_on(configuration: Configuration, application: int, node: int) -> list[int]:
    """Return the rows of an application on a node, ascending."""
    problem, solution = configuration.problem, configuration.solution
    found = (problem.application == application) & (solution.node == node) & ~problem.leaving
    return np.flatnonzero(found & (solution.node != NOWHERE)).tolist()
