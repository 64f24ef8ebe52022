"""Evaluation of proposals: constraints, then budgets, then the energy terms, cheapest first."""

from __future__ import annotations

import math

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.constraints.move_budgets import refusal_of_budget
from plb.energy.score import (
    FAILOVERS_TERM,
    FRAGMENTATION_TERM,
    IMBALANCE_TERM,
    MOVEMENT_TERM,
    OVERLOAD_TERM,
    PLAIN_DEVIATION,
    TERM_NAMES,
    energy_of,
)
from plb.evaluation.constraint_chain import refusal_of_exchange, refusal_of_move
from plb.evaluation.delta import (
    apply_proposal,
    evaluates_risk,
    fragmentation_of_proposal,
    imbalance_of_proposal,
    movement_after,
    moves_after,
    overload_at_source,
    overload_at_target,
    present_energy,
    violations_at_source,
    violations_at_target,
)
from plb.model.rules import NO_REFUSAL, RULES
from plb.state.arrays import FRAGMENTATION, IMBALANCE, MOVEMENT, OVERLOAD, VIOLATIONS, Problem, Solution

# Positions in a tally of proposals by outcome
GENERATED, SCORED, REACHED_MONTE_CARLO, ACCEPTED = range(4)
FIRST_RULE = 4
FIRST_TERM = FIRST_RULE + RULES
TALLY_SIZE = FIRST_TERM + len(TERM_NAMES)

REJECTED = math.inf
"""Energy of a rejected proposal."""


@kernel(shared=True)
def refusal(problem: Problem, solution: Solution, enforced: int, row: int, target: int, partner: int) -> int:
    """Return the result of `refusal_in_place`; for callers outside the innermost loop."""
    return refusal_in_place(problem, solution, enforced, row, target, partner)


@kernel
def refusal_in_place(problem: Problem, solution: Solution, enforced: int, row: int, target: int, partner: int) -> int:
    """Return the rule that refuses the proposal, or NO_REFUSAL; inlined into the caller, for the innermost loop."""
    if partner == NOWHERE:
        refused = refusal_of_move(problem, solution, enforced, row, target)
    else:
        refused = refusal_of_exchange(problem, solution, enforced, row, partner)
    if refused != NO_REFUSAL or not problem.bounded:
        return refused
    moves = moves_after(problem, solution, row, target, partner)
    return refusal_of_budget(problem, solution, moves, row, target, partner)


@kernel(shared=True)
def evaluate(
    problem: Problem,
    solution: Solution,
    highest: float,
    row: int,
    target: int,
    partner: int,
    tally: Int,
) -> float:
    """Return the result of `evaluate_in_place`; for callers outside the innermost loop."""
    return evaluate_in_place(problem, solution, highest, row, target, partner, tally)


@kernel
def evaluate_in_place(
    problem: Problem,
    solution: Solution,
    highest: float,
    row: int,
    target: int,
    partner: int,
    tally: Int,
) -> float:
    """Return the energy after the proposal, or REJECTED if it is above `highest`.

    First the Monte Carlo terms are bounded from below: the source loses at most its present violations and overload,
    and the target loses none (in an exchange, or with estimators, at most its own). Repetitions are evaluated only if
    the bound does not reject the proposal.

    Parameters
    ----------
    highest
        Highest accepted energy.
    tally
        (TALLY_SIZE,) number of proposals by outcome; modified.
    """
    tally[SCORED] += 1
    weights = problem.weights
    if weights[PLAIN_DEVIATION] == 0.0:
        after = energy_by_trial(problem, solution, row, target, partner)
        if after <= highest:
            return after
        tally[FIRST_TERM + IMBALANCE_TERM] += 1
        return REJECTED
    here = solution.node[row]
    movement = movement_after(problem, solution, row, target, partner)
    deviation = imbalance_of_proposal(problem, solution, row, target, partner)
    fragmentation = fragmentation_of_proposal(problem, solution, row, target, partner)
    violations, overload = solution.counts[VIOLATIONS], solution.counts[OVERLOAD]
    if evaluates_risk(weights, problem.peak.shape[2]):
        if here != NOWHERE:
            violations, overload = violations - solution.violating[here], overload - solution.overload[here]
        both_may_lose = partner != NOWHERE or problem.estimator_rows.shape[0] > 0
        if both_may_lose:
            violations, overload = violations - solution.violating[target], overload - solution.overload[target]
        if energy_of(weights, movement, deviation, fragmentation, violations, overload) <= highest:
            tally[REACHED_MONTE_CARLO] += 1
            violations += violations_at_source(problem, solution, row, partner)
            overload += overload_at_source(problem, solution, row, partner)
            if energy_of(weights, movement, deviation, fragmentation, violations, overload) <= highest:
                if not both_may_lose:
                    violations, overload = violations - solution.violating[target], overload - solution.overload[target]
                violations += violations_at_target(problem, solution, row, target, partner)
                overload += overload_at_target(problem, solution, row, target, partner)
    after = energy_of(weights, movement, deviation, fragmentation, violations, overload)
    if after <= highest:
        return after
    tally[FIRST_TERM + _worst_term(problem, solution, movement, deviation, fragmentation, violations, overload)] += 1
    return REJECTED


@kernel
def energy_by_trial(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> float:
    """Return the energy after the proposal by applying and undoing it."""
    source = solution.node[row]
    apply_proposal(problem, solution, row, target, partner)
    after = present_energy(problem, solution)
    apply_proposal(problem, solution, row, source, partner)
    return after


@kernel
def _worst_term(
    problem: Problem,
    solution: Solution,
    movement: int,
    deviation: float,
    fragmentation: float,
    violations: int,
    overload: int,
) -> int:
    """Return the term that increased the energy most: without its change the energy would be lowest."""
    weights = problem.weights
    counts = solution.counts
    present_deviation = solution.terms[IMBALANCE]
    present_fragmentation = solution.terms[FRAGMENTATION]
    worst = MOVEMENT_TERM
    lowest = energy_of(weights, counts[MOVEMENT], deviation, fragmentation, violations, overload)
    without = energy_of(weights, movement, present_deviation, fragmentation, violations, overload)
    if without < lowest:
        worst = IMBALANCE_TERM
        lowest = without
    without = energy_of(weights, movement, deviation, present_fragmentation, violations, overload)
    if without < lowest:
        worst = FRAGMENTATION_TERM
        lowest = without
    without = energy_of(weights, movement, deviation, fragmentation, counts[VIOLATIONS], overload)
    if without < lowest:
        worst = FAILOVERS_TERM
        lowest = without
    without = energy_of(weights, movement, deviation, fragmentation, violations, counts[OVERLOAD])
    if without < lowest:
        worst = OVERLOAD_TERM
    return worst


@kernel
def new_energies(problem: Problem, solution: Solution, row: int, nodes: Int, energy: Float, tally: Int) -> None:
    """Write the energy with `row`, which has no node, on each of `nodes` to `energy`, (N,)."""
    for node in nodes:
        energy[node] = evaluate(problem, solution, REJECTED, row, node, NOWHERE, tally)


@kernel
def find_refusals(problem: Problem, solution: Solution, enforced: int, row: int, refused: Int) -> None:
    """Find, for each node, the first enforced rule or budget that refuses `row` there.

    Parameters
    ----------
    refused
        (N,) modified: the rule, or NO_REFUSAL.
    """
    for node in range(problem.limit.shape[0]):
        refused[node] = refusal(problem, solution, enforced, row, node, NOWHERE)
