"""Kernels of one simulated annealing chain (docs/service-fabric.md, Annealing).

A chain accepts a proposal that raises the energy by d with probability exp(−d/T). It cools after rounds without a new
best solution and keeps an undo log to return to the best solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from plb.array_types import NOWHERE, Int
from plb.compiler import CallByAddress, Stream, kernel, uniform
from plb.constraints.domains import SPREADING
from plb.evaluation.delta import apply_proposal, present_energy
from plb.evaluation.proposals import (
    ACCEPTED,
    FIRST_RULE,
    FIRST_TERM,
    GENERATED,
    REJECTED,
    SCORED,
    evaluate,
    evaluate_in_place,
    refusal,
    refusal_in_place,
)
from plb.model.rules import NO_REFUSAL, Rule
from plb.search.affinity_moves import move_children
from plb.search.cooling_schedule import (
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
from plb.search.extension_kernels import (
    ALLOWED,
    NO_KERNEL,
    ExtensionState,
    apply_with_terms,
    copy_values,
    foresee,
    newly_broken,
    note_broken,
    refusing,
    undo_with_terms,
    weighed,
    worst_of,
)
from plb.search.move_generation import Choice, generate_proposal
from plb.search.spread_moves import make_spread_moves
from plb.search.transactions import Transaction, move_of, try_move, undo_transaction
from plb.search.undo_log import UndoLog, forget_start, is_full, note_accepted, return_to_best
from plb.state.arrays import Problem, Solution, are_siblings
from plb.state.proposal import Proposal, inverse_of

_AFFINITY = int(Rule.AFFINITY)
_MOVES = int(Rule.MOVES)
_FAULT_DOMAIN = int(Rule.FAULT_DOMAIN)
_UPGRADE_DOMAIN = int(Rule.UPGRADE_DOMAIN)
_WITHOUT_SPREADING = ~SPREADING
_call_compound_proposal = CallByAddress(None)
_call_extended_step = CallByAddress(None)


class ChainState(NamedTuple):
    """State, undo log and counters of a chain."""

    schedule: Schedule
    undo_log: UndoLog
    """When it is full, the chain forgets its start, and if that is not enough, returns to its best solution."""
    tally: Int
    """(TALLY_SIZE,) number of proposals by outcome."""
    transaction: Transaction
    """Scratch for steps of several moves; its capacity is 0 where such steps cannot occur."""
    compound: int = NO_KERNEL
    """Address of `compound_proposal`, which is compiled only where steps of several moves are possible."""
    extended: int = NO_KERNEL
    """Address of `extended_step`, which is compiled only for extension terms and constraints."""


class Step(NamedTuple):
    """A proposal that passed the constraints."""

    proposal: Proposal
    makes_spread_moves: bool
    """Whether siblings have to move to restore the spread over domains."""
    highest: float
    """Highest accepted energy."""


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
    """Run a chain for at most `proposals` more proposals, with extension terms and constraints."""
    schedule = chain_state.schedule
    if schedule.temperature == NOT_STARTED:
        _start(problem, solution, choice, settings, schedule, extension_state, rng, chain_state.tally)
    for _ in range(proposals):
        if schedule.end != RUNNING:
            return
        _step(problem, solution, choice, chain_state, extension_state, rng)
        schedule.step += 1
        if schedule.step >= settings.simulated_annealing_iterations_per_round:
            end_round(settings, schedule)
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
    tally: Int,
) -> None:
    """Initialize the schedule; the first temperature follows from the largest energy change of a few probes."""
    base = present_energy(problem, solution)
    extension_energy = weighed(extension_state, extension_state.value)
    largest = 0.0
    for _ in range(settings.probes):
        proposal = generate_proposal(problem, solution, choice, rng)
        if proposal.row == NOWHERE or proposal.target == proposal.source:
            continue
        refused = refusal(problem, solution, choice.enforced, proposal) != NO_REFUSAL
        if refused or refusing(problem, solution, extension_state, proposal) != ALLOWED:
            continue
        copy_values(extension_state.value, extension_state.after)
        foresee(problem, solution, extension_state, proposal)
        after = evaluate(problem, solution, REJECTED, proposal, tally)
        largest = max(largest, abs(after - base + (weighed(extension_state, extension_state.after) - extension_energy)))
    slots = choice.creation.shape[0] + choice.migrations
    schedule.temperature = settings.absolute_temperature
    if settings.absolute_temperature == UNSET:
        schedule.temperature = first_temperature(settings, slots, solution.totals.imbalance) * largest
    schedule.first_temperature = schedule.temperature
    schedule.energy = base + extension_energy
    schedule.round_energy = base + extension_energy
    schedule.best_energy = base + extension_energy
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
) -> None:
    """Generate one proposal and accept or reject it."""
    schedule, undo_log, tally = chain_state.schedule, chain_state.undo_log, chain_state.tally
    most = chain_state.transaction.row.shape[0]
    if is_full(schedule, undo_log, most):
        forget_start(schedule, undo_log)
        if is_full(schedule, undo_log, most):
            return_to_best(problem, solution, schedule, undo_log, extension_state)
    proposal = generate_proposal(problem, solution, choice, rng)
    tally[GENERATED] += 1
    if proposal.row == NOWHERE or proposal.target == proposal.source:
        return
    refused = refusal_in_place(problem, solution, choice.enforced, proposal)
    makes_spread_moves = (
        choice.makes_spread_moves and proposal.partner == NOWHERE and refused in (_FAULT_DOMAIN, _UPGRADE_DOMAIN)
    )
    if makes_spread_moves:
        refused = refusal(problem, solution, choice.enforced & _WITHOUT_SPREADING, proposal)
    if refused != NO_REFUSAL:
        tally[FIRST_RULE + refused] += 1
        return
    energy = schedule.energy
    highest = energy - schedule.temperature * math.log(1.0 - uniform(rng))
    if makes_spread_moves or (problem.related and _has_children(problem, proposal)):
        step = Step(proposal, makes_spread_moves, highest)
        _call_compound_proposal(
            chain_state.compound, problem, solution, choice, chain_state, extension_state, rng, step
        )
        return
    if extension_state.change.shape[0] + extension_state.test.shape[0] > 0:
        step = Step(proposal, makes_spread_moves, highest)
        _call_extended_step(chain_state.extended, problem, solution, chain_state, extension_state, step)
        return
    movement = solution.totals.movement
    after = evaluate_in_place(problem, solution, highest, proposal, tally)
    if after == REJECTED:
        return
    apply_proposal(problem, solution, proposal)
    if schedule.temperature == 0.0 and after == energy and solution.totals.movement >= movement:
        apply_proposal(problem, solution, inverse_of(proposal))
        return
    tally[ACCEPTED] += 1
    note_accepted(schedule, undo_log, proposal)
    _record_energy(solution, schedule, extension_state, after)


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
    refused = refusing(problem, solution, extension_state, proposal)
    if refused != ALLOWED:
        extension_state.refused[refused] += 1
        return
    copy_values(extension_state.value, extension_state.after)
    foresee(problem, solution, extension_state, proposal)
    extension_energy = weighed(extension_state, extension_state.after)
    extension_state.tally[:] = 0
    base = evaluate(problem, solution, step.highest - extension_energy, proposal, extension_state.tally)
    worst = worst_of(extension_state) if base == REJECTED else NOWHERE
    if worst != NOWHERE:
        extension_state.rejected[worst] += 1
        extension_state.tally[FIRST_TERM:] = 0
    for entry in range(tally.shape[0]):
        tally[entry] += extension_state.tally[entry]
    if base == REJECTED:
        return
    movement = solution.totals.movement
    apply_with_terms(problem, solution, extension_state, proposal)
    after = base + extension_energy
    if schedule.temperature == 0.0 and after == schedule.energy and solution.totals.movement >= movement:
        undo_with_terms(problem, solution, extension_state, proposal)
        return
    copy_values(extension_state.after, extension_state.value)
    tally[ACCEPTED] += 1
    note_accepted(schedule, chain_state.undo_log, proposal)
    _record_energy(solution, schedule, extension_state, present_energy(problem, solution) + extension_energy)


@kernel
def compound_proposal(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
    step: Step,
) -> None:
    """Accept or reject a proposal together with the spread moves of siblings and affinity moves of children."""
    schedule, tally, transaction = chain_state.schedule, chain_state.tally, chain_state.transaction
    row, target, partner, here = step.proposal
    movement = solution.totals.movement
    displaced = solution.totals.displaced
    transaction.length[0] = 0
    try_move(problem, solution, transaction, row, target)
    if partner != NOWHERE:
        try_move(problem, solution, transaction, partner, here)
    if step.makes_spread_moves and not make_spread_moves(
        problem, solution, extension_state, choice.enforced, row, rng, transaction
    ):
        tally[FIRST_RULE + _FAULT_DOMAIN] += 1
        undo_transaction(problem, solution, transaction, 0)
        return
    affinity_moves = move_children(problem, solution, extension_state, choice.enforced, row, 0, rng, transaction)
    if affinity_moves and partner != NOWHERE and not are_siblings(problem, row, partner):
        affinity_moves = move_children(
            problem, solution, extension_state, choice.enforced, partner, 0, rng, transaction
        )
    too_many = solution.totals.displaced > max(choice.migrations, displaced)
    if not affinity_moves or too_many:
        tally[FIRST_RULE + (_MOVES if affinity_moves else _AFFINITY)] += 1
        undo_transaction(problem, solution, transaction, 0)
        return
    refused = ALLOWED
    if extension_state.test.shape[0] > 0:
        refused = _refusing_all(problem, solution, transaction, extension_state)
    if refused != ALLOWED:
        extension_state.refused[refused] += 1
        undo_transaction(problem, solution, transaction, 0)
        return
    tally[SCORED] += 1
    copy_values(extension_state.value, extension_state.after)
    if extension_state.change.shape[0] > 0:
        _redo_with_terms(problem, solution, transaction, extension_state)
    after = present_energy(problem, solution) + weighed(extension_state, extension_state.after)
    idle = schedule.temperature == 0.0 and after == schedule.energy and solution.totals.movement >= movement
    if after > step.highest or idle:
        for entry in range(transaction.length[0] - 1, -1, -1):
            undo_with_terms(problem, solution, extension_state, move_of(transaction, entry))
        return
    tally[ACCEPTED] += 1
    copy_values(extension_state.after, extension_state.value)
    for entry in range(transaction.length[0]):
        note_accepted(schedule, chain_state.undo_log, move_of(transaction, entry))
    _record_energy(solution, schedule, extension_state, after)


@kernel
def _refusing_all(
    problem: Problem, solution: Solution, transaction: Transaction, extension_state: ExtensionState
) -> int:
    """Return the index of the first constraint that refuses all moves of a transaction together, or ALLOWED.

    Moves that no constraint refuses one after the other break none. If one is refused, what counts is whether a replica
    breaks a constraint at the end and broke none before: several moves may be allowed only together.
    """
    length = transaction.length[0]
    undo_transaction(problem, solution, transaction, 0)
    refused = ALLOWED
    for entry in range(length):
        proposal = move_of(transaction, entry)
        if refused == ALLOWED:
            refused = refusing(problem, solution, extension_state, proposal)
        apply_proposal(problem, solution, proposal)
    transaction.length[0] = length
    if refused == ALLOWED:
        return ALLOWED
    undo_transaction(problem, solution, transaction, 0)
    note_broken(extension_state)
    for entry in range(length):
        apply_proposal(problem, solution, move_of(transaction, entry))
    transaction.length[0] = length
    return newly_broken(extension_state)


@kernel
def _redo_with_terms(
    problem: Problem, solution: Solution, transaction: Transaction, extension_state: ExtensionState
) -> None:
    """Undo the moves of a transaction and apply them again one by one, with extension terms."""
    length = transaction.length[0]
    undo_transaction(problem, solution, transaction, 0)
    transaction.length[0] = length
    for entry in range(length):
        proposal = move_of(transaction, entry)
        foresee(problem, solution, extension_state, proposal)
        apply_with_terms(problem, solution, extension_state, proposal)


@kernel
def _record_energy(solution: Solution, schedule: Schedule, extension_state: ExtensionState, energy: float) -> None:
    """Record the energy of the solution; if it is the best so far, record that too, with its place in the undo log."""
    schedule.energy = energy
    movement = solution.totals.movement
    best = schedule.best_energy
    if energy < best or (energy == best and movement < schedule.best_movement):
        schedule.best_energy = energy
        schedule.best_movement = movement
        schedule.round_had_best = True
        schedule.best_length = schedule.undo_length
        copy_values(extension_state.value, extension_state.best)
