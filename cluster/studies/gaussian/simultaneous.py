"""The effect of independence: the tasks of one period, packed by their statistics, with their usage at the same times.

[2] section 2 assumes that tasks are independent, and its evaluation samples the realisations of each task
independently. Here the same packing is also evaluated on the usage of the tasks at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.studies.gaussian.design import GPAS, MEANS, SIMULTANEOUS, samples_of
from cluster.studies.runner import Row
from plb.compiler import working_time
from plb.risk.gaussian import FitTest, Total, observe, overload_by_machine, pack

TESTS: tuple[FitTest, ...] = (*GPAS, *MEANS)
FIGURES: Mapping[str, Any] = {
    "machines": pl.Int64,
    "q": pl.Float64,
    "q_independent": pl.Float64,
    "variance_ratio": pl.Float64,
}


def run_simultaneous(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pack all tasks of a period; return by test the overload at the same times, and with independent samples."""
    began = working_time()
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
    for test in TESTS:
        packing = pack(known, capacity=capacity, test=test)
        simultaneous, sampled = (
            float(overload_by_machine(packing, usage, capacity=capacity).mean()) for usage in (together, independent)
        )
        found.append([packing.machines, simultaneous, sampled, float(ratio.mean())])
    return {"totals": {"found": found}, "timings": {"seconds": working_time() - began}}


def simultaneous_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a row for each period and test."""
    found = [
        {"period": row["part"], "test": test.name, **dict(zip(FIGURES, values, strict=True))}
        for row in rows
        for test, values in zip(TESTS, row["found"], strict=True)
    ]
    return pl.DataFrame(found, schema={"period": pl.Int64, "test": pl.String, **FIGURES})
