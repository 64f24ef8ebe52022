"""Packs an instance in every case ([2] section 5): machines, and frequency of overload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cluster.studies.gaussian.design import INSTANCE, Case, cases, samples_of
from cluster.studies.runner import Row
from plb.compiler import working_time
from plb.risk.gaussian import (
    MAX_FAILURES,
    PERCENTS,
    TaskStatistics,
    normalised_machines,
    observe,
    overload_by_machine,
    pack,
    split_observations,
)
from workloads.realisations import UsageSamples

Samples = npt.NDArray[np.float32]


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


def choose_tasks(samples: UsageSamples, tasks: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return random tasks; without replacement if there are enough."""
    return rng.choice(samples.tasks, tasks, replace=tasks > samples.tasks)


def run_packing(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sample an instance and pack it in every case; return machines, m, q and oversized tasks by case."""
    began = working_time()
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
    totals = {name: [of_case[name] for of_case in found] for name in found[0]}
    return {"totals": totals, "timings": {"seconds": working_time() - began}}


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

    def __init__(self, realisations: Samples, averages: Samples, capacity: Sequence[float], split_seed: int) -> None:
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
