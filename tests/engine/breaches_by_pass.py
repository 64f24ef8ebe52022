"""The breaches of a solution by a pass over all rows and all nodes: the oracle of the lists of a repair."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration
from plb.model import Role
from plb.model.rules import Rule
from plb.state.arrays import siblings_of
from tests.engine.applications_by_hand import breaches_of_applications, kept_free, load_of, standing, without_replaced
from tests.engine.refusals_by_hand import by_hand


def remaining_by_pass(configuration: Configuration, enforced: int, *, by_partition: bool = False) -> tuple[int, float]:
    """Return the number of violations, and the sum of the overloads relative to the limits.

    A violation is an overloaded node, a replica in a crowded domain of one level (or `by_partition`, all those of a
    partition in crowded domains of one rule), a misplaced replica, or one of an application.
    """
    problem, solution = configuration.problem, configuration.solution
    right, places = by_hand(configuration, enforced), solution.node.tolist()
    broken, overload = 0, 0.0
    of_applications = breaches_of_applications(
        problem, places, scale_out=right.holds(Rule.SCALE_OUT), capacity=right.holds(Rule.APPLICATION_CAPACITY)
    )
    for excess in of_applications:
        broken, overload = broken + 1, overload + excess
    for node in range(configuration.nodes if right.holds(Rule.CAPACITY) else 0):
        rows = without_replaced(problem, places, standing(problem, places, node))
        of_node = (load_of(problem, rows) + kept_free(problem, rows)).tolist()
        limits = problem.repair_limit[node].tolist()
        excesses = [load - limit for load, limit in zip(of_node, limits, strict=True)]
        if problem.watched[node] and max(excesses) > 0:
            broken += 1
            overload += sum(max(0, excess) / max(1, limit) for excess, limit in zip(excesses, limits, strict=True))
    crowded: set[tuple[int, ...]] = set()
    for row, at in enumerate(places):
        for level, rule in enumerate(problem.domain_rule.tolist()):
            if right.holds(rule) and right.is_crowded(level, row):
                crowded.add((rule, min(siblings_of(problem, row))) if by_partition else (level, row))
        wrong = is_misplaced_by_hand(configuration, enforced, row) or has_to_leave_by_hand(configuration, row)
        broken += at != NOWHERE and bool(problem.movable[row]) and wrong
    return broken + len(crowded), overload


def has_to_leave_by_hand(configuration: Configuration, row: int) -> bool:
    """Return whether a row is on a node on which another replica of its partition stays."""
    problem, places = configuration.problem, configuration.solution.node
    beside = [one for one in siblings_of(problem, row) if places[one] == places[row] and not problem.unspread[one]]
    if problem.unspread[row] or len(beside) < 2:
        return False
    stays = min(beside, key=lambda one: (problem.repairable[one], problem.role[one] != Role.PRIMARY, one))
    return stays != row


def is_misplaced_by_hand(configuration: Configuration, enforced: int, row: int) -> bool:
    """Return whether a placed row is on a drained node or one that its service excludes, or apart from its parent."""
    problem, places = configuration.problem, configuration.solution.node.tolist()
    right, at = by_hand(configuration, enforced), places[row]
    infeasible = right.holds(Rule.PLACEMENT) and not problem.feasibility_classes[problem.feasibility_class[row], at]
    drained = right.holds(Rule.NODE) and problem.drained[at] and not problem.unspread[row]
    return bool(drained or infeasible or (right.holds(Rule.AFFINITY) and right.apart(places, row, at)))
