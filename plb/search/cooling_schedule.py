"""The cooling schedule of a chain: first temperature, cooling by round, and end (docs/service-fabric.md, Annealing)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plb.array_types import Float
from plb.compiler import kernel
from plb.search.budget import EndReason

# Positions in a schedule
(TEMPERATURE, ROUND, STEP, ENERGY, BEST_ENERGY, BEST_MOVEMENT, ROUND_ENERGY, ROUND_HAD_BEST, QUIET_ROUNDS) = range(9)
(BARREN_ROUNDS, UNDO_LENGTH, BEST_LENGTH, END) = range(9, 13)
SCHEDULE_SIZE = 13
NOT_STARTED = -1.0
RUNNING, SPENT, CONVERGED = 0.0, 1.0, 2.0
"""Values of END: the chain runs, its rounds are used up, or its energy no longer changes."""
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
def end_round(settings: Settings, schedule: Float) -> None:
    """Cool after a round without a new best; end the chain when its rounds are used up or it has converged."""
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
        schedule[END] = SPENT
    elif schedule[ROUND] * settings.simulated_annealing_iterations_per_round < settings.least:
        return
    elif schedule[QUIET_ROUNDS] >= PATIENCE:
        if schedule[BARREN_ROUNDS] >= PATIENCE:
            schedule[END] = CONVERGED
        else:
            schedule[TEMPERATURE] = 0.0


def end_reason_of(schedules: Iterable[Float], *, late: bool) -> EndReason:
    """Return why a search with these schedules ended; `late`: the deadline ended one of its chains."""
    if late:
        return EndReason.OUT_OF_TIME
    if all(schedule[END] == CONVERGED for schedule in schedules):
        return EndReason.CONVERGED
    return EndReason.BUDGET_OF_PROPOSALS
