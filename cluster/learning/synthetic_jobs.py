"""Synthetic jobs whose usage changes over time ([4], "Where they fail")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from cluster.learning.dimensions import RESOURCES, pair_conflicts, resource_conflicts
from cluster.learning.job_sequence import Job, JobSequence, poisson_arrivals
from cluster.scenario.sections import Section, count, number
from cluster.simulation.random_streams import stream
from plb.array_types import Float, Int
from plb.errors import PlbError
from plb.validation import check_count

PAIRS = ("short_steps", "long_steps", "short_usage", "base", "peak", "high_share", "other")


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

    Parameters
    ----------
    rate
        Mean number of jobs that arrive in a step; numbers are Poisson. By default, jobs use 64 % of 10 machines in a
        long sequence, and less in a short one, which begins and ends with empty machines.
    jobs
        Number of jobs in a sequence.
    resources
        Names of the resources.
    short_share
        Share of short jobs.
    short_steps, long_steps
        Duration of jobs in steps.
    short_usage
        Usage of the dominant resource by short jobs, as a share of a machine.
    base, peak
        Usage of it by long jobs, outside the phase and in it.
    high_share
        Share of the phase in a long job; the phase has at least one step.
    other
        Usage of other resources, as a share of that of the dominant one.
    noise
        In each step, usage is multiplied by a random number from 1 - noise to 1 + noise. No job uses more than one
        machine.

    Notes
    -----
    DeepRM, on which [4] is based, has 80 % of short jobs of 1 to 3 steps and long jobs of 10 to 15 steps, all with
    constant usage. Here the long jobs last up to the default horizon, and there are more of them, because only their
    curves can be aligned.
    """

    rate: float = number(3.5, low=0.01, high=1000.0)
    jobs: int = count(120, low=1, high=100_000)
    resources: tuple[str, ...] = RESOURCES
    short_share: float = number(0.6, high=1.0)
    short_steps: tuple[int, int] = count((1, 3), low=1, high=10_000)
    long_steps: tuple[int, int] = count((10, 20), low=1, high=10_000)
    short_usage: tuple[float, float] = number((0.3, 0.7), high=1.0)
    base: tuple[float, float] = number((0.05, 0.2), high=1.0)
    peak: tuple[float, float] = number((0.5, 0.8), high=1.0)
    high_share: tuple[float, float] = number((0.3, 0.5), high=1.0)
    other: tuple[float, float] = number((0.2, 0.6), high=1.0)
    noise: float = number(0.1, high=1.0)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield the problems of the resources and the ranges."""
        yield from resource_conflicts("syntheticjobs", values)
        yield from pair_conflicts("syntheticjobs", values, PAIRS)

    def sequence(self, seed: int) -> JobSequence:
        """Return the sequence of a seed."""
        check_count("syntheticjobs", "seed", seed)
        arrival = poisson_arrivals(stream(seed, "jobs", "arrivals"), self.jobs, self.rate)
        steps, usage = self._curves(stream(seed, "jobs", "curves"))
        found = zip(arrival.tolist(), steps.tolist(), usage, strict=True)
        return JobSequence(tuple(Job(begin, curve[:last]) for begin, last, curve in found), f"synthetic/{seed}")

    def _curves(self, rng: np.random.Generator) -> tuple[Int, Float]:
        """Return the durations of all jobs, (N,), and their usage, (N, T of the longest, D)."""
        jobs, resources = self.jobs, len(self.resources)
        short = rng.random(jobs) < self.short_share
        steps = np.where(short, self._whole(rng, self.short_steps), self._whole(rng, self.long_steps))
        step = np.arange(steps.max())
        phase = np.maximum(1, np.rint(self._drawn(rng, self.high_share) * steps))
        begun = np.floor(rng.random(jobs) * steps)
        is_high = (step - begun[:, None]) % steps[:, None] < phase[:, None]
        base, peak = self._drawn(rng, self.base), self._drawn(rng, self.peak)
        curve = np.where(is_high, peak[:, None], base[:, None])
        curve = np.where(short[:, None], self._drawn(rng, self.short_usage)[:, None], curve)
        share = rng.uniform(*self.other, (jobs, resources))
        share[np.arange(jobs), rng.integers(resources, size=jobs)] = 1.0
        noise = rng.uniform(1.0 - self.noise, 1.0 + self.noise, (jobs, len(step), resources))
        return steps, np.minimum(curve[:, :, None] * share[:, None, :] * noise, 1.0)

    def _drawn(self, rng: np.random.Generator, ends: tuple[float, float]) -> Float:
        return rng.uniform(*ends, self.jobs)

    def _whole(self, rng: np.random.Generator, ends: tuple[int, int]) -> Int:
        return rng.integers(ends[0], ends[1] + 1, self.jobs)
