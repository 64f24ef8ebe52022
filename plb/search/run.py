"""One call of the engine: the phases one after the other on one solution, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from plb.arrays import NOWHERE, Problem, Solution
from plb.config import PlbConfig
from plb.constraints import ALL_RULES, Rule
from plb.outcome import DomainOutcome, Idle
from plb.plan import Phase, Plan, Proposals, Reason
from plb.problem import start_solution
from plb.search.annealing import Annealed, Budget, EndReason, new_tally
from plb.search.balancing import Variant, balance, is_unbalanced
from plb.search.dropping import Surplus, drop_surplus
from plb.search.elimination import unplaced_row
from plb.search.held import concerned, held_replicas
from plb.search.inspection import Inspection
from plb.search.motives import Motives
from plb.search.placement import place_rows
from plb.search.proposal import FIRST_RULE
from plb.search.repair import Breaches, find_breaches, repair
from plb.search.result import energy_of_solution, moves_of, proposals_of
from plb.service_domains import ServiceDomain
from plb.state import ClusterState
from plb.unplaced import Together, Unplaced

BUDGETS = (Rule.MOVES, Rule.NODE_MOVES, Rule.SERVICE_MOVES)


def rule_priorities(config: PlbConfig) -> dict[Rule, int]:
    """Return the priority of every constraint that may be soft: 0 hard, 1 soft, 2 wished for, -1 off."""
    return {
        Rule.PLACEMENT: config.placement_constraint_priority,
        Rule.PREFERRED_LOCATION: config.preferred_location_constraint_priority,
        Rule.FAULT_DOMAIN: config.fault_domain_constraint_priority,
        Rule.UPGRADE_DOMAIN: config.upgrade_domain_constraint_priority,
        Rule.CAPACITY: config.capacity_constraint_priority,
        Rule.AFFINITY: config.affinity_constraint_priority,
    }


class Run:
    """The phases of one call, each starting where the one before ended.

    Parameters
    ----------
    state, problem
        The cluster, and its arrays.
    seed
        Of this call.
    budget
        Of each phase.
    """

    def __init__(self, state: ClusterState, problem: Problem, seed: np.random.SeedSequence, budget: Budget) -> None:
        self.state, self.problem, self.budget = state, problem, budget
        self.config = state.config
        self.start = start_solution(problem, self.config.metric_names)
        self.solution: Solution = self.start
        self._seeds = dict(zip(Phase, seed.spawn(len(Phase)), strict=True))
        self._reasons: dict[int, Reason] = {}
        self._phases: list[Phase] = []
        self._tally = new_tally()
        self._end = EndReason.NOTHING_TO_DO
        self._out_of_time = False
        self._idle: dict[Phase, Idle] = {}
        self._together: dict[str, Together] = {}
        self._left_out: dict[int, Unplaced] = {}

    @property
    def changed(self) -> bool:
        """Whether a phase has found moves so far."""
        return bool(self._reasons)

    @property
    def is_anything_movable(self) -> bool:
        """Whether a plan may move any replica that stands."""
        return bool((self.problem.movable & (self.solution.node != NOWHERE)).any())

    def limit_moves(self, allowance: int | None) -> int:
        """Let the plan make at most so many moves, None: as the settings say; return how many."""
        if allowance is not None:
            self.problem = self.problem._replace(max_moves=min(self.problem.max_moves, allowance))
        return self.problem.max_moves

    def is_anything_broken(self, *, light: bool = False) -> bool:
        """Return whether a constraint of any priority is broken; `light`: the spread over domains aside."""
        return bool(find_breaches(self.problem, self.solution, self._masks(light=light)[0]))

    @property
    def is_unbalanced(self) -> bool:
        """Whether some metric calls for balancing."""
        return is_unbalanced(self.problem, self.solution, self.config, self.state.steps)

    def place(self, rows: list[int], *, with_moves: bool = True) -> None:
        """Place the missing replicas in `rows`; `with_moves`: others may make room for them."""
        while True:
            result = place_rows(
                self.problem,
                self.solution,
                rows,
                self.config,
                self._placement_masks(),
                self._seeds[Phase.PLACEMENT],
                self.budget,
                with_moves=with_moves and self.config.move_existing_replica_for_placement,
            )
            halves = self._placed_in_part(result.solution, rows)
            if not halves:
                break
            self._leave_out(result.solution, rows, halves)
            rows = [row for row in rows if self.state.row_partition[row] not in halves]
        self._take(Phase.PLACEMENT, result, None)

    def _placed_in_part(self, solution: Solution, rows: list[int]) -> set[str]:
        """Return the partitions that are to be placed wholly or not at all and of which a row found no place.

        That is asked for by the service, or for all where `partially_place_services` is off, while a partition has no
        replica yet.
        """
        halves = set()
        for row in rows:
            name = self.state.row_partition[row]
            record = self.state.partitions[name]
            wholly = self.state.suits[self.state.service_suit[record.service]].expression.places_wholly
            new = all(self.problem.origin[other] == NOWHERE for other in record.rows)
            missed = solution.node[row] == NOWHERE
            if missed and new and (wholly or not self.config.partially_place_services):
                halves.add(name)
        return halves

    def drop(self, surpluses: Sequence[Surplus]) -> None:
        """Drop surplus replicas; placement then starts from what is left."""
        if not surpluses:
            return
        solution = self.solution.copy()
        masks = self._masks()
        hard = [level for level, rule in enumerate(self.problem.domain_rule) if masks[-1] >> rule & 1]
        soft = [level for level, rule in enumerate(self.problem.domain_rule) if (masks[0] & ~masks[-1]) >> rule & 1]
        rows = drop_surplus(
            self.problem, solution, surpluses, self.state.rows.moving, self.state.rows.pinned, hard, soft
        )
        self.solution = solution
        self._phases.append(Phase.PLACEMENT)
        for surplus in surpluses:
            numbers = {"replicas": len(surplus.rows), "wanted": len(surplus.rows) - surplus.count}
            reason = Reason(Phase.PLACEMENT, "surplus", numbers=numbers)
            self._reasons.update({row: reason for row in rows if row in surplus.rows})

    def repair(self, *, light: bool = False) -> None:
        """Mend broken constraints, if any are; `light`: the spread over domains aside."""
        masks = self._masks(light=light)
        breaches = find_breaches(self.problem, self.solution, masks[0])
        if not breaches:
            self.note_idle(Phase.REPAIR, Idle.NOTHING_BROKEN)
            return
        result = repair(self.problem, self.solution, self.config, masks, self._seeds[Phase.REPAIR], self.budget)
        self._take(Phase.REPAIR, result, breaches)

    def balance(self, *, slow: bool = False) -> None:
        """Balance, if a metric is out of balance, and keep the result if it wins enough; `slow`: cool slowly."""
        if not self.is_unbalanced:
            self.note_idle(Phase.BALANCING, Idle.BALANCED)
            return
        before = energy_of_solution(self.problem, self.solution).total
        config = self.config
        if slow:
            rate = config.slow_balancing_temperature_decay_rate
            config = attrs.evolve(config, fast_balancing_temperature_decay_rate=rate)
        seed = self._seeds[Phase.BALANCING]
        result = balance(self.problem, self.solution, config, self._variants(), seed, self.budget)
        if result.energy >= before - self.config.score_improvement_threshold:
            result = Annealed(self.solution, before, result.tally, result.end_reason)
        self._take(Phase.BALANCING, result, None)

    def note_idle(self, phase: Phase, why: Idle) -> None:
        """Note why a phase does not run."""
        self._idle.setdefault(phase, why)

    def plan(self, missing: list[int], domain: ServiceDomain | None, action: str | None = None) -> Plan:
        """Return the plan.

        Parameters
        ----------
        missing
            The rows that were to be placed.
        domain
            The service domain that was searched; None: all services.
        action
            What was done, where a refresh does one thing only.
        """
        outcome = self._outcome(domain, action)
        return Plan(
            moves=tuple(moves_of(self.state, self.problem, self.solution, self._reasons)),
            energy_before=energy_of_solution(self.problem, self.start),
            energy_after=energy_of_solution(self.problem, self.solution),
            unplaced=tuple(self._unplaced(missing)),
            end_reason=outcome.end_reason,
            phases=outcome.phases,
            proposals=outcome.proposals,
            bound_by=outcome.bound_by,
            outcomes=(outcome,),
            reproducible=not self._out_of_time,
        )

    def _outcome(self, domain: ServiceDomain | None, action: str | None) -> DomainOutcome:
        phases = tuple(self._phases)
        return DomainOutcome(
            *concerned(self.state, domain),
            phases=phases,
            idle={phase: why for phase, why in self._idle.items() if phase not in phases},
            held=held_replicas(self.state, self.problem, domain),
            end_reason=self._end.value,
            proposals=proposals_of(self._tally) if phases else Proposals(),
            bound_by=tuple(rule.name.lower() for rule in BUDGETS if self._tally[FIRST_RULE + rule]),
            action=action,
        )

    def _unplaced(self, missing: list[int]) -> Iterator[Unplaced]:
        """Yield why each of `missing` that has no place found none."""
        inspection = self._inspection(self.solution)
        masks = self._placement_masks()
        for row in missing:
            if row in self._left_out:
                yield self._left_out[row]
            elif self.solution.node[row] == NOWHERE:
                yield unplaced_row(inspection, row, masks, self._together.get(self.state.row_partition[row]))

    def _leave_out(self, attempt: Solution, rows: Sequence[int], halves: set[str]) -> None:
        """Note how near the partitions came that are placed wholly or not at all, and why some rows found no place."""
        inspection, masks = self._inspection(attempt), self._placement_masks()
        for name in halves:
            wanted = [row for row in rows if self.state.row_partition[row] == name]
            missed = [row for row in wanted if attempt.node[row] == NOWHERE]
            together = self._together[name] = Together(len(wanted), len(wanted) - len(missed))
            self._left_out.update({row: unplaced_row(inspection, row, masks, together) for row in missed})

    def _placement_masks(self) -> list[int]:
        """Return the rules that placement enforces, from all to the last that it tries."""
        return self._masks() if self.config.relax_constraint_for_placement else self._masks()[:1]

    def _masks(self, *, light: bool = False) -> list[int]:
        """Return the enforced rules, from all to the hard ones only (semantics.md section 4, priorities)."""
        priorities = rule_priorities(self.config)
        if light:
            priorities |= {Rule.FAULT_DOMAIN: -1, Rule.UPGRADE_DOMAIN: -1}
        off = sum(1 << rule for rule, priority in priorities.items() if priority < 0)
        levels = sorted({0, *(priority for priority in priorities.values() if priority >= 0)}, reverse=True)
        given_up = [sum(1 << rule for rule, priority in priorities.items() if priority > level) for level in levels]
        return list(dict.fromkeys(ALL_RULES & ~off & ~given for given in given_up))

    def _variants(self) -> list[Variant]:
        """Return what balancing tries side by side (semantics.md section 6, balancing).

        While preferred locations are enforced, nothing but swaps of roles is possible; a search without them, and one
        with nothing but swaps, stand beside that.
        """
        config, masks = self.config, self._masks()
        usual = Variant(masks[0], config.swap_primary_probability, config.exchange_probability)
        if config.preferred_location_constraint_priority < 0:
            return [usual]
        free = masks[0] & ~(1 << Rule.PREFERRED_LOCATION)
        only_swaps = Variant(masks[0], 1.0, 0.0)
        return [only_swaps, usual, Variant(free, config.swap_primary_probability, config.exchange_probability)]

    def _take(self, phase: Phase, result: Annealed, breaches: Breaches | None) -> None:
        """Go on from the result of a phase, and note why each row moved."""
        before = self.solution
        self.solution, self._end = result.solution, result.end_reason
        self._out_of_time |= result.end_reason is EndReason.OUT_OF_TIME
        self._tally += result.tally
        self._phases.append(phase)
        moved = (self.solution.node != before.node) & (self.solution.node != NOWHERE)
        motives = Motives(phase, self._inspection(before), self.solution, breaches)
        for row in np.flatnonzero(moved).tolist():
            if row not in self._reasons:
                self._reasons[row] = motives.of(row)

    def _inspection(self, solution: Solution) -> Inspection:
        return Inspection(self.state, self.problem, solution, rule_priorities(self.config))
