"""The instances and packings of the study of [2]: every test under the assumptions of sections 5.2 to 5.6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cluster.runs.sweep import Task
from cluster.scenario.scenario import MOST_REPEATS
from cluster.studies.design import MOST_SAMPLES, digest
from plb import PlbError
from plb.risk.gaussian import GPA, OVERLOADS, PAPER_TESTS, Cantelli, Fit, FitTest, MeanTimes
from plb.validation import check_count, check_number
from workloads.realisations import UNKNOWN, UsageSamples, read_samples

MEAN_TASK = 13.69 / 500
"""[2] table 1: 500 tasks use 13.69 machines on average. The default capacity is such that this holds."""
INSTANCES, QUICK_INSTANCES = 50, 4
"""[2] section 5.1."""
TASKS, REALISATIONS = 1000, 10_000
"""[2] section 5.1: tasks of an instance, and realisations of a task."""
SAMPLES, QUICK_SAMPLES = 10_000, 200
"""[2] section 3.6: samples of tasks for each size."""
SIZES = (10, 20, 30, 50, 100, 250, 500)
"""[2] table 1: tasks in a sample."""
SAMPLES_A_RUN = 100
AVERAGED = 12
"""Consecutive samples whose mean is the coarser measurement: an hour of 5-minute samples."""
CAPACITIES = (0.5, 0.8, 1.0, 2.0, 5.0)
"""[2] section 5.4."""
CLAIRVOYANCE = (0.001, 0.01, 0.1, 0.3, 0.5, 0.8, 1.0)
"""[2] section 5.5."""
INSTANCE, TOTALS, PERIODS, SIMULTANEOUS = range(4)
"""Random streams of a seed."""
LEAST_OBSERVED = 2
"""With fewer realisations there is no standard deviation."""
MEANS: tuple[FitTest, ...] = tuple(MeanTimes(factor) for factor in (1.0, 1.25, 2.0))
GPAS: tuple[FitTest, ...] = tuple(GPA(overload) for overload in OVERLOADS)
MEANS_AND_GPAS = (*MEANS, *GPAS)
CANTELLI: tuple[FitTest, ...] = tuple(Cantelli(deviations) for deviations in (1.0, 1.7, 4.4))
BY_CAPACITY: tuple[FitTest, ...] = (MeanTimes(2.0), MeanTimes(1.25), GPA(0.001), GPA(0.1))
"""[2] figure 11: two pairs with similar results at capacity 1."""


@attrs.frozen
class Case:
    """A way to pack an instance.

    Parameters
    ----------
    test, fit
        Packing test and heuristic.
    capacity
        Capacity of the machines, relative to the capacity of the study.
    clairvoyance
        Share of the realisations that the test observes.
    averaged
        True: the test observes means of several samples.
    rebalanced
        True: tasks are moved to the last machine at the end.
    """

    test: FitTest
    fit: Fit = Fit.BEST
    capacity: float = 1.0
    clairvoyance: float = 1.0
    averaged: bool = False
    rebalanced: bool = True

    def described(self) -> dict[str, Any]:
        """Return the case as plain JSON values."""
        return {**attrs.asdict(self, recurse=False), "test": self.test.name, "fit": self.fit.value}


def cases(realisations: int) -> tuple[Case, ...]:
    """Return all cases, each once; `realisations` limits the levels of clairvoyance."""
    levels = [share for share in CLAIRVOYANCE if round(share * realisations) >= LEAST_OBSERVED]
    found = [
        *(Case(test) for test in PAPER_TESTS),
        *(Case(test, fit=Fit.FIRST) for test in PAPER_TESTS),
        *(Case(test, averaged=True) for test in PAPER_TESTS),
        *(Case(test, capacity=c, rebalanced=on) for test in BY_CAPACITY for c in CAPACITIES for on in (True, False)),
        *(Case(test, clairvoyance=share) for test in MEANS_AND_GPAS for share in levels),
        *(Case(test, rebalanced=False) for test in (*MEANS_AND_GPAS, *CANTELLI)),
    ]
    return tuple(dict.fromkeys(found))


@attrs.frozen(kw_only=True)
class GaussianDesign:
    """The study of [2] on one trace.

    Parameters
    ----------
    traces
        File or directory; see `workloads.realisations.read_samples`.
    resources
        Names of the resources. A task has to fit in all.
    capacity
        Capacity of a machine for each resource, in its unit.
    instances, tasks, realisations
        Number of instances, tasks of each instance, realisations of each task.
    samples
        Samples of tasks for each size of table 1 and figure 6.
    periods
        Periods of the trace whose tasks are also packed with their usage at the same times.
    averaged
        Consecutive samples whose mean is the coarser measurement of figure 10.
    seed
        Seed of all random numbers.
    """

    traces: Path
    resources: tuple[str, ...]
    capacity: tuple[float, ...]
    instances: int = INSTANCES
    tasks: int = TASKS
    realisations: int = REALISATIONS
    samples: int = SAMPLES
    periods: tuple[int, ...] = ()
    averaged: int = AVERAGED
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        check_count("study", "instances", self.instances, low=1, high=MOST_REPEATS)
        check_count("study", "samples", self.samples, low=1, high=MOST_SAMPLES)
        for name in ("tasks", "averaged"):
            check_count("study", name, getattr(self, name), low=1)
        check_count("study", "realisations", self.realisations, low=LEAST_OBSERVED)
        check_count("study", "seed", self.seed)
        for name, capacity in zip(self.resources, self.capacity, strict=True):
            check_number("study", f"capacity[{name}]", capacity, low_open=True)

    def sweep_tasks(self) -> list[Task]:
        """Return a task for each instance, for some samples of all sizes, and for each period."""
        parts = range(0, self.samples, SAMPLES_A_RUN)
        runs = [{"kind": "packing", "part": part} for part in range(self.instances)]
        runs += [
            {"kind": "totals", "part": part, "samples": min(SAMPLES_A_RUN, self.samples - first)}
            for part, first in enumerate(parts)
        ]
        runs += [{"kind": "simultaneous", "part": period} for period in self.periods]
        known = digest(self.described(), _digests(self.traces), {"sizes": SIZES})
        return [
            Task(f"{run['kind']} {run['part']}, {run.get('samples')}, {known}", run | self._common()) for run in runs
        ]

    def described(self) -> dict[str, Any]:
        """Return everything on which all runs depend, as plain JSON values."""
        return {**self._common(), "cases": [case.described() for case in cases(self.realisations)]}

    def _common(self) -> dict[str, Any]:
        whole = {name: getattr(self, name) for name in ("tasks", "realisations", "averaged", "seed")}
        lists = {"resources": list(self.resources), "capacity": list(self.capacity)}
        return {"traces": str(self.traces.resolve()), **lists, **whole}


@lru_cache(maxsize=2)
def samples_of(traces: str, resources: tuple[str, ...] | None) -> UsageSamples:
    """Return the samples of a trace, which are read once in each process."""
    return read_samples(traces, resources)


def capacities_of(samples: UsageSamples, given: Sequence[float] | None) -> tuple[float, ...]:
    """Return the capacity for each resource. Default: the mean task uses `MEAN_TASK` of it.

    Raises
    ------
    PlbError
        The number of capacities differs from that of the resources, or no task uses a resource.
    """
    names = [metric.name for metric in samples.resources]
    if given:
        if len(given) != len(names):
            raise PlbError(f"study: {len(given)} capacities for the resources {', '.join(names)}; give one for each")
        return tuple(given)
    means = samples.mean().mean(axis=0)
    unused = [name for name, mean in zip(names, means, strict=True) if not mean]
    if unused:
        raise PlbError(f"study: no task uses {unused[0]}; leave it out or give its capacity")
    return tuple((means / MEAN_TASK).tolist())


def periods_of(samples: UsageSamples, most: int, seed: int) -> tuple[int, ...]:
    """Return the known periods of a trace, ascending; at most `most`, chosen at random."""
    periods = np.unique(samples.period[samples.period != UNKNOWN])
    chosen = np.random.default_rng([seed, PERIODS]).permutation(periods)[:most]
    return tuple(sorted(chosen.tolist()))


def _digests(traces: Path) -> Mapping[str, str]:
    """Return the SHA-256 of the files of a trace by name."""
    files = [traces] if traces.is_file() else sorted(traces.glob("*.parquet"))
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
