"""One call of the engine: the phases one after the other on one solution, and the plan that comes of it."""

from __future__ import annotations

import numpy as np

from plb.arrays import NOWHERE, Bool, Problem, Solution
from plb.constraints import ALL_RULES, Rule
from plb.plan import Phase, Plan, Proposals, Reason
from plb.problem import start_solution
from plb.search.annealing import Annealed, Budget, EndReason, new_tally
from plb.search.balancing import balance, imbalanced_metrics
from plb.search.placement import place_rows
from plb.search.proposal import FIRST_RULE
from plb.search.repair import Breaches, find_breaches, repair
from plb.search.result import energy_of_solution, moves_of, proposals_of, unplaced_of
from plb.state import ClusterState

BUDGETS = (Rule.MOVES, Rule.NODE_MOVES, Rule.SERVICE_MOVES)


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

    @property
    def changed(self) -> bool:
        """Whether a phase has found moves so far."""
        return bool(self._reasons)

    def place(self, rows: list[int]) -> None:
        """Place the missing replicas in `rows`."""
        result = place_rows(
            self.problem,
            self.solution,
            rows,
            self.config,
            self._masks(),
            self._seeds[Phase.PLACEMENT],
            self.budget,
        )
        self._take(Phase.PLACEMENT, result, None)

    def repair(self) -> None:
        """Mend broken constraints, if any are."""
        masks = self._masks()
        breaches = find_breaches(self.problem, self.solution, masks[0])
        if not breaches:
            return
        result = repair(self.problem, self.solution, self.config, masks, self._seeds[Phase.REPAIR], self.budget)
        self._take(Phase.REPAIR, result, breaches)

    def balance(self) -> None:
        """Balance, if a metric is out of balance, and keep the result if it wins enough."""
        if not imbalanced_metrics(self.problem, self.solution, self.config, self.state.steps):
            return
        before = energy_of_solution(self.problem, self.solution).total
        mask = self._masks()[0]
        result = balance(self.problem, self.solution, self.config, mask, self._seeds[Phase.BALANCING], self.budget)
        if result.energy >= before - self.config.score_improvement_threshold:
            result = Annealed(self.solution, before, result.tally, result.end_reason)
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

    def _masks(self) -> list[int]:
        """Return the enforced rules, from all to the hard ones only."""
        priorities = {
            Rule.FAULT_DOMAIN: self.config.fault_domain_constraint_priority,
            Rule.UPGRADE_DOMAIN: self.config.upgrade_domain_constraint_priority,
        }
        soft = sum(1 << rule for rule, priority in priorities.items() if priority == 1)
        return [ALL_RULES] if soft == 0 else [ALL_RULES, ALL_RULES & ~soft]

    def _take(self, phase: Phase, result: Annealed, breaches: Breaches | None) -> None:
        """Go on from the result of a phase, and note why each row moved."""
        before = self.solution
        self.solution, self._end = result.solution, result.end_reason
        self._out_of_time |= result.end_reason is EndReason.OUT_OF_TIME
        self._tally += result.tally
        self._phases.append(phase)
        moved = (self.solution.node != before.node) & (self.solution.node != NOWHERE)
        for row in np.flatnonzero(moved).tolist():
            self._reasons.setdefault(row, self._reason(phase, row, before, breaches))

    def _reason(self, phase: Phase, row: int, before: Solution, breaches: Breaches | None) -> Reason:
        origin = int(before.node[row])
        if origin == NOWHERE:
            return Reason(phase, "new replica")
        if breaches is None:
            return Reason(phase, "make room" if phase is Phase.PLACEMENT else "energy")
        node = self.state.nodes[origin].name
        if breaches.overloaded[origin].any():
            return self._overload(phase, origin, node, before, breaches.overloaded[origin])
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
