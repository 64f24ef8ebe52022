"""Jobs, their sequences, and the sources of sequences.

Shapes: N jobs, D resources, T steps of a job, H largest number of steps of a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int, made_again
from plb.errors import ConflictError, InvalidValueError
from plb.validation import check_count

ALLOWED = "an array of steps by resources, none of them 0"
MOST_USAGE = 1e6
"""Largest usage of a job in machines, up to which sums of squares are exact enough."""
LATEST = 1_000_000
"""Last step in which a job may arrive; every step until then needs memory."""


def _usage(values: npt.ArrayLike) -> Float:
    try:
        usage = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError("job", "usage", values, ALLOWED) from None
    usage.flags.writeable = False
    return usage


@attrs.frozen(eq=False)
class Job:
    """A job, which runs for T steps on one machine after its placement.

    Parameters
    ----------
    arrival
        Step in which the job joins the queue.
    usage
        Usage in each step, (T, D), as a share of a machine.
    """

    arrival: int
    usage: Float = attrs.field(converter=_usage)
    __reduce__ = made_again

    def __attrs_post_init__(self) -> None:
        check_count("job", "arrival", self.arrival, high=LATEST)
        if self.usage.ndim != 2 or not self.usage.size:
            raise InvalidValueError("job", "usage", self.usage.shape, ALLOWED)
        lowest, highest = float(self.usage.min()), float(self.usage.max())
        if not (lowest >= 0.0 and highest <= MOST_USAGE):
            value = highest if lowest >= 0.0 else lowest
            raise InvalidValueError("job", "usage", value, f"numbers >= 0 and <= {MOST_USAGE:g}")

    @property
    def steps(self) -> int:
        """T, duration of the job."""
        return len(self.usage)


def _jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(jobs)


class JobArrays(NamedTuple):
    """The jobs of a sequence as arrays.

    Parameters
    ----------
    arrival, steps
        Arrival and duration of each job in steps, (N,).
    usage
        (N, D, H), zeros after the last step of a job.
    mean, peak
        Mean and largest usage of each job, (N, D).
    """

    arrival: Int
    steps: Int
    usage: Float
    mean: Float
    peak: Float


@attrs.frozen(eq=False)
class JobSequence:
    """Jobs in the order of their arrivals and placements.

    Parameters
    ----------
    jobs
        At least one job; all have the same resources.
    name
        Origin of the sequence, such as ``"synthetic/7"``.
    """

    jobs: tuple[Job, ...] = attrs.field(converter=_jobs)
    name: str = "jobs"

    def __attrs_post_init__(self) -> None:
        if not self.jobs:
            raise InvalidValueError("job sequence", "jobs", self.jobs, "at least one job")
        if len({job.usage.shape[1] for job in self.jobs}) > 1:
            raise ConflictError(f"job sequence {self.name!r}: all jobs must use the same number of resources")
        arrivals = [job.arrival for job in self.jobs]
        if arrivals != sorted(arrivals):
            raise ConflictError(f"job sequence {self.name!r}: jobs must be in the order of their arrivals")

    @property
    def resources(self) -> int:
        """D, number of resources."""
        return int(self.jobs[0].usage.shape[1])

    @property
    def longest(self) -> int:
        """Steps of the longest job."""
        return max(job.steps for job in self.jobs)

    def arrays(self, horizon: int) -> JobArrays:
        """Return the jobs as arrays of `horizon` steps each."""
        if self.longest > horizon:
            allowed = f"at most the horizon, {horizon}"
            raise InvalidValueError(f"job sequence {self.name!r}", "steps of a job", self.longest, allowed)
        usage = np.zeros((len(self.jobs), self.resources, horizon))
        for row, job in zip(usage, self.jobs, strict=True):
            row[:, : job.steps] = job.usage.T
        steps = np.array([job.steps for job in self.jobs])
        return JobArrays(
            arrival=np.array([job.arrival for job in self.jobs]),
            steps=steps,
            usage=usage,
            mean=usage.sum(axis=2) / steps[:, None],
            peak=usage.max(axis=2),
        )


class JobSource(Protocol):
    """A source of sequences of jobs. It can be pickled for other processes."""

    def sequence(self, seed: int) -> JobSequence:
        """Return the sequence of a seed, the same for the same seed."""
        ...


def poisson_arrivals(rng: np.random.Generator, jobs: int, rate: float) -> Int:
    """Return the steps in which jobs arrive: on average `rate` in each step, independently of other steps.

    Parameters
    ----------
    rng
        Random number generator.
    jobs
        Number of jobs.
    rate
        Mean number of jobs in a step.
    """
    return np.floor(np.cumsum(rng.exponential(1.0 / rate, jobs))).astype(np.int64)
