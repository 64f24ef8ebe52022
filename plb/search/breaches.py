"""Violated constraints: their locations and number."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.compiler import kernel
from plb.constraints.affinity import parts_from_parent
from plb.constraints.domains import stands_wrongly
from plb.model.rules import Rule
from plb.state.arrays import Problem, Solution

_CAPACITY = int(Rule.CAPACITY)
_PLACEMENT = int(Rule.PLACEMENT)
_AFFINITY = int(Rule.AFFINITY)


@attrs.frozen(eq=False)
class Breaches:
    """Locations of violated constraints.

    Parameters
    ----------
    overloaded
        (N, R) whether a watched node exceeds its limit.
    crowded
        (D, M) whether a replica is in a domain with too many replicas of its partition.
    astray
        (M,) whether a movable replica is on a node that its service excludes, or apart from its parent.
    """

    overloaded: Bool
    crowded: Bool
    astray: Bool

    def __bool__(self) -> bool:
        return bool(self.overloaded.any() or self.crowded.any() or self.astray.any())


NO_BREACHES = Breaches(np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.bool_), np.zeros(0, np.bool_))
"""No violated constraint."""


def find_breaches(problem: Problem, solution: Solution, enforced: int) -> Breaches:
    """Return the violations of the enforced constraints."""
    crowded = np.zeros((len(problem.domain_rule), len(solution.node)), np.bool_)
    for level, rule in enumerate(problem.domain_rule):
        if enforced >> int(rule) & 1:
            _mark_crowded(problem, solution, level, crowded[level])
    astray = np.zeros(len(solution.node), np.bool_)
    _mark_astray(problem, solution, enforced, astray)
    return Breaches(overloads(problem, solution, enforced), crowded, astray)


def overloads(problem: Problem, solution: Solution, enforced: int) -> Bool:
    """Return a mask, (N, R), of the metrics of which a watched node exceeds its limit; all False if not enforced."""
    watched = problem.watched & bool(enforced >> _CAPACITY & 1)
    over: Bool = (solution.node_load > problem.limit) & watched[:, None]
    return over


@kernel
def _mark_astray(problem: Problem, solution: Solution, enforced: int, astray: Bool) -> None:
    for row in range(astray.shape[0]):
        astray[row] = is_astray(problem, solution, enforced, row)


@kernel
def is_astray(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Return whether a movable replica is on a node that its service excludes, or apart from its parent."""
    return problem.movable[row] and is_misplaced(problem, solution, enforced, row)


@kernel
def is_misplaced(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Return whether a replica, movable or not, is on a node that its service excludes, or apart from its parent."""
    at = solution.node[row]
    if at == NOWHERE:
        return False
    if enforced >> _PLACEMENT & 1 and not problem.feasibility_classes[problem.feasibility_class[row], at]:
        return True
    return bool(enforced >> _AFFINITY & 1 and parts_from_parent(problem, solution, row, at))


@kernel
def _mark_crowded(problem: Problem, solution: Solution, level: int, crowded: Bool) -> None:
    for row in range(crowded.shape[0]):
        crowded[row] = stands_wrongly(problem, solution, level, row)


@kernel
def remaining_breaches(problem: Problem, solution: Solution, enforced: int) -> tuple[int, float]:
    """Return the number of violations, and the sum of the overloads relative to the limits.

    A violation is an overloaded node, a replica in a crowded domain of one level, or a misplaced replica.
    """
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
    for level in range(problem.domain.shape[1]):
        if not enforced >> problem.domain_rule[level] & 1:
            continue
        for row in range(solution.node.shape[0]):
            broken += stands_wrongly(problem, solution, level, row)
    for row in range(solution.node.shape[0]):
        broken += is_astray(problem, solution, enforced, row)
    return broken, overload
