"""The timed loops of `plb bench engine`: evaluation of proposals that are not accepted, and arithmetic alone."""

from __future__ import annotations

import math

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.energy import expected_failovers
from plb.energy.score import TermValues, energy_of
from plb.energy.terms import present_energy, without_peaks
from plb.evaluation.proposals import evaluate_in_place, refusal_in_place
from plb.model.rules import NO_REFUSAL
from plb.search.move_generation import Choice, generate_proposal
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal


@kernel(inline=True)
def _generate_allowed(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> Proposal:
    """Generate a proposal. Its row is NOWHERE if none was found or a rule refuses it."""
    proposal = generate_proposal(problem, solution, choice, rng)
    if proposal.row == NOWHERE or proposal.target == proposal.source:
        return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    if refusal_in_place(problem, solution, choice.enforced, proposal) != NO_REFUSAL:
        return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    return proposal


@kernel
def score_only(
    problem: Problem, solution: Solution, choice: Choice, temperature: float, rng: Stream, proposals: int, tally: Int
) -> int:
    """Generate and evaluate proposals for the present state; return how many would be accepted. None is."""
    energy = present_energy(problem, solution)
    accepted = 0
    for _ in range(proposals):
        proposal = _generate_allowed(problem, solution, choice, rng)
        if proposal.row == NOWHERE:
            continue
        highest = energy - temperature * math.log(1.0 - uniform(rng))
        accepted += evaluate_in_place(problem, solution, highest, proposal, tally) < math.inf
    return accepted


@kernel
def score_fully(problem: Problem, solution: Solution, choice: Choice, rng: Stream, proposals: int) -> int:
    """Generate proposals, evaluate all repetitions of both nodes of the allowed ones, and return their number."""
    scored = 0
    lowest = math.inf
    for _ in range(proposals):
        proposal = _generate_allowed(problem, solution, choice, rng)
        if proposal.row == NOWHERE:
            continue
        row, target, _partner, here = proposal
        violations = solution.totals.expected_failovers - solution.violating[here] - solution.violating[target]
        violations += expected_failovers.violations_left(
            solution.aggregate[here],
            solution.ceiling[here],
            problem.threshold[here],
            problem.peak[row],
            solution.hit,
            problem.windows,
        )
        violations += expected_failovers.at_target(problem, solution, proposal)
        others = without_peaks(problem, solution, proposal)
        after = TermValues(others.movement, others.imbalance, others.fragmentation, violations, 0)
        lowest = min(lowest, energy_of(problem.weights, after))
        scored += 1
    return scored if lowest < math.inf else 0


@kernel
def arithmetic(problem: Problem, solution: Solution, rows: Int, sources: Int, targets: Int) -> int:
    """Execute the 2·R·K additions and comparisons of prepared moves, for three metrics; return the violations."""
    hits = 0
    aggregate, peak = solution.aggregate, problem.peak
    for index in range(rows.shape[0]):
        row, source, target = rows[index], sources[index], targets[index]
        cpu, memory, disk = problem.threshold[target, 0], problem.threshold[target, 1], problem.threshold[target, 2]
        for k in range(aggregate.shape[2]):
            at_source = (
                (aggregate[source, 0, k] - peak[row, 0, k] >= cpu)
                | (aggregate[source, 1, k] - peak[row, 1, k] >= memory)
                | (aggregate[source, 2, k] - peak[row, 2, k] >= disk)
            )
            at_target = (
                (aggregate[target, 0, k] + peak[row, 0, k] >= cpu)
                | (aggregate[target, 1, k] + peak[row, 1, k] >= memory)
                | (aggregate[target, 2, k] + peak[row, 2, k] >= disk)
            )
            hits += int(at_source) + int(at_target)
    return hits
