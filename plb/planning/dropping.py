"""Dropping surplus replicas (docs/service-fabric.md, Surplus replicas).

Primaries stay, and so do replicas that are pinned, being dropped, on a paused node or protected by an extension
constraint. While the rules bind, a replica stays in a domain with no more than its share of an even spread, and on the
node of a child; a child stays on a node of its parent while other replicas can be dropped.
Replicas whose move is in progress go first, then replicas on nodes that are blocked or have to be emptied, then
replicas in upgrade domains, and in fault domains, that exceed a quorum rule. While preferred locations bind, only
the first of these groups with a replica is dropped from. Among equals the one without which the energy is least goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.constraints.affinity import breaks_pair
from plb.constraints.domains import UPGRADE_DOMAIN, exceeds_share, excess_in_domain
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.terms import present_energy
from plb.evaluation.delta import move_row
from plb.extensions.configuration import Proposal
from plb.model.role import PRIMARY
from plb.model.rules import Rule, RuleMask
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.spread import EVEN


@attrs.frozen(eq=False)
class Surplus:
    """A partition with too many replicas."""

    rows: Sequence[int]
    """The rows of its placed replicas."""
    count: int
    """How many of these are too many."""


def drop_surplus(
    problem: Problem,
    solution: Solution,
    surpluses: Sequence[Surplus],
    enforced: RuleMask,
    is_moving: Bool,
    must_stay: Bool,
    extensions: Extensions | None = None,
) -> list[int]:
    """Take surplus replicas off their nodes in `solution`, and return their rows.

    `surpluses` has children before parents; `enforced`: rules that must hold afterwards; `is_moving`, `must_stay`: (M,)
    whether a move of the row is in progress, and whether it must not be dropped.
    """
    dropped: list[int] = []
    for surplus in surpluses:
        for _ in range(surplus.count):
            droppable = [row for row in surplus.rows if not must_stay[row]]
            candidates = _candidates(problem, solution, droppable, enforced, is_moving)
            if extensions is not None:
                candidates = _unprotected(extensions, problem, solution, candidates)
            if not candidates:
                break
            row = _least(problem, solution, _preferred(problem, solution, candidates, is_moving))
            _put(problem, solution, row, NOWHERE)
            dropped.append(row)
    return dropped


def still_surplus(surpluses: Sequence[Surplus], dropped: Sequence[int]) -> list[Surplus]:
    """Return the `surpluses` that have too many replicas also after the rows in `dropped` are removed."""
    remaining = [([row for row in surplus.rows if row not in dropped], surplus) for surplus in surpluses]
    counts = [surplus.count - (len(surplus.rows) - len(rows)) for rows, surplus in remaining]
    return [Surplus(rows, count) for (rows, _), count in zip(remaining, counts, strict=True) if count > 0]


def _candidates(
    problem: Problem, solution: Solution, rows: Sequence[int], enforced: RuleMask, is_moving: Bool
) -> list[int]:
    """Return the replicas `rows` that their role and the enforced rules allow to drop.

    `is_moving`: (M,) whether a move of the row is in progress.
    """
    candidates = [
        row
        for row in rows
        if solution.node[row] != NOWHERE
        and problem.role[row] != PRIMARY
        and (is_moving[row] or not problem.unspread[row])
    ]
    if enforced >> Rule.PREFERRED_LOCATION & 1:
        candidates = _preferred(problem, solution, candidates, is_moving)
    levels = [level for level, rule in enumerate(problem.domain_rule) if enforced >> rule & 1]
    candidates = [row for row in candidates if all(exceeds_share(problem, solution, level, row) for level in levels)]
    return _in_no_pair(problem, solution, candidates) if enforced >> Rule.AFFINITY & 1 else candidates


def _in_no_pair(problem: Problem, solution: Solution, candidates: list[int]) -> list[int]:
    """Return the candidates without parent or child on their nodes; if there are none, children of such pairs.

    Dropping a child leaves no replica apart, unless each replica of its parent needs a child; then one of these can be
    dropped too.
    """
    unpaired = [row for row in candidates if not breaks_pair(problem, solution, row)]
    return unpaired or [row for row in candidates if problem.parent_row[row] != NOWHERE and not problem.loose[row]]


def _unprotected(extensions: Extensions, problem: Problem, solution: Solution, candidates: list[int]) -> list[int]:
    """Return the candidates that no extension constraint protects, and count refusals; departing ends always go."""
    configuration = extensions.configuration(problem, solution)
    return [
        row
        for row in candidates
        if problem.leaving[row] or extensions.refuse(configuration, Proposal(row, NOWHERE)) is None
    ]


def _preferred(problem: Problem, solution: Solution, candidates: list[int], is_moving: Bool) -> list[int]:
    """Return the candidates that are dropped first: all of the lowest `rank`; `is_moving`: (M,) a move is under way."""

    def rank(row: int) -> tuple[bool, bool, int]:
        """Return the rank of `row`: moves in progress first, then blocked or emptied nodes, then crowded domains."""
        node = solution.node[row]
        blocked = problem.drained[node] or not problem.feasibility_classes[problem.feasibility_class[row], node]
        return not is_moving[row], not blocked, _order_of_crowding(problem, solution, row)

    ranks = [rank(row) for row in candidates]
    lowest_rank = min(ranks, default=None)
    return [row for row, rank_of_row in zip(candidates, ranks, strict=True) if rank_of_row == lowest_rank]


def _order_of_crowding(problem: Problem, solution: Solution, row: int) -> int:
    """Return 0 if the upgrade domain of `row` exceeds a quorum rule, 1 if only a fault domain does, 2 if none."""
    quorum_levels = np.flatnonzero(problem.most_in_domain[problem.service[row]] > EVEN).tolist()
    broken_rules = {
        problem.domain_rule[level] for level in quorum_levels if excess_in_domain(problem, solution, level, row) > 0
    }
    if UPGRADE_DOMAIN in broken_rules:
        return 0
    return 1 if broken_rules else 2


def _least(problem: Problem, solution: Solution, candidates: list[int]) -> int:
    """Return the candidate, a row, without which the energy is least; the solution is changed and restored."""
    energies = []
    for row in candidates:
        node = int(solution.node[row])
        _put(problem, solution, row, NOWHERE)
        energies.append(present_energy(problem, solution))
        _put(problem, solution, row, node)
    return candidates[int(np.argmin(energies))]


def _put(problem: Problem, solution: Solution, row: int, node: int) -> None:
    """Move replica `row` to `node`, or take it off its node if `node` is NOWHERE; a departing end is in no sum."""
    if problem.leaving[row]:
        solution.node[row] = node
    else:
        move_row(problem, solution, row, node)


def without_replaced_standbys(problem: Problem, solution: Solution) -> Solution:
    """Return the solution without the standbys that new or moved replicas replace; removing them is not a move."""
    if not problem.standbys:
        return solution
    node = solution.node
    has_arrived = (node != NOWHERE) & (node != problem.origin)
    replaced = [
        row
        for row in np.flatnonzero(problem.standby & (node != NOWHERE)).tolist()
        if any(has_arrived[sibling] and node[sibling] == node[row] for sibling in siblings_of(problem, row))
    ]
    if not replaced:
        return solution
    node_after = node.copy()
    node_after[replaced] = NOWHERE
    without = solution_from_scratch(problem, node_after)
    without.totals.movement = solution.totals.movement
    return without
