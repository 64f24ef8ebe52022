"""The changes of roles of one plan: swaps, promotions, and what says that a role cannot change."""

from __future__ import annotations

import numpy as np

from plb.arrays import NOWHERE, Int, Problem, Solution
from plb.constraints import Rule
from plb.model import Role
from plb.plan import Move, MoveKind, Phase, Reason
from plb.search.priorities import rule_masks
from plb.search.upgrading import Handover, HandoverEnd, hand_over, promoted
from plb.slots import load_of_next_primary, may_change_role
from plb.state import ClusterState


class RoleChanges:
    """Makes the changes of roles that an upgrade asks for.

    Parameters
    ----------
    state, problem, solution
        The cluster, its arrays, and where replicas stand; none of them is changed.
    tally
        Counts of what became of proposals; changed.

    Attributes
    ----------
    problem
        The problem with room kept for the loads of those that are promoted.
    solution
        The solution after the swaps. A promotion is not in it: the slot of the primary takes a node when it is carried
        out.
    orders
        Promotions, and moves that say that a role cannot change.
    reasons
        Why each row of a partition whose primary changes does so.
    """

    def __init__(self, state: ClusterState, problem: Problem, solution: Solution, tally: Int) -> None:
        config = state.config
        self.state, self.problem, self.solution, self._tally = state, problem, solution.copy(), tally
        self.orders: list[Move] = []
        self.reasons: dict[int, Reason] = {}
        self._able = may_change_role(state)
        self._relaxed = config.relax_capacity_constraint_for_upgrade
        self._together = config.check_aligned_affinity_for_upgrade
        self._masks = [mask & ~(1 << Rule.AFFINITY) for mask in rule_masks(config)]
        if self._relaxed:
            self._masks.append(self._masks[-1] & ~(1 << Rule.CAPACITY))

    def make(self, handover: Handover) -> None:
        """Let another replica of a partition become the primary, if one can."""
        if handover.primary == NOWHERE:
            self._promote(handover)
        elif self.solution.node[handover.primary] == self.problem.origin[handover.primary]:
            self._swap(handover)  # else it has swapped with the rest of its family

    def _swap(self, handover: Handover) -> None:
        before = self.solution.node.copy()
        end = hand_over(
            self.problem, self.solution, handover, self._masks, self._able, self._tally, together=self._together
        )
        if end is HandoverEnd.IMPOSSIBLE:
            self._order(MoveKind.VOID, handover, handover.primary)
        for row in np.flatnonzero(self.solution.node != before).tolist():
            self.reasons[row] = self._reason(handover)

    def _promote(self, handover: Handover) -> None:
        """Order that a secondary becomes the primary of a partition that has none; keep room for what it will carry."""
        state = self.state
        record = state.partition(handover.partition)
        load = load_of_next_primary(state, record)
        growth = {row: load - state.rows.load[row] for row in handover.takers}
        suit = state.service_suit[record.service]
        if len(self.problem.suits) > len(state.suits):
            suit += len(state.suits)  # primaries ask for more than the others
        row = promoted(self.problem, self.solution, handover, suit, growth, relaxed=self._relaxed)
        if row == NOWHERE:
            self._order(MoveKind.VOID, handover, handover.takers[0])
            return
        self._order(MoveKind.PROMOTE, handover, row)
        self.reasons[row] = self._reason(handover)
        taken = self.problem.leaving_load.copy()
        taken[self.problem.origin[row]] += np.maximum(0, growth[row])
        self.problem = self.problem._replace(leaving_load=taken)

    def _order(self, kind: MoveKind, handover: Handover, row: int) -> None:
        """Order what changes a role, or nothing, but no node."""
        node = self.state.nodes[int(self.problem.origin[row])].name
        role = Role(int(self.problem.role[row]))
        source, target = (None, node) if kind is MoveKind.PROMOTE else (node, None)
        self.orders.append(Move(kind, handover.partition, role, source, target, self._reason(handover), 0.0, row))

    def _reason(self, handover: Handover) -> Reason:
        rule, row = ("upgraded", handover.takers[0]) if handover.returns else ("upgrade", handover.primary)
        return Reason(Phase.PLACEMENT, rule, self.state.nodes[int(self.problem.origin[row])].name)
