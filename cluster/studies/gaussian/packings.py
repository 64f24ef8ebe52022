"""Packings of an instance in every case ([2] section 5), and of the tasks of a period: machines and overload.

[2] section 2 assumes that tasks are independent, and its evaluation samples the realisations of each task
independently. The tasks of a period are packed by their statistics, and the packing is evaluated on such samples and on
their usage at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.studies.gaussian.design import GPAS, INSTANCE, MEANS, SIMULTANEOUS, Case, cases, samples_of
from cluster.studies.runner import Row
from plb.array_types import Float32, Int
from plb.risk.gaussian import (
    MAX_FAILURES,
    PERCENTS,
    FitTest,
    TaskStatistics,
    Total,
    normalised_machines,
    observe,
    overload_by_machine,
    pack,
    split_observations,
)
from workloads.realisations import UsageSamples

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


def choose_tasks(samples: UsageSamples, tasks: int, rng: np.random.Generator) -> Int:
    """Return random tasks; without replacement if there are enough."""
    return rng.choice(samples.tasks, tasks, replace=tasks > samples.tasks)


def run_packing(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sample an instance and pack it in every case; return machines, m, q and oversized tasks by case."""
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], INSTANCE, arguments["part"]])
    chosen = choose_tasks(samples, arguments["tasks"], rng)
    instance = PackingInstance(
        samples.draw(chosen, arguments["realisations"], rng),
        samples.averaged(arguments["averaged"]).draw(chosen, arguments["realisations"], rng),
        arguments["capacity"],
        int(rng.integers(2**32)),
    )
    found = [instance.pack(case) for case in cases(arguments["realisations"])]
    return {name: [of_case[name] for of_case in found] for name in found[0]}


class PackingInstance:
    """Tasks that are packed in several ways.

    Parameters
    ----------
    realisations
        Usage of the tasks, (N, K, R).
    averages
        Usage by the coarser measurement, (N, K, R).
    capacity
        Capacity of a machine, (R,).
    split_seed
        Seed of the splits into observed and evaluated realisations.
    """

    def __init__(self, realisations: Float32, averages: Float32, capacity: Sequence[float], split_seed: int) -> None:
        self._measured = {False: realisations, True: averages}
        self._capacity = np.array(capacity)
        self._seed = split_seed
        self._mean = realisations.mean(axis=1, dtype=np.float64)
        self._known: dict[tuple[bool, float], TaskStatistics] = {}

    def pack(self, case: Case) -> dict[str, float]:
        """Pack the tasks and evaluate the packing on the realisations."""
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
        key = case.averaged, case.clairvoyance
        if key not in self._known:
            observed = self._measured[case.averaged][:, self._split(case.clairvoyance)[0]]
            self._known[key] = observe(observed, PERCENTS if case.clairvoyance == 1.0 else ())
        return self._known[key]

    def _split(self, share: float) -> tuple[Any, Any]:
        if share == 1.0:
            return slice(None), slice(None)
        return split_observations(self._measured[False].shape[1], share, self._seed)


def packings_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a row for each instance and case."""
    found = []
    for row in rows:
        described = [case.described() for case in cases(row["realisations"])]
        for index, case in enumerate(described):
            values = {name: row[name][index] for name in ("machines", "m", "q", "oversized")}
            found.append({"instance": row["part"], **case, **values})
    return pl.DataFrame(found, schema=COLUMNS)


def run_simultaneous(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pack all tasks of a period; return by test the overload at the same times, and with independent samples."""
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], SIMULTANEOUS, arguments["part"]])
    tasks, together = samples.simultaneous(arguments["part"])
    order = rng.permutation(len(tasks))
    together = together[order]
    independent = samples.draw(tasks[order], arguments["realisations"], rng)
    known, capacity = observe(together), np.array(arguments["capacity"])
    apart = Total.of_independent(known.mean, known.variance).variance
    ratio = np.divide(Total.of_realisations(together).variance, apart, out=np.ones_like(apart), where=apart > 0)
    found = []
    for test in SIMULTANEOUS_TESTS:
        packing = pack(known, capacity=capacity, test=test)
        simultaneous, sampled = (
            float(overload_by_machine(packing, usage, capacity=capacity).mean()) for usage in (together, independent)
        )
        found.append([packing.machines, simultaneous, sampled, float(ratio.mean())])
    return {"found": found}


def simultaneous_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a row for each period and test."""
    found = [
        {"period": row["part"], "test": test.name, **dict(zip(SIMULTANEOUS_FIGURES, values, strict=True))}
        for row in rows
        for test, values in zip(SIMULTANEOUS_TESTS, row["found"], strict=True)
    ]
    return pl.DataFrame(found, schema={"period": pl.Int64, "test": pl.String, **SIMULTANEOUS_FIGURES})
