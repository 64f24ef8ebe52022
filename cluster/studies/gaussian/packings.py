"""Packings of an instance in every case ([2] section 5), and of the tasks of a period: machines and overload.

[2] section 2 assumes that tasks are independent, and its evaluation samples the realisations of each task
independently. The tasks of a period are packed by their statistics, and the packing is evaluated on such samples and on
their usage at the same times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import polars as pl

from cluster.studies.runner import Row
from plb import PlbError
from plb.array_types import Float, Float32, Int
from plb.risk.gaussian import (
    GPA,
    MAX_FAILURES,
    OVERLOADS,
    PAPER_TESTS,
    PERCENTS,
    Cantelli,
    Fit,
    FitTest,
    MeanTimes,
    TaskStatistics,
    Total,
    normalised_machines,
    observe,
    overload_by_machine,
    pack,
    split_observations,
)
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
    """A way to pack an instance."""

    test: FitTest
    """Test of whether a task fits on a machine."""
    fit: Fit = Fit.BEST
    """Heuristic that chooses among the machines on which a task fits."""
    capacity: float = 1.0
    """Capacity of the machines, relative to the capacity of the study."""
    clairvoyance: float = 1.0
    """Share of the realisations that the test observes."""
    averaged: bool = False
    """True: the test observes means of several samples."""
    rebalanced: bool = True
    """True: tasks are moved to the last machine at the end."""

    def described(self) -> dict[str, Any]:
        """Return the case as plain JSON values."""
        return {**attrs.asdict(self, recurse=False), "test": self.test.name, "fit": self.fit.value}


def cases(realisations: int) -> tuple[Case, ...]:
    """Return all cases, each once; `realisations` limits the levels of clairvoyance."""
    levels = [share for share in CLAIRVOYANCE if round(share * realisations) >= LEAST_OBSERVED]
    all_cases = [
        *(Case(test) for test in PAPER_TESTS),
        *(Case(test, fit=Fit.FIRST) for test in PAPER_TESTS),
        *(Case(test, averaged=True) for test in PAPER_TESTS),
        *(
            Case(test, capacity=capacity, rebalanced=is_rebalanced)
            for test in BY_CAPACITY
            for capacity in CAPACITIES
            for is_rebalanced in (True, False)
        ),
        *(Case(test, clairvoyance=share) for test in MEANS_AND_GPAS for share in levels),
        *(Case(test, rebalanced=False) for test in (*MEANS_AND_GPAS, *CANTELLI)),
    ]
    return tuple(dict.fromkeys(all_cases))


@lru_cache(maxsize=2)
def samples_of(traces: str, resources: tuple[str, ...] | None) -> UsageSamples:
    """Return the samples of `resources`, None: of all, in file or directory `traces`; each process reads it once."""
    return read_samples(traces, resources)


def capacities_of(samples: UsageSamples, capacities: Sequence[float] | None) -> tuple[float, ...]:
    """Return the capacity of a machine for each resource of a trace.

    Default: the mean task uses `MEAN_TASK` of it.
    """
    names = [metric.name for metric in samples.resources]
    if capacities:
        if len(capacities) != len(names):
            raise PlbError(
                f"study: {len(capacities)} capacities for the resources {', '.join(names)}; give one for each"
            )
        return tuple(capacities)
    means = samples.mean().mean(axis=0)
    unused = [name for name, mean in zip(names, means, strict=True) if not mean]
    if unused:
        raise PlbError(f"study: no task uses {unused[0]}; leave it out or give its capacity")
    return tuple((means / MEAN_TASK).tolist())


def periods_of(samples: UsageSamples, most: int, seed: int) -> tuple[int, ...]:
    """Return the known periods of a trace, ascending; at most `most`, which are chosen at random."""
    periods = np.unique(samples.period[samples.period != UNKNOWN])
    chosen_periods = np.random.default_rng([seed, PERIODS]).permutation(periods)[:most]
    return tuple(sorted(chosen_periods.tolist()))


COLUMNS: Mapping[str, Any] = {
    "instance": pl.Int64,
    "test": pl.String,
    "fit": pl.String,
    "capacity": pl.Float64,
    "clairvoyance": pl.Float64,
    "averaged": pl.Boolean,
    "rebalanced": pl.Boolean,
    "machines": pl.Int64,
    "m": pl.Float64,
    "q": pl.Float64,
    "oversized": pl.Int64,
}
"""Columns of the table of packings."""
SIMULTANEOUS_TESTS: tuple[FitTest, ...] = (*GPAS, *MEANS)
SIMULTANEOUS_FIGURES: Mapping[str, Any] = {
    "machines": pl.Int64,
    "q": pl.Float64,
    "q_independent": pl.Float64,
    "variance_ratio": pl.Float64,
}


def choose_tasks(samples: UsageSamples, count: int, rng: np.random.Generator) -> Int:
    """Return the indices of `count` random tasks, (count,), without replacement if there are enough."""
    return rng.choice(samples.tasks, count, replace=count > samples.tasks)


def run_packing(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sample an instance and pack it in every case; return machines, m, q and oversized tasks, a list by case each."""
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], INSTANCE, arguments["part"]])
    task_indices = choose_tasks(samples, arguments["tasks"], rng)
    instance = PackingInstance(
        samples.draw(task_indices, arguments["realisations"], rng),
        samples.averaged(arguments["averaged"]).draw(task_indices, arguments["realisations"], rng),
        arguments["capacity"],
        int(rng.integers(2**32)),
    )
    figures_of_cases = [instance.pack(case) for case in cases(arguments["realisations"])]
    return {name: [case_figures[name] for case_figures in figures_of_cases] for name in figures_of_cases[0]}


class PackingInstance:
    """Tasks with their usage by samples and by averages, both (N, K, R), for machines with a capacity, (R,).

    `split_seed`: of the choice of the realisations that a test observes.
    """

    def __init__(self, realisations: Float32, averages: Float32, capacity: Sequence[float], split_seed: int) -> None:
        self._measured = {False: realisations, True: averages}
        """Usage, (N, K, R), by whether it is averaged."""
        self._capacity = np.array(capacity)
        self._seed = split_seed
        self._mean = realisations.mean(axis=1, dtype=np.float64)
        """(N, R) mean usage of each task."""
        self._known: dict[tuple[bool, float], TaskStatistics] = {}
        """Statistics by whether usage is averaged, and share of the observed realisations."""

    def pack(self, case: Case) -> dict[str, float]:
        """Pack the tasks in a case; return machines, m, q on the realisations, and oversized tasks."""
        capacity = case.capacity * self._capacity
        packing = pack(
            self._statistics(case),
            capacity=capacity,
            test=case.test,
            fit=case.fit,
            max_failures=MAX_FAILURES if case.rebalanced else 0,
        )
        realisations = self._measured[False]
        if case.clairvoyance < 1.0:
            realisations = realisations[:, self._split(case.clairvoyance)[1]]
        return {
            "machines": packing.machines,
            "m": normalised_machines(packing.machines, self._mean, capacity=capacity),
            "q": float(overload_by_machine(packing, realisations, capacity=capacity).mean()),
            "oversized": int(packing.oversized.sum()),
        }

    def _statistics(self, case: Case) -> TaskStatistics:
        """Return the statistics of the tasks that the test of a case observes."""
        key = case.averaged, case.clairvoyance
        if key not in self._known:
            observed = self._measured[case.averaged][:, self._split(case.clairvoyance)[0]]
            self._known[key] = observe(observed, PERCENTS if case.clairvoyance == 1.0 else ())
        return self._known[key]

    def _split(self, share: float) -> tuple[Any, Any]:
        """Return the indices of the observed share of the realisations, and of the others, which evaluate packings."""
        if share == 1.0:
            return slice(None), slice(None)
        return split_observations(self._measured[False].shape[1], share, self._seed)


def packings_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a frame with a row for each instance and case, from the rows of the runs."""
    frame_rows = []
    for row in rows:
        plain_cases = [case.described() for case in cases(row["realisations"])]
        for index, case in enumerate(plain_cases):
            figures = {name: row[name][index] for name in ("machines", "m", "q", "oversized")}
            frame_rows.append({"instance": row["part"], **case, **figures})
    return pl.DataFrame(frame_rows, schema=COLUMNS)


def run_simultaneous(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pack all tasks of a period; return, by test, machines, both overloads and the ratio of variances.

    The overloads are of the usage at the same times, and of independent samples.
    """
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], SIMULTANEOUS, arguments["part"]])
    tasks, simultaneous_usage = samples.simultaneous(arguments["part"])
    order = rng.permutation(len(tasks))
    simultaneous_usage = simultaneous_usage[order]
    independent_usage = samples.draw(tasks[order], arguments["realisations"], rng)
    statistics, capacity = observe(simultaneous_usage), np.array(arguments["capacity"])
    independent_variance = Total.of_independent(statistics.mean, statistics.variance).variance
    variance_ratio = np.divide(
        Total.of_realisations(simultaneous_usage).variance,
        independent_variance,
        out=np.ones_like(independent_variance),
        where=independent_variance > 0,
    )
    figures = []
    for test in SIMULTANEOUS_TESTS:
        packing = pack(statistics, capacity=capacity, test=test)
        simultaneous_overload, independent_overload = (
            float(overload_by_machine(packing, usage, capacity=capacity).mean())
            for usage in (simultaneous_usage, independent_usage)
        )
        figures.append([packing.machines, simultaneous_overload, independent_overload, float(variance_ratio.mean())])
    return {"found": figures}


def simultaneous_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a frame with a row for each period and test, from the rows of the runs."""
    frame_rows = [
        {"period": row["part"], "test": test.name, **dict(zip(SIMULTANEOUS_FIGURES, values, strict=True))}
        for row in rows
        for test, values in zip(SIMULTANEOUS_TESTS, row["found"], strict=True)
    ]
    return pl.DataFrame(frame_rows, schema={"period": pl.Int64, "test": pl.String, **SIMULTANEOUS_FIGURES})


PERCENTS_OF_TOTALS = (95.0, 99.0, 99.9)
"""[2] figure 6."""
CRITICAL = 0.752
"""Critical value of the Anderson-Darling statistic, corrected for the number of values, at 5 %: D'Agostino and
Stephens, *Goodness-of-Fit Techniques*, 1986, table 4.7, mean and variance unknown."""


def run_totals(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sample tasks for every size; return how their totals differ from Gaussians.

    A row for each sample and resource: size, index of the resource, whether a Gaussian is rejected, mean in machines,
    and the differences at `PERCENTS_OF_TOTALS`.
    """
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], TOTALS, arguments["part"]])
    realisations = samples.draw(
        choose_tasks(samples, max(arguments["tasks"], SIZES[-1]), rng), arguments["realisations"], rng
    )
    statistics = observe(realisations)
    figures: list[list[Any]] = []
    for size in SIZES:
        for _ in range(arguments["samples"]):
            task_indices = rng.choice(len(realisations), size, replace=False)
            totals = realisations[task_indices].sum(axis=0, dtype=np.float64)
            gaussian = Total.of_independent(statistics.mean[task_indices], statistics.variance[task_indices])
            for resource, capacity in enumerate(arguments["capacity"]):
                differences = _differences(totals[:, resource], gaussian, resource)
                rejected = not is_gaussian(totals[:, resource])
                figures.append([size, resource, rejected, float(gaussian.mean[resource]) / capacity, *differences])
    return {"found": figures}


def _differences(totals: Float, gaussian: Total, resource: int) -> list[float | None]:
    """Return the relative differences of Gaussian from empirical percentiles; None where an empirical one is 0.

    `totals`: (K,) of one resource; `gaussian`: of all resources.
    """
    empirical_percentiles = np.percentile(totals, PERCENTS_OF_TOTALS)
    gaussian_percentiles = [float(gaussian.percentile(percent / 100.0)[resource]) for percent in PERCENTS_OF_TOTALS]
    return [
        (gaussian_value - empirical_value) / empirical_value if empirical_value else None
        for gaussian_value, empirical_value in zip(gaussian_percentiles, empirical_percentiles.tolist(), strict=True)
    ]


def is_gaussian(values: Float) -> bool:
    """Return whether the Anderson-Darling test at 5 % significance does not reject that values, (n,), are Gaussian."""
    count = len(values)
    return bool(anderson_darling(values) * (1.0 + 0.75 / count + 2.25 / count**2) <= CRITICAL)


def anderson_darling(values: Float) -> float:
    """Return the Anderson-Darling statistic of values, (n,), for a Gaussian of unknown mean and variance.

    It is infinite without variance.
    """
    from scipy.special import log_ndtr  # type: ignore[import-untyped]

    count = len(values)
    deviation = float(values.std(ddof=1))
    if not deviation:
        return math.inf
    standardised = (np.sort(values) - values.mean()) / deviation
    weights = np.arange(1, 2 * count, 2)
    return float(-count - np.dot(weights, log_ndtr(standardised) + log_ndtr(-standardised[::-1])) / count)


def totals_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a frame with a row for each sample and resource, from the rows of the runs."""
    names = ["size", "resource", "rejected", "mean", *(f"p{percent:g}" for percent in PERCENTS_OF_TOTALS)]
    types = [pl.Int64, pl.Int64, pl.Boolean, *[pl.Float64] * (len(names) - 3)]
    frame_rows = [
        {"part": row["part"], **dict(zip(names, figures, strict=True)), "resource": row["resources"][figures[1]]}
        for row in rows
        for figures in row["found"]
    ]
    schema = {"part": pl.Int64, **dict(zip(names, types, strict=True)), "resource": pl.String}
    return pl.DataFrame(frame_rows, schema=schema)
