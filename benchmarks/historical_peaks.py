"""Historical simulation as a peak predictor once it has a past: four weeks of region 1, and the Google sample.

Steps of the first week are predicted, but do not count: historical simulation keeps a week. `plb study peaks` counts
them in figure 10. The table has medians over machines, against the largest usage of the following day.

    python benchmarks/historical_peaks.py ../shared/data/google2019_instances       # 100 seconds of CPU, 0.9 GB
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import attrs
import numpy as np

from cluster.studies.peaks.panels import Family
from plb.risk.peaks import Maximum, PredictorOrOracle, TaskSamples, machine_metrics, predict
from workloads.regions import REGIONS
from workloads.task_samples import MICROSECONDS, cell_of_region, read_cell

MACHINES, DAYS = 100, 28.0
WEEK = 7 * 24 * 3600 * MICROSECONDS
PERCENTILES = (50.0, 90.0, 100.0)


def compared(family: Family) -> Mapping[str, PredictorOrOracle]:
    """Return the predictors by name."""
    past = family.past()
    found = {**family.compared(), "n-sigma:n=10": family.sigma(n=10.0)}
    for percentile in PERCENTILES:
        found[f"{past.kind}:percentile={percentile:g}"] = attrs.evolve(past, percentile=percentile)
    found[f"{past.kind}:persistence=0"] = attrs.evolve(past, persistence=0.0)
    return {**found, f"max({past.kind};n-sigma)": Maximum((past, family.sigma()))}


def show(name: str, samples: TaskSamples) -> None:
    """Print the medians of each predictor in a cell."""
    family = Family(samples.step)
    predictors = compared(family)
    found = predict(samples, [*predictors.values(), family.oracle()], threads=1)
    later = found.time >= found.time.min() + WEEK
    print(f"{name}: {len(samples):,} samples\n{'':36} {'violation rate':>14} {'severity':>9} {'savings':>9}")
    for predictor, peak in zip(predictors, found.peak, strict=False):
        metrics = machine_metrics(found.machine[later], found.limit[later], peak[later], found.peak[-1][later])
        medians = [float(np.median(one)) for one in (metrics.violation_rate, metrics.violation_severity)]
        saved = float(np.median(metrics.savings))
        print(f"{predictor:36} {medians[0]:14.1%} {medians[1]:9.1%} {saved:9.1%}")


def main(google: str) -> None:
    """Print a table for each cell."""
    show("region1", cell_of_region(REGIONS["region1"], machines=MACHINES, days=DAYS, seed=0).samples)
    show("Google sample", read_cell(google).samples)


if __name__ == "__main__":
    main(sys.argv[1])
