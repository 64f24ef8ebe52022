"""A plain annealer over the kernels of the engine, with which `plb bench search` compares the search of the engine.

Proposals are moves to a uniform node and exchanges of two uniform replicas, one as often as the other. The temperature
decreases geometrically with time. There is no bias, no restart and no return to an earlier solution.
"""

from __future__ import annotations

import math

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform, working_time
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import GENERATED, REJECTED, TALLY_SIZE, evaluate_in_place, refusal_in_place
from plb.model.rules import NO_REFUSAL
from plb.state.arrays import Problem, Solution, are_siblings
from plb.state.proposal import Proposal, proposed
from plb.terms.safety_capacity import SafetySteps, change_of_safety_capacity

EXCHANGES = 0.5
"""Share of exchanges among the proposals."""
PROBES = 4096
"""Proposals whose mean change of the energy is the first temperature."""
STRETCH = 4096
"""Proposals at one temperature."""
LAST_TEMPERATURE = 1e-5
"""Last temperature, as a share of the first one."""


@kernel(inline=True)
def _draw(problem: Problem, solution: Solution, enforced: int, rows: Int, rng: Stream) -> Proposal:
    """Return a random proposal that the rules allow. The row is NOWHERE if the drawn one is not allowed."""
    nowhere = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    row = rows[int(uniform(rng) * rows.shape[0])]
    if uniform(rng) < EXCHANGES:
        partner = rows[int(uniform(rng) * rows.shape[0])]
        if are_siblings(problem, row, partner):
            return nowhere
        proposal = proposed(solution, row, solution.node[partner], partner)
    else:
        proposal = proposed(solution, row, int(uniform(rng) * problem.limit.shape[0]), NOWHERE)
    if proposal.target == proposal.source:
        return nowhere
    if refusal_in_place(problem, solution, enforced, proposal) != NO_REFUSAL:
        return nowhere
    return proposal


@kernel
def mean_change(
    problem: Problem,
    solution: Solution,
    enforced: int,
    rows: Int,
    steps: SafetySteps,
    weight: float,
    rng: Stream,
    tally: Int,
) -> float:
    """Return the mean absolute change of the energy by the allowed ones of PROBES random proposals, or 0.

    The arguments are those of `anneal_plainly`.
    """
    energy = present_energy(problem, solution)
    total, allowed = 0.0, 0
    for _ in range(PROBES):
        proposal = _draw(problem, solution, enforced, rows, rng)
        if proposal.row == NOWHERE:
            continue
        change = evaluate_in_place(problem, solution, REJECTED, proposal, tally) - energy
        if weight > 0.0:
            change += weight * change_of_safety_capacity(problem, solution, steps, proposal)
        total += abs(change)
        allowed += 1
    return total / max(1, allowed)


@kernel
def anneal_plainly(
    problem: Problem,
    solution: Solution,
    enforced: int,
    rows: Int,
    steps: SafetySteps,
    weight: float,
    temperature: float,
    rng: Stream,
    tally: Int,
) -> None:
    """Generate STRETCH proposals, and accept them or not by the Metropolis rule.

    Parameters
    ----------
    solution
        Modified.
    enforced
        Bit mask over `Rule`.
    rows
        The replicas that may move.
    steps
        Of the safety capacities.
    weight
        Weight of the excess load; 0: it does not count.
    tally
        (TALLY_SIZE,) number of proposals by outcome; modified.
    """
    for _ in range(STRETCH):
        tally[GENERATED] += 1
        proposal = _draw(problem, solution, enforced, rows, rng)
        if proposal.row == NOWHERE:
            continue
        highest = present_energy(problem, solution) - temperature * math.log(1.0 - uniform(rng))
        if weight > 0.0:
            highest -= weight * change_of_safety_capacity(problem, solution, steps, proposal)
        if evaluate_in_place(problem, solution, highest, proposal, tally) < REJECTED:
            apply_proposal(problem, solution, proposal)


def anneal_for(
    problem: Problem,
    solution: Solution,
    enforced: int,
    steps: SafetySteps,
    weight: float,
    seconds: float,
    seed: int,
) -> int:
    """Anneal for some seconds of `working_time` on one thread, and return the number of generated proposals.

    Parameters
    ----------
    solution
        Modified.
    enforced, steps, weight
        As in `anneal_plainly`.
    """
    rows, rng = np.flatnonzero(problem.movable), Stream(np.random.SeedSequence(seed))
    tally = np.zeros(TALLY_SIZE, np.int64)
    fixed = problem, solution, enforced, rows, steps, weight
    begun = working_time()
    first = mean_change(*fixed, rng, tally)
    while (share := (working_time() - begun) / seconds) < 1.0:
        anneal_plainly(*fixed, first * LAST_TEMPERATURE**share, rng, tally)
    return int(tally[GENERATED])
