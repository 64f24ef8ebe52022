"""The five built-in energy terms as objects, with the same methods, from increments and from scratch.

`total` computes a term from the placement alone: in plain NumPy if the formula is short, else by the
kernels that compute every sum from scratch (`plb.energy.from_scratch`). The search uses `delta`. Property tests show
that they agree after any sequence of moves.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Float
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.movement import total_movement
from plb.energy.overload import MOST, UNITS
from plb.energy.score import PLAIN_DEVIATION, REPETITIONS, W_OVERLOAD
from plb.evaluation.delta import (
    fragmentation_of_proposal,
    imbalance_of_proposal,
    movement_after,
    overload_of_proposal,
    violations_of_proposal,
)
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.energy_terms import IncrementalTerm
from plb.risk.node_violations import violations_of_sums
from plb.state.arrays import FRAGMENTATION, IMBALANCE, MOVEMENT, OVERLOAD, TENTHS, VIOLATIONS


class _WithoutSums:
    """A term whose sums are part of every solution, so that it keeps none."""

    def begin(self, configuration: Configuration) -> None:
        """Do nothing: the configuration has the sums."""

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Do nothing: the configuration changes the sums."""

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Do nothing: the configuration changes the sums."""


class Movement(_WithoutSums):
    """m(X): the moves that lead to the configuration."""

    name = "movement"

    def total(self, configuration: Configuration) -> float:
        """Return m, counted row by row."""
        problem, solution = configuration.problem, configuration.solution
        tenths = total_movement(problem, solution.node, problem.move_cost, problem.swap_cost, problem.add_cost)
        return tenths / TENTHS

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of m."""
        problem, solution = configuration.problem, configuration.solution
        after = movement_after(problem, solution, proposal.row, proposal.target, proposal.partner)
        return after / TENTHS - int(solution.counts[MOVEMENT]) / TENTHS


class Imbalance(_WithoutSums):
    """I(X): the weighted mean coefficient of variation of node load."""

    name = "imbalance"

    def total(self, configuration: Configuration) -> float:
        """Return the imbalance of the node loads (`plb.energy.imbalance`)."""
        problem = configuration.problem
        if not problem.weights[PLAIN_DEVIATION]:
            return float(solution_from_scratch(problem, configuration.solution.node.copy()).terms[IMBALANCE])
        load, weight = _node_load(configuration), problem.metric_weight
        weighted = 0.0
        for metric in range(len(weight)):
            counted = load[problem.counted_for[:, metric], metric]
            if counted.sum() > 0:
                weighted += weight[metric] * float(counted.std() / counted.mean())
        return weighted / float(weight.sum()) if weight.sum() > 0 else 0.0

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of I."""
        problem, solution = configuration.problem, configuration.solution
        if not problem.weights[PLAIN_DEVIATION]:
            before = float(solution.terms[IMBALANCE])
            back = configuration.apply(proposal)
            changed = float(solution.terms[IMBALANCE]) - before
            configuration.apply(back)
            return changed
        after = imbalance_of_proposal(problem, solution, proposal.row, proposal.target, proposal.partner)
        return float(after - solution.terms[IMBALANCE])


class Fragmentation(_WithoutSums):
    """F(X): the load on held-out nodes, relative to their capacity."""

    name = "fragmentation"

    def total(self, configuration: Configuration) -> float:
        """Return F from the loads of the held-out nodes."""
        problem = configuration.problem
        share = _node_load(configuration)[problem.held_out] * problem.inverse_capacity[problem.held_out]
        return float(share.mean(axis=1).sum())

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of F."""
        problem, solution = configuration.problem, configuration.solution
        after = fragmentation_of_proposal(problem, solution, proposal.row, proposal.target, proposal.partner)
        return float(after - solution.terms[FRAGMENTATION])


class ExpectedFailovers(_WithoutSums):
    """V(X): the expected number of nodes in violation."""

    name = "expected_failovers"

    def total(self, configuration: Configuration) -> float:
        """Return V by adding up the peaks of every node's replicas in every repetition, or by testing departures."""
        problem = configuration.problem
        if problem.timeline:
            recomputed = solution_from_scratch(problem, configuration.solution.node.copy())
            return float(recomputed.counts[VIOLATIONS] / problem.weights[REPETITIONS])
        reached = 0
        for node in np.flatnonzero(problem.counted):
            peaks = problem.peak[configuration.rows_on(int(node))].sum(axis=0, dtype=np.int64)
            if len(problem.estimator_rows):
                reached += violations_of_sums(
                    problem.estimator_rows, problem.variance_unit, peaks, problem.threshold[node]
                )
            else:
                reached += int((peaks >= problem.threshold[node][:, None]).any(axis=0).sum())
        return reached / float(problem.weights[REPETITIONS])

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of V."""
        problem, solution = configuration.problem, configuration.solution
        after = violations_of_proposal(problem, solution, proposal.row, proposal.target, proposal.partner)
        return float((after - solution.counts[VIOLATIONS]) / problem.weights[REPETITIONS])


class ExpectedOverload(_WithoutSums):
    """O(X): the expected excess of nodes over their thresholds; 0 if its weight is 0."""

    name = "expected_overload"

    def total(self, configuration: Configuration) -> float:
        """Return O by adding up the peaks of every node's replicas in every repetition."""
        problem = configuration.problem
        if not problem.weights[W_OVERLOAD]:
            return 0.0
        repetitions, units = problem.peak.shape[2], 0
        for node in np.flatnonzero(problem.counted):
            peaks = problem.peak[configuration.rows_on(int(node))].sum(axis=0, dtype=np.int64)
            threshold = problem.threshold[node].astype(np.int64)
            excess = np.maximum(0, peaks - threshold[:, None]).sum(axis=1)
            units += int(np.minimum(excess * (UNITS / threshold), repetitions * MOST).astype(np.int64).sum())
        return units / (UNITS * float(problem.weights[REPETITIONS]))

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of O."""
        problem, solution = configuration.problem, configuration.solution
        after = overload_of_proposal(problem, solution, proposal.row, proposal.target, proposal.partner)
        return float((after - solution.counts[OVERLOAD]) / (UNITS * problem.weights[REPETITIONS]))


TERMS: tuple[IncrementalTerm, ...] = (
    Movement(),
    Imbalance(),
    Fragmentation(),
    ExpectedFailovers(),
    ExpectedOverload(),
)
"""The terms in the order of `plb.energy.score.TERM_NAMES`."""


def _node_load(configuration: Configuration) -> Float:
    """Return the load of every node, (N, R) in quanta, summed row by row."""
    problem, node = configuration.problem, configuration.solution.node
    rows = np.flatnonzero((node != NOWHERE) & ~problem.leaving)
    load = np.zeros(problem.limit.shape)
    np.add.at(load, node[rows], problem.load[rows].astype(np.float64))
    return load
