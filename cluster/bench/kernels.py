"""The timed loops of `plb bench engine`: evaluations, arithmetic alone, and decisions of placement policies."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform, working_time
from plb.energy import expected_failovers
from plb.energy.score import TermValues, energy_of
from plb.energy.terms import present_energy, without_peaks
from plb.engine import PlacementAndLoadBalancing
from plb.evaluation.proposals import evaluate_in_place, refusal_in_place
from plb.extensions.configuration import Configuration
from plb.extensions.policies import PlacementPolicy, PreparedPolicy, RepackingPolicy
from plb.model import Partition
from plb.model.rules import NO_REFUSAL
from plb.policies import BUILT_IN
from plb.search.annealing.move_generation import Choice, generate_proposal
from plb.state.arrays import Problem, Proposal, Solution
from plb.testing import configuration_of


@kernel(inline=True)
def _generate_allowed(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> Proposal:
    """Return a random proposal; its row is `NOWHERE` if no move was found or a rule refuses it."""
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
    """Generate and evaluate `proposals` proposals for an unchanged state; return how many would be accepted.

    `tally`: (TALLY_SIZE,), in which the evaluations are counted.
    """
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
    """Generate `proposals` proposals, and evaluate all repetitions of both nodes of each allowed proposal.

    Return the number of allowed proposals.
    """
    scored = 0
    least_energy = math.inf
    for _ in range(proposals):
        proposal = _generate_allowed(problem, solution, choice, rng)
        if proposal.row == NOWHERE:
            continue
        row, target, _partner, source = proposal
        violations = solution.totals.expected_failovers - solution.violating[source] - solution.violating[target]
        violations += expected_failovers.violations_with(
            solution.aggregate[source],
            problem.threshold[source],
            (solution.ceiling[source], problem.peak_ceiling[NOWHERE]),
            None,
            problem.peak[row],
            solution.hit,
            problem.windows,
        )
        violations += expected_failovers.at_target(problem, solution, proposal)
        other_terms = without_peaks(problem, solution, proposal)
        terms = TermValues(other_terms.movement, other_terms.imbalance, other_terms.fragmentation, violations, 0)
        least_energy = min(least_energy, energy_of(problem.weights, terms))
        scored += 1
    # the result depends on the energy, so that the compiler does not leave its computation out
    return scored if least_energy < math.inf else 0


@kernel
def arithmetic(problem: Problem, solution: Solution, rows: Int, sources: Int, targets: Int) -> int:
    """Execute the 2·R·K additions and comparisons of each prepared move, for R = 3 metrics; return the violations.

    `rows`, `sources`, `targets`: (m,) replica, node and new node of each move. K: repetitions.
    """
    violations = 0
    aggregate, peak = solution.aggregate, problem.peak
    for index in range(rows.shape[0]):
        row, source, target = rows[index], sources[index], targets[index]
        cpu_threshold, memory_threshold, disk_threshold = (
            problem.threshold[target, 0],
            problem.threshold[target, 1],
            problem.threshold[target, 2],
        )
        for repetition in range(aggregate.shape[2]):
            source_violated = (
                (aggregate[source, 0, repetition] - peak[row, 0, repetition] >= cpu_threshold)
                | (aggregate[source, 1, repetition] - peak[row, 1, repetition] >= memory_threshold)
                | (aggregate[source, 2, repetition] - peak[row, 2, repetition] >= disk_threshold)
            )
            target_violated = (
                (aggregate[target, 0, repetition] + peak[row, 0, repetition] >= cpu_threshold)
                | (aggregate[target, 1, repetition] + peak[row, 1, repetition] >= memory_threshold)
                | (aggregate[target, 2, repetition] + peak[row, 2, repetition] >= disk_threshold)
            )
            violations += int(source_violated) + int(target_violated)
    return violations


RUNS = 5
"""Number of runs, of which the fastest counts, because other work on the machine slows runs down."""


def fastest(run: Callable[[], object], runs: int = RUNS) -> float:
    """Return the seconds of the fastest of `runs` calls of `run`, without compilation."""

    def once() -> float:
        begun = working_time()
        run()
        return working_time() - begun

    return min(once() for _ in range(runs))


DECISIONS = 20
"""Decisions in one run, because the time of a single one is too short to be measured."""


def decision_seconds(engine: PlacementAndLoadBalancing, service: str) -> dict[str, float]:
    """Return the seconds that each policy, by name, needs to choose the node of a new replica of a service.

    The check of the rules is included.
    """
    name = "newcomer"
    engine.update_partition(Partition(name, service=service))
    row = engine.replicas(name)[0].index
    configuration = configuration_of(engine)
    seconds = {policy.name: seconds_of(policy, configuration, row) for policy in BUILT_IN}
    engine.remove_partition(name)
    return seconds


def seconds_of(policy: PlacementPolicy, configuration: Configuration, row: int) -> float:
    """Return the seconds of a decision of a policy for the replica in an engine row, without the moves before it."""
    policy = copy.deepcopy(policy)
    if isinstance(policy, PreparedPolicy):
        policy.begin(configuration, np.random.default_rng(0))

    def decide() -> None:
        for _ in range(DECISIONS):
            if isinstance(policy, RepackingPolicy):
                policy.evict(configuration, row)
            policy.choose(configuration, row, configuration.nodes_for(row))

    decide()
    return fastest(decide) / DECISIONS
