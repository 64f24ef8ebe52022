"""One call of the engine: its phases in sequence on one solution, and the resulting plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.constraints.domains import SPREADING
from plb.constraints.scale_out import limits_of_balancing
from plb.energy.score import energy_of, weights_in_balancing
from plb.energy.soft_violations import soft_count
from plb.errors import ConflictError
from plb.model import DeactivationIntent
from plb.model.move import Phase, Reason
from plb.model.outcome import Idle, Undrained
from plb.model.plan import Plan, PlanMoves
from plb.model.rules import Rule
from plb.planning.dropping import Surplus, drop_surplus, still_surplus, without_replaced_standbys
from plb.planning.explanations.diagnosis import Audit, placed_all_or_nothing, undrained_of, unplaced_of
from plb.planning.explanations.move_reasons import MoveReasons, bounding_budgets, reasons_by_risk
from plb.planning.pending_work import Work
from plb.planning.phase_state import PhaseState
from plb.planning.plan_start import Broken, check_start
from plb.planning.rule_priorities import (
    balancing_variants,
    binding_rules,
    placement_masks,
    rule_masks,
    rule_priorities,
)
from plb.planning.service_domains import ServiceDomain
from plb.planning.upgrades import Handover, Return, Returns, RoleChanges
from plb.search.annealing.overload_price import WIN
from plb.search.balancing import balance, most_displaced, uneven_metrics
from plb.search.budget import ENDLESS, EndReason, chosen_settings, stream_of
from plb.search.placement import place_rows
from plb.search.repair.breaches import find_breaches, suspects_after
from plb.search.repair.repair import repair
from plb.search.result import Annealed, Search, moves_of
from plb.search.risk_relief import Limits, relieve_nodes_at_risk
from plb.search.transactions import Places, go_to
from plb.settings.config import PlbConfig
from plb.settings.search import Cooling
from plb.state.arrays import TENTHS, Problem, Solution
from plb.state.replica_table import merged

_PHASES = tuple(Phase)
AFFINITY_BIT = 1 << Rule.AFFINITY


@attrs.frozen(eq=False)
class Begun:
    """The start of a phase."""

    places: Places
    """The rows that earlier phases have moved, and their nodes."""
    broken: Mapping[int, str]
    """The rows that break an extension constraint, each with its name."""


class PhaseRun(PhaseState):
    """The phases of one call, each of which starts from the result of the previous one."""

    def begin_placement(self, work: Work) -> None:
        """Drop surplus replicas, change the roles that an upgrade asks for, and fill the places that it has kept."""
        if work.handovers or work.returns:
            self.solution = self.solution.copy()  # the changes of roles are not undone
        self.drop(work.surpluses)
        self.hand_over(work.handovers)
        self.return_replicas(work.returns)

    def place(self, rows: list[int], *, with_moves: bool = True) -> None:
        """Place the replicas of `rows` without a node; `with_moves`: others may be moved to free capacity."""
        config = self.config
        rows = [row for row in rows if self.solution.node[row] == NOWHERE]
        # capacity that others free in the same plan would not count
        with_moves = with_moves and config.move_existing_replica_for_placement
        with_moves = with_moves and not config.prevent_transient_overcommit
        self._add_others(rows)
        begun, seed = self._begin(), self._seed_of(Phase.PLACEMENT)
        result = self._placed(rows, placement_masks(config), seed, with_moves=with_moves)
        if self._relaxes_affinity and (self.solution.node[rows] == NOWHERE).all():
            result = self._placed(rows, (rule_masks(config)[-1] & ~AFFINITY_BIT,), seed.spawn(1)[0], with_moves=False)
        self._take(Phase.PLACEMENT, result, begun)
        full = self.problem.throttled and self.solution.totals.builds >= self.problem.max_builds * TENTHS
        if full and (self.solution.node[rows] == NOWHERE).any():
            self.log.note_bounding([Rule.BUILDS])

    def _placed(
        self, rows: list[int], masks: Sequence[int], seed: np.random.SeedSequence, *, with_moves: bool
    ) -> Annealed:
        """Place `rows` under each of `masks` in turn, `with_moves` of other replicas or without; return the result."""
        budget = self._of_placement_and_repair.share(1 + self.searches_after)
        budget = budget.within(self.config.placement_search_timeout)
        groups = placed_all_or_nothing(self.state, self.problem, rows)
        search = self.search_of(self._problem_of(Phase.PLACEMENT))
        return place_rows(search, rows, groups, masks, seed, budget, with_moves=with_moves)

    def search_of(self, problem: Problem, config: PlbConfig | None = None) -> Search:
        """Return what a search of `problem` begins with; `config`: its settings, None: the engine's."""
        return Search(problem, self.solution, config or self.config, self._extensions, self._others)

    @property
    def _relaxes_affinity(self) -> bool:
        """Whether replicas that all find no place are placed apart from their parents, as balancing is off."""
        config = self.config
        relaxes = config.relax_affinity_constraint_during_upgrade and not config.load_balancing_enabled
        return relaxes and self.problem.related and self._policy is None

    def drop(self, surpluses: Sequence[Surplus]) -> None:
        """Drop surplus replicas, relaxing soft rules one by one; a refresh with one action stops at a success."""
        if not surpluses:
            return
        remaining = list(surpluses)
        dropped: list[int] = []
        for mask in rule_masks(self.config):
            rows = drop_surplus(
                self.problem, self.solution, remaining, mask, self.state.rows.moving, self._stays, self._extensions
            )
            remaining, dropped = still_surplus(remaining, rows), dropped + rows
            if rows and self.config.one_action_per_refresh:
                break
        self._add_others(dropped)
        self._note_changes("drop")
        self.log.phases.append(Phase.PLACEMENT)
        are_dropped = {*dropped}
        for surplus in surpluses:
            numbers = {"replicas": len(surplus.rows), "requested": len(surplus.rows) - surplus.count}
            reason = Reason(Phase.PLACEMENT, "surplus", numbers=numbers)
            self.log.reasons.update(dict.fromkeys(are_dropped.intersection(surplus.rows), reason))

    def hand_over(self, handovers: Sequence[Handover]) -> None:
        """Change the roles of primaries by `handovers`; moves of kind void report roles that cannot change."""
        if not handovers:
            return
        changes = self._role_changes()
        for handover in handovers:
            changes.make(handover)
        self._take_roles(changes, "hand over")

    def return_replicas(self, wishes: Sequence[Return]) -> None:
        """Place missing replicas on the places in `wishes` that an upgrade has kept for them."""
        kept = [wish for wish in wishes if wish.primary == NOWHERE]
        if not kept:
            return
        changes = self._role_changes()
        returns = self._returns_to(changes.solution)
        for wish in kept:
            returns.place(wish)
        self._add_others(returns.placed)
        self.log.reasons.update(dict.fromkeys(returns.placed, Reason(Phase.PLACEMENT, "new replica")))
        self._take_roles(changes, "return", returns)

    def return_primaries(self, wishes: Sequence[Return]) -> None:
        """Make missing replicas the primaries on the places in `wishes` that an upgrade has kept for primaries."""
        for wish in wishes:
            if wish.primary == NOWHERE:
                continue
            changes = self._role_changes()
            returns = self._returns_to(changes.solution)
            row = returns.taker(wish)
            if row != NOWHERE:
                changes.add_primary(wish, row)
                self._add_others([row])
            self._take_roles(changes, "return", returns)

    def _role_changes(self) -> RoleChanges:
        """Return an object that changes roles in copies of the problem and the solution."""
        return RoleChanges(self.state, self.problem, self.solution, self.log.tally, self._extensions)

    def _returns_to(self, solution: Solution) -> Returns:
        """Return an object that places returning replicas in `solution`, under the rules of placement."""
        masks = placement_masks(self.config)
        return Returns(self._problem_of(Phase.PLACEMENT), solution, masks, self._extensions)

    def _take_roles(self, changes: RoleChanges, moment: str, returns: Returns | None = None) -> None:
        """Take over changed roles and leave alone the partitions whose primary changes; `moment` is named in errors."""
        for partition, place in () if returns is None else returns.refused:
            changes.give_up_place(partition, place)
        self.problem, self.solution = changes.problem, changes.solution
        if self._extensions is not None:
            self.solution = self._extensions.journalled(self.solution)
        self.log.orders += changes.orders
        self.log.reasons.update(changes.reasons)
        self.leave_alone({self.state.row_partition[row] for row in changes.reasons})
        self._note_changes(moment)
        self.log.phases.append(Phase.PLACEMENT)

    @property
    def _stays(self) -> Bool:
        """Whether each row is pinned, becomes a primary, or is on a paused node, (M,), and so must not be dropped."""
        table = self.state.rows
        paused = [node.deactivation_intent is DeactivationIntent.PAUSE for node in self.state.nodes]
        return table.pinned | table.regains | np.array([*paused, False], np.bool_)[table.node]

    def repair(self, *, light: bool = False) -> None:
        """Repair broken constraints, if any are; `light`: except the spread over domains."""
        passed_over = SPREADING if light else 0
        masks = rule_masks(self.config)
        breaches = self._breaches(masks[0] & ~passed_over)
        if not breaches and not self._broken_extensions:
            self.log.note_idle(Phase.REPAIR, Idle.NOTHING_BROKEN)
            return
        problem = self._problem_of(Phase.REPAIR)
        budget = self._of_placement_and_repair.share(1 + self.searches_after).each(len(masks))
        budget = budget.within(self.config.constraint_check_search_timeout)
        seed, suspects, begun = self._seed_of(Phase.REPAIR), self._suspects, self._begin()
        result = repair(self.search_of(problem), masks, seed, budget, suspects, passed_over)
        self._take(Phase.REPAIR, result, begun, masks[0] & ~passed_over)
        if problem.bounded:
            others = self._broken_extensions
            self.log.note_bounding(bounding_budgets(problem, self.solution, masks, passed_over, self._suspects, others))

    def balance(self, *, slow: bool = False) -> None:
        """Balance if a metric is out of balance; keep a result that lowers the energy enough. `slow`: cool slowly."""
        if self.is_at_risk and not len(self.start.rows) and self._avoid_violations():
            return
        if not self.is_unbalanced:
            self.log.note_idle(Phase.BALANCING, Idle.BALANCED)
            return
        self.weigh_for_balancing()
        before, begun, soft_cost = self._energy(self.solution).total, self._begin(), self._soft_cost()
        movement = self.solution.totals.movement
        config, timeout = self.config, self.config.fast_balancing_search_timeout
        if slow:
            rate, timeout = config.slow_balancing_temperature_decay_rate, config.slow_balancing_search_timeout
            config = attrs.evolve(config, fast_balancing_temperature_decay_rate=rate)
        seed, problem = self._seed_of(Phase.BALANCING), self._problem_of(Phase.BALANCING)
        apart = config.one_action_per_refresh and not config.extension_terms
        services = self._unbalanced_services if apart else None
        uneven = uneven_metrics(problem, self.solution, self.config, self.state.quanta)
        problem = problem._replace(uneven=uneven, most_nodes=limits_of_balancing(problem, self.solution))
        within = self.budget.within(timeout)
        limit = most_displaced(self.problem, self.solution, self.config)
        movable = int(np.count_nonzero(problem.movable & (self.solution.node != NOWHERE)))
        config = chosen_settings(problem, config, within, movable, limit)
        variants = balancing_variants(config, slow=slow)
        at_start = self._go_to_start(limit) if len(self.start.rows) else math.inf
        result = balance(self.search_of(problem, config), variants, seed, within, services)
        if result.energy > at_start:
            go_to(self.problem, self.solution, self.start, self._others)
            result = attrs.evolve(result, energy=at_start)
        if result.energy >= before - self._least_gain(config, movement) or self._soft_cost() > soft_cost:
            go_to(self.problem, self.solution, begun.places, self._others)
            is_priced = config.cooling is Cooling.BY_PRICE
            if is_priced and (result.energy < before or result.end_reason is EndReason.CONVERGED):
                result = attrs.evolve(result, end_reason=EndReason.NOT_WORTH_A_MOVE)
        self._is_full = self.solution.totals.displaced >= limit
        self._take(Phase.BALANCING, result, begun)

    def _soft_cost(self) -> float:
        """Return what expected violations cost, in moves, which balancing by thresholds must not raise."""
        return 0.0 if self.config.violation_cost is None else soft_count(self.problem, self.solution, self.config).cost

    def _avoid_violations(self) -> bool:
        """Make the moves that avoid more expected violations than they cost; return whether there are any."""
        begun, before, config = self._begin(), self.solution.copy(), self.config
        problem = self._problem_of(Phase.BALANCING)
        problem = problem._replace(most_nodes=limits_of_balancing(problem, before))
        most = most_displaced(problem, before, config)
        budget = self.budget.within(config.fast_balancing_search_timeout)
        limits = Limits(most, binding_rules(config), ENDLESS if budget.proposals is None else budget.proposals)
        count = self._count_at_start()
        result = relieve_nodes_at_risk(
            problem,
            self.solution,
            count._replace(violations=count.violations.copy()),
            limits,
            self._seed_of(Phase.BALANCING).spawn(1)[0],
            budget,
        )
        self._is_full = self.solution.totals.displaced >= most - 1
        self._note_changes("relief")
        if not len(self.moved_rows):
            self.log.tally += result.tally
            self.log.note_idle(Phase.BALANCING, Idle.NOT_WORTH_A_MOVE)
            return False
        self.log.reasons |= reasons_by_risk(self._audit(before, problem), self.solution, self.moved_rows, count)
        self._take(Phase.BALANCING, result, begun)
        return True

    def _go_to_start(self, limit: int) -> float:
        """Move at most `limit` replicas to their places of an earlier plan, if they may be there; return the energy."""
        hard, suspects, problem = rule_masks(self.config)[-1], self._suspects, self._problem_of(Phase.BALANCING)
        before = Broken(find_breaches(problem, self.solution, hard, suspects), self._broken_extensions)
        go_to(problem, self.solution, self.start, self._others)
        suspects = suspects_after(problem, self.solution, suspects, self._others)
        after = Broken(find_breaches(problem, self.solution, hard, suspects), self._broken_extensions)
        check_start(self.state, problem, self.solution, self.start, before, after)
        if self.solution.totals.displaced > limit + 1:  # a last swap of roles may displace one replica more
            raise ConflictError(f"plan: moves more than {limit} replicas with the plan of start; balance without it")
        return self._energy(self.solution).total

    def _least_gain(self, config: PlbConfig, movement: int) -> float:
        """Return the least decrease of the energy for which balancing is kept; priced moves must win twice their cost.

        `movement`: in tenths, before balancing.
        """
        least = config.score_improvement_threshold
        if config.cooling is Cooling.BY_PRICE:
            cost = (self.solution.totals.movement - movement) / self.problem.weights.tenths_of_move
            least = max(least, (WIN - 1.0) * float(cost))
        return least

    def weigh_for_balancing(self) -> None:
        """Give the imbalance the weight that it has in balancing, also in the energies of the plan."""
        weights = weights_in_balancing(self.problem, self.solution)
        self.problem = self.problem._replace(weights=weights)
        total, extensions = energy_of(weights, self._values_before), self._extensions
        if extensions is not None and extensions.terms:
            total += extensions.weighted(self._energy_before.extension_terms)
        self._energy_before = attrs.evolve(self._energy_before, total=total)

    def plan(self, missing: list[int], domain: ServiceDomain | None, action: str | None = None) -> Plan:
        """Return the plan of a domain (None: all services) to place `missing` rows; `action`: of a refresh, if any."""
        extensions = self._extensions
        counted = extensions is not None and bool(extensions.refused or extensions.rejected)
        extension_proposals = extensions.proposals if extensions is not None and counted else None
        outcome = self.log.outcome(self.state, self.problem, domain, action, self._immovable_rows, extension_proposals)
        placing = self._problem_of(Phase.PLACEMENT)
        return Plan(
            moves=self._moves(),
            energy_before=self._energy_before,
            energy_after=self._energy(without_replaced_standbys(self.problem, self.solution)),
            unplaced=tuple(unplaced_of(self._audit(self.solution, placing), missing, self._extensions)),
            end_reason=outcome.end_reason,
            phases=outcome.phases,
            proposals=outcome.proposals,
            bound_by=outcome.bound_by,
            outcomes=(outcome,),
            reproducible=not self.log.out_of_time,
            temperature=self.log.temperature,
            undrained=tuple(self._undrained(domain)),
        )

    def _undrained(self, domain: ServiceDomain | None) -> Iterable[Undrained]:
        """Return the replicas that stay on nodes that have to be emptied, if repair ran or had nothing to do."""
        if not self.log.looked_for(Phase.REPAIR):
            return ()
        audit = self._audit(self.solution, self._problem_of(Phase.REPAIR))
        return undrained_of(audit, domain, rule_masks(self.config), self._extensions)

    def _moves(self) -> PlanMoves:
        """Return the moves that lead to the solution, after the changes of roles."""
        rows = self.moved_rows
        to_solution = moves_of(self.state, self.problem, self.solution, rows, self.log.reasons) if len(rows) else ()
        return PlanMoves.joined([self.log.orders, to_solution])

    @property
    def _immovable_rows(self) -> Sequence[int]:
        """The placed replicas, without standbys, that no plan may move, ascending."""
        if self.leaves_alone:
            standing = (self.problem.origin != NOWHERE) & ~self.problem.unspread & ~self.problem.repairable
            return np.flatnonzero(standing).tolist()
        return sorted(self._work.immovable)

    def _begin(self) -> Begun:
        """Return the places and the broken constraints at the start of a phase, for the reasons of its moves."""
        return Begun(Places(self.moved_rows, self.solution.node[self.moved_rows]), self._broken_extensions)

    def _take(self, phase: Phase, result: Annealed, begun: Begun, repaired: int = 0) -> None:
        """Note the `result` of a phase and why each row moved; `repaired`: RuleMask of the rules that it repairs."""
        self.log.note_end(phase, result)
        self._note_changes(phase.value)
        rows = merged(self.moved_rows, begun.places.rows)
        sources = begun.places.among(rows, self.problem.origin)
        moved = (self.solution.node[rows] != sources) & (self.solution.node[rows] != NOWHERE)
        reasons = dict.fromkeys(rows[moved & (sources == NOWHERE)].tolist(), Reason(phase, "new replica"))
        moved &= sources != NOWHERE
        nodes = dict(zip(rows[moved].tolist(), sources[moved].tolist(), strict=True)) if begun.broken else {}
        for row, name in begun.broken.items():
            if row in nodes:
                reasons[row] = Reason(phase, name, self.state.nodes[nodes[row]].name)
        others = [row for row in rows[moved].tolist() if row not in reasons and row not in self.log.reasons]
        if others:
            before = self.solution.copy()
            go_to(self.problem, before, begun.places, self._others)
            audit = self._audit(before, self.problem)
            move_reasons = MoveReasons(phase, audit, self.solution, repaired, self._extensions)
            reasons |= move_reasons.of(np.array(others, np.int64))
        self.log.reasons = reasons | self.log.reasons

    def _audit(self, solution: Solution, problem: Problem) -> Audit:
        """Return an audit of `solution`, with the priorities of the rules by the settings."""
        return Audit(self.state, problem, solution, rule_priorities(self.config))

    def _seed_of(self, phase: Phase) -> np.random.SeedSequence:
        """Return the seed of a phase, which no other phase uses."""
        return stream_of(self._seed, _PHASES.index(phase))
