"""Jobs that are cut out of demand traces ([4], "Future Work": evaluation on real-life workloads)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from cluster.learning.dimensions import RESOURCES, pair_conflicts, resource_conflicts
from cluster.learning.sequence import Floats, Ints, Job, JobSequence, poisson_arrivals
from cluster.scenario.sections import Section, count, number
from cluster.simulation.streams import stream
from plb.errors import ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.model import Role
from plb.validation import check_count
from workloads.trace import TraceSet, split_tenants

MINUTE = 60.0
"""Seconds."""


@attrs.frozen(kw_only=True)
class TraceWindows(Section):
    """Which windows of a trace become jobs.

    Parameters
    ----------
    rate
        Jobs that arrive in a step, on average; numbers are Poisson.
    jobs
        Number of jobs in a sequence.
    resources
        Metrics of the trace that are the resources of the machines.
    step_minutes
        A step, over which the trace's demand is averaged: a multiple of the trace's interval.
    steps
        Shortest and longest duration of jobs.
    sizes
        Usage of a job at the maximum demand of its tenant, as a share of a machine; sampled for each job, for all
        resources together.
    capacity
        Capacity of a machine by resource, in the units of the metrics: jobs are then as large as their tenants, and
        `sizes` is not used. None: sizes are sampled.
    """

    rate: float = number(3.0, low=0.01, high=1000.0)
    jobs: int = count(120, low=1, high=100_000)
    resources: tuple[str, ...] = RESOURCES
    step_minutes: float = number(60.0, high=1e6, low_open=True)
    steps: tuple[int, int] = count((5, 20), low=1, high=10_000)
    sizes: tuple[float, float] = number((0.3, 1.0), high=1.0)
    capacity: tuple[float, ...] = number((), low_open=True)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield the problems of the resources and the ranges."""
        yield from resource_conflicts("tracewindows", values)
        yield from pair_conflicts("tracewindows", values, ("steps", "sizes"))
        capacity, resources = values.get("capacity", ()), values.get("resources", RESOURCES)
        if capacity and len(capacity) != len(resources):
            allowed = f"none, or one number for each of {', '.join(resources)}"
            yield "capacity", InvalidValueError("tracewindows", "capacity", list(capacity), allowed)


class TraceJobs:
    """Jobs with the usage of random windows of the primary replicas of tenants, with replacement.

    Usage is the demand relative to the maximum of the tenant in that metric, times a sampled size: the curves are those
    of the trace, their size is not. A metric that is always 0 for a tenant gives 0. A tenant whose life is shorter than
    the shortest job is omitted; all others have equal probability.

    Parameters
    ----------
    traces
        Source of the demand.
    windows
        Which windows become jobs.
    name
        What the sequences are named after.
    """

    def __init__(self, traces: TraceSet, windows: TraceWindows | None = None, name: str = "trace") -> None:
        self.traces, self.name = traces, name
        self.windows = TraceWindows() if windows is None else windows
        self._metrics = [self._column(resource) for resource in self.windows.resources]
        self._samples = self._samples_a_step()
        series = traces.series_index[:, Role.PRIMARY]
        shortest = self.windows.steps[0] * self._samples
        self._series: Ints = series[traces.lifetime_steps >= shortest].astype(np.int64)
        starts = traces.series_start[:-1]
        most = np.maximum.reduceat(traces.values[:, self._metrics], starts) if len(starts) else np.empty((0, 0))
        self._most: Floats = most.astype(np.float64)
        if not len(self._series):
            raise ConflictError(
                f"{name}: no tenant lives for the shortest job, {self.windows.steps[0]} steps of "
                f"{self.windows.step_minutes:g} minutes; take shorter jobs or steps"
            )

    def _column(self, resource: str) -> int:
        names = self.traces.metric_names
        if resource not in names:
            raise UnknownNameError("metric", resource, names, context=f"{self.name}: resources")
        return names.index(resource)

    def _samples_a_step(self) -> int:
        minutes = self.traces.step_seconds / MINUTE
        samples = self.windows.step_minutes / minutes
        if samples < 1.0 or abs(samples - round(samples)) > 1e-9 * samples:
            allowed = f"a multiple of the trace's interval, {minutes:g}"
            raise InvalidValueError("tracewindows", "step_minutes", self.windows.step_minutes, allowed)
        return round(samples)

    def sequence(self, seed: int) -> JobSequence:
        """Return the sequence of a seed."""
        check_count("tracejobs", "seed", seed)
        windows = self.windows
        arrival = poisson_arrivals(stream(seed, "jobs", "arrivals"), windows.jobs, windows.rate)
        rng = stream(seed, "jobs", "windows")
        jobs = tuple(Job(begin, self._window(rng)) for begin in arrival.tolist())
        return JobSequence(jobs, f"{self.name}/{seed}")

    def _window(self, rng: np.random.Generator) -> Floats:
        """Return what a job uses, (T, D)."""
        shortest, longest = self.windows.steps
        series = self._series[rng.integers(len(self._series))]
        begin, end = self.traces.series_start[series : series + 2]
        whole = self.traces.values[begin:end]
        steps = int(rng.integers(shortest, min(longest, len(whole) // self._samples) + 1))
        first = int(rng.integers(len(whole) - steps * self._samples + 1))
        whole_machine = self._whole_machine(int(series), rng.uniform(*self.windows.sizes))
        window = whole[first : first + steps * self._samples, self._metrics].astype(np.float64)
        means = window.reshape(steps, self._samples, -1).mean(axis=1)
        return np.asarray(np.divide(means, whole_machine, out=np.zeros_like(means), where=whole_machine > 0.0))

    def _whole_machine(self, series: int, size: float) -> Floats:
        """Return the demand of a series that uses a whole machine, (D,); 0 if it is always 0."""
        if self.windows.capacity:
            return np.array(self.windows.capacity)
        return np.asarray(self._most[series] / size) if size > 0.0 else np.zeros(len(self._metrics))

    def halves(self, share: float, seed: int) -> tuple[TraceJobs, TraceJobs]:
        """Return the jobs of some tenants for training, and those of the others for evaluation.

        Parameters
        ----------
        share
            Share of the tenants' families in the first; a family, such as the windows of one machine, is never split.
        seed
            Of the split.
        """
        parts = zip(split_tenants(self.traces, share, seed), ("training", "held back"), strict=True)
        learned, evaluated = (TraceJobs(part, self.windows, f"{self.name}, {which}") for part, which in parts)
        return learned, evaluated
