"""Evaluates all nodes for a replica: the alternatives of any replica, and the scores of one that waits for a place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.constraints.rules import RULES_IN_ORDER
from plb.energy.expected_failovers import count_violations_with
from plb.energy.terms import TERMS_IN_ORDER
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import evaluate_places, find_refusals, new_energies
from plb.model import Role
from plb.model.alternatives import Alternatives, ClosedNode, NodeScores, Place, PlaceColumns
from plb.model.expressions import UnmetClause
from plb.model.outcome import Refused, RuledOut
from plb.model.rules import BUDGETS, NO_REFUSAL, Rule, RuleMask
from plb.planning.explanations.diagnosis import Audit, diagnoses_of_rule, unplaced_row
from plb.planning.rule_priorities import placement_masks, rule_priorities
from plb.planning.service_domains import why_immovable
from plb.search.extensions import Extensions, energy_with
from plb.search.result import new_tally
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState

CONSTRAINTS = tuple(description for description in RULES_IN_ORDER if description.rule not in BUDGETS)
"""The rules on the node of a replica, in the order of the checks."""


class WhatIf:
    """Evaluates all nodes for one replica after the other; the solution is changed and restored."""

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, extensions: Extensions | None
    ) -> None:
        # budgets limit the moves of a plan, and the departing load of the replica does not block it
        problem = problem._replace(bounded=False, counts_departed=False)
        self._state, self._problem, self._solution, self._extensions = state, problem, solution, extensions
        self._masks = placement_masks(state.config)

    def of(self, row: int) -> Alternatives:
        """Return the alternatives of replica `row`: each node with its energy, or with what closes it."""
        origin_node = int(self._solution.node[row])
        problem = self._problem
        present_place = None if origin_node == NOWHERE else self._present(row, origin_node)
        if origin_node != NOWHERE:
            # a placed replica may not use the capacity that is reserved for new ones
            problem = problem._replace(limit=problem.move_limit)
            move_row(problem, self._solution, row, NOWHERE)
        audit = Audit(self._state, problem, self._solution, rule_priorities(self._state.config))
        refused_by_rule = {
            constraint.rule: self._refused_by(problem, row, constraint.rule) for constraint in CONSTRAINTS
        }
        masks = self._masks if origin_node == NOWHERE else self._kept_at(origin_node, refused_by_rule)
        unplaced = unplaced_row(audit, row, masks, None, self._extensions)
        closed_nodes = self._closed(audit, row, masks[-1], refused_by_rule)
        open_nodes = _all_but(len(self._state.nodes), closed_nodes)
        places = self._places(problem, row, open_nodes)
        if origin_node != NOWHERE:
            move_row(problem, self._solution, row, origin_node)
        may_move = origin_node == NOWHERE or bool(problem.repairable[row])
        return Alternatives(
            partition=unplaced.partition,
            role=unplaced.role,
            index=row,
            standing=present_place,
            places=places,
            diagnosis=tuple(unplaced.diagnosis),
            closed=tuple(sorted(closed_nodes.values(), key=lambda node: node.distance)),
            given_up=unplaced.given_up,
            immovable=None if may_move else why_immovable(self._state, problem, row),
        )

    def _places(self, problem: Problem, row: int, nodes: Int) -> PlaceColumns:
        """Return the alternatives of `nodes`, (n,), for replica `row`, which is not placed, by energy, lowest first."""
        values, violating = np.empty((len(nodes), 1 + len(TERMS_IN_ORDER))), np.empty(len(nodes), np.int64)
        evaluate_places(problem, self._solution, row, nodes, values, violating)
        values[:, 1:] /= [term.unit(problem) for term in TERMS_IN_ORDER]
        extension_terms = self._extension_terms(problem, row, nodes)
        if self._extensions is not None and self._extensions.terms:
            values[:, 0] += [*map(self._extensions.weighted, extension_terms)]
        order = np.argsort(values[:, 0], kind="stable")
        return PlaceColumns(
            nodes=[self._state.nodes[node].name for node in nodes[order].tolist()],
            energies=values[order].tolist(),
            terms=[term.name for term in TERMS_IN_ORDER],
            extension_terms=[extension_terms[position] for position in order.tolist()],
            probabilities=(violating[order] / problem.weights.repetitions).tolist(),
        )

    def _extension_terms(self, problem: Problem, row: int, nodes: Int) -> Sequence[Mapping[str, float]]:
        """Return for each of `nodes`, (n,), the extension terms with replica `row`, which is not placed, on it."""
        if self._extensions is None or not self._extensions.terms:
            return [{}] * len(nodes)
        totals = []
        for node in nodes.tolist():
            move_row(problem, self._solution, row, node)
            totals.append(self._extensions.totals(problem, self._solution))
            move_row(problem, self._solution, row, NOWHERE)
        return totals

    def _present(self, row: int, node: int) -> Place:
        """Return the energy and the violation probability of `node` for replica `row`, which is placed there."""
        solution, repetitions = self._solution, self._problem.weights.repetitions
        assert solution.node[row] == node
        return Place(
            self._state.nodes[node].name,
            energy_with(self._extensions, self._problem, solution),
            float(solution.violating[node] / repetitions),
        )

    def _refused_by(self, problem: Problem, row: int, rule: Rule) -> Int:
        """Return the nodes, ascending, that a single rule refuses to replica `row`, which is not placed."""
        refusing_rule = np.full(len(self._state.nodes), NO_REFUSAL)
        find_refusals(problem, self._solution, 1 << rule, row, refusing_rule)
        return np.flatnonzero(refusing_rule == int(rule))

    def _kept_at(self, origin_node: int, refused_by_rule: dict[Rule, Int]) -> Sequence[int]:
        """Return the rule sets of placement, RuleMasks, up to the first whose soft rules `origin_node` satisfies.

        `refused_by_rule`: the nodes, (n,) indices, that each rule refuses to the replica.
        """
        broken = sum(1 << rule for rule, nodes in refused_by_rule.items() if origin_node in nodes)
        soft_rules = [mask & ~self._masks[-1] for mask in self._masks]
        attempt = next(number for number, rules in enumerate(soft_rules) if not rules & broken)
        return self._masks[: attempt + 1]

    def _closed(
        self, audit: Audit, row: int, enforced: RuleMask, refused_by_rule: dict[Rule, Int]
    ) -> dict[int, ClosedNode]:
        """Return the nodes, by index, that an enforced rule or an extension constraint excludes for replica `row`.

        `refused_by_rule`: the nodes that each rule refuses to `row`.
        """
        obstacles: dict[int, list[RuledOut]] = {}
        unmet: dict[int, tuple[UnmetClause, ...]] = {}
        for constraint in CONSTRAINTS:
            rule = constraint.rule
            if constraint.priority is not None and not enforced >> rule & 1:
                continue
            nodes = refused_by_rule[rule]
            for node, diagnosis in zip(nodes.tolist(), diagnoses_of_rule(audit, row, rule, nodes), strict=True):
                obstacles.setdefault(node, []).append(diagnosis)
                if constraint.unmet is not None:
                    unmet[node] = unmet.get(node, ()) + constraint.unmet(audit, row, node)
        if self._extensions is not None:
            open_nodes = _all_but(len(self._state.nodes), obstacles)
            by_extensions = self._extensions.refused_nodes(audit.problem, self._solution, row, open_nodes)
            obstacles |= {node: [Refused(name, 1)] for node, name in by_extensions.items()}
        names = [node.name for node in self._state.nodes]
        return {
            node: ClosedNode(names[node], tuple(obstacles[node]), unmet.get(node, ())) for node in sorted(obstacles)
        }


def _all_but(count: int, nodes: Collection[int]) -> Int:
    """Return the indices from 0 to `count` - 1 without the indices of `nodes`, ascending."""
    kept = np.ones(count, bool)
    kept[[*nodes]] = False
    return np.flatnonzero(kept)


def scores_of(
    state: ClusterState, problem: Problem, solution: Solution, row: int, extensions: Extensions | None
) -> NodeScores:
    """Return the scores of all nodes for a row without a node; `solution` is changed and restored."""
    problem = problem._replace(bounded=False, counts_departed=False)  # budgets limit the moves of a plan
    nodes = len(state.nodes)
    masks = placement_masks(state.config)
    refusing_rule, refusing_hard_rule = np.full(nodes, NO_REFUSAL), np.full(nodes, NO_REFUSAL)
    # by all rules, and by the hard ones only
    find_refusals(problem, solution, masks[0], row, refusing_rule)
    find_refusals(problem, solution, masks[-1], row, refusing_hard_rule)
    fitting = np.flatnonzero(refusing_rule == NO_REFUSAL)
    by_extensions = {} if extensions is None else extensions.refused_nodes(problem, solution, row, fitting)
    fitting = fitting[~np.isin(fitting, [*by_extensions])] if by_extensions else fitting
    violations = np.zeros(nodes, np.int64)
    if problem.peak.shape[2] > 0:
        count_violations_with(problem, solution, row, violations)
    return NodeScores(
        partition=state.row_partition[row],
        role=Role(int(problem.role[row])),
        index=row,
        nodes=tuple(node.name for node in state.nodes),
        energy=_energies(problem, solution, row, fitting, extensions),
        violation_probability=violations / problem.weights.repetitions,
        rule=refusing_rule,
        soft=(refusing_rule != NO_REFUSAL) & (refusing_hard_rule == NO_REFUSAL),
        by_extensions=dict(by_extensions),
    )


def _energies(
    problem: Problem, solution: Solution, row: int, fitting: np.ndarray, extensions: Extensions | None
) -> Float:
    """Return the energy with `row`, which has no node, on each of `fitting` nodes; infinite for others, (N,)."""
    energy = np.full(len(problem.limit), np.inf)
    if extensions is None or not extensions.terms:
        new_energies(problem, solution, row, fitting, energy, new_tally())
        return energy
    for node in fitting.tolist():
        move_row(problem, solution, row, node)
        energy[node] = energy_with(extensions, problem, solution).total
        move_row(problem, solution, row, NOWHERE)
    return energy
