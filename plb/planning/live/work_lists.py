"""What calls for work: rows that break a rule, partitions that lack or exceed replicas, and rows that may not move.

The lists belong to the placement that the host has described. They are updated for rows that have changed.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.model.rules import ALL_RULES
from plb.search.repair.breaches import mark_breaking
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState


class WorkLists:
    """The lists of a cluster."""

    breaking: set[int]
    """Rows that break a rule other than capacity, of any priority."""
    unfinished: set[int]
    """Rows of partitions that lack replicas, have too many or are being upgraded."""
    immovable: set[int]
    """Rows of placed replicas, without standbys, that no plan may move."""

    def __init__(self, state: ClusterState, problem: Problem, solution: Solution) -> None:
        self.breaking, self.unfinished, self.immovable = set(), set(), set()
        self.renew(state, problem, solution, np.arange(len(solution.node)))

    def renew(self, state: ClusterState, problem: Problem, solution: Solution, rows: Int) -> None:
        """Compute again which of `rows`, (m,), are in which list.

        With each row that moved, `rows` has to include the rows of its partition and of the children.
        """
        breaking = np.zeros(len(rows), np.bool_)
        mark_breaking(problem, solution, ALL_RULES, rows, problem.repairable, breaking)
        _update(self.breaking, rows, breaking)
        table = state.rows
        unfinished = np.zeros(len(rows), np.bool_)
        targets, on_every_node = state.service_table.target_replicas, state.service_table.on_every_node
        _mark_unfinished(problem, rows, table.used, table.upgrading, targets, on_every_node, unfinished)
        _update(self.unfinished, rows, unfinished)
        immovable = (problem.origin[rows] != NOWHERE) & ~problem.unspread[rows] & ~problem.repairable[rows]
        _update(self.immovable, rows, immovable & table.used[rows])


def _update(members: set[int], rows: Int, is_member: Bool) -> None:
    """Add the replicas `rows`, (m,), for which `is_member`, (m,), is true to `members`, and remove the other rows."""
    members.difference_update(rows[~is_member].tolist() if len(members) else ())
    members.update(rows[is_member].tolist())


@kernel
def _mark_unfinished(
    problem: Problem,
    rows: Int,
    used: Bool,
    upgrading: Bool,
    targets: Int,
    on_every_node: Bool,
    unfinished: Bool,
) -> None:
    """Set `unfinished`, (m,), where a row waits for a place, or its partition is upgraded or has too many replicas.

    `used`, `upgrading`: (M,) of a `RowTable`.
    `targets`: (S,) target replicas of a partition, 0: any number; `on_every_node`: (S,) where the target is not used.
    """
    for index in range(rows.shape[0]):
        row = rows[index]
        if not used[row]:
            unfinished[index] = False
            continue
        service = problem.service[row]
        unfinished[index] = problem.origin[row] == NOWHERE or upgrading[row]
        if unfinished[index] or targets[service] == 0 or on_every_node[service] or problem.unspread[row]:
            continue
        replicas = 1
        sibling = problem.sibling[row]
        while sibling != row:
            replicas += not problem.unspread[sibling]
            sibling = problem.sibling[sibling]
        unfinished[index] = replicas > targets[service]
