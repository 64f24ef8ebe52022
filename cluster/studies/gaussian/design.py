"""The cases of the study of [2]: every test under the assumptions of sections 5.2 to 5.6. The samples of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from plb import PlbError
from plb.risk.gaussian import GPA, OVERLOADS, PAPER_TESTS, Cantelli, Fit, FitTest, MeanTimes
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


def digests_of_traces(traces: Path) -> Mapping[str, str]:
    """Return the SHA-256 of the files of a trace by name."""
    files = [traces] if traces.is_file() else sorted(traces.glob("*.parquet"))
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
