"""Kernels of one simulated annealing chain (docs/service-fabric.md, Annealing).

A chain accepts a proposal that raises the energy by d with probability exp(−d/T). It cools after rounds without a new
best solution and keeps an undo log to return to the best solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from plb.array_types import NOWHERE, Int
from plb.compiler import CallByAddress, Stream, by_pointer, kernel, uniform
from plb.constraints.domains import SPREADING
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import (
    ACCEPTED,
    FIRST_RULE,
    FIRST_TERM,
    GENERATED,
    REJECTED,
    TALLY_SIZE,
    Tally,
    evaluate,
    evaluate_in_place,
    refusal,
    refusal_in_place,
)
from plb.model.rules import NO_REFUSAL, Rule
from plb.search.annealing.cooling_schedule import (
    NOT_STARTED,
    RESTARTING,
    RUNNING,
    SPENT,
    UNSET,
    Schedule,
    Settings,
    end_round,
    first_temperature,
    heat_up,
)
from plb.search.annealing.move_generation import Choice, generate_proposal
from plb.search.annealing.neighbourhoods import (
    MOST_ASKED,
    SINGLE,
    Neighbourhoods,
    adapt_parts,
    note_step,
    random_neighbourhood,
)
from plb.search.extension_kernels import (
    ALLOWED,
    NO_KERNEL,
    ExtensionState,
    apply_with_terms,
    copy_values,
    foresee,
    refusing,
    undo_with_terms,
    weighed,
    worst_of,
)
from plb.search.transactions import Transaction
from plb.state.arrays import Problem, Proposal, Solution, inverse_of


class UndoLog(NamedTuple):
    """The proposals accepted since the start, in order, or since the best solution after `forget_start`."""

    row: Int
    """(E,) row of each of the E proposals."""
    source: Int
    """(E,) node of `row` before the proposal; the target is its node after it."""
    partner: Int
    """(E,) row that changed nodes with `row`, or NOWHERE."""


@kernel
def note_accepted(schedule: Schedule, undo_log: UndoLog, proposal: Proposal) -> None:
    """Append an accepted proposal to the undo log, whose length is in `schedule`."""
    entry = schedule.undo_length
    undo_log.row[entry] = proposal.row
    undo_log.source[entry] = proposal.source
    undo_log.partner[entry] = proposal.partner
    schedule.undo_length += 1


@kernel
def _accepted(solution: Solution, undo_log: UndoLog, entry: int) -> Proposal:
    """Return the proposal of `entry`, the last one of the log: its row is now on its target."""
    row = undo_log.row[entry]
    return Proposal(row, solution.node[row], undo_log.partner[entry], undo_log.source[entry])


@kernel
def return_to_best(
    problem: Problem, solution: Solution, schedule: Schedule, undo_log: UndoLog, extension_state: ExtensionState
) -> None:
    """Undo the proposals accepted since the best solution, in solution, schedule, and values and sums of terms."""
    for entry in range(schedule.undo_length - 1, schedule.best_length - 1, -1):
        undo_with_terms(problem, solution, extension_state, _accepted(solution, undo_log, entry))
    copy_values(extension_state.best, extension_state.value)
    schedule.undo_length = schedule.best_length
    schedule.energy = schedule.best_energy


@kernel
def return_to_start(problem: Problem, solution: Solution, schedule: Schedule, undo_log: UndoLog) -> None:
    """Undo all proposals of the log in the solution; the sums of extension terms stay as they are."""
    for entry in range(schedule.undo_length - 1, -1, -1):
        apply_proposal(problem, solution, inverse_of(_accepted(solution, undo_log, entry)))


@kernel
def is_full(schedule: Schedule, undo_log: UndoLog, moves: int) -> bool:
    """Return whether the undo log cannot hold one more step of `moves` moves, or of one move if `moves` is 0."""
    return bool(schedule.undo_length + moves >= undo_log.row.shape[0])


@kernel
def forget_start(schedule: Schedule, undo_log: UndoLog) -> None:
    """Remove the entries up to the best solution from the log; the chain cannot return to its start any more."""
    first, length = schedule.best_length, schedule.undo_length
    for entry in range(first, length):
        undo_log.row[entry - first] = undo_log.row[entry]
        undo_log.source[entry - first] = undo_log.source[entry]
        undo_log.partner[entry - first] = undo_log.partner[entry]
    schedule.undo_length -= schedule.best_length
    schedule.best_length = 0


class StepAddresses(NamedTuple):
    """Addresses of the kernels for steps that few chains have; NO_KERNEL where a chain has no such steps."""

    compound: int = NO_KERNEL
    """`compound_proposal`, for steps of several moves."""
    extended: int = NO_KERNEL
    """`extended_step`, for extension terms and constraints."""
    larger: int = NO_KERNEL
    """`larger_proposal`, for larger neighbourhoods."""


@by_pointer
class ChainState(NamedTuple):
    """State, undo log and counters of a chain."""

    schedule: Schedule
    undo_log: UndoLog
    """When it is full, the chain forgets its start, and if that is not enough, returns to its best solution."""
    tally: Tally
    """(TALLY_SIZE,) number of proposals by outcome."""
    transaction: Transaction
    """Scratch for steps of several moves; it holds none where such steps cannot occur."""
    neighbourhoods: Neighbourhoods
    """Weights and counts of the larger neighbourhoods."""
    addresses: StepAddresses = StepAddresses()
    """The kernels for steps that few chains have."""


class Step(NamedTuple):
    """A proposal that passed the constraints."""

    proposal: Proposal
    makes_spread_moves: bool
    """Whether siblings have to move to restore the spread over domains."""
    highest: float
    """Highest accepted energy."""


@kernel
def record_energy(solution: Solution, schedule: Schedule, extension_state: ExtensionState, energy: float) -> None:
    """Record the energy of the solution; if it is the best so far, record that too, with its position in the undo log.

    A solution with a term that has to vanish is never the best.
    """
    schedule.energy = energy
    for term in extension_state.vanishing:
        if extension_state.value[term] != 0.0:
            return
    movement = solution.totals.movement
    best = schedule.best_energy
    if energy < best or (energy == best and movement < schedule.best_movement):
        schedule.best_energy = energy
        schedule.best_movement = movement
        schedule.round_had_best = True
        schedule.best_length = schedule.undo_length
        copy_values(extension_state.value, extension_state.best)


@kernel
def highest_energy(schedule: Schedule, rng: Stream) -> float:
    """Return the highest energy that the next step may reach: a rise by d is accepted with probability exp(−d/T)."""
    return float(schedule.energy - schedule.temperature * math.log(1.0 - uniform(rng)))


PROBES_FOR_ONE = 200
"""Largest number of probes generated for each one of the settings: where nodes are full, few proposals are allowed."""
_FAULT_DOMAIN = int(Rule.FAULT_DOMAIN)
_UPGRADE_DOMAIN = int(Rule.UPGRADE_DOMAIN)
_WITHOUT_SPREADING = ~SPREADING
_call_compound_proposal = CallByAddress(None)
_call_extended_step = CallByAddress(None)
_call_larger = CallByAddress(int)


@kernel
def anneal(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    settings: Settings,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
    proposals: int,
) -> None:
    """Run a chain for at most `proposals` more proposals, round by round, from where `chain_state` has it."""
    schedule = chain_state.schedule
    if schedule.temperature == NOT_STARTED:
        _start(problem, solution, choice, settings, schedule, extension_state, rng, chain_state.tally)
    per_round = settings.simulated_annealing_iterations_per_round
    done_proposals = 0
    while done_proposals < proposals and schedule.end == RUNNING:
        left_proposals = (settings.rounds - schedule.rounds) * per_round - schedule.step
        step_proposals = _step(problem, solution, choice, chain_state, extension_state, rng, left_proposals)
        done_proposals += step_proposals
        schedule.step += step_proposals
        while schedule.step >= per_round and schedule.end == RUNNING:
            end_round(settings, schedule)
            if chain_state.neighbourhoods.part.shape[0] > 0:
                adapt_parts(chain_state.neighbourhoods)
        if schedule.end == RESTARTING:
            return_to_best(problem, solution, schedule, chain_state.undo_log, extension_state)
            heat_up(schedule)


@kernel(shared=True)
def _start(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    settings: Settings,
    schedule: Schedule,
    extension_state: ExtensionState,
    rng: Stream,
    tally: Tally,
) -> None:
    """Set the energies and the first temperature of a new schedule from random probes, which `tally` counts."""
    energy = present_energy(problem, solution)
    extension_energy = weighed(extension_state, extension_state.value)
    largest_change = 0.0
    allowed = 0
    for probe in range(PROBES_FOR_ONE * settings.probes):
        if probe >= settings.probes and allowed >= settings.allowed_probes:
            break
        proposal = generate_proposal(problem, solution, choice, rng)
        if proposal.row == NOWHERE or proposal.target == proposal.source:
            continue
        is_refused = refusal(problem, solution, choice.enforced, proposal) != NO_REFUSAL
        if is_refused or refusing(problem, solution, extension_state, proposal) != ALLOWED:
            continue
        allowed += 1
        copy_values(extension_state.value, extension_state.after)
        foresee(problem, solution, extension_state, proposal)
        energy_after = evaluate(problem, solution, REJECTED, proposal, tally)
        largest_change = max(
            largest_change,
            abs(energy_after - energy + (weighed(extension_state, extension_state.after) - extension_energy)),
        )
    slots = choice.creation.shape[0] + choice.migrations
    schedule.temperature = settings.absolute_temperature
    if settings.absolute_temperature == UNSET:
        schedule.temperature = first_temperature(settings, slots, solution.totals.imbalance) * largest_change
    schedule.first_temperature = schedule.temperature
    schedule.largest_change = largest_change
    schedule.energy = energy + extension_energy
    schedule.round_energy = energy + extension_energy
    schedule.best_energy = energy + extension_energy
    copy_values(extension_state.value, extension_state.best)
    schedule.best_movement = solution.totals.movement
    schedule.end = SPENT if settings.rounds == 0 else RUNNING


@kernel
def _step(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
    left_proposals: int,
) -> int:
    """Make a step: one proposal, or several moves of a larger neighbourhood. Return as how many proposals it counts.

    `left_proposals`: how many the chain may still make, at most which the step counts.
    """
    schedule, undo_log = chain_state.schedule, chain_state.undo_log
    most_moves = chain_state.transaction.row.shape[0]
    if is_full(schedule, undo_log, most_moves):
        forget_start(schedule, undo_log)
        if is_full(schedule, undo_log, most_moves):
            return_to_best(problem, solution, schedule, undo_log, extension_state)
    neighbourhoods = chain_state.neighbourhoods
    if neighbourhoods.part.shape[0] == 0:
        _single_step(problem, solution, choice, chain_state, extension_state, rng)
        return 1
    neighbourhood, step_proposals, energy_before = random_neighbourhood(neighbourhoods, rng), 1, schedule.energy
    if neighbourhood == SINGLE or left_proposals < MOST_ASKED:
        _single_step(problem, solution, choice, chain_state, extension_state, rng)
        neighbourhood = SINGLE
    else:
        address = chain_state.addresses.larger
        step_proposals = int(
            _call_larger(address, problem, solution, choice, chain_state, extension_state, rng, neighbourhood)
        )
    note_step(neighbourhoods, neighbourhood, step_proposals, energy_before, schedule.energy)
    return step_proposals


@kernel
def _single_step(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
) -> None:
    """Generate one proposal, and accept or reject it by rules and energy; the tally counts the outcome."""
    schedule, undo_log, tally = chain_state.schedule, chain_state.undo_log, chain_state.tally
    proposal = generate_proposal(problem, solution, choice, rng)
    tally[GENERATED] += 1
    if proposal.row == NOWHERE or proposal.target == proposal.source:
        return
    rule = refusal_in_place(problem, solution, choice.enforced, proposal)
    makes_spread_moves = (
        choice.makes_spread_moves and proposal.partner == NOWHERE and rule in (_FAULT_DOMAIN, _UPGRADE_DOMAIN)
    )
    if makes_spread_moves:
        rule = refusal(problem, solution, choice.enforced & _WITHOUT_SPREADING, proposal)
    if rule != NO_REFUSAL:
        tally[FIRST_RULE + rule] += 1
        return
    energy = schedule.energy
    highest = highest_energy(schedule, rng)
    if makes_spread_moves or (problem.related and _has_children(problem, proposal)):
        step = Step(proposal, makes_spread_moves, highest)
        _call_compound_proposal(
            chain_state.addresses.compound, problem, solution, choice, chain_state, extension_state, rng, step
        )
        return
    if extension_state.change.shape[0] + extension_state.test.shape[0] > 0:
        step = Step(proposal, makes_spread_moves, highest)
        _call_extended_step(chain_state.addresses.extended, problem, solution, chain_state, extension_state, step)
        return
    movement = solution.totals.movement
    energy_after = evaluate_in_place(problem, solution, highest, proposal, tally)
    if energy_after == REJECTED:
        return
    apply_proposal(problem, solution, proposal)
    if schedule.temperature == 0.0 and energy_after == energy and solution.totals.movement >= movement:
        apply_proposal(problem, solution, inverse_of(proposal))
        return
    tally[ACCEPTED] += 1
    note_accepted(schedule, undo_log, proposal)
    record_energy(solution, schedule, extension_state, energy_after)


@kernel
def _has_children(problem: Problem, proposal: Proposal) -> bool:
    """Return whether the partition of the row, or of its partner, has children, which may need affinity moves."""
    row, partner = proposal.row, proposal.partner
    return bool(problem.first_child[row] != NOWHERE or (partner != NOWHERE and problem.first_child[partner] != NOWHERE))


@kernel
def extended_step(
    problem: Problem, solution: Solution, chain_state: ChainState, extension_state: ExtensionState, step: Step
) -> None:
    """Accept or reject a proposal by extension constraints and terms in addition to the built-in ones."""
    schedule, tally = chain_state.schedule, chain_state.tally
    proposal = step.proposal
    constraint = refusing(problem, solution, extension_state, proposal)
    if constraint != ALLOWED:
        extension_state.refused[constraint] += 1
        return
    copy_values(extension_state.value, extension_state.after)
    foresee(problem, solution, extension_state, proposal)
    extension_energy = weighed(extension_state, extension_state.after)
    _copy_rejections(tally, extension_state.tally)  # to be restored if an extension term is to blame
    energy_without_terms = evaluate(problem, solution, step.highest - extension_energy, proposal, tally)
    if energy_without_terms == REJECTED:
        worst = worst_of(extension_state)
        if worst != NOWHERE:
            extension_state.rejected[worst] += 1
            _copy_rejections(extension_state.tally, tally)
        return
    movement = solution.totals.movement
    apply_with_terms(problem, solution, extension_state, proposal)
    energy_after = energy_without_terms + extension_energy
    if schedule.temperature == 0.0 and energy_after == schedule.energy and solution.totals.movement >= movement:
        undo_with_terms(problem, solution, extension_state, proposal)
        return
    copy_values(extension_state.after, extension_state.value)
    tally[ACCEPTED] += 1
    note_accepted(schedule, chain_state.undo_log, proposal)
    record_energy(solution, schedule, extension_state, present_energy(problem, solution) + extension_energy)


@kernel
def _copy_rejections(tally: Tally, destination: Int) -> None:
    """Copy the counts of proposals that each built-in term rejected from `tally` to `destination`, another tally."""
    for entry in range(FIRST_TERM, TALLY_SIZE):
        destination[entry] = tally[entry]
