"""The cooling schedule of a chain: first temperature, cooling by round, and end (docs/service-fabric.md, Annealing)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plb.compiler import Record, kernel
from plb.search.budget import EndReason

NOT_STARTED = -1.0
RUNNING, SPENT, CONVERGED = range(3)
"""Values of `Schedule.end`: the chain runs, its rounds are used up, or its energy no longer changes."""
QUIET_CHANGE = 0.001
"""A round that changes the energy by at most this share is quiet."""
LEAST_DEVIATION = 0.0001
"""Keeps the temperature of a balanced cluster finite."""
PATIENCE = 10
"""Quiet rounds after which a chain ends, or cools to zero if it found a new best in the last PATIENCE rounds."""


class Settings(NamedTuple):
    """Annealing settings of a chain."""

    rounds: int
    simulated_annealing_iterations_per_round: int
    probes: int
    initial_temperature: float
    cluster_coefficient: float
    """See `first_temperature`; below 0: disabled."""
    decay: float
    least: int = 0
    """Number of proposals before which a chain does not end by convergence."""


class Schedule(Record):
    """The state of a chain between two proposals; a new one is all 0 but the temperature, which is NOT_STARTED."""

    temperature: float
    end: int
    rounds: int
    """Rounds that have ended."""
    step: int
    """Proposals of the present round."""
    quiet_rounds: int
    """Quiet rounds in succession."""
    barren_rounds: int
    """Rounds without a new best in succession."""
    round_had_best: bool
    round_energy: float
    """Energy at the start of the round."""
    energy: float
    best_energy: float
    best_movement: int
    """Movement of the best solution, in tenths."""
    undo_length: int
    """Entries of the undo log."""
    best_length: int
    """Entries that lead to the best solution."""


def new_schedule() -> Schedule:
    """Return the schedule of a chain that has not started."""
    schedule = Schedule.new()
    schedule.temperature = NOT_STARTED
    return schedule


@kernel
def first_temperature(settings: Settings, slots: int, imbalance: float) -> float:
    """Return the first temperature in units of the largest energy change of the probes.

    With `enable_cluster_specific_initial_temperature` it is at most coefficient / (slots·(imbalance + 0.0001)): the
    more replicas may move and the larger the imbalance, the lower the first temperature.

    Parameters
    ----------
    slots
        Number of replicas that the search may place or move.
    """
    if settings.cluster_coefficient < 0.0:
        return settings.initial_temperature
    specific = settings.cluster_coefficient / (slots * (imbalance + LEAST_DEVIATION))
    return min(settings.initial_temperature, specific)


@kernel
def end_round(settings: Settings, schedule: Schedule) -> None:
    """Cool after a round without a new best; end the chain when its rounds are used up or it has converged."""
    change = abs(schedule.energy - schedule.round_energy)
    quiet = change <= QUIET_CHANGE * abs(schedule.round_energy)
    schedule.quiet_rounds = schedule.quiet_rounds + 1 if quiet else 0
    if schedule.round_had_best:
        schedule.barren_rounds = 0
    else:
        schedule.barren_rounds += 1
        schedule.temperature *= settings.decay
    schedule.step = 0
    schedule.round_had_best = False
    schedule.round_energy = schedule.energy
    schedule.rounds += 1
    if schedule.rounds >= settings.rounds:
        schedule.end = SPENT
    elif schedule.rounds * settings.simulated_annealing_iterations_per_round < settings.least:
        return
    elif schedule.quiet_rounds >= PATIENCE:
        if schedule.barren_rounds >= PATIENCE:
            schedule.end = CONVERGED
        else:
            schedule.temperature = 0.0


def end_reason_of(schedules: Iterable[Schedule], *, late: bool) -> EndReason:
    """Return why a search with these schedules ended; `late`: the deadline ended one of its chains."""
    if late:
        return EndReason.OUT_OF_TIME
    if all(schedule.end == CONVERGED for schedule in schedules):
        return EndReason.CONVERGED
    return EndReason.BUDGET_OF_PROPOSALS
