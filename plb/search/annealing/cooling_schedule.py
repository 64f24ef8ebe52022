"""The cooling schedule of a chain: first temperature, cooling by round or by budget, restarts and end.

Service Fabric cools by round (docs/service-fabric.md, Annealing).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plb.compiler import Record, kernel
from plb.search.budget import EndReason

NOT_STARTED = -1.0
RUNNING, SPENT, CONVERGED, RESTARTING = range(4)
"""Values of `Schedule.end`: the chain runs, its rounds are used up, its energy no longer changes, or it returns to its
best solution to heat up again."""
LEAST_DEVIATION = 0.0001
"""Keeps the temperature of a balanced cluster finite."""
UNSET = -1.0
"""In place of an absolute temperature or change that the settings leave open."""


class Settings(NamedTuple):
    """Annealing settings of a chain."""

    rounds: int
    """Number of rounds after which the chain ends."""
    simulated_annealing_iterations_per_round: int
    """Proposals of a round."""
    probes: int
    """Proposals whose energy changes set the first temperature."""
    initial_temperature: float
    """First temperature in units of the largest energy change of the probes."""
    cluster_coefficient: float
    """See `first_temperature`; below 0: disabled."""
    decay: float
    """Factor of the temperature after a round without a new best, for cooling by round."""
    least: int = 0
    """Number of proposals before which a chain does not end by convergence."""
    absolute_temperature: float = UNSET
    """First temperature in units of the energy, or UNSET."""
    quiet_change: float = 0.001
    """A round is quiet if it changes the energy by this share at most."""
    absolute_quiet_change: float = UNSET
    """A round is quiet if it changes the energy by this at most; UNSET: `quiet_change` counts."""
    quiet_rounds: int = 10
    """Quiet rounds in succession after which a chain has converged."""
    restarts: int = 0
    """How often a chain heats up again."""
    allowed_probes: int = 0
    """Number of probes that the constraints have to allow, if that many are found."""
    by_budget: bool = False
    """Whether the temperature falls with the used share of the budget."""
    timed: bool = False
    """Whether `Schedule.progress` is that share, or else the share of the rounds."""
    last_temperature: float = 0.001
    """Share of the first temperature."""


class Schedule(Record):
    """The state of a chain between two proposals; a new one is all 0 but the temperature, which is NOT_STARTED."""

    temperature: float
    first_temperature: float
    largest_change: float
    """Largest change of the energy by a probe."""
    progress: float
    """Used share of the time, for cooling by budget."""
    restarts: int
    """How often the chain has heated up again."""
    end: int
    """RUNNING, SPENT, CONVERGED or RESTARTING."""
    rounds: int
    """Rounds that have ended."""
    step: int
    """Proposals of the present round; what a step of several moves had too many counts in the next one."""
    quiet_rounds: int
    """Quiet rounds in succession."""
    barren_rounds: int
    """Rounds without a new best in succession."""
    round_had_best: bool
    """Whether the present round has found a new best solution."""
    round_energy: float
    """Energy at the start of the round."""
    energy: float
    best_energy: float
    best_movement: int
    """Movement of the best solution, in tenths."""
    undo_length: int
    """Number of entries of the undo log."""
    best_length: int
    """Number of these, the first ones, that lead to the best solution."""


def new_schedule() -> Schedule:
    """Return the schedule of a chain that has not started: all 0, but the temperature NOT_STARTED."""
    schedule = Schedule.new()
    schedule.temperature = NOT_STARTED
    return schedule


@kernel
def first_temperature(settings: Settings, slots: int, imbalance: float) -> float:
    """Return the first temperature in units of the largest energy change of the probes.

    If it is cluster-specific, it is at most coefficient / (slots·(imbalance + 0.0001)): lower with more replicas.
    `slots`: number of replicas that may be placed or moved; `imbalance`: as in `Totals`.
    """
    if settings.cluster_coefficient < 0.0:
        return settings.initial_temperature
    specific = settings.cluster_coefficient / (slots * (imbalance + LEAST_DEVIATION))
    return min(settings.initial_temperature, specific)


@kernel
def end_round(settings: Settings, schedule: Schedule) -> None:
    """Cool, and end the chain when its rounds are used up or it has converged."""
    is_quiet = _is_quiet(settings, schedule)
    schedule.quiet_rounds = schedule.quiet_rounds + 1 if is_quiet else 0
    schedule.barren_rounds = 0 if schedule.round_had_best else schedule.barren_rounds + 1
    schedule.step = max(0, schedule.step - settings.simulated_annealing_iterations_per_round)
    schedule.round_had_best = False
    schedule.round_energy = schedule.energy
    schedule.rounds += 1
    if settings.by_budget:
        _cool_by_budget(settings, schedule)
    else:
        _cool_by_round(settings, schedule)
    if schedule.rounds >= settings.rounds:
        schedule.end = SPENT


@kernel
def _is_quiet(settings: Settings, schedule: Schedule) -> bool:
    """Return whether the round that ends has changed the energy by little."""
    change = abs(schedule.energy - schedule.round_energy)
    if settings.absolute_quiet_change != UNSET:
        return bool(change <= settings.absolute_quiet_change)
    return bool(change <= settings.quiet_change * abs(schedule.round_energy))


@kernel
def _cool_by_round(settings: Settings, schedule: Schedule) -> None:
    """Cool after a round without a new best; end or heat up again after convergence."""
    if schedule.barren_rounds > 0:
        schedule.temperature *= settings.decay
    if schedule.rounds * settings.simulated_annealing_iterations_per_round < settings.least:
        return
    if schedule.quiet_rounds < settings.quiet_rounds:
        return
    if schedule.barren_rounds < settings.quiet_rounds:
        schedule.temperature = 0.0
    elif schedule.restarts < settings.restarts:
        schedule.end = RESTARTING
    else:
        schedule.end = CONVERGED


@kernel
def _cool_by_budget(settings: Settings, schedule: Schedule) -> None:
    """Set the temperature from the used share of the present part of the budget; heat up again at its end."""
    used_share = schedule.progress if settings.timed else schedule.rounds / settings.rounds
    used_parts = used_share * (settings.restarts + 1)
    if used_parts >= schedule.restarts + 1 and schedule.restarts < settings.restarts:
        schedule.end = RESTARTING
    share_of_part = min(max(used_parts - schedule.restarts, 0.0), 1.0)
    schedule.temperature = schedule.first_temperature * settings.last_temperature**share_of_part


@kernel
def heat_up(schedule: Schedule) -> None:
    """Begin to cool again at the first temperature, from the present solution."""
    schedule.temperature = schedule.first_temperature
    schedule.restarts += 1
    schedule.quiet_rounds = schedule.barren_rounds = 0
    schedule.round_energy = schedule.energy
    schedule.end = RUNNING


def end_reason_of(schedules: Iterable[Schedule], *, late: bool) -> EndReason:
    """Return why a search with these schedules ended; `late`: the deadline ended one of its chains."""
    if late:
        return EndReason.OUT_OF_TIME
    if all(schedule.end == CONVERGED for schedule in schedules):
        return EndReason.CONVERGED
    return EndReason.BUDGET_OF_PROPOSALS
