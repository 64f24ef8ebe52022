"""Heuristics that place jobs ([4], "Evaluations - Baselines").

Tetris, best fit, worst fit and random place the head of the queue only on machines on which it fits, and wait if there
is none: a job that is larger than a machine waits until the episode is truncated. `FitRule` defines on which machines a
job fits. Of equal machines the first is chosen.

Shapes: M machines, D resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial

import attrs
import numpy as np

from cluster.learning.episode import Episode
from cluster.learning.metrics import ROUNDING, figures
from cluster.simulation.random_streams import stream
from plb.array_types import Bool, Float
from plb.learning.placement_game import WAIT

Policy = Callable[[Episode], int]
"""Returns the action for an episode that is not over."""


class FitRule(Enum):
    """The usage of jobs that a baseline compares with the free capacity of machines."""

    PRESENT = "present"
    """Usage of the job in its first step, and capacity that is unused now. No curve is known."""
    MEAN = "mean"
    """Mean usage of the job, and the capacity that the means of the jobs on the machine leave."""
    PEAK = "peak"
    """Peak usage, and the capacity that the peaks of the jobs on the machine leave. No machine is overloaded."""


def requirement(episode: Episode, fit: FitRule) -> Float:
    """Return the usage by which a rule places the first waiting job, (D,)."""
    return np.asarray(_compared_usage(episode, fit)[episode.head])


def capacity(episode: Episode, fit: FitRule) -> Float:
    """Return the free capacity of each machine under a rule, (M, D)."""
    if fit is FitRule.PRESENT:
        return np.asarray(1.0 - episode.usage)
    free = np.ones((episode.dimensions.machines, len(episode.dimensions.resources)))
    running = episode.running()
    np.subtract.at(free, episode.machine[running], _compared_usage(episode, fit)[running])
    return free


def _compared_usage(episode: Episode, fit: FitRule) -> Float:
    """Return the usage of each job by which a rule places it, (N, D): of its first step, its mean or its peak."""
    jobs = episode.jobs
    return {FitRule.PRESENT: jobs.usage[:, :, 0], FitRule.MEAN: jobs.mean, FitRule.PEAK: jobs.peak}[fit]


def fits(needed: Float, free: Float) -> Bool:
    """Return on which machines a job fits, (M,), from needed, (D,), and free capacity, (M, D)."""
    return np.asarray((needed <= free + ROUNDING).all(axis=1))


def tetris(needed: Float, free: Float) -> Float:
    """Return the dot product of needed, (D,), and free capacity, (M, D), for each machine, (M,).

    The alignment score of Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, section 3.2.
    """
    return free @ needed


def best_fit(needed: Float, free: Float) -> Float:
    """Return the negative of `worst_fit`, (M,): a machine with less of the dominant resource is better."""
    return -free[:, needed.argmax()]


def worst_fit(needed: Float, free: Float) -> Float:
    """Return the free capacity, of (M, D), of the resource that a job needs most, of (D,), by machine, (M,)."""
    return free[:, needed.argmax()]


@attrs.frozen
class HighestScore:
    """Chooses the machine with the highest score among the machines on which the job fits."""

    scores: Callable[[Float, Float], Float]
    """Returns the score of each machine, (M,), from the needed capacity, (D,), and the free capacity, (M, D)."""
    fit: FitRule = FitRule.PRESENT
    """The usage that counts."""

    def __call__(self, episode: Episode) -> int:
        """Return the machine with the highest score + 1 for the first job of the queue; `WAIT` if it fits on none."""
        needed, free = requirement(episode, self.fit), capacity(episode, self.fit)
        does_fit = fits(needed, free)
        return int(np.where(does_fit, self.scores(needed, free), -np.inf).argmax()) + 1 if does_fit.any() else WAIT


@attrs.frozen
class RandomPlacement:
    """Chooses any machine on which the job fits, with equal probability."""

    fit: FitRule = FitRule.PRESENT
    """The usage that counts."""
    seed: int = 0
    """Seed of the choices. They depend on seed and episode, not on earlier episodes."""

    def __call__(self, episode: Episode) -> int:
        """Return a random machine on which the first job of the queue fits + 1, or `WAIT` if it fits on none."""
        machines = np.flatnonzero(fits(requirement(episode, self.fit), capacity(episode, self.fit)))
        rng = stream(self.seed, "random placement", episode.name, episode.decisions)
        return int(rng.choice(machines)) + 1 if len(machines) else WAIT


@attrs.frozen
class LeastPenalty:
    """Chooses the machine with the least increase of penalties over the steps of the job; it never waits.

    It is not a baseline of [4]. Like a learned policy it uses the curves, and also the weights of the penalties, but no
    prediction of later jobs.
    """

    def __call__(self, episode: Episode) -> int:
        """Return the machine + 1 whose penalties the first job of the queue raises least while it runs."""
        steps = int(episode.jobs.steps[episode.head])
        usage = episode.jobs.usage[episode.head, :, :steps]
        upcoming, penalties = episode.upcoming(steps), episode.penalties
        penalties_before = penalties.of_machines(upcoming.usage, upcoming.squares, upcoming.jobs)
        penalties_after = penalties.of_machines(
            upcoming.usage + usage, upcoming.squares + usage * usage, upcoming.jobs + 1
        )
        return int((penalties_after - penalties_before).argmin()) + 1


_KINDS: Mapping[str, Callable[[FitRule], Policy]] = {
    "tetris": partial(HighestScore, tetris),
    "best-fit": partial(HighestScore, best_fit),
    "worst-fit": partial(HighestScore, worst_fit),
    "random": RandomPlacement,
}
BASELINES: Mapping[str, Policy] = {
    f"{name}-{fit.value}": kind(fit) for name, kind in _KINDS.items() for fit in FitRule
} | {"least-penalty": LeastPenalty()}
"""All baselines by name: ``"tetris-mean"``, ``"least-penalty"``."""


def play(episode: Episode, policy: Policy) -> dict[str, float]:
    """Let a policy decide until the episode is over, and return the figures of the episode."""
    while not episode.over:
        episode.decide(policy(episode))
    return figures(episode)
