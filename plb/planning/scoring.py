"""Scores all nodes for one replica that waits for a place, in one pass over the nodes."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Float
from plb.energy.expected_failovers import count_violations_with
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import find_refusals, new_energies
from plb.model import Role
from plb.model.rules import NO_REFUSAL
from plb.model.scores import NodeScores
from plb.planning.rule_priorities import placement_masks
from plb.search.extensions import Extensions, energy_with
from plb.search.result import new_tally
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState


def scores_of(
    state: ClusterState, problem: Problem, solution: Solution, row: int, extensions: Extensions | None
) -> NodeScores:
    """Return the scores of all nodes for a row without a node.

    Parameters
    ----------
    solution
        Changed and changed back where terms are evaluated by trial.
    extensions
        What users add, or None; a policy has no say.
    """
    problem = problem._replace(bounded=False, counts_departed=False)  # budgets limit the moves of a plan
    nodes = len(state.nodes)
    masks = placement_masks(state.config)
    rule, relaxed = np.full(nodes, NO_REFUSAL), np.full(nodes, NO_REFUSAL)
    find_refusals(problem, solution, masks[0], row, rule)
    find_refusals(problem, solution, masks[-1], row, relaxed)
    fitting = np.flatnonzero(rule == NO_REFUSAL)
    by_extensions = {} if extensions is None else extensions.refused_nodes(problem, solution, row, fitting)
    fitting = np.setdiff1d(fitting, list(by_extensions))
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
        rule=rule,
        soft=(rule != NO_REFUSAL) & (relaxed == NO_REFUSAL),
        by_extensions=dict(by_extensions),
    )


def _energies(
    problem: Problem, solution: Solution, row: int, fitting: np.ndarray, extensions: Extensions | None
) -> Float:
    """Return the energy with the row on each node, (N,), infinite for nodes that are not in `fitting`."""
    energy = np.full(len(problem.limit), np.inf)
    if extensions is None or not extensions.terms:
        new_energies(problem, solution, row, fitting, energy, new_tally())
        return energy
    for node in fitting.tolist():
        move_row(problem, solution, row, node)
        energy[node] = energy_with(extensions, problem, solution).total
        move_row(problem, solution, row, NOWHERE)
    return energy
