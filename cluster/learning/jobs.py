"""Jobs, their sequences, and synthetic jobs whose usage changes over time ([4], "Where they fail").

Shapes: N jobs, D resources, T steps of a job, H largest number of steps of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from cluster.scenario.sections import Section, count, number
from cluster.simulation.random_streams import stream
from plb.array_types import Float, Int, made_again
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.validation import check_count

ALLOWED = "an array of steps by resources, none of them 0"
MOST_USAGE = 1e6
"""Largest usage of a job in machines, up to which sums of squares are exact enough."""
LATEST = 1_000_000
"""Last step in which a job may arrive; every step until then needs memory."""
RESOURCES = ("cpu", "memory")
"""Resources of machines and jobs by default."""
PAIRS = ("short_steps", "long_steps", "short_usage", "base", "peak", "high_share", "other")


def _usage(values: npt.ArrayLike) -> Float:
    """Return usage as an array that cannot be written to; raise `InvalidValueError` if it is no array of numbers."""
    try:
        usage = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError("job", "usage", values, ALLOWED) from None
    usage.flags.writeable = False
    return usage


@attrs.frozen(eq=False)
class Job:
    """A job, which runs for T steps on one machine after its placement."""

    arrival: int
    """Step in which the job joins the queue."""
    usage: Float = attrs.field(converter=_usage)
    """Usage in each step, (T, D), as a share of a machine."""
    __reduce__ = made_again

    def __attrs_post_init__(self) -> None:
        """Raise `InvalidValueError` if the arrival or the usage is out of range."""
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


class JobArrays(NamedTuple):
    """The jobs of a sequence as arrays."""

    arrival: Int
    """Arrival of each job, (N,)."""
    steps: Int
    """Duration of each job, (N,)."""
    usage: Float
    """(N, D, H), zeros after the last step of a job."""
    mean: Float
    """Mean usage of each job, (N, D)."""
    peak: Float
    """Largest usage of each job, (N, D)."""


def _jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return jobs as a tuple."""
    return tuple(jobs)


@attrs.frozen(eq=False)
class JobSequence:
    """Jobs in the order of their arrivals and placements: at least one, all with the same resources."""

    jobs: tuple[Job, ...] = attrs.field(converter=_jobs)
    name: str = "jobs"
    """Origin of the sequence, such as ``"synthetic/7"``."""

    def __attrs_post_init__(self) -> None:
        """Raise an error if there is no job, resources differ in number, or arrivals are not in order."""
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


@lru_cache(4)
def job_arrays(sequence: JobSequence, horizon: int) -> JobArrays:
    """Return the jobs of a sequence as arrays with `horizon` steps, H, which several episodes share."""
    longest = max(job.steps for job in sequence.jobs)
    if longest > horizon:
        allowed = f"at most the horizon, {horizon}"
        raise InvalidValueError(f"job sequence {sequence.name!r}", "steps of a job", longest, allowed)
    usage = np.zeros((len(sequence.jobs), sequence.resources, horizon))
    for row, job in zip(usage, sequence.jobs, strict=True):
        row[:, : job.steps] = job.usage.T
    steps = np.array([job.steps for job in sequence.jobs])
    return JobArrays(
        arrival=np.array([job.arrival for job in sequence.jobs]),
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
    """Return the steps in which `jobs` jobs arrive, (N,), ascending, on average `rate` in each step."""
    return np.floor(np.cumsum(rng.exponential(1.0 / rate, jobs))).astype(np.int64)


def resource_conflicts(item: str, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
    """Yield field and error if `resources` in the values of a section are no names; `item` names the section."""
    names = values.get("resources", RESOURCES)
    is_names = isinstance(names, tuple) and all(isinstance(name, str) and name for name in names)
    if not is_names or not names or len(set(names)) < len(names):
        yield "resources", InvalidValueError(item, "resources", names, "a tuple of one or more different names")


def pair_conflicts(item: str, values: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[tuple[str, PlbError]]:
    """Yield field and error for each of `fields` of a section that is no pair of a low and a high end.

    `item` names the section; `values`: its values by field.
    """
    for field in fields:
        pair = values.get(field)
        if pair is not None and (not isinstance(pair, tuple) or len(pair) != 2 or pair[0] > pair[1]):
            yield field, InvalidValueError(item, field, pair, "a low and a high end, in this order")


@attrs.frozen(kw_only=True)
class SyntheticJobs(Section):
    """Short and long jobs, each dominated by one resource.

    - A **long** job has low usage, its base, and high usage, its peak, in one phase at a random time of the job; if
      the phase exceeds the end of the job, its rest is at the beginning. By default and without noise, two such jobs
      fit on one machine if their peaks alternate, and exceed the capacity if their peaks coincide in the same dominant
      resource.
    - A **short** job has about the same usage in all of its steps. It fits beside the base of a long job if it begins
      at the right time.
    - The dominant resource is random, with equal probability. The usage of the others is a share of that, so that a job
      with much CPU and one with much memory fit on one machine in any phase.

    All ranges have a low and a high end, and are sampled uniformly and independently for each job; ends are included.

    Notes
    -----
    DeepRM, on which [4] is based, has 80 % of short jobs of 1 to 3 steps and long jobs of 10 to 15 steps, all with
    constant usage. Here long jobs last up to the default horizon and are more frequent, because only their curves can
    be aligned.
    """

    rate: float = number(3.5, low=0.01, high=1000.0)
    """Mean number of jobs that arrive in a step; numbers are Poisson. By default, jobs use 64 % of 10 machines in a
    long sequence, and less in a short one, which begins and ends with empty machines."""
    jobs: int = count(120, low=1, high=100_000)
    """Number of jobs in a sequence."""
    resources: tuple[str, ...] = RESOURCES
    """Names of the resources."""
    short_share: float = number(0.6, high=1.0)
    """Share of short jobs."""
    short_steps: tuple[int, int] = count((1, 3), low=1, high=10_000)
    """Duration of short jobs in steps."""
    long_steps: tuple[int, int] = count((10, 20), low=1, high=10_000)
    """Duration of long jobs in steps."""
    short_usage: tuple[float, float] = number((0.3, 0.7), high=1.0)
    """Usage of the dominant resource by short jobs, as a share of a machine."""
    base: tuple[float, float] = number((0.05, 0.2), high=1.0)
    """Usage of the dominant resource by long jobs outside the phase."""
    peak: tuple[float, float] = number((0.5, 0.8), high=1.0)
    """Usage of the dominant resource by long jobs in the phase."""
    high_share: tuple[float, float] = number((0.3, 0.5), high=1.0)
    """Share of the phase in a long job; the phase has at least one step."""
    other: tuple[float, float] = number((0.2, 0.6), high=1.0)
    """Usage of other resources, as a share of the usage of the dominant one."""
    noise: float = number(0.1, high=1.0)
    """In each step, usage is multiplied by a random number from 1 - noise to 1 + noise. No job uses more than one
    machine."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for invalid resources and ranges."""
        yield from resource_conflicts("syntheticjobs", values)
        yield from pair_conflicts("syntheticjobs", values, PAIRS)

    def sequence(self, seed: int) -> JobSequence:
        """Return the job sequence of a seed."""
        check_count("syntheticjobs", "seed", seed)
        arrival = poisson_arrivals(stream(seed, "jobs", "arrivals"), self.jobs, self.rate)
        steps, usage = self._curves(stream(seed, "jobs", "curves"))
        jobs = zip(arrival.tolist(), steps.tolist(), usage, strict=True)
        return JobSequence([Job(begin, curve[:last]) for begin, last, curve in jobs], f"synthetic/{seed}")

    def _curves(self, rng: np.random.Generator) -> tuple[Int, Float]:
        """Return the durations of all jobs, (N,), and their usage, (N, steps of the longest, D)."""
        jobs, resources = self.jobs, len(self.resources)
        is_short = rng.random(jobs) < self.short_share
        steps = np.where(is_short, self._whole(rng, self.short_steps), self._whole(rng, self.long_steps))
        step = np.arange(steps.max())
        phase_steps = np.maximum(1, np.rint(self._drawn(rng, self.high_share) * steps))
        phase_begin = np.floor(rng.random(jobs) * steps)
        is_high = (step - phase_begin[:, None]) % steps[:, None] < phase_steps[:, None]
        base, peak = self._drawn(rng, self.base), self._drawn(rng, self.peak)
        curve = np.where(is_high, peak[:, None], base[:, None])
        curve = np.where(is_short[:, None], self._drawn(rng, self.short_usage)[:, None], curve)
        resource_share = rng.uniform(*self.other, (jobs, resources))
        resource_share[np.arange(jobs), rng.integers(resources, size=jobs)] = 1.0
        noise = rng.uniform(1.0 - self.noise, 1.0 + self.noise, (jobs, len(step), resources))
        return steps, np.minimum(curve[:, :, None] * resource_share[:, None, :] * noise, 1.0)

    def _drawn(self, rng: np.random.Generator, ends: tuple[float, float]) -> Float:
        """Return a random number between the two `ends` for each job, (N,)."""
        return rng.uniform(*ends, self.jobs)

    def _whole(self, rng: np.random.Generator, ends: tuple[int, int]) -> Int:
        """Return a random whole number from the first of `ends` to the last for each job, (N,)."""
        return rng.integers(ends[0], ends[1] + 1, self.jobs)
