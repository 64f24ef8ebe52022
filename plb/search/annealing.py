"""Simulated annealing over configurations (semantics.md section 6).

A chain starts from a solution, accepts a proposal that raises the energy by d with probability exp(−d/T), and ends on
the best solution it saw. Several chains, each with its own random stream, start from the same solution; the best wins,
ties go to fewer moves and then to the first chain, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import NamedTuple

import attrs
import numpy as np

from plb.arrays import DISPLACED, IMBALANCE, MOVEMENT, NOWHERE, Float, Int, Problem, Solution
from plb.config import Checks, PlbConfig
from plb.constraints import NO_REFUSAL, Rule
from plb.constraints.check import are_siblings
from plb.errors import InvalidValueError
from plb.kernel import kernel
from plb.model import check_count, check_number
from plb.search.attempts import Attempt, new_attempt, try_move, undo_attempt
from plb.search.checks import compare_with_fresh
from plb.search.correcting import SPREADING, siblings_correct
from plb.search.following import children_follow
from plb.search.proposal import (
    ACCEPTED,
    DRAWN,
    FIRST_RULE,
    REJECTED,
    SCORED,
    TALLY_SIZE,
    Choice,
    draw_proposal,
    judge,
    refusal,
    refusal_in_place,
)
from plb.search.transition import apply_proposal, present_energy

# Positions in a schedule: where a chain stands
(TEMPERATURE, ROUND, STEP, ENERGY, BEST_ENERGY, BEST_MOVEMENT, ROUND_ENERGY, ROUND_HAD_BEST, QUIET_ROUNDS) = range(9)
(BARREN_ROUNDS, JOURNAL, END) = range(9, 12)
SCHEDULE_SIZE = 12
NOT_STARTED = -1.0

_AFFINITY = int(Rule.AFFINITY)
_MOVES = int(Rule.MOVES)
_FAULT_DOMAIN = int(Rule.FAULT_DOMAIN)
_UPGRADE_DOMAIN = int(Rule.UPGRADE_DOMAIN)
_WITHOUT_SPREADING = ~SPREADING
QUIET_CHANGE = 0.001
"""A round that changes the energy by less than this share is quiet."""
LEAST_DEVIATION = 0.0001
"""Keeps the temperature of a balanced cluster finite."""
PATIENCE = 10
"""Quiet rounds after which a chain stops, or cools to zero if it found a new best within as many rounds."""
THREADED_PROPOSALS = 20_000
"""Below this many proposals a chain, threads cost more than they gain."""
JOURNAL_ROOM = 2**16
"""Accepted proposals without a new best after which a chain goes back to its best."""
TIMED_STRETCH = 4096
"""Proposals between two looks at the clock."""
ENDLESS = 2**40
"""Rounds of a chain that only the clock or convergence ends."""


class EndReason(Enum):
    """Why a search ended."""

    NOTHING_TO_DO = "nothing to do"
    NO_PROPOSAL_POSSIBLE = "no replica may move"
    BUDGET_OF_PROPOSALS = "the budget of proposals is used up"
    CONVERGED = "the energy no longer changes"
    OUT_OF_TIME = "the time limit was reached"
    UNCHANGED = "nothing has changed since the last search of this kind"


_RUNNING, _BUDGET, _CONVERGED = 0.0, 1.0, 2.0


class Settings(NamedTuple):
    """How a chain anneals."""

    rounds: int
    simulated_annealing_iterations_per_round: int
    probes: int
    initial_temperature: float
    cluster_coefficient: float
    """See `first_temperature`; below 0: not asked for."""
    decay: float


class Journal(NamedTuple):
    """The accepted proposals since the best solution, so that the chain can return to it."""

    row: Int
    source: Int
    partner: Int


@kernel
def anneal(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    settings: Settings,
    schedule: Float,
    journal: Journal,
    rng: np.random.Generator,
    tally: Int,
    attempt: Attempt,
    proposals: int,
) -> None:
    """Run a chain for at most `proposals` further proposals; `schedule` tells where it stands and if it has ended.

    Parameters
    ----------
    schedule
        (SCHEDULE_SIZE,) state of the chain; TEMPERATURE = NOT_STARTED at first.
    journal
        Where it is full, the chain goes on from its best solution.
    tally
        (TALLY_SIZE,) counts; changed.
    attempt
        Scratch for steps that move children with their parents; without room where there are none.
    """
    if schedule[TEMPERATURE] == NOT_STARTED:
        _start(problem, solution, choice, settings, schedule, rng, tally)
    for _ in range(proposals):
        if schedule[END] != _RUNNING:
            return
        _step(problem, solution, choice, schedule, journal, rng, tally, attempt)
        schedule[STEP] += 1.0
        if schedule[STEP] >= settings.simulated_annealing_iterations_per_round:
            _end_round(settings, schedule)


@kernel
def _start(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    settings: Settings,
    schedule: Float,
    rng: np.random.Generator,
    tally: Int,
) -> None:
    """Set the first temperature from the largest energy change that a few random proposals would make."""
    energy = present_energy(problem, solution)
    largest = 0.0
    for _ in range(settings.probes):
        row, target, partner = draw_proposal(problem, solution, choice, rng)
        if row == NOWHERE or target == solution.node[row]:
            continue
        if refusal(problem, solution, choice.enforced, row, target, partner) == NO_REFUSAL:
            after = judge(problem, solution, REJECTED, row, target, partner, tally)
            largest = max(largest, abs(after - energy))
    for position in range(schedule.shape[0]):
        schedule[position] = 0.0
    slots = choice.creation.shape[0] + choice.migrations
    schedule[TEMPERATURE] = first_temperature(settings, slots, solution.terms[IMBALANCE]) * largest
    schedule[ENERGY] = energy
    schedule[ROUND_ENERGY] = energy
    schedule[BEST_ENERGY] = energy
    schedule[BEST_MOVEMENT] = solution.counts[MOVEMENT]
    schedule[END] = _BUDGET if settings.rounds == 0 else _RUNNING


@kernel
def first_temperature(settings: Settings, slots: int, imbalance: float) -> float:
    """Return the first temperature in units of the largest energy change that the probes saw.

    With `enable_cluster_specific_initial_temperature` it is at most coefficient / (slots·(imbalance + 0.0001)): the
    more replicas may move and the less balanced they are, the fewer moves are made at random.

    Parameters
    ----------
    slots
        Replicas that the search may place or move.
    """
    if settings.cluster_coefficient < 0.0:
        return settings.initial_temperature
    specific = settings.cluster_coefficient / (slots * (imbalance + LEAST_DEVIATION))
    return min(settings.initial_temperature, specific)


@kernel(inline=True)
def _step(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    schedule: Float,
    journal: Journal,
    rng: np.random.Generator,
    tally: Int,
    attempt: Attempt,
) -> None:
    """Draw one proposal and take it or leave it."""
    if schedule[JOURNAL] + attempt.row.shape[0] >= journal.row.shape[0]:
        return_to_best(problem, solution, schedule, journal)
    row, target, partner = draw_proposal(problem, solution, choice, rng)
    tally[DRAWN] += 1
    if row == NOWHERE or target == solution.node[row]:
        return
    refused = refusal_in_place(problem, solution, choice.enforced, row, target, partner)
    corrects = choice.corrects and partner == NOWHERE and refused in (_FAULT_DOMAIN, _UPGRADE_DOMAIN)
    if corrects:
        refused = refusal(problem, solution, choice.enforced & _WITHOUT_SPREADING, row, target, partner)
    if refused != NO_REFUSAL:
        tally[FIRST_RULE + refused] += 1
        return
    energy = schedule[ENERGY]
    highest = energy - schedule[TEMPERATURE] * math.log(1.0 - rng.random())
    has_children = problem.first_child[row] != NOWHERE
    if corrects or has_children or (partner != NOWHERE and problem.first_child[partner] != NOWHERE):
        _compound_step(
            problem, solution, choice, schedule, journal, rng, tally, attempt, row, target, partner, corrects, highest
        )
        return
    movement = solution.counts[MOVEMENT]
    after = judge(problem, solution, highest, row, target, partner, tally)
    if after == REJECTED:
        return
    source = solution.node[row]
    apply_proposal(problem, solution, row, target, partner)
    if schedule[TEMPERATURE] == 0.0 and after == energy and solution.counts[MOVEMENT] >= movement:
        apply_proposal(problem, solution, row, source, partner)
        return
    tally[ACCEPTED] += 1
    _note(schedule, journal, row, source, partner)
    _remember(solution, schedule, after)


@kernel
def _compound_step(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    schedule: Float,
    journal: Journal,
    rng: np.random.Generator,
    tally: Int,
    attempt: Attempt,
    row: int,
    target: int,
    partner: int,
    corrects: bool,
    highest: float,
) -> None:
    """Take or leave a proposal with the moves that it calls for: of siblings that correct the spread, of children."""
    movement = solution.counts[MOVEMENT]
    displaced = solution.counts[DISPLACED]
    here = solution.node[row]
    attempt.length[0] = 0
    try_move(problem, solution, attempt, row, target)
    if partner != NOWHERE:
        try_move(problem, solution, attempt, partner, here)
    if corrects and not siblings_correct(problem, solution, choice.enforced, row, rng, attempt):
        tally[FIRST_RULE + _FAULT_DOMAIN] += 1
        undo_attempt(problem, solution, attempt, 0)
        return
    follow = children_follow(problem, solution, choice.enforced, row, 0, rng, attempt)
    if follow and partner != NOWHERE and not are_siblings(problem, row, partner):
        follow = children_follow(problem, solution, choice.enforced, partner, 0, rng, attempt)
    too_many = solution.counts[DISPLACED] > max(choice.migrations, displaced)
    if not follow or too_many:
        tally[FIRST_RULE + (_MOVES if follow else _AFFINITY)] += 1
        undo_attempt(problem, solution, attempt, 0)
        return
    tally[SCORED] += 1
    after = present_energy(problem, solution)
    idle = schedule[TEMPERATURE] == 0.0 and after == schedule[ENERGY] and solution.counts[MOVEMENT] >= movement
    if after > highest or idle:
        undo_attempt(problem, solution, attempt, 0)
        return
    tally[ACCEPTED] += 1
    for entry in range(attempt.length[0]):
        _note(schedule, journal, attempt.row[entry], attempt.source[entry], NOWHERE)
    _remember(solution, schedule, after)


@kernel
def _note(schedule: Float, journal: Journal, row: int, source: int, partner: int) -> None:
    """Enter an accepted proposal in the journal."""
    entry = int(schedule[JOURNAL])
    journal.row[entry] = row
    journal.source[entry] = source
    journal.partner[entry] = partner
    schedule[JOURNAL] += 1.0


@kernel
def _remember(solution: Solution, schedule: Float, energy: float) -> None:
    """Note the energy of the solution, and whether it is the best so far; the journal then begins anew."""
    schedule[ENERGY] = energy
    movement = solution.counts[MOVEMENT]
    best = schedule[BEST_ENERGY]
    if energy < best or (energy == best and movement < schedule[BEST_MOVEMENT]):
        schedule[BEST_ENERGY] = energy
        schedule[BEST_MOVEMENT] = movement
        schedule[ROUND_HAD_BEST] = 1.0
        schedule[JOURNAL] = 0.0


@kernel
def _end_round(settings: Settings, schedule: Float) -> None:
    """Cool after a round without a new best; stop when nothing changes any more."""
    change = abs(schedule[ENERGY] - schedule[ROUND_ENERGY])
    quiet = change <= QUIET_CHANGE * abs(schedule[ROUND_ENERGY])
    schedule[QUIET_ROUNDS] = schedule[QUIET_ROUNDS] + 1.0 if quiet else 0.0
    if schedule[ROUND_HAD_BEST] > 0.0:
        schedule[BARREN_ROUNDS] = 0.0
    else:
        schedule[BARREN_ROUNDS] += 1.0
        schedule[TEMPERATURE] *= settings.decay
    schedule[STEP] = 0.0
    schedule[ROUND_HAD_BEST] = 0.0
    schedule[ROUND_ENERGY] = schedule[ENERGY]
    schedule[ROUND] += 1.0
    if schedule[ROUND] >= settings.rounds:
        schedule[END] = _BUDGET
    elif schedule[QUIET_ROUNDS] >= PATIENCE:
        if schedule[BARREN_ROUNDS] >= PATIENCE:
            schedule[END] = _CONVERGED
        else:
            schedule[TEMPERATURE] = 0.0


@kernel
def return_to_best(problem: Problem, solution: Solution, schedule: Float, journal: Journal) -> None:
    """Undo what was accepted after the best solution."""
    for entry in range(int(schedule[JOURNAL]) - 1, -1, -1):
        apply_proposal(problem, solution, journal.row[entry], journal.source[entry], journal.partner[entry])
    schedule[JOURNAL] = 0.0
    schedule[ENERGY] = schedule[BEST_ENERGY]


@attrs.frozen(eq=False)
class Annealed:
    """The result of annealing: the best solution, and how the search went."""

    solution: Solution
    energy: float
    tally: Int
    end_reason: EndReason


@attrs.frozen
class Budget:
    """How much a search may spend.

    Parameters
    ----------
    proposals
        Proposals over all chains; None: as the configuration says, or without limit where `seconds` is given.
    seconds
        Wall time; a plan that it cut short is marked as not reproducible.
    until
        Reading of `time.perf_counter` at which annealing ends, however few rounds it has done. Set from the search
        timeouts of the configuration.
    """

    proposals: int | None = None
    seconds: float | None = None
    until: float | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.proposals is not None and check_count("budget", "proposals", self.proposals) > ENDLESS:
            raise InvalidValueError("budget", "proposals", self.proposals, "a whole number >= 0 and <= 2^40")
        if self.seconds is not None:
            check_number("budget", "seconds", self.seconds)

    @classmethod
    def of(cls, budget: Budget | int | None) -> Budget:
        """Return a budget from a `Budget`, a number of proposals, or None."""
        return budget if isinstance(budget, Budget) else cls(proposals=budget)

    def within(self, timeout: float | None) -> Budget:
        """Return this budget with an end in `timeout` seconds from now; None: without."""
        return self if timeout is None else attrs.evolve(self, until=time.perf_counter() + timeout)

    @property
    def is_up(self) -> bool:
        """Whether `until` has passed."""
        return self.until is not None and time.perf_counter() >= self.until

    def share(self, searches: int) -> Budget:
        """Return the budget of the next of so many searches, which divide the time until the end among them."""
        if self.until is None:
            return self
        now = time.perf_counter()
        return attrs.evolve(self, until=now + (self.until - now) / searches)

    def deadline(self, begun: float, share: float) -> float | None:
        """Return when a chain ends that may use this share of the time from `begun`; None: whenever."""
        ends = [] if self.seconds is None else [begun + self.seconds * share]
        ends += [] if self.until is None else [begun + (self.until - begun) * share]
        return min(ends, default=None)


def anneal_chains(
    problem: Problem,
    start: Solution,
    choice: Choice,
    config: PlbConfig,
    seed: np.random.SeedSequence,
    budget: Budget,
) -> Annealed:
    """Anneal from `start` with the configured number of chains and return the best result; `start` is not changed."""
    if not len(choice.creation) and not (len(choice.movable) and choice.migrations):
        return Annealed(start, present_energy(problem, start), new_tally(), EndReason.NO_PROPOSAL_POSSIBLE)
    if config.prevent_transient_overcommit and not config.count_disappearing_load_for_simulated_annealing:
        problem = problem._replace(leaving_load=np.zeros_like(problem.leaving_load))
    settings = _settings(config, budget)
    threads = _threads(config, settings)
    begun = time.perf_counter()

    def run(chain: int, stream: np.random.SeedSequence) -> _Chain:
        share = 1.0 if threads > 1 else (chain + 1) / config.chains
        deadline = budget.deadline(begun, share)
        return _run_chain(problem, start.copy(), choice, settings, config.checks, stream, deadline)

    streams = seed.spawn(config.chains)
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            chains = list(pool.map(run, range(config.chains), streams))
    else:
        chains = [run(chain, stream) for chain, stream in enumerate(streams)]
    best = min(chains, key=lambda chain: (chain.schedule[BEST_ENERGY], chain.schedule[BEST_MOVEMENT]))
    return_to_best(problem, best.solution, best.schedule, best.journal)
    if config.checks is not Checks.OFF:
        compare_with_fresh(problem, best.solution, "end of annealing")
    tally = np.sum([chain.tally for chain in chains], axis=0)
    return Annealed(best.solution, float(best.schedule[BEST_ENERGY]), tally, _end_reason(chains))


def new_tally() -> Int:
    """Return a tally of no proposals."""
    return np.zeros(TALLY_SIZE, np.int64)


def _is_compound(problem: Problem, choice: Choice) -> bool:
    """Return whether a proposal may call for further moves."""
    return choice.corrects or bool((problem.first_child != NOWHERE).any())


@attrs.frozen(eq=False)
class _Chain:
    """A chain at its end."""

    solution: Solution
    schedule: Float
    journal: Journal
    tally: Int
    timed_out: bool


def _run_chain(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    settings: Settings,
    checks: Checks,
    stream: np.random.SeedSequence,
    deadline: float | None,
) -> _Chain:
    """Run one chain on `solution` to its end; its journal leads back to the best it saw."""
    rng = np.random.Generator(np.random.PCG64(stream))
    schedule = np.zeros(SCHEDULE_SIZE)
    schedule[TEMPERATURE] = NOT_STARTED
    proposals = settings.rounds * settings.simulated_annealing_iterations_per_round
    attempt = new_attempt(3 * len(solution.node) + 2 if _is_compound(problem, choice) else 0)
    room = min(proposals, JOURNAL_ROOM) + len(attempt.row) + 1
    journal = Journal(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64))
    tally = new_tally()
    stretch = 1 if checks is Checks.STEP else (proposals if deadline is None else TIMED_STRETCH)
    timed_out = False
    while schedule[END] == _RUNNING and not timed_out:
        anneal(problem, solution, choice, settings, schedule, journal, rng, tally, attempt, stretch)
        if checks is Checks.STEP:
            compare_with_fresh(problem, solution, f"proposal {tally[DRAWN]}")
        timed_out = deadline is not None and time.perf_counter() >= deadline
    return _Chain(solution, schedule, journal, tally, timed_out and schedule[END] == _RUNNING)


def _settings(config: PlbConfig, budget: Budget) -> Settings:
    """Return rounds and proposals of a chain, so that all chains together keep to the budget."""
    limit, per_round = config.max_simulated_annealing_iterations, config.simulated_annealing_iterations_per_round
    rounds = ENDLESS if limit is None else limit
    if per_round == 0:
        rounds, per_round = 0, 1
    elif budget.proposals is not None:
        a_chain = budget.proposals // config.chains
        per_round = max(1, min(per_round, a_chain))
        rounds = a_chain // per_round
    elif budget.seconds is not None:
        rounds = ENDLESS
    return Settings(
        rounds,
        per_round,
        config.initial_temperature_probe_count,
        config.initial_temperature,
        config.cluster_specific_temperature_coefficient if config.enable_cluster_specific_initial_temperature else -1.0,
        config.fast_balancing_temperature_decay_rate,
    )


def _threads(config: PlbConfig, settings: Settings) -> int:
    if (
        config.checks is Checks.STEP
        or settings.rounds * settings.simulated_annealing_iterations_per_round < THREADED_PROPOSALS
    ):
        return 1
    return min(config.threads or os.cpu_count() or 1, config.chains)


def _end_reason(chains: Sequence[_Chain]) -> EndReason:
    if any(chain.timed_out for chain in chains):
        return EndReason.OUT_OF_TIME
    if all(chain.schedule[END] == _CONVERGED for chain in chains):
        return EndReason.CONVERGED
    return EndReason.BUDGET_OF_PROPOSALS
