"""Evaluation of proposals: constraints, then budgets, then the energy terms, cheapest first."""

from __future__ import annotations

import math
from typing import TypeAlias

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.constraints import (
    affinity,
    application_capacity,
    capacity,
    domains,
    exclusion,
    node,
    placement,
    preferred_location,
    scale_out,
    throttling,
)
from plb.constraints import range as peak_range
from plb.constraints.move_budgets import refusal_of_budget, refusal_of_throttle
from plb.energy.movement import builds_and_swaps_after, moves_after
from plb.energy.node_sums import evaluates_peaks
from plb.energy.score import energy_of
from plb.energy.terms import (
    BY_TRIAL,
    TERMS_IN_ORDER,
    present_energy,
    present_values,
    with_least,
    with_source,
    with_target,
    without_peaks,
    worst_term,
    write_energy_and_values,
)
from plb.evaluation.delta import apply_proposal
from plb.model.rules import NO_REFUSAL, RULES, RuleMask
from plb.state.arrays import Problem, Proposal, Solution, are_siblings, inverse_of, proposed


@kernel(inline=True)
def refusal_of_move(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> int:
    """Return the first enforced rule that refuses a move of one replica, or NO_REFUSAL."""
    row, target = proposal.row, proposal.target
    rule = refusal_of_place(problem, solution, enforced, row, target)
    if rule != NO_REFUSAL:
        return rule
    if capacity.refuses(problem, solution, enforced, row, target):
        return capacity.RULE
    if problem.tight:  # known from the rule of capacity, so that it costs nothing without applications
        rule = _refusal_by_application(problem, solution, enforced, row, target)
        if rule != NO_REFUSAL:
            return rule
    if peak_range.refuses(problem, solution, enforced, row, target):
        return peak_range.RULE
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_place(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> int:
    """Return the first enforced rule other than capacity and rules of applications that refuses `row` on `target`."""
    if node.refuses(problem, solution, enforced, row, target):
        return node.RULE
    if exclusion.refuses(problem, solution, enforced, row, target):
        return exclusion.RULE
    if placement.refuses(problem, solution, enforced, row, target):
        return placement.RULE
    if preferred_location.refuses(problem, solution, enforced, row, target):
        return preferred_location.RULE
    if throttling.refuses(problem, solution, enforced, row, target):
        return throttling.RULE
    rule = domains.refusal(problem, solution, enforced, row, target)
    if rule != NO_REFUSAL:
        return rule
    if affinity.refuses(problem, solution, enforced, row, target):
        return affinity.RULE
    return NO_REFUSAL


@kernel(inline=True)
def refusal_of_exchange(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> int:
    """Return the first enforced rule that refuses an exchange of two replicas, or NO_REFUSAL.

    No domain rule refuses a swap of roles, and no placement constraint except constraints of the primary only.
    """
    row, target, partner, source = proposal
    if source == NOWHERE or target == NOWHERE:
        return node.RULE
    if are_siblings(problem, row, partner):
        rule = _refusal_of_swap(problem, solution, enforced, proposal)
    else:
        rule = refusal_of_place(problem, solution, enforced, row, target)
        if rule == NO_REFUSAL:
            rule = refusal_of_place(problem, solution, enforced, partner, source)
    if rule != NO_REFUSAL:
        return rule
    if capacity.refuses_exchange(problem, solution, enforced, proposal):
        return capacity.RULE
    if problem.tight:
        rule = _refusal_of_exchange_by_application(problem, solution, enforced, proposal)
        if rule != NO_REFUSAL:
            return rule
    if peak_range.refuses(problem, solution, enforced, row, target):
        return peak_range.RULE
    if peak_range.refuses(problem, solution, enforced, partner, source):
        return peak_range.RULE
    return NO_REFUSAL


@kernel(shared=True)
def _refusal_by_application(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> int:
    """Return the first enforced rule of applications that refuses a move of `row` to `target`, or NO_REFUSAL."""
    if scale_out.refuses(problem, solution, enforced, row, target):
        return scale_out.RULE
    if application_capacity.refuses(problem, solution, enforced, row, target):
        return application_capacity.RULE
    return NO_REFUSAL


@kernel(shared=True)
def _refusal_of_exchange_by_application(
    problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal
) -> int:
    """Return the first enforced rule of applications that refuses an exchange, or NO_REFUSAL."""
    row, target, partner, source = proposal
    if scale_out.refuses(problem, solution, enforced, row, target):
        return scale_out.RULE
    if scale_out.refuses(problem, solution, enforced, partner, source):
        return scale_out.RULE
    if application_capacity.refuses_exchange(problem, solution, enforced, proposal):
        return application_capacity.RULE
    return NO_REFUSAL


@kernel
def _refusal_of_swap(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> int:
    """Return the first enforced rule other than capacity that refuses a swap of two placed siblings, or NO_REFUSAL."""
    if node.refuses_swap(problem, solution, enforced, proposal):
        return node.RULE
    if exclusion.refuses_swap(problem, solution, enforced, proposal):
        return exclusion.RULE
    if placement.refuses_swap(problem, solution, enforced, proposal):
        return placement.RULE
    if affinity.refuses_swap(problem, solution, enforced, proposal):
        return affinity.RULE
    return NO_REFUSAL


# Positions in a tally of proposals by outcome
GENERATED, SCORED, REACHED_MONTE_CARLO, ACCEPTED = range(4)
FIRST_RULE = 4
FIRST_TERM = FIRST_RULE + RULES
TALLY_SIZE = FIRST_TERM + len(TERMS_IN_ORDER)
Tally: TypeAlias = Int
"""(TALLY_SIZE,) number of proposals by outcome: the four above, refused by each rule, rejected because of each term."""

REJECTED = math.inf
"""Energy of a rejected proposal."""


@kernel(shared=True)
def refusal(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> int:
    """Return the first `enforced` rule or budget that refuses the proposal, or NO_REFUSAL; not inlined into callers."""
    return refusal_in_place(problem, solution, enforced, proposal)


@kernel
def refusal_in_place(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> int:
    """Return the first enforced rule or budget that refuses the proposal, or NO_REFUSAL; inlined into callers."""
    if proposal.partner == NOWHERE:
        rule = refusal_of_move(problem, solution, enforced, proposal)
    else:
        rule = refusal_of_exchange(problem, solution, enforced, proposal)
    if rule != NO_REFUSAL or not problem.bounded:
        return rule
    moves = moves_after(problem, solution, proposal)
    rule = refusal_of_budget(problem, solution, moves, proposal)
    if rule != NO_REFUSAL or not problem.throttled:
        return rule
    return _throttle_that_refuses(problem, solution, proposal)


@kernel(shared=True)
def _throttle_that_refuses(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the rule on builds or swaps of the cluster that refuses the proposal, or NO_REFUSAL; rarely called."""
    builds, swaps = builds_and_swaps_after(problem, solution, proposal)
    return refusal_of_throttle(problem, solution, builds, swaps)


@kernel(shared=True)
def evaluate(
    problem: Problem,
    solution: Solution,
    highest: float,
    proposal: Proposal,
    tally: Tally,
) -> float:
    """Return the energy after the proposal, or REJECTED if it is above `highest`; count the outcome in `tally`.

    Not inlined, for rare calls.
    """
    return evaluate_in_place(problem, solution, highest, proposal, tally)


@kernel
def evaluate_in_place(
    problem: Problem,
    solution: Solution,
    highest: float,
    proposal: Proposal,
    tally: Tally,
) -> float:
    """Return the energy after the proposal, or REJECTED if it is above `highest`; count the outcome in `tally`.

    Inlined, for frequent calls. First the Monte Carlo terms are bounded from below: the source loses at most its
    present violations and overload, and the target loses none (in an exchange, or with estimators, at most its own).
    Repetitions are evaluated only if the bound does not reject the proposal.
    """
    tally[SCORED] += 1
    weights = problem.weights
    if not weights.plain_deviation:
        after = energy_by_trial(problem, solution, proposal)
        if after <= highest:
            return after
        tally[FIRST_TERM + BY_TRIAL] += 1
        return REJECTED
    values = without_peaks(problem, solution, proposal)
    if evaluates_peaks(problem):
        values = with_least(problem, solution, values, proposal)
        if energy_of(weights, values) <= highest:
            tally[REACHED_MONTE_CARLO] += 1
            values = with_source(problem, solution, values, proposal)
            if energy_of(weights, values) <= highest:
                values = with_target(problem, solution, values, proposal)
    after = energy_of(weights, values)
    if after <= highest:
        return after
    tally[FIRST_TERM + worst_term(problem, present_values(solution), values)] += 1
    return REJECTED


@kernel
def energy_by_trial(problem: Problem, solution: Solution, proposal: Proposal) -> float:
    """Return the energy after the proposal by applying and undoing it."""
    apply_proposal(problem, solution, proposal)
    after = present_energy(problem, solution)
    apply_proposal(problem, solution, inverse_of(proposal))
    return after


@kernel
def new_energies(problem: Problem, solution: Solution, row: int, nodes: Int, energy: Float, tally: Tally) -> None:
    """Write to `energy`, (N,), the energy with replica `row`, which has no node, on each of `nodes`, (n,)."""
    for target in nodes:
        energy[target] = evaluate(problem, solution, REJECTED, proposed(solution, row, target, NOWHERE), tally)


@kernel
def evaluate_places(problem: Problem, solution: Solution, row: int, nodes: Int, energy: Float, violating: Int) -> None:
    """Write what the solution has with replica `row`, which has no node, on each of `nodes`, (n,).

    `energy`: (n, 1 + terms), the energy, then the `TermValues`; `violating`: (n,) of the node, as in `Solution`.
    """
    for index in range(nodes.shape[0]):
        apply_proposal(problem, solution, proposed(solution, row, nodes[index], NOWHERE))
        write_energy_and_values(problem, solution, energy[index])
        violating[index] = solution.violating[nodes[index]]
        apply_proposal(problem, solution, proposed(solution, row, NOWHERE, NOWHERE))


@kernel
def find_refusals(problem: Problem, solution: Solution, enforced: RuleMask, row: int, rules: Int) -> None:
    """Write to `rules`, (N,), the first enforced rule or budget that refuses `row` on each node, or NO_REFUSAL."""
    for target in range(problem.limit.shape[0]):
        rules[target] = refusal(problem, solution, enforced, proposed(solution, row, target, NOWHERE))
