"""Jobs from traces and regions ([4], "Future Work": evaluation on real-life workloads), and the source of any jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import attrs
import numpy as np

from cluster.learning.jobs import (
    RESOURCES,
    Job,
    JobSequence,
    JobSource,
    SyntheticJobs,
    pair_conflicts,
    poisson_arrivals,
    resource_conflicts,
)
from cluster.scenario.sections import Section, count, number
from cluster.simulation.random_streams import stream
from plb.array_types import Float, Int
from plb.errors import ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.model import Role
from plb.validation import check_count, check_known
from workloads.regions import REGIONS, generate
from workloads.trace import TraceSet, split_tenants

MINUTE = 60.0
"""Seconds."""
KEPT = 4
"""Number of sources, and of sequences, that a process keeps; traces are large."""


@attrs.frozen(kw_only=True)
class TraceWindows(Section):
    """The windows of a trace that become jobs."""

    rate: float = number(3.0, low=0.01, high=1000.0)
    """Mean number of jobs that arrive in a step; numbers are Poisson."""
    jobs: int = count(120, low=1, high=100_000)
    """Number of jobs in a sequence."""
    resources: tuple[str, ...] = RESOURCES
    """Metrics of the trace that become resources of the machines."""
    step_minutes: float = number(60.0, high=1e6, low_open=True)
    """Duration of a step, over which demand is averaged: a multiple of the interval of the trace."""
    steps: tuple[int, int] = count((5, 20), low=1, high=10_000)
    """Shortest and longest duration of jobs."""
    sizes: tuple[float, float] = number((0.3, 1.0), high=1.0)
    """Range of the usage of a job at the maximum demand of its tenant, as a share of a machine. It is sampled once for
    each job, for all resources."""
    capacity: tuple[float, ...] = number((), low_open=True)
    """Capacity of a machine by resource, in the units of the metrics. Jobs are then as large as their tenants, and
    `sizes` is not used. Empty: sizes are sampled."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for invalid resources, ranges and capacities."""
        yield from resource_conflicts("tracewindows", values)
        yield from pair_conflicts("tracewindows", values, ("steps", "sizes"))
        capacity, resources = values.get("capacity", ()), values.get("resources", RESOURCES)
        if capacity and len(capacity) != len(resources):
            allowed = f"none, or one number for each of {', '.join(resources)}"
            yield "capacity", InvalidValueError("tracewindows", "capacity", list(capacity), allowed)


@attrs.frozen(kw_only=True)
class TraceSource(TraceWindows):
    """Windows of traces that are read from files, with some of the tenants held out."""

    kind: Literal["traces", "bitbrains"] = "traces"
    """``"traces"`` (the format of this project) or ``"bitbrains"``."""
    path: str = ""
    """Directory of the traces."""
    held_back: float = number(0.5, high=0.99, low_open=True)
    """Share of the tenants whose jobs are not used for training, but for evaluation."""
    trace_seed: int = count(0)
    """Seed of that split."""
    window_days: float = number(7.0, low=1 / 24, high=1e5)
    """Longest life of a Bitbrains tenant. Longer series are cut into windows, which are on one side of the split."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for invalid windows, and a missing path."""
        yield from TraceWindows.conflicts(values)
        if not values.get("path"):
            yield "path", InvalidValueError("jobs", "path", values.get("path", ""), "the directory of the traces")


@attrs.frozen(kw_only=True)
class RegionSource(TraceWindows):
    """Windows of the tenants of a synthetic region."""

    region: str = "region1"
    """Name of the region."""
    tenants: int = count(2000, low=1, high=100_000)
    """Number of tenants for training: the first tenants of the region, which are also in the demand history of a
    scenario with at least this number of past tenants. The same number of next tenants is for evaluation."""
    trace_seed: int = count(0)
    """Seed of the region."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for invalid windows, and an unknown region."""
        yield from TraceWindows.conflicts(values)
        region = values.get("region", attrs.fields(cls).region.default)
        if region not in REGIONS:
            yield "region", UnknownNameError("region", region, REGIONS, "jobs")


class TraceJobs:
    """Jobs with the usage of random windows of the primary replicas of tenants, sampled with replacement.

    Usage is the demand relative to the maximum of the tenant in that metric, times a sampled size. The trace gives the
    shape of a curve, and not its size. A metric that is always 0 for a tenant gives 0. Tenants whose life is shorter
    than the shortest job are omitted; all others have equal probability. Sequences are named `name` and their seed.
    """

    def __init__(self, traces: TraceSet, windows: TraceWindows | None = None, name: str = "trace") -> None:
        """Take windows of `traces`; None: default ones. Raise an error if no tenant lives for the shortest job."""
        self.traces, self.name = traces, name
        self.windows = TraceWindows() if windows is None else windows
        self._metrics = [self._column(resource) for resource in self.windows.resources]
        """Column in the traces of each resource."""
        self._samples = self._samples_a_step()
        """Samples of the traces in a step."""
        series = traces.series_index[:, Role.PRIMARY]
        shortest = self.windows.steps[0] * self._samples
        self._series: Int = series[traces.lifetime_steps >= shortest].astype(np.int64)
        """Series of the primary replicas of tenants that live long enough."""
        starts = traces.series_start[:-1]
        most = np.maximum.reduceat(traces.values[:, self._metrics], starts) if len(starts) else np.empty((0, 0))
        self._most: Float = most.astype(np.float64)
        """(series, D) largest demand of each series."""
        if not len(self._series):
            raise ConflictError(
                f"{name}: no tenant lives for the shortest job, {self.windows.steps[0]} steps of "
                f"{self.windows.step_minutes:g} minutes; take shorter jobs or steps"
            )

    def _column(self, resource: str) -> int:
        """Return the column of a resource in the traces."""
        names = self.traces.metric_names
        check_known("metric", resource, names, f"{self.name}: resources")
        return names.index(resource)

    def _samples_a_step(self) -> int:
        """Return how many samples of the traces a step has."""
        minutes = self.traces.step_seconds / MINUTE
        samples = self.windows.step_minutes / minutes
        if samples < 1.0 or abs(samples - round(samples)) > 1e-9 * samples:
            allowed = f"a multiple of the trace's interval, {minutes:g}"
            raise InvalidValueError("tracewindows", "step_minutes", self.windows.step_minutes, allowed)
        return round(samples)

    def sequence(self, seed: int) -> JobSequence:
        """Return the job sequence of a seed."""
        check_count("tracejobs", "seed", seed)
        windows = self.windows
        arrival = poisson_arrivals(stream(seed, "jobs", "arrivals"), windows.jobs, windows.rate)
        rng = stream(seed, "jobs", "windows")
        jobs = tuple(Job(begin, self._window(rng)) for begin in arrival.tolist())
        return JobSequence(jobs, f"{self.name}/{seed}")

    def _window(self, rng: np.random.Generator) -> Float:
        """Return the usage of a random job, (steps, D)."""
        shortest, longest = self.windows.steps
        series = self._series[rng.integers(len(self._series))]
        begin, end = self.traces.series_start[series : series + 2]
        samples = self.traces.values[begin:end]
        steps = int(rng.integers(shortest, min(longest, len(samples) // self._samples) + 1))
        first_sample = int(rng.integers(len(samples) - steps * self._samples + 1))
        capacity = self._whole_machine(int(series), rng.uniform(*self.windows.sizes))
        window = samples[first_sample : first_sample + steps * self._samples, self._metrics].astype(np.float64)
        means = window.reshape(steps, self._samples, -1).mean(axis=1)
        return np.asarray(np.divide(means, capacity, out=np.zeros_like(means), where=capacity > 0.0))

    def _whole_machine(self, series: int, size: float) -> Float:
        """Return the demand of a series, (D,), that fills a machine if its jobs are `size` large; 0 for no demand."""
        if self.windows.capacity:
            return np.array(self.windows.capacity)
        return np.asarray(self._most[series] / size) if size > 0.0 else np.zeros(len(self._metrics))

    def halves(self, share: float, seed: int) -> tuple[TraceJobs, TraceJobs]:
        """Return the jobs of a share of the families of tenants, for training, and of the others, for evaluation.

        A family, such as the windows of one machine, is not split.
        """
        parts = zip(split_tenants(self.traces, share, seed), ("training", "held back"), strict=True)
        for_training, for_evaluation = (
            TraceJobs(part, self.windows, f"{self.name}, {purpose}") for part, purpose in parts
        )
        return for_training, for_evaluation


Jobs = SyntheticJobs | TraceSource | RegionSource
"""Settings of jobs."""


def longest_of(jobs: Jobs) -> int:
    """Return the largest possible number of steps of a job with these settings."""
    return max(jobs.short_steps[1], jobs.long_steps[1]) if isinstance(jobs, SyntheticJobs) else jobs.steps[1]


def expected_steps(jobs: Jobs) -> int:
    """Return the approximate number of steps until the last job arrives."""
    return math.ceil(jobs.jobs / jobs.rate)


def scaled(jobs: Jobs, factor: float) -> Jobs:
    """Return settings with number and rate of jobs multiplied by a factor, for a cluster of another size."""
    return attrs.evolve(jobs, rate=jobs.rate * factor, jobs=max(1, round(jobs.jobs * factor)))


@attrs.frozen
class SourceOf:
    """The source of the jobs of some settings. It has no traces: other processes read them again."""

    jobs: Jobs
    """The settings."""
    held_back: bool = False
    """Whether it yields the jobs that training does not use. Synthetic jobs are not held out, since sequences of
    different seeds are independent."""

    def sequence(self, seed: int) -> JobSequence:
        """Return the job sequence of a seed."""
        return _sequence(self, seed)


@lru_cache(KEPT)
def _sequence(source: SourceOf, seed: int) -> JobSequence:
    """Return the job sequence of a seed from a source; several trajectories use it."""
    return _source(source.jobs, held_back=source.held_back).sequence(seed)


def _source(jobs: Jobs, *, held_back: bool) -> JobSource:
    """Return the source of jobs with these settings, for training, or for evaluation (`held_back`)."""
    if isinstance(jobs, SyntheticJobs):
        return jobs
    return (_halves if isinstance(jobs, TraceSource) else _parts)(jobs)[1 if held_back else 0]


@lru_cache(KEPT)
def _parts(jobs: RegionSource) -> tuple[TraceJobs, TraceJobs]:
    """Return the jobs of the tenants of a region for training, and of as many others for evaluation."""
    for_training, for_evaluation = (
        TraceJobs(generate(REGIONS[jobs.region], jobs.tenants, jobs.trace_seed, first_tenant), jobs, jobs.region)
        for first_tenant in (0, jobs.tenants)
    )
    return for_training, for_evaluation


@lru_cache(KEPT)
def _halves(jobs: TraceSource) -> tuple[TraceJobs, TraceJobs]:
    """Return the jobs of traces for training and for evaluation."""
    from cluster.scenario.workload_sections import Workload
    from cluster.simulation.tenant_pools import read_traces_of

    workload = Workload(kind=jobs.kind, path=jobs.path, window_days=jobs.window_days)
    all_jobs = TraceJobs(read_traces_of(workload), jobs, jobs.kind)
    return all_jobs.halves(1.0 - jobs.held_back, jobs.trace_seed)
