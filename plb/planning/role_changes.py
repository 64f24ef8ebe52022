"""The changes of roles of a plan: swaps, promotions, and roles that cannot change."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.energy.from_scratch import solution_from_scratch
from plb.model import Role
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.rules import Rule
from plb.planning.rule_priorities import rule_masks
from plb.planning.upgrades import Handover, HandoverEnd, hand_over, promoted
from plb.search.extended.extensions import Extensions
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.role_slots import load_of_next_primary, may_change_role


class RoleChanges:
    """Makes the changes of roles for an upgrade.

    Parameters
    ----------
    state, problem, solution
        The cluster, its arrays, and the nodes of replicas; none of them is changed.
    tally
        Counts of the proposals; changed.
    extensions
        With the extension constraints; None: there are none.

    Attributes
    ----------
    problem
        The problem in which promoted replicas are primaries, with the load of a primary. Their sampled demand stays
        that of a secondary.
    solution
        The solution after the changes. The slot of a promoted primary gets its node when the plan is applied; until
        then the row of the secondary represents it.
    orders
        Promotions, and moves that report a role that cannot change.
    reasons
        The reason of each row of a partition whose primary changes.
    """

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, tally: Int, extensions: Extensions | None
    ) -> None:
        config = state.config
        self.state, self.problem, self.solution, self._tally = state, problem, solution.copy(), tally
        self._extensions = extensions
        self.orders: list[Move] = []
        self.reasons: dict[int, Reason] = {}
        self._able = may_change_role(state)
        self._relaxed = config.relax_capacity_constraint_for_upgrade
        self._together = config.check_aligned_affinity_for_upgrade
        self._masks = [mask & ~(1 << Rule.AFFINITY) for mask in rule_masks(config)]
        if self._relaxed:
            self._masks.append(self._masks[-1] & ~(1 << Rule.CAPACITY))

    def make(self, handover: Handover) -> None:
        """Make another replica of a partition the primary, if possible."""
        if handover.primary == NOWHERE:
            self._promote(handover)
        elif self.solution.node[handover.primary] == self.problem.origin[handover.primary]:
            self._swap(handover)  # else it has swapped with the rest of its family

    def _swap(self, handover: Handover) -> None:
        before = self.solution.node.copy()
        end = hand_over(
            self.problem,
            self.solution,
            handover,
            self._masks,
            self._able,
            self._tally,
            together=self._together,
            extensions=self._extensions,
        )
        if end is HandoverEnd.IMPOSSIBLE:
            self._order(MoveKind.VOID, handover, handover.primary)
        for row in np.flatnonzero(self.solution.node != before).tolist():
            self.reasons[row] = self._reason(handover)

    def _promote(self, handover: Handover) -> None:
        """Promote a secondary of a partition without a primary."""
        state = self.state
        record = state.partition(handover.partition)
        load = load_of_next_primary(state, record)
        feasibility_class = state.service_feasibility_class[record.service]
        if len(self.problem.feasibility_classes) > len(state.feasibility_classes):
            feasibility_class += len(state.feasibility_classes)  # primaries have their own classes
        able = [row for row in handover.takers if self._allows(row, load, feasibility_class)]
        growth = {row: load - self.problem.load[row] for row in able}
        row = promoted(self.problem, self.solution, growth, feasibility_class, relaxed=self._relaxed)
        if row == NOWHERE:
            self._order(MoveKind.VOID, handover, handover.takers[0])
            return
        self._order(MoveKind.PROMOTE, handover, row)
        self.reasons[row] = self._reason(handover)
        self.problem = self._with_primary(row, load, feasibility_class)
        self.solution = solution_from_scratch(self.problem, self.solution.node)

    def _allows(self, row: int, load: Int, feasibility_class: int) -> bool:
        """Return whether no extension constraint refuses `row` as a primary."""
        if self._extensions is None or not self._extensions.constraints:
            return True
        return self._extensions.allows_promotion(
            self.problem, self._with_primary(row, load, feasibility_class), self.solution, row
        )

    def _with_primary(self, row: int, load: Int, feasibility_class: int) -> Problem:
        """Return the problem with `row` as a primary; capacity that a smaller load frees stays reserved."""
        problem, node = self.problem, self.solution.node[row]
        role, loads, feasibility_classes = problem.role.copy(), problem.load.copy(), problem.feasibility_class.copy()
        kept = problem.leaving_load.copy()
        kept[node] += np.maximum(0, loads[row] - load)
        role[row], loads[row], feasibility_classes[row] = Role.PRIMARY, load, feasibility_class
        return problem._replace(role=role, load=loads, feasibility_class=feasibility_classes, leaving_load=kept)

    def _order(self, kind: MoveKind, handover: Handover, row: int) -> None:
        """Add a move that changes a role, or nothing, but no node."""
        node = self.state.nodes[int(self.problem.origin[row])].name
        role = Role(int(self.problem.role[row]))
        source, target = (None, node) if kind is MoveKind.PROMOTE else (node, None)
        self.orders.append(Move(kind, handover.partition, role, source, target, self._reason(handover), 0.0, row))

    def _reason(self, handover: Handover) -> Reason:
        rule, row = ("upgraded", handover.takers[0]) if handover.returns else ("upgrade", handover.primary)
        return Reason(Phase.PLACEMENT, rule, self.state.nodes[int(self.problem.origin[row])].name)
