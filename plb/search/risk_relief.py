"""Relief of the nodes at risk: the few moves that avoid the most violations (docs/rebalancing.md).

The node that expects the most violations is relieved first, by the move or exchange of one of its replicas that avoids
more than it costs and most of all, until none does. A violation is weighed by its cost and by how often it returns as
long as the placement lasts. Violations are counted softly: a moment counts 0 up to a margin below the threshold, 1 at
the threshold, and as the square in between and above. So a past of a week also says where a node came near, and no node
is given up to save others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import kernel
from plb.energy import movement
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, GENERATED, SCORED, refusal
from plb.model.rules import NO_REFUSAL
from plb.risk.estimator_columns import node_violations
from plb.risk.estimators import DAY, estimator_of, period_of
from plb.search.budget import EndReason
from plb.search.result import Annealed, new_tally
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS, Problem, Proposal, Solution, are_siblings, proposed

SOFT_MARGIN = 0.3
"""Share of the threshold below it at which a moment begins to count."""
ROOT = 2**10
"""Square root of the units of a violation, in which moments are summed."""
MOST_ROOT = 2**14
"""Demand further above the threshold counts as this."""


class Risk(NamedTuple):
    """How violations are counted and weighed, and what each node expects."""

    start: Int
    """(N, R) quanta up to which a moment does not count."""
    scale: Float
    """(N, R) `ROOT` by the quanta from there to the threshold."""
    violations: Int
    """(N,) what each node expects, in units."""
    price: float
    """Moves that a unit is worth."""


class Movable(NamedTuple):
    """The replicas that may move."""

    rows: Int
    here: Int
    """Scratch of the same length: the rows on one node."""
    most: int
    """Largest number of rows that may be displaced."""


def risk_of(problem: Problem, solution: Solution, config: PlbConfig) -> Risk:
    """Return what each node of a solution expects."""
    start = np.floor((1.0 - SOFT_MARGIN) * problem.threshold).astype(np.int64)
    scale = ROOT / np.maximum(1, problem.threshold - start)
    times = config.placement_days * DAY / period_of(estimator_of(config.estimator))
    columns = problem.peak.shape[2]
    unit = float(ROOT**2 * columns) if not len(problem.estimator_rows) else problem.weights.repetitions
    price = float(config.violation_cost or 0.0) * max(1.0, times) / max(1.0, unit)
    risk = Risk(start, scale, np.zeros(len(problem.counted), np.int64), price)
    count_all(problem, solution, risk)
    return risk


def is_any_at_risk(problem: Problem, solution: Solution, config: PlbConfig) -> bool:
    """Return whether a node expects violations that are worth a move."""
    if not problem.peak.shape[2]:
        return False
    risk = risk_of(problem, solution, config)
    return bool(risk.violations.max(initial=0) * risk.price > 1.0)


def relieve_nodes_at_risk(
    problem: Problem, solution: Solution, config: PlbConfig, enforced: int, most: int
) -> Annealed:
    """Move replicas, at most `most`, off the nodes at risk, as long as that avoids more than it costs."""
    risk = risk_of(problem, solution, config)
    rows = np.flatnonzero(problem.movable & (solution.node != NOWHERE))
    tally = new_tally()
    stuck = np.zeros(len(risk.violations), np.bool_)
    relieve_all(problem, solution, enforced, risk, Movable(rows, rows.copy(), most), stuck, tally)
    return Annealed(float(present_energy(problem, solution)), tally, EndReason.CONVERGED)


@kernel
def count_all(problem: Problem, solution: Solution, risk: Risk) -> None:
    """Count the violations of all nodes."""
    for node in range(risk.violations.shape[0]):
        risk.violations[node] = violations_with(problem, solution, risk, node, NOWHERE, NOWHERE)


@kernel
def violations_with(problem: Problem, solution: Solution, risk: Risk, node: int, incoming: int, outgoing: int) -> int:
    """Return what a node expects, in units, after a row joined and one left, each perhaps NOWHERE; O(R·K)."""
    if not problem.counted[node]:
        return 0
    aggregate, joining, leaving = solution.aggregate[node], problem.peak[incoming], problem.peak[outgoing]
    if problem.estimator_rows.shape[0] > 0:
        rows, unit = problem.estimator_rows, problem.variance_unit
        return node_violations(rows, unit, aggregate, problem.threshold[node], joining, leaving)
    total = 0
    for metric in range(aggregate.shape[0]):
        start, scale = risk.start[node, metric], risk.scale[node, metric]
        if solution.ceiling[node, metric] + problem.peak_ceiling[incoming, metric] > start:
            for k in range(aggregate.shape[1]):
                above = max(0, aggregate[metric, k] + joining[metric, k] - leaving[metric, k] - start)
                root = min(MOST_ROOT, int(above * scale))
                total += root * root
    return total


@kernel
def relieve_all(
    problem: Problem, solution: Solution, enforced: int, risk: Risk, movable: Movable, stuck: Bool, tally: Int
) -> None:
    """Make the best move of the node at most risk until no node has one; `stuck`, (N,), marks nodes without one."""
    node = _riskiest(risk, stuck)
    while node != NOWHERE:
        proposal = _best_move(problem, solution, enforced, risk, movable, node, tally)
        if proposal.row == NOWHERE:
            stuck[node] = True
        else:
            stuck[:] = False
            apply_proposal(problem, solution, proposal)
            tally[ACCEPTED] += 1
            risk.violations[node] = violations_with(problem, solution, risk, node, NOWHERE, NOWHERE)
            target = proposal.target
            risk.violations[target] = violations_with(problem, solution, risk, target, NOWHERE, NOWHERE)
        node = _riskiest(risk, stuck)


@kernel
def _riskiest(risk: Risk, stuck: Bool) -> int:
    """Return the node with the most violations that are worth a move, among those not stuck, or NOWHERE."""
    riskiest, most = NOWHERE, 0
    for node in range(stuck.shape[0]):
        if not stuck[node] and risk.violations[node] > most:
            riskiest, most = node, risk.violations[node]
    return riskiest if riskiest != NOWHERE and most * risk.price > 0.0 else NOWHERE


@kernel
def _best_move(
    problem: Problem, solution: Solution, enforced: int, risk: Risk, movable: Movable, node: int, tally: Int
) -> Proposal:
    """Return the move or exchange of a replica of a node that is worth most after its cost; none if none is."""
    best, most = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE), 1e-9
    for place in range(_list_rows_on(solution, movable, node)):
        row = movable.here[place]
        gain = risk.violations[node] - violations_with(problem, solution, risk, node, NOWHERE, row)
        for target in problem.targets:
            proposal = proposed(solution, row, target, NOWHERE)
            worth = _worth(problem, solution, enforced, risk, movable, proposal, gain, most, tally)
            if worth > most:
                best, most = proposal, worth
        for partner in movable.rows:
            proposal = proposed(solution, row, solution.node[partner], partner)
            worth = _worth(problem, solution, enforced, risk, movable, proposal, gain, most, tally)
            if worth > most:
                best, most = proposal, worth
    return best


@kernel
def _list_rows_on(solution: Solution, movable: Movable, node: int) -> int:
    """Write the movable rows on a node to the begin of `Movable.here`, and return their number."""
    count = 0
    for row in movable.rows:
        if solution.node[row] == node:
            movable.here[count] = row
            count += 1
    return count


@kernel
def _worth(
    problem: Problem,
    solution: Solution,
    enforced: int,
    risk: Risk,
    movable: Movable,
    proposal: Proposal,
    gain: int,
    least: float,
    tally: Int,
) -> float:
    """Return how many moves a proposal is worth after its cost, 0 if not more than `least` or refused.

    `gain`: violations that the source loses without the row.
    """
    row, target, partner, node = proposal
    if target == node:
        return 0.0
    highest = gain + (risk.violations[target] if partner != NOWHERE else 0)
    cost = (movement.after(problem, solution, proposal) - solution.totals.movement) / TENTHS
    if highest * risk.price - cost <= least or (partner != NOWHERE and are_siblings(problem, row, partner)):
        return 0.0
    tally[GENERATED] += 1
    displaced = solution.totals.displaced + int(solution.node[row] == problem.origin[row])
    displaced += int(partner != NOWHERE and solution.node[partner] == problem.origin[partner])
    if displaced > movable.most:
        return 0.0
    after = violations_with(problem, solution, risk, target, row, partner)
    avoided = risk.violations[target] - after + gain
    if avoided * risk.price - cost <= least:
        return 0.0
    if partner != NOWHERE:
        avoided = risk.violations[target] - after + risk.violations[node]
        avoided -= violations_with(problem, solution, risk, node, partner, row)
    worth = avoided * risk.price - cost
    tally[SCORED] += 1
    if worth <= least:
        return 0.0
    refused = refusal(problem, solution, enforced, proposal)
    if refused != NO_REFUSAL:
        tally[FIRST_RULE + refused] += 1
        return 0.0
    return worth
