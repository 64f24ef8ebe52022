"""Why the replicas moved in a phase, and the budgets of moves that alone refuse a further move of a repair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.move_budgets import budget_that_holds
from plb.constraints.rules import REASONS_IN_ORDER, RULES_IN_ORDER
from plb.energy.soft_violations import SoftCount
from plb.energy.terms import TERMS_IN_ORDER, energies_without, present_energy
from plb.evaluation.proposals import refusal
from plb.model.move import Phase, Reason
from plb.model.plan import Energy
from plb.model.rules import BUDGETS, JOINING, RULES, Rule, RuleMask
from plb.planning.explanations.diagnosis import Audit
from plb.search.extensions import Extensions, energy_with
from plb.search.repair.breaches import Breaches, find_breaches, movable_rows_of, note_broken_rules
from plb.settings.config import ANNEALING
from plb.state.arrays import Problem, Solution, proposed
from plb.state.replica_table import merged


class MoveReasons:
    """The reasons of a phase, between the solutions at its start and end, that repairs the rules of a bit mask."""

    def __init__(
        self,
        phase: Phase,
        before: Audit,
        after: Solution,
        repaired: RuleMask,
        extensions: Extensions | None = None,
    ) -> None:
        self.phase, self.before, self.after, self.repaired = phase, before, after, repaired
        self._extensions = extensions
        self.problem, self.state = before.problem, before.state

    def of(self, rows: Int) -> dict[int, Reason]:
        """Return why each replica of `rows`, (m,), moved: all were on another node before the phase."""
        reasons_to_follow = [
            rule.reasons_to_follow(self.before, self.after, self.phase, rows) for rule in RULES_IN_ORDER
        ]
        reasons = {
            row: reason for reasons_of_rule in reversed(reasons_to_follow) for row, reason in reasons_of_rule.items()
        }
        reasons.update(self._of_broken_rules(rows))
        unexplained = [row for row in rows.tolist() if row not in reasons]
        if not unexplained:
            return reasons
        # a policy moves replicas that break no rule only to free capacity, in every phase
        if self.phase is Phase.PLACEMENT or self.state.config.policy != ANNEALING:
            return reasons | {row: self._eviction(int(self.before.solution.node[row])) for row in unexplained}
        return reasons | dict.fromkeys(unexplained, self._lower_energy)

    def _of_broken_rules(self, rows: Int) -> dict[int, Reason]:
        """Return the reasons of the replicas `rows`, (m,), that broke a rule to repair, or whose nodes did."""
        if not self.repaired:
            return {}
        broken = np.zeros(len(rows), np.int64)
        note_broken_rules(self.problem, self.before.solution, self.repaired, rows, broken)
        reasons_of_rows = (
            (row, self._of_rules(row, rules)) for row, rules in zip(rows.tolist(), broken.tolist(), strict=True)
        )
        return {row: reason for row, reason in reasons_of_rows if reason is not None}

    def _of_rules(self, row: int, broken: RuleMask) -> Reason | None:
        """Return the reason of a move by the first rule in `broken`, the rules that `row` broke, that has a reason."""
        for description in REASONS_IN_ORDER if broken else ():
            if broken >> description.rule & 1 and description.reason is not None:
                return description.reason(self.before, self.phase, row)
        return None

    def _eviction(self, node: int) -> Reason:
        """Return the reason of a move from `node`, to which another replica has come."""
        newcomer = self._newcomers.get(node)
        partition = None if newcomer is None else self.state.row_partition[newcomer]
        return Reason(self.phase, "eviction", self.state.nodes[node].name, other=partition)

    @cached_property
    def _newcomers(self) -> dict[int, int]:
        """The first row that came to each node in this phase, a new one if there is any."""
        before, after = self.before.solution.node, self.after.node
        newcomers = np.flatnonzero((before != after) & (after != NOWHERE))
        newcomers = newcomers[np.argsort(before[newcomers] != NOWHERE, kind="stable")]
        return dict(zip(after[newcomers[::-1]].tolist(), newcomers[::-1].tolist(), strict=True))

    @cached_property
    def _lower_energy(self) -> Reason:
        """The reason of a move that repairs nothing: the term with the largest decrease in this phase."""
        solutions = (self.before.solution, self.after)
        energies = [energy_with(self._extensions, self.problem, solution) for solution in solutions]
        term = self._driving_term(*energies)
        if term is None:
            return Reason(self.phase, "energy")
        described = next((description for description in TERMS_IN_ORDER if description.name == term), None)
        if described is not None and described.reason is not None:
            return described.reason(self.before, self.after, self.phase)
        numbers = {"before": energies[0].terms[term], "after": energies[1].terms[term]}
        return Reason(self.phase, "energy", numbers=numbers, term=term)

    def _driving_term(self, before: Energy, after: Energy) -> str | None:
        """Return the name of the term without whose change the energy would be highest; None if no term decreased."""
        without = energies_without(self.problem, self.before.solution, self.after)
        energy_after = present_energy(self.problem, self.after)
        extension_terms = {} if self._extensions is None else self._extensions.weights
        for name, weight in extension_terms.items():
            without[name] = energy_after + weight * (before.extension_terms[name] - after.extension_terms[name])
        term = max(without, key=without.__getitem__)
        return term if without[term] > energy_after else None


def reasons_by_risk(before: Audit, after: Solution, rows: Int, count: SoftCount) -> dict[int, Reason]:
    """Return why each of `rows`, (m,), moved in a relief of nodes at risk; `count`: as of the solution of `before`."""
    sources_and_targets = {*zip(before.solution.node[rows].tolist(), after.node[rows].tolist(), strict=True)}
    return {row: _reason_by_risk(before, after, row, count, sources_and_targets) for row in rows.tolist()}


def _reason_by_risk(
    before: Audit, after: Solution, row: int, count: SoftCount, sources_and_targets: Collection[tuple[int, int]]
) -> Reason:
    """Return why `row` moved: the risk of the node that it leaves, or of the node to which it comes in exchange.

    `sources_and_targets`: the nodes before and after of each moved row.
    """
    problem, solution, state = before.problem, before.solution, before.state
    source, target = int(solution.node[row]), int(after.node[row])
    leaves_risk = (
        bool(count.violations[source] >= count.violations[target]) or (target, source) not in sources_and_targets
    )
    node_at_risk = source if leaves_risk else target
    name, rule = state.nodes[node_at_risk].name, "risk" if leaves_risk else "exchange"
    if len(problem.estimator_rows):
        probability = float(solution.violating[node_at_risk] / problem.weights.repetitions)
        return Reason(Phase.BALANCING, rule, name, numbers={"probability": probability})
    share = solution.aggregate[node_at_risk] / np.maximum(1, problem.threshold[node_at_risk])[:, np.newaxis]
    metric = int(share.max(axis=1).argmax())
    sums, threshold = solution.aggregate[node_at_risk, metric], int(problem.threshold[node_at_risk, metric])
    numbers = {
        "moments": float(len(sums)),
        "violations": float(np.count_nonzero(sums >= threshold)),
        "highest": float(share[metric].max()),
    }
    if leaves_risk:
        numbers["violations without"] = float(np.count_nonzero(sums - problem.peak[row, metric] >= threshold))
        numbers["highest without"] = float((sums - problem.peak[row, metric]).max() / max(1, threshold))
    return Reason(Phase.BALANCING, rule, name, state.config.metric_names[metric], numbers)


_FIRST_BUDGET = int(min(BUDGETS))


def bounding_budgets(
    problem: Problem,
    solution: Solution,
    masks: Sequence[RuleMask],
    passed_over: RuleMask,
    suspects: Int,
    breaking_extensions: Collection[int],
) -> list[Rule]:
    """Return the budgets that alone refuse another node or role for a replica that breaks a constraint.

    `masks`, `passed_over`, `suspects`: as of the repair; `breaking_extensions`: rows that break extension constraints.
    """
    binds = np.zeros(RULES, np.bool_)
    for mask in masks:
        breaches = find_breaches(problem, solution, mask & ~passed_over, suspects)
        rows = merged(_breaking_rows(problem, solution, breaches), np.array([*breaking_extensions], np.int64))
        _mark_budgets(problem, solution, mask, rows[problem.movable[rows]], binds)
    return [rule for rule in BUDGETS if binds[rule]]


def _breaking_rows(problem: Problem, solution: Solution, breaches: Breaches) -> Int:
    """Return the rows, ascending, on overloaded nodes, in crowded domains, misplaced, or of broken applications."""
    overloaded: Bool = np.asarray(breaches.overloaded.any(axis=1))
    rows = breaches.rows
    if len(breaches.applications):
        rows = merged(rows, movable_rows_of(problem, solution, breaches.applications))
    if not overloaded.any():
        return rows
    on_overloaded = np.flatnonzero(overloaded[solution.node] & (solution.node != NOWHERE))
    adds_load = (breaches.overloaded[solution.node[on_overloaded]] & (problem.load[on_overloaded] > 0)).any(axis=1)
    return merged(rows, on_overloaded[adds_load])


@kernel
def _mark_budgets(problem: Problem, solution: Solution, enforced: RuleMask, rows: Int, binds: Bool) -> None:
    """Set `binds`, (RULES,), at each budget that alone refuses some move or swap of one of `rows`.

    `enforced`: the rules that bind the moves.
    """
    for row in rows:
        budget_of_row = budget_that_holds(problem, solution, row)
        for target in problem.targets:
            rule = refusal(problem, solution, enforced | JOINING, proposed(solution, row, target, NOWHERE))
            if rule >= _FIRST_BUDGET:
                binds[rule] = True
                if rule == budget_of_row:
                    break
        sibling = problem.sibling[row]
        while sibling != row:
            target = solution.node[sibling]
            if target != NOWHERE and problem.movable[sibling] and problem.role[sibling] != problem.role[row]:
                rule = refusal(problem, solution, enforced, proposed(solution, row, target, sibling))
                if rule >= _FIRST_BUDGET:
                    binds[rule] = True
            sibling = problem.sibling[sibling]
