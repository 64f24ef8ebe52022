"""The source of the jobs of some settings, in any process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import attrs

from cluster.learning.jobs import SyntheticJobs
from cluster.learning.sequence import JobSequence, JobSource
from cluster.learning.trace_jobs import TraceJobs, TraceWindows
from cluster.scenario.sections import count, number
from plb.errors import InvalidValueError, PlbError, UnknownNameError
from workloads.regions import REGIONS, generate

KEPT = 4
"""Number of sources, and of sequences, that a process keeps; traces are large."""


@attrs.frozen(kw_only=True)
class TraceSource(TraceWindows):
    """Windows of a trace that is read from files, with some of its tenants held out.

    Parameters
    ----------
    kind
        ``"traces"`` (the format of this project) or ``"bitbrains"``.
    path
        Directory of the traces.
    held_back
        Share of the tenants from which no job is learned; evaluation takes its jobs from these alone.
    trace_seed
        Seed of that split.
    window_days
        Longest life of a Bitbrains tenant; longer series are cut into windows, which stay on one side of the split.
    """

    kind: Literal["traces", "bitbrains"] = "traces"
    path: str = ""
    held_back: float = number(0.5, high=0.99, low_open=True)
    trace_seed: int = count(0)
    window_days: float = number(7.0, low=1 / 24, high=1e5)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield what is wrong with the windows, and that no path is given."""
        yield from TraceWindows.conflicts(values)
        if not values.get("path"):
            yield "path", InvalidValueError("jobs", "path", values.get("path", ""), "the directory of the traces")


@attrs.frozen(kw_only=True)
class RegionSource(TraceWindows):
    """Windows of the tenants of a synthetic region.

    Parameters
    ----------
    region
        Name of the region.
    tenants
        Number of its tenants from which jobs are learned: its first ones, of which a scenario's demand history consists
        that has as many, or more. Evaluation takes its jobs from as many tenants after these.
    trace_seed
        Seed of the region.
    """

    region: str = "region1"
    tenants: int = count(2000, low=1, high=100_000)
    trace_seed: int = count(0)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield what is wrong with the windows, and a region that is not known."""
        yield from TraceWindows.conflicts(values)
        region = values.get("region", attrs.fields(cls).region.default)
        if region not in REGIONS:
            yield "region", UnknownNameError("region", region, REGIONS, "jobs")


Jobs = SyntheticJobs | TraceSource | RegionSource
"""Settings of jobs."""


def longest_of(jobs: Jobs) -> int:
    """Return the steps of the longest job that there may be."""
    return max(jobs.short_steps[1], jobs.long_steps[1]) if isinstance(jobs, SyntheticJobs) else jobs.steps[1]


def expected_steps(jobs: Jobs) -> int:
    """Return about how many steps pass until the last job arrives."""
    return math.ceil(jobs.jobs / jobs.rate)


def scaled(jobs: Jobs, factor: float) -> Jobs:
    """Return the same jobs in other numbers, for a cluster of another size."""
    return attrs.evolve(jobs, rate=jobs.rate * factor, jobs=max(1, round(jobs.jobs * factor)))


@attrs.frozen
class SourceOf:
    """The jobs of some settings; it is small, so that it can be sent to other processes, which read the traces again.

    Parameters
    ----------
    jobs
        The settings.
    held_back
        True: jobs that are not used for training. Synthetic jobs of different seeds are independent, so that
        none needs to be held out.
    """

    jobs: Jobs
    held_back: bool = False

    def sequence(self, seed: int) -> JobSequence:
        """Return the sequence of a seed."""
        return _sequence(self, seed)


@lru_cache(KEPT)
def _sequence(source: SourceOf, seed: int) -> JobSequence:
    """Return a sequence, which is used for each trajectory, one after another."""
    return _source(source.jobs, held_back=source.held_back).sequence(seed)


def _source(jobs: Jobs, *, held_back: bool) -> JobSource:
    if isinstance(jobs, SyntheticJobs):
        return jobs
    return (_halves if isinstance(jobs, TraceSource) else _parts)(jobs)[1 if held_back else 0]


@lru_cache(KEPT)
def _parts(jobs: RegionSource) -> tuple[TraceJobs, TraceJobs]:
    first, second = (
        TraceJobs(generate(REGIONS[jobs.region], jobs.tenants, jobs.trace_seed, begin), jobs, jobs.region)
        for begin in (0, jobs.tenants)
    )
    return first, second


@lru_cache(KEPT)
def _halves(jobs: TraceSource) -> tuple[TraceJobs, TraceJobs]:
    from cluster.scenario.workload_section import Workload
    from cluster.simulation.pools import read_traces_of

    workload = Workload(kind=jobs.kind, path=jobs.path, window_days=jobs.window_days)
    whole = TraceJobs(read_traces_of(workload), jobs, jobs.kind)
    return whole.halves(1.0 - jobs.held_back, jobs.trace_seed)
