"""One call of the engine: the phases one after the other on one solution, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.arrays import DISPLACED, MOVES, NOWHERE, TENTHS, Bool, Problem, Solution
from plb.config import Checks, PlbConfig
from plb.constraints import ALL_RULES, Rule
from plb.plan import Phase, Plan, Proposals, Reason
from plb.problem import start_solution
from plb.search.annealing import Annealed, Budget, EndReason, new_tally
from plb.search.balancing import Variant, balance, is_unbalanced, most_displaced
from plb.search.checks import compare_with_fresh
from plb.search.dropping import Surplus, drop_surplus
from plb.search.placement import place_rows
from plb.search.proposal import FIRST_RULE
from plb.search.repair import Breaches, find_breaches, repair
from plb.search.result import energy_of_solution, moves_of, proposals_of, unplaced_of
from plb.state import ClusterState

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
        self._is_full = False

    @property
    def is_bound(self) -> bool:
        """Whether a budget or a limit of time kept a search from going on."""
        return self._out_of_time or self._is_full or any(self._tally[FIRST_RULE + rule] for rule in BUDGETS)

    def skip(self) -> None:
        """Note that a phase would only begin again where it ended."""
        self._end = EndReason.UNCHANGED

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

    def deduct(self, earlier: Sequence[Run]) -> None:
        """Leave of the budgets of moves, which hold for the whole plan, what other service domains did not use."""
        for run in earlier:
            self.problem = self.problem._replace(
                max_moves=max(0, self.problem.max_moves - -(-int(run.solution.counts[MOVES]) // TENTHS)),
                max_node_moves=np.maximum(0, self.problem.max_node_moves - run.solution.node_moves),
            )

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
                self._masks() if self.config.relax_constraint_for_placement else self._masks()[:1],
                self._seeds[Phase.PLACEMENT],
                self.budget,
                with_moves=with_moves and self.config.move_existing_replica_for_placement,
            )
            halves = self._placed_in_part(result.solution, rows)
            if not halves:
                break
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
        self._check("drop")
        self._phases.append(Phase.PLACEMENT)
        self._reasons.update({row: Reason(Phase.PLACEMENT, "surplus") for row in rows})

    def repair(self, *, light: bool = False) -> None:
        """Mend broken constraints, if any are; `light`: the spread over domains aside."""
        masks = self._masks(light=light)
        breaches = find_breaches(self.problem, self.solution, masks[0])
        if not breaches:
            return
        result = repair(self.problem, self.solution, self.config, masks, self._seeds[Phase.REPAIR], self.budget)
        self._take(Phase.REPAIR, result, breaches)

    def balance(self, *, slow: bool = False) -> None:
        """Balance, if a metric is out of balance, and keep the result if it wins enough; `slow`: cool slowly."""
        if not self.is_unbalanced:
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
        limit = most_displaced(self.problem, self.solution, self.config)
        self._is_full = result.solution.counts[DISPLACED] >= limit
        self._take(Phase.BALANCING, result, None)

    def plan(self, missing: list[int]) -> Plan:
        """Return the plan; `missing` are the rows that were to be placed."""
        return Plan(
            moves=tuple(moves_of(self.state, self.problem, self.solution, self._reasons)),
            energy_before=energy_of_solution(self.problem, self.start),
            energy_after=energy_of_solution(self.problem, self.solution),
            unplaced=tuple(unplaced_of(self.state, self.problem, self.solution, missing)),
            end_reason=self._end.value,
            phases=tuple(self._phases),
            proposals=proposals_of(self._tally) if self._phases else Proposals(),
            bound_by=tuple(rule.name.lower() for rule in BUDGETS if self._tally[FIRST_RULE + rule]),
            reproducible=not self._out_of_time,
        )

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
        self._check(phase.value)
        self._out_of_time |= result.end_reason is EndReason.OUT_OF_TIME
        self._tally += result.tally
        self._phases.append(phase)
        moved = (self.solution.node != before.node) & (self.solution.node != NOWHERE)
        for row in np.flatnonzero(moved).tolist():
            self._reasons.setdefault(row, self._reason(phase, row, before, breaches))

    def _check(self, moment: str) -> None:
        """Compare the sums with those computed from scratch, where the settings ask for that."""
        if self.config.checks is not Checks.OFF:
            compare_with_fresh(self.problem, self.solution, moment)

    def _reason(self, phase: Phase, row: int, before: Solution, breaches: Breaches | None) -> Reason:
        origin = int(before.node[row])
        if origin == NOWHERE:
            return Reason(phase, "new replica")
        if breaches is None:
            return Reason(phase, "make room" if phase is Phase.PLACEMENT else "energy")
        node = self.state.nodes[origin].name
        if breaches.overloaded[origin].any():
            return self._overload(phase, origin, node, before, breaches.overloaded[origin])
        if breaches.astray[row]:
            suited = self.problem.suits[self.problem.suit[row], origin]
            return Reason(phase, "affinity" if suited else "placement", node)
        for level in np.flatnonzero(breaches.misplaced[:, row]):
            return Reason(phase, Rule(int(self.problem.domain_rule[level])).name.lower(), node)
        return Reason(phase, "energy")

    def _overload(self, phase: Phase, origin: int, node: str, before: Solution, overloaded: Bool) -> Reason:
        metric = int(np.flatnonzero(overloaded)[0])
        name = self.config.metrics[metric].name
        numbers = {
            "load": self.state.steps.to_user(name, int(before.node_load[origin, metric])),
            "limit": self.state.steps.to_user(name, int(self.problem.limit[origin, metric])),
        }
        return Reason(phase, "capacity", node, name, numbers)
