"""Figures of two versions on the same tenants: the paired difference of each policy, with its 95 % interval.

Both directories hold results of `plb simulate --repeats N`, or of a study of policies, under the same names, one of
each version; results at the top are taken as well. Repeats are paired by their tenants: results with other seeds or
tenants are refused. What only one version has is named on standard error. A repeat of a study has the means over its
settings.

    plb simulate examples/quickstart.toml --repeats 10 --out before/quickstart     # in a checkout of one version
    plb simulate examples/quickstart.toml --repeats 10 --out after/quickstart      # in a checkout of the other
    python benchmarks/paired_runs.py before after

    plb study annealing --quick --repeats 10 --out before/figure8
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from cluster.results.reading import Results
from cluster.results.recorded_run import why_other_tenants

FIGURES = ("violations", "failovers", "moves", "placement_failures")
CONFIDENCE = 0.95
SUMMARY, RUNS = "summary.json", "runs.parquet"
"""Files with the figures of the runs of a simulation, and of a study."""
STUDY = "study.json"
"""File with the seed of a study."""
TENANTS = "tenants"
"""Number of the tenants of a run, in files that have it."""


def results_in(directory: Path) -> Iterator[Path]:
    """Yield the results directories in a directory, in order."""
    yield from sorted({path.parent for name in (SUMMARY, RUNS) for path in directory.rglob(name)})


def figures_of(directory: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Return the figures of the runs in a results directory, by policy and repeat."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    if (directory / RUNS).exists():
        table = pl.read_parquet(directory / RUNS)
        names = [name for name in (*FIGURES, TENANTS) if name in table.columns]
        runs = table.group_by("arm", "repeat").agg(pl.col(*names).mean())
        for run in runs.sort("arm", "repeat").iter_rows(named=True):
            found.setdefault(run["arm"], {})[run["repeat"]] = {name: float(run[name]) for name in names}
        return found
    for run in json.loads((directory / SUMMARY).read_text())["runs"]:
        figures = {name: float(run[name]) for name in (*FIGURES, TENANTS) if name in run}
        found.setdefault(run["policy"], {})[run["repeat"]] = figures
    return found


def why_no_pairs(before: Path, after: Path) -> str:
    """Return why the repeats of two results directories have other tenants; empty if nothing speaks against it."""
    heads: list[dict[str, Any]] = []
    for directory in (before, after):
        files = [directory / name for name in (STUDY, SUMMARY) if (directory / name).exists()]
        heads.append(json.loads(files[0].read_text()) if files else {})
    one, two = heads
    if one.get("seed") != two.get("seed"):
        return f"the seed was {one.get('seed')} before and is {two.get('seed')} after"
    if all("scenario" in head and "runs" in head for head in heads):
        return why_other_tenants(
            *(Results(path, head, {}, ()) for path, head in zip((before, after), heads, strict=True))
        )
    return ""


def pairs_of(name: str, policy: str, one: dict[int, dict[str, float]], two: dict[int, dict[str, float]]) -> list[int]:
    """Return the repeats of a policy that both versions have; say on standard error which only one has.

    Raises
    ------
    SystemExit
        If a repeat has another number of tenants.
    """
    for repeats, version in ((one.keys() - two.keys(), "before"), (two.keys() - one.keys(), "after")):
        if repeats:
            listed = ", ".join(map(str, sorted(repeats)))
            print(f"{name}, {policy}: repeat {listed} only {version}, left out", file=sys.stderr)
    both = sorted(one.keys() & two.keys())
    for repeat in both:
        tenants = one[repeat].get(TENANTS), two[repeat].get(TENANTS)
        if tenants[0] != tenants[1]:
            numbers = f"{tenants[0]} before and {tenants[1]} after"
            raise SystemExit(f"{name}, {policy}: repeat {repeat} has other tenants, {numbers}")
    if not both:
        print(f"{name}, {policy}: no repeat in both versions", file=sys.stderr)
    return both


def difference(before: list[float], after: list[float]) -> tuple[float, float]:
    """Return the mean of the differences, and half the width of its interval by Student's t; 0 for equal pairs."""
    differences = np.subtract(after, before)
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else float("nan")
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1)) if len(differences) > 1 else float("nan")
    return float(differences.mean()), quantile * spread / len(differences) ** 0.5


def lines_of(name: str, before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each policy and figure of a scenario that both versions have run.

    Raises
    ------
    SystemExit
        If the two versions had other tenants.
    """
    if why := why_no_pairs(before, after):
        raise SystemExit(f"{name}: the runs are no pairs: {why}")
    one, two = figures_of(before), figures_of(after)
    for these, those, version in ((one, two, "before"), (two, one, "after")):
        for policy in (policy for policy in these if policy not in those):
            print(f"{name}, {policy}: only {version}, left out", file=sys.stderr)
    for policy in (policy for policy in one if policy in two):
        repeats = pairs_of(name, policy, one[policy], two[policy])
        for figure in FIGURES if repeats else ():
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
    before, after = ({one.relative_to(folder) for one in results_in(folder)} for folder in (given.before, given.after))
    for names, version in ((before - after, "before"), (after - before, "after")):
        for name in sorted(names):
            print(f"{name}: only {version}, left out", file=sys.stderr)
    found = 0
    for name in sorted(before & after):
        for line in lines_of(str(name), given.before / name, given.after / name):
            print(line)
            found += 1
    if not found:
        raise SystemExit("no run is in both directories")


if __name__ == "__main__":
    main()
