"""Upgrades: primaries swap roles before their node is upgraded, and replicas return to kept places after it.

See docs/embedding.md, Upgrades. A primary swaps roles with a ready secondary on a node in service, the one
with the least energy among the secondaries that the most rules allow. Only the new place of the primary is checked.
While upgrade domains bind, it is in another domain than the old one. If the settings allow it, the node may then exceed
its limit. With checks of aligned affinity, the primaries of parent and children on a node swap together.
A missing replica returns to a kept place before others are placed. A primary returns to a place without a replica
after that: the missing replica becomes the primary there. A move of kind void reports what the rules refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.constraints.application_sums import gains_too_much
from plb.constraints.domains import SPREADING
from plb.constraints.preferred_location import is_upgraded
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal, move_row
from plb.evaluation.proposals import FIRST_RULE, Tally, refusal
from plb.model import Role
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.role import PRIMARY, SECONDARY
from plb.model.rules import BUDGETS, NO_REFUSAL, Rule, RuleMask
from plb.planning.rule_priorities import rule_masks
from plb.search.extensions import Extensions
from plb.state.arrays import NO_BUDGET, Problem, Proposal, Solution, are_siblings, siblings_of
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import default_loads, expected_load, load_of_next_primary, may_change_role, slots_of


@attrs.frozen(eq=False)
class Return:
    """Places of a partition that wait for replicas to return."""

    partition: str
    """Name of the partition."""
    places: Sequence[int]
    """Rows of the places without a replica: standbys, and places of dropped replicas."""
    missing: Sequence[int]
    """Rows of its missing replicas."""
    primary: int = NOWHERE
    """Row of the primary that returns; NOWHERE: any missing replica does."""


def return_of(state: ClusterState, record: PartitionRecord) -> Return | None:
    """Return the places of a partition to which replicas return, the primary first; None without any."""
    table = state.rows
    if record.still or not record.upgrading or any(table.swaps_out[row] for row in record.rows):
        return None
    missing = [row for row in record.rows if table.node[row] == NOWHERE]
    regaining = [row for row in record.rows if table.regains[row]]
    if regaining:
        primary = next((row for row in slots_of(state, record) if table.role[row] == PRIMARY), NOWHERE)
        places = [row for row in regaining if table.standby[row]]
        return Return(record.name, places, missing, primary) if places and primary != NOWHERE else None
    places = [row for row in record.rows if table.kept[row] and table.standby[row]]
    return Return(record.name, places, missing) if places and len(missing) >= len(places) else None


class Returns:
    """Places the replicas that return in a solution, under the rules of masks from all to the hard ones."""

    def __init__(
        self, problem: Problem, solution: Solution, masks: Sequence[RuleMask], extensions: Extensions | None
    ) -> None:
        self._problem, self._solution, self._masks, self._extensions = problem, solution, masks, extensions
        self.placed: list[int] = []
        """Rows that have returned."""
        self.refused: list[tuple[str, int]] = []
        """Names of partitions, each with the row of a place that stays without a replica."""

    def place(self, returning: Return) -> None:
        """Place missing replicas of a partition on its kept places; note the places that stay without a replica."""
        places, missing = list(returning.places), list(returning.missing)
        for mask in self._masks:
            for row in list(missing):
                place = next((place for place in places if self._allows(mask, row, self._node(place))), NOWHERE)
                if place != NOWHERE:
                    move_row(self._problem, self._solution, row, self._node(place))
                    self.placed.append(row)
                    missing.remove(row)
                    places.remove(place)
        self.refused += [(returning.partition, place) for place in places]

    def taker(self, returning: Return) -> int:
        """Return the row of the missing replica that becomes the primary on its kept place; NOWHERE if rules forbid."""
        node, primary = self._node(returning.places[0]), returning.primary
        row = primary if primary in returning.missing else next(iter(returning.missing), NOWHERE)
        if any(self._allows_primary(mask, primary, row, node) for mask in self._masks):
            return row
        self.refused.append((returning.partition, returning.places[0]))
        return NOWHERE

    def _allows_primary(self, mask: RuleMask, primary: int, row: int, node: int) -> bool:
        """Return whether the rules of `mask` allow the row `primary` on `node`, its kept place.

        `row`: the missing replica that would become the primary, which gives up its node, if it has one; or NOWHERE.
        """
        solution, source = self._solution, self._solution.node[row] if row != NOWHERE else NOWHERE
        if source == NOWHERE:
            return self._allows(mask, primary, node)
        if row != primary:
            replaced = self._problem.standby.copy()
            replaced[row] = True
            replaced_problem = self._problem._replace(standby=replaced, standbys=self._problem.standbys + 1)
            if refusal(replaced_problem, solution, mask & SPREADING, self._proposal(primary, node)) != NO_REFUSAL:
                return False
            mask &= ~SPREADING
        move_row(self._problem, solution, row, NOWHERE)
        allowed = self._allows(mask, primary, node)
        move_row(self._problem, solution, row, int(source))
        return allowed

    def _allows(self, mask: RuleMask, row: int, node: int) -> bool:
        """Return whether the rules of `mask` and the extension constraints allow replica `row` on `node`."""
        proposal = self._proposal(row, node)
        if refusal(self._problem, self._solution, mask, proposal) != NO_REFUSAL:
            return False
        extensions = self._extensions
        if extensions is None:
            return True
        return extensions.refuse(extensions.configuration(self._problem, self._solution), proposal) is None

    def _proposal(self, row: int, node: int) -> Proposal:
        """Return the move of replica `row` from its present node to `node`."""
        return Proposal(row, node, NOWHERE, int(self._solution.node[row]))

    def _node(self, place: int) -> int:
        """Return the node of the row `place`."""
        return int(self._solution.node[place])


Swap = tuple[int, int]
"""Rows of a primary and of the secondary that becomes the primary."""


@attrs.frozen(eq=False)
class Handover:
    """A partition of which another replica is to become the primary."""

    partition: str
    """Name of the partition."""
    primary: int
    """Row of the primary; NOWHERE without one: a secondary is then promoted."""
    takers: Sequence[int]
    """Rows of the secondaries that may become the primary."""
    marked: int
    """Row of the replica with the mark."""
    void: int
    """Row of the replica whose role a move of kind void reports as fixed if no taker can have it, or NOWHERE."""
    returns: bool
    """Whether the role goes back to where it was before the upgrade."""


UNCHECKED = 1 << Rule.AFFINITY | 1 << Rule.PLACEMENT
"""Rules that no swap for an upgrade is asked about; the placement constraint of the new primary is checked apart."""


def _preferred(problem: Problem, solution: Solution, mask: RuleMask, takers: Sequence[int]) -> Sequence[int]:
    """Return the `takers`, rows, on upgraded nodes; all if none is, or if `mask` has no preferred locations."""
    if not mask >> Rule.PREFERRED_LOCATION & 1:
        return takers
    return [row for row in takers if is_upgraded.py_func(problem, row, solution.node[row])] or takers


def _receive(problem: Problem, mask: RuleMask, primaries: Sequence[int], node: int) -> bool:
    """Return whether `node` is in service, and allowed for all `primaries`, rows, if `mask` has Rule.PLACEMENT."""
    feasible = all(problem.feasibility_classes[problem.feasibility_class[row], node] for row in primaries)
    return bool(problem.receives[0, node]) and (feasible or not mask >> Rule.PLACEMENT & 1)


def _aligned_primaries(problem: Problem, solution: Solution, primary: int) -> list[int]:
    """Return the primaries of the aligned family of the partition on the node of `primary`, itself first."""
    node = solution.node[primary]
    parent = int(problem.parent_row[primary])
    partition_rows = [parent] if parent != NOWHERE and problem.aligned[primary] else [primary]
    child = int(problem.first_child[partition_rows[0]])
    while child != NOWHERE:
        if problem.aligned[child]:
            partition_rows.append(child)
        child = int(problem.next_child[child])
    family_rows = [row for partition_row in partition_rows for row in siblings_of(problem, partition_row)]
    primaries = [row for row in family_rows if problem.role[row] == PRIMARY and solution.node[row] == node]
    return [primary, *(row for row in primaries if row != primary and not problem.unspread[row])]


def _swaps_onto(
    problem: Problem, solution: Solution, primaries: Sequence[int], taker: int, may_change: Bool, *, also_unready: bool
) -> list[Swap]:
    """Return the swaps of roles that move all `primaries` to the node of `taker`, or none if that is impossible.

    `may_change`: (M,) whether the replica is ready to change its role; `also_unready`: unready primaries swap too.
    """
    target = solution.node[taker]
    swaps = []
    for primary in primaries:
        if are_siblings(problem, primary, taker):
            secondary = taker
        else:
            on_target = [
                row for row in siblings_of(problem, primary) if may_change[row] and solution.node[row] == target
            ]
            secondary = next((row for row in on_target if problem.role[row] == SECONDARY), NOWHERE)
        if secondary == NOWHERE or not (also_unready or may_change[primary]):
            return []
        swaps.append((primary, secondary))
    return swaps


def _try(
    problem: Problem, solution: Solution, swaps: Sequence[Swap], enforced: RuleMask, extensions: Extensions | None
) -> tuple[int | str, float]:
    """Return what refuses the swaps, a rule of `enforced` or the name of a constraint, or NO_REFUSAL, and the energy.

    The energy is of the solution after all swaps; the solution is changed and restored.
    """
    refused: int | str = NO_REFUSAL
    applied: list[Proposal] = []
    for primary, secondary in swaps:
        proposal = _swap(solution, primary, secondary)
        refused = int(refusal(problem, solution, enforced, proposal))
        if refused == NO_REFUSAL and extensions is not None:
            refused = extensions.refuse(extensions.configuration(problem, solution), proposal) or NO_REFUSAL
        if refused != NO_REFUSAL:
            break
        apply_proposal(problem, solution, proposal)
        applied.append(proposal)
    energy = float(present_energy(problem, solution))
    for proposal in reversed(applied):
        apply_proposal(problem, solution, proposal.inverse)
    return refused, energy


def _swap(solution: Solution, primary: int, secondary: int) -> Proposal:
    """Return the exchange of the nodes of a primary and a secondary."""
    source, target = int(solution.node[primary]), int(solution.node[secondary])
    return Proposal(primary, target, secondary, source)


class RoleChanges:
    """Makes the changes of roles for an upgrade, in copies; `tally` is changed."""

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, tally: Tally, extensions: Extensions | None
    ) -> None:
        config = state.config
        self.state, self._tally, self._extensions = state, tally, extensions
        self.problem = problem
        """With promoted replicas as primaries with the load of one; they keep the sampled demand of secondaries."""
        self.solution = solution.copy()
        """After the changes. A promoted primary is in the row of the secondary until the plan is applied."""
        self.orders: list[Move] = []
        """Promotions, and moves that report a role that cannot change."""
        self.reasons: dict[int, Reason] = {}
        """The reason of each row of a partition whose primary changes."""
        self._may_change = may_change_role(state)
        """(M,) whether each replica is ready to change its role."""
        self._may_overload = config.relax_capacity_constraint_for_upgrade
        self._swaps_families = config.check_aligned_affinity_for_upgrade
        """Whether the primaries of parent and children on a node swap together."""
        self._masks = list(rule_masks(config))
        binds = config.upgrade_domain_enabled and config.upgrade_domain_constraint_priority >= 0
        self._upgrade_domain = [node.upgrade_domain_name if binds else node.name for node in state.nodes]
        """The domain that a primary has to leave, by node: the node alone if upgrade domains do not bind."""
        if self._may_overload:
            self._masks.append(self._masks[-1] & ~(1 << Rule.CAPACITY))

    def make(self, handover: Handover) -> None:
        """Make another replica of the partition of `handover` the primary, if possible."""
        placed = [row for row in handover.takers if self.solution.node[row] != NOWHERE]
        handover = attrs.evolve(handover, takers=placed)
        if handover.primary == NOWHERE:
            self._promote(handover)
        elif self.solution.node[handover.primary] == self.problem.origin[handover.primary]:
            self._swap(handover)  # else it has swapped with the rest of its family

    def _swap(self, handover: Handover) -> None:
        """Swap the roles of the primary and a secondary, or report that they cannot, and note the reasons."""
        node_before = self.solution.node.copy()
        if not self._hand_over(handover):
            self._give_up(handover)
        for row in np.flatnonzero(self.solution.node != node_before).tolist():
            self.reasons[row] = self._reason(handover)

    def _hand_over(self, handover: Handover) -> bool:
        """Swap the roles of the primary and of the best taker, in place; return False if rules, not budgets, forbid."""
        problem, solution, primary = self.problem, self.solution, handover.primary
        source, waits_for_budget = int(solution.node[primary]), False
        primaries = _aligned_primaries(problem, solution, primary) if self._swaps_families else [primary]
        receives = problem.receives.copy()
        receives[0, source] = True  # the role leaves a node that allows no new replica
        # a role may use what moves leave free, and no throttle holds it back
        relaxed_problem = problem._replace(receives=receives, move_limit=problem.limit, max_swaps=NO_BUDGET)
        for mask in self._masks:
            best: tuple[float, list[Swap]] | None = None
            for taker in _preferred(problem, solution, mask, handover.takers):
                target = int(solution.node[taker])
                needs_no_other_domain = handover.returns and not mask >> Rule.UPGRADE_DOMAIN & 1
                if not (needs_no_other_domain or self._upgrade_domain[target] != self._upgrade_domain[source]):
                    continue
                swaps = _swaps_onto(
                    problem, solution, primaries, taker, self._may_change, also_unready=handover.returns
                )
                if not swaps or not _receive(problem, mask, primaries, target):
                    continue
                refused, energy = _try(relaxed_problem, solution, swaps, mask & ~UNCHECKED, self._extensions)
                if isinstance(refused, str):
                    continue
                if refused in BUDGETS:
                    waits_for_budget = True
                    self._tally[FIRST_RULE + refused] += 1
                elif refused == NO_REFUSAL and (best is None or energy < best[0]):
                    best = energy, swaps
            if best is not None:
                for pair in best[1]:
                    apply_proposal(problem, solution, _swap(solution, *pair))
                return True
        return waits_for_budget

    def _promote(self, handover: Handover) -> None:
        """Promote a secondary of a partition without a primary, in copies of the arrays, or report that none can be."""
        state = self.state
        record = state.partition(handover.partition)
        load = load_of_next_primary(state, record)
        feasibility_class = state.service_table.feasibility_class[record.service]
        if len(self.problem.feasibility_classes) > len(state.feasibility_classes):
            feasibility_class += len(state.feasibility_classes)  # primaries have their own classes
        allowed = [row for row in handover.takers if self._allows(row, load, feasibility_class)]
        growth = {row: load - self.problem.load[row] for row in allowed}
        row = self._promoted(growth, feasibility_class)
        if row == NOWHERE:
            self._give_up(handover)
            return
        self._order(MoveKind.PROMOTE, handover.partition, row, self._reason(handover))
        self.reasons[row] = self._reason(handover)
        self.problem = self._with_primary(row, load, feasibility_class)
        self.solution = solution_from_scratch(self.problem, self.solution.node)

    def _promoted(self, growth: Mapping[int, Int], feasibility_class: int) -> int:
        """Return the secondary that becomes the primary of a partition without one, or NOWHERE.

        `growth`: increase of the load by the role, (R,) quanta, by candidate row; `feasibility_class`: of a primary.
        """
        problem, solution = self.problem, self.solution
        fits = problem.receives[0] & problem.feasibility_classes[feasibility_class]
        feasible = [row for row in growth if fits[solution.node[row]]]
        fitting = [row for row in feasible if not gains_too_much(problem, solution, row, growth[row])]
        return next(iter(fitting or (feasible if self._may_overload else [])), NOWHERE)

    def _allows(self, row: int, load: Int, feasibility_class: int) -> bool:
        """Return whether no constraint refuses `row` as a primary with this `load`, (R,), and `feasibility_class`."""
        extensions = self._extensions
        if extensions is None or not extensions.constraints:
            return True
        promoted_problem = self._with_primary(row, load, feasibility_class)
        return extensions.allows_promotion(self.problem, promoted_problem, self.solution, row)

    def _with_primary(self, row: int, load: Int, feasibility_class: int) -> Problem:
        """Return the problem with replica `row` as a primary with this `load`, (R,) quanta, and `feasibility_class`.

        Capacity that a smaller load frees stays reserved.
        """
        problem, node = self.problem, self.solution.node[row]
        role, loads, feasibility_classes = problem.role.copy(), problem.load.copy(), problem.feasibility_class.copy()
        leaving_load = problem.leaving_load.copy()
        leaving_load[node] += np.maximum(0, loads[row] - load)
        role[row], loads[row], feasibility_classes[row] = Role.PRIMARY, load, feasibility_class
        return problem._replace(role=role, load=loads, feasibility_class=feasibility_classes, leaving_load=leaving_load)

    def add_primary(self, returning: Return, row: int) -> None:
        """Make the missing replica `row` the primary on the kept place of the primary."""
        state, place = self.state, returning.places[0]
        node = self.solution.node.copy()
        node[row] = node[place]
        if row != returning.primary:
            record = state.partition(returning.partition)
            default = default_loads(state.quanta, state.services[record.service])[Role.PRIMARY]
            load = expected_load(state, record, Role.PRIMARY, default)
            self.problem = self._with_primary(row, load, int(self.problem.feasibility_class[returning.primary]))
        self.solution = solution_from_scratch(self.problem, node)
        self.reasons[row] = self._returned(place)

    def give_up_place(self, partition: str, place: int) -> None:
        """Report by a move of kind void that no replica returns to the row `place` of a partition, by its name."""
        self._order(MoveKind.VOID, partition, place, self._returned(place))

    def _give_up(self, handover: Handover) -> None:
        """Report that a role cannot change, if the handover asks for it."""
        if handover.void != NOWHERE:
            self._order(MoveKind.VOID, handover.partition, handover.void, self._reason(handover))

    def _order(self, kind: MoveKind, partition: str, row: int, reason: Reason) -> None:
        """Add an order for `row` of `partition`, a name: a move that changes its role, or nothing, but not its node."""
        node = self.state.nodes[int(self.problem.origin[row])].name
        role = Role(int(self.problem.role[row]))
        source, target = (None, node) if kind is MoveKind.PROMOTE else (node, None)
        self.orders.append(Move(kind, partition, role, source, target, reason, 0.0, row))

    def _reason(self, handover: Handover) -> Reason:
        """Return the reason of a change of roles: the upgrade of the node of the marked replica, or its end."""
        if handover.returns:
            return self._returned(handover.marked)
        return Reason(Phase.PLACEMENT, "upgrade", self.state.nodes[int(self.problem.origin[handover.marked])].name)

    def _returned(self, place: int) -> Reason:
        """Return the reason of a move or change of role because the node of the row `place` has been upgraded."""
        return Reason(Phase.PLACEMENT, "upgraded", self.state.nodes[int(self.problem.origin[place])].name)
