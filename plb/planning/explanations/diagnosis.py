"""Violations of a solution, and why replicas found no place or stay on nodes that have to be emptied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution
from plb.constraints.move_budgets import budget_that_holds
from plb.constraints.node import rows_to_drain
from plb.constraints.rules import RULES_IN_ORDER, description_of
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import find_refusals, refusal
from plb.model.outcome import Declined, Refused, RuledOut, Together, Undrained, Unplaced
from plb.model.rules import NO_REFUSAL, Breach, BrokenConstraint, Rule, RuleMask, Violation
from plb.planning.rule_priorities import placement_masks
from plb.planning.service_domains import ServiceDomain, why_immovable
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Solution, proposed
from plb.state.cluster_state import ClusterState


def unplaced_row(
    named: NamedSolution,
    row: int,
    masks: Sequence[RuleMask],
    together: Together | None = None,
    extensions: Extensions | None = None,
) -> Unplaced:
    """Return why replica `row` found no place under the rules of the last of `masks`, from all to the hard ones.

    `together`: how many of its all-or-nothing group would find a place; None: it is placed by itself.
    """
    state, problem, solution = named.state, named.problem, named.solution
    relaxed = masks[0] & ~masks[-1]
    nodes = len(state.nodes)
    refusing_rule = np.full(nodes, NO_REFUSAL)
    find_refusals(problem, solution, masks[-1], row, refusing_rule)
    diagnosis = [
        diagnose_rule(named, row, Rule(int(rule)), np.flatnonzero(refusing_rule == rule))
        for rule in np.unique(refusing_rule[refusing_rule != NO_REFUSAL])
    ]
    if extensions is not None:
        allowed = np.flatnonzero(refusing_rule == NO_REFUSAL)
        by_extensions = Counter(extensions.refused_nodes(problem, solution, row, allowed).values())
        diagnosis += [Refused(name, count) for name, count in by_extensions.items()]
    return Unplaced(
        partition=state.row_partition[row],
        role=named.role_of(row),
        nodes=nodes,
        diagnosis=tuple(diagnosis),
        given_up=tuple(
            description.rule.name.lower()
            for description in RULES_IN_ORDER
            if relaxed >> description.rule & 1 and description.concerns(problem, row)
        ),
        together=together,
    )


def diagnose_rule(named: NamedSolution, row: int, rule: Rule, nodes: Int) -> RuledOut:
    """Return why a rule excludes `nodes`, (n,), for replica `row`, which is not placed in the solution."""
    return description_of(rule).diagnosis(ExcludedNodes(named, row, rule, nodes))


def diagnoses_of_rule(named: NamedSolution, row: int, rule: Rule, nodes: Int) -> Sequence[RuledOut]:
    """Return why a rule excludes each of `nodes`, (n,), alone for `row`, which is not placed in the solution."""
    return description_of(rule).diagnoses(ExcludedNodes(named, row, rule, nodes)) if len(nodes) else ()


ALWAYS_HARD = 0
"""The priority of the rules of which no setting has one."""


class Audit(NamedSolution):
    """Finds the violations of a solution."""

    def violations(self, extensions: Extensions | None, *, soft: bool) -> tuple[Violation, ...]:
        """Return overloaded nodes and broken constraints, with `soft` also soft ones, then the ones of extensions."""
        broken: Iterable[tuple[str, int]] = ()
        if extensions is not None:  # which may change the solution
            broken = extensions.broken_by_name(extensions.configuration(self.problem, self.solution.copy()))
        broken_extensions = (self.broken(name, row) for name, row in broken)
        return (*self.overloads(), *self.breaches(up_to=2 if soft else 0), *broken_extensions)

    def breaches(self, *, up_to: int) -> list[Breach]:
        """Return the broken constraints other than capacity, rule by rule, with priorities from 0 to `up_to`."""
        rules = (rule for rule in RULES_IN_ORDER if 0 <= self.priorities.get(rule.rule, ALWAYS_HARD) <= up_to)
        return [breach for rule in rules for breach in rule.breaches(self)]

    def overloads(self) -> list[Violation]:
        """Return the nodes in the statistics whose load has reached a violation threshold, by metric."""
        return [violation for rule in RULES_IN_ORDER for violation in rule.node_violations(self)]

    def broken(self, name: str, row: int) -> BrokenConstraint:
        """Return the verdict on replica `row`, which breaks the extension constraint with this name."""
        return BrokenConstraint(
            rule=name,
            partition=self.state.row_partition[row],
            role=self.role_of(row),
            node=self.node_of(row),
            index=row,
        )


def placed_all_or_nothing(state: ClusterState, problem: Problem, rows: Sequence[int]) -> Int:
    """Return for each of `rows` the first row of its partition if it is placed all or nothing, else NOWHERE; (m,)."""
    groups = np.full(len(rows), NOWHERE)
    for index, row in enumerate(rows):
        record = state.partitions[state.row_partition[row]]
        all_or_nothing = state.feasibility_class_of(record.service).expression.places_all_or_nothing
        is_required = all_or_nothing or not state.config.partially_place_services
        if is_required and all(problem.origin[sibling] == NOWHERE for sibling in record.rows):
            groups[index] = record.rows[0]
    return groups


def unplaced_of(audit: Audit, missing: Sequence[int], extensions: Extensions | None) -> Iterator[Unplaced]:
    """Yield why each of the `missing` rows without a node was not placed; `audit`: of the result of placement.

    For an all-or-nothing placement, the replicas are evaluated as if they were placed in turn.
    """
    state, problem, solution = audit.state, audit.problem, audit.solution
    unplaced = [row for row in missing if solution.node[row] == NOWHERE]
    if not unplaced:
        return
    masks = placement_masks(state.config)
    groups = zip(placed_all_or_nothing(state, problem, unplaced).tolist(), unplaced, strict=True)
    for group, members in groupby(groups, key=itemgetter(0)):
        rows = [row for _, row in members]
        if group == NOWHERE:
            for row in rows:
                yield _with_declined(unplaced_row(audit, row, masks, None, extensions), row, extensions)
            continue
        filled_solution = _fill_in_turn(problem, solution, rows, masks[-1], extensions)
        filled = Audit(state, problem, filled_solution, audit.priorities)
        placed = [row for row in rows if filled_solution.node[row] != NOWHERE]
        together = Together(len(rows), len(placed))
        for row in rows:
            audit_of_row = audit if row in placed else filled
            yield _with_declined(unplaced_row(audit_of_row, row, masks, together, extensions), row, extensions)


def _with_declined(unplaced: Unplaced, row: int, extensions: Extensions | None) -> Unplaced:
    """Return `unplaced`, why `row` found no place, with the nodes on which only the policy declined to place it."""
    if extensions is None or extensions.policy is None or row not in extensions.declined or not unplaced.fitting:
        return unplaced
    declined = Declined(extensions.policy.name, unplaced.fitting)
    return attrs.evolve(unplaced, diagnosis=(*unplaced.diagnosis, declined))


def _fill_in_turn(
    problem: Problem, start: Solution, rows: Sequence[int], enforced: RuleMask, extensions: Extensions | None
) -> Solution:
    """Return a copy of `start` with each replica of `rows`, in turn, on the first node by rules and constraints."""
    solution = start.copy()
    refusing_rule = np.full(len(problem.limit), NO_REFUSAL)
    for row in rows:
        find_refusals(problem, solution, enforced, row, refusing_rule)
        allowed = np.flatnonzero(refusing_rule == NO_REFUSAL)
        if extensions is not None:
            allowed = np.setdiff1d(allowed, list(extensions.refused_nodes(problem, solution, row, allowed)))
        if len(allowed):
            move_row(problem, solution, row, int(allowed[0]))
    return solution


MOST_DIAGNOSED = 100
"""Number of replicas with the numbers that rules compared; the others have the numbers of nodes alone."""


def undrained_of(
    audit: Audit, domain: ServiceDomain | None, masks: Sequence[RuleMask], extensions: Extensions | None
) -> Iterator[Undrained]:
    """Yield why replicas of a domain, None: of all services, stay on nodes that have to be emptied.

    Plans may not move them, a budget holds them, or rules refuse all nodes. `audit`: of the result, with the problem of
    repairs; `masks`: their rules, from all to the hard ones.
    """
    problem, solution, all_nodes = audit.problem, audit.solution, np.arange(len(audit.state.nodes))
    trial: Trial | None = None
    for row in rows_to_drain(problem, solution):
        if domain is not None and int(problem.service[row]) not in domain.services:
            continue
        budget = budget_that_holds(problem, solution, row)
        if not problem.repairable[row]:
            yield _staying(audit, row, immovable=why_immovable(audit.state, problem, row))
        elif budget != NO_REFUSAL:
            yield _staying(audit, row, diagnosis=(diagnose_rule(audit, row, Rule(budget), all_nodes),))
        else:
            trial = trial or Trial(audit, masks, extensions)
            yield _staying(audit, row, **trial.refusals_of(row))


def _staying(audit: Audit, row: int, **why: Any) -> Undrained:
    """Return the report on replica `row`, which stays; `why`: the fields of `Undrained` that tell why."""
    return Undrained(
        partition=audit.state.row_partition[row],
        role=audit.role_of(row),
        node=audit.node_of(row),
        nodes=len(audit.state.nodes),
        **why,
    )


class Trial:
    """Tries to place replicas elsewhere, one at a time; they may not use the capacity that new ones alone may use."""

    def __init__(self, audit: Audit, masks: Sequence[RuleMask], extensions: Extensions | None) -> None:
        solution = audit.solution.copy()
        solution = solution if extensions is None else extensions.journalled(solution)
        problem = audit.problem._replace(bounded=False, limit=audit.problem.move_limit)
        self._audit = Audit(audit.state, problem, solution, audit.priorities)
        self._masks, self._extensions = masks, extensions
        self._diagnosed = 0
        """Number of replicas diagnosed with the numbers that rules compared."""

    def refusals_of(self, row: int) -> dict[str, Any]:
        """Return the fields `diagnosis` and `given_up` of `Undrained` for `row`; none if some node is open to it."""
        problem, solution = self._audit.problem, self._audit.solution
        node = int(solution.node[row])
        move_row(problem, solution, row, NOWHERE)
        refusals = self._refusals_of(row)
        move_row(problem, solution, row, node)
        return refusals

    def _refusals_of(self, row: int) -> dict[str, Any]:
        """Return the fields of `refusals_of` for replica `row`, which is off its node."""
        problem, solution = self._audit.problem, self._audit.solution
        if self._extensions is None and _is_open(problem, solution, self._masks[-1], row):
            return {}
        if self._diagnosed >= MOST_DIAGNOSED:
            refusing_rule = np.full(len(problem.limit), NO_REFUSAL)
            find_refusals(problem, solution, self._masks[-1], row, refusing_rule)
            rules, nodes = np.unique(refusing_rule[refusing_rule != NO_REFUSAL], return_counts=True)
            counts = zip(rules.tolist(), nodes.tolist(), strict=True)
            return {"diagnosis": tuple(Refused(Rule(rule).name.lower(), count) for rule, count in counts)}
        self._diagnosed += 1
        unplaced = unplaced_row(self._audit, row, self._masks, None, self._extensions)
        return {"diagnosis": unplaced.diagnosis, "given_up": unplaced.given_up} if not unplaced.fitting else {}


@kernel
def _is_open(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether some node is open to replica `row`, which has no node: no enforced rule refuses it."""
    for target in problem.targets:
        if refusal(problem, solution, enforced, proposed(solution, row, target, NOWHERE)) == NO_REFUSAL:
            return True
    return False
