"""Peak predictors with a week of past: four weeks of region 1, and the Google sample; docs/data/historical-peaks.json.

Steps of the first week are predicted, but do not count: historical simulation keeps a week. `plb study peaks` counts
them in figure 10. The figures are medians over machines, against the largest usage of the following day.

    python benchmarks/historical_peaks.py ../shared/data/google2019_instances       # 3 minutes, 0.9 GB
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import attrs
import numpy as np

from cluster.results.writing import stamped, write_json
from cluster.studies.peaks.panels import Family
from cluster.studies.publication import path_of, processor
from plb.risk.peaks import Maximum, PredictorOrOracle, TaskSamples, machine_metrics, predict
from workloads.regions import REGIONS
from workloads.task_samples import MICROSECONDS, cell_of_region, read_cell

MACHINES, DAYS = 100, 28.0
WEEK = 7 * 24 * 3600 * MICROSECONDS
PERCENTILES = (50.0, 90.0, 100.0)
METRICS = ("violation_rate", "violation_severity", "savings")


def compared(family: Family) -> Mapping[str, PredictorOrOracle]:
    """Return the predictors by name."""
    past = family.past()
    found = {**family.compared(), "n-sigma:n=10": family.sigma(n=10.0)}
    for percentile in PERCENTILES:
        found[f"{past.kind}:percentile={percentile:g}"] = attrs.evolve(past, percentile=percentile)
    found[f"{past.kind}:persistence=0"] = attrs.evolve(past, persistence=0.0)
    return {**found, f"max({past.kind};n-sigma)": Maximum((past, family.sigma()))}


def medians(samples: TaskSamples) -> dict[str, dict[str, float]]:
    """Return the medians of each predictor in a cell, by its name."""
    family = Family(samples.step)
    predictors = compared(family)
    found = predict(samples, [*predictors.values(), family.oracle()], threads=1)
    later = found.time >= found.time.min() + WEEK
    figures = {}
    for predictor, peak in zip(predictors, found.peak, strict=False):
        metrics = machine_metrics(found.machine[later], found.limit[later], peak[later], found.peak[-1][later])
        figures[predictor] = {name: float(np.median(getattr(metrics, name))) for name in METRICS}
    return figures


def main(google: str) -> None:
    """Write the figures of both cells."""
    cells = {
        "region1": medians(cell_of_region(REGIONS["region1"], machines=MACHINES, days=DAYS, seed=0).samples),
        "google2019": medians(read_cell(google).samples),
    }
    run = {
        "command": f"python benchmarks/historical_peaks.py {google}",
        "repeats": None,
        "runs": len(cells),
        "cpu_seconds": round(time.process_time(), 1),
        "processor": processor(),
    }
    write_json(path_of("historical-peaks", None), {**stamped({"cells": cells}, None, seed=0), "run": run})


if __name__ == "__main__":
    main(sys.argv[1])
