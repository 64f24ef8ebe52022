"""Figures of two versions on the same tenants: the paired difference of each policy, with its 95 % interval.

Both directories hold results of `plb simulate --repeats N`, or of a study of policies, under the same names, one of
each version; results at the top are taken as well. Repeats are paired by their tenants. A repeat of a study has the
means over its settings.

    plb simulate examples/quickstart.toml --repeats 10 --out before/quickstart     # in a checkout of one version
    plb simulate examples/quickstart.toml --repeats 10 --out after/quickstart      # in a checkout of the other
    python benchmarks/paired_runs.py before after

    plb study annealing --quick --repeats 10 --out before/figure8
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

FIGURES = ("violations", "failovers", "moves", "placement_failures")
CONFIDENCE = 0.95
SUMMARY, RUNS = "summary.json", "runs.parquet"
"""Files with the figures of the runs of a simulation, and of a study."""


def results_in(directory: Path) -> Iterator[Path]:
    """Yield the results directories in a directory, in order."""
    yield from sorted({path.parent for name in (SUMMARY, RUNS) for path in directory.rglob(name)})


def figures_of(directory: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Return the figures of the runs in a results directory, by policy and repeat."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    if (directory / RUNS).exists():
        runs = pl.read_parquet(directory / RUNS).group_by("arm", "repeat").agg(pl.col(*FIGURES).mean())
        for run in runs.sort("arm", "repeat").iter_rows(named=True):
            found.setdefault(run["arm"], {})[run["repeat"]] = {name: float(run[name]) for name in FIGURES}
        return found
    for run in json.loads((directory / SUMMARY).read_text())["runs"]:
        found.setdefault(run["policy"], {})[run["repeat"]] = {name: float(run[name]) for name in FIGURES}
    return found


def difference(before: list[float], after: list[float]) -> tuple[float, float]:
    """Return the mean of the differences, and half the width of its interval by Student's t; 0 for equal pairs."""
    differences = np.subtract(after, before)
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else float("nan")
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1)) if len(differences) > 1 else float("nan")
    return float(differences.mean()), quantile * spread / len(differences) ** 0.5


def lines_of(name: str, before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each policy and figure of a scenario that both versions have run."""
    one, two = figures_of(before), figures_of(after)
    for policy in (policy for policy in one if policy in two):
        repeats = sorted(one[policy].keys() & two[policy].keys())
        for figure in FIGURES:
            pair = [[of[policy][repeat][figure] for repeat in repeats] for of in (one, two)]
            mean, half = difference(*pair)
            values = f"{np.mean(pair[0]):9.1f} {np.mean(pair[1]):9.1f} {mean:+9.2f} ± {half:.2f}"
            yield f"{name:<18} {policy:<18} {figure:<18} {len(repeats):>3} {values}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Paired differences of the figures of two versions")
    parser.add_argument("before", type=Path, help="directory with results of one version")
    parser.add_argument("after", type=Path, help="directory with results of the other")
    given = parser.parse_args()
    head = ("scenario", "policy", "figure", "n", "before", "after", "difference")
    print(f"{head[0]:<18} {head[1]:<18} {head[2]:<18} {head[3]:>3} {head[4]:>9} {head[5]:>9} {head[6]:>9}")
    after = {one.relative_to(given.after) for one in results_in(given.after)}
    for directory in results_in(given.before):
        name = directory.relative_to(given.before)
        if name in after:
            for line in lines_of(str(name), directory, given.after / name):
                print(line)


if __name__ == "__main__":
    main()
