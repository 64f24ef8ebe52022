"""Cells of machines with tasks on them, for peak prediction: of a synthetic region, or of a public trace.

A cell has a name and samples of tasks, with times in microseconds.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import polars as pl

from plb.array_types import Float, Int
from plb.risk.peaks import TaskSamples
from plb.risk.peaks.samples import STEP_SECONDS as GOOGLE_STEP_SECONDS
from plb.validation import check_count, check_number
from workloads.column_checks import Checker
from workloads.region_parameters import RegionParameters
from workloads.regions import CHUNK, generate
from workloads.task_samples import MICROSECONDS, read_task_samples
from workloads.trace import DAY_SECONDS, STEP_SECONDS, per_row

TASKS = 30
"""On a machine of a synthetic cell; "a single machine typically hosts dozens of tasks" ([5] section 2.1)."""
GOOGLE_FILE = "google2019_instance_usage_sample.parquet"
GOOGLE_MACHINES = 4
"""The sample has 44 instances of four jobs, mostly alone on a machine; they are dealt out among few instead."""


@attrs.frozen(eq=False)
class Cell:
    """Machines and the samples of their tasks."""

    name: str
    """Its name."""
    samples: TaskSamples
    """With times and step in microseconds."""


def cell_of_region(region: RegionParameters, *, machines: int, days: float, seed: int) -> Cell:
    """Return a cell whose tasks are replicas of the tenants of a region: their CPU, and the maximum of their class.

    Every machine has `TASKS` places. The lives of the replicas are laid end to end, and that tape is cut into the
    places, so tasks come and go at all times and are of every age at the beginning.
    """
    check_count("cell", "machines", machines, low=1)
    check_number("cell", "days", days, low=STEP_SECONDS / DAY_SECONDS)
    steps, step = round(days * DAY_SECONDS / STEP_SECONDS), round(STEP_SECONDS * MICROSECONDS)
    length = machines * TASKS * steps
    usage, limit, life = _tape(region, length, seed)
    place = np.arange(length) // steps
    new = np.diff(life, prepend=-1) != 0
    new[::steps] = True  # the rest of a life that is cut is another task
    samples = TaskSamples.from_columns(
        machine=place // TASKS,
        task=np.cumsum(new),
        time=np.arange(length) % steps * step,
        usage=usage,
        limit=limit,
        step=step,
    )
    return Cell(region.name, samples)


def _tape(region: RegionParameters, length: int, seed: int) -> tuple[Float, Float, Int]:
    """Return usage, limit and life of a number of samples, life after life."""
    usage, limit, lives = [], [], []
    first = found = 0
    while found < length:
        traces = generate(region, CHUNK, seed, first)
        cpu = traces.metric_names.index("cpu")
        usage.append(traces.values[:, cpu])
        limit.append(per_row(traces.max_usage[traces.series_tenant, cpu], traces.series_start))
        lives.append(per_row(np.arange(len(traces.series_tenant)) + 2 * first, traces.series_start))
        first, found = first + CHUNK, found + len(usage[-1])
    of_all = (np.concatenate(column)[:length] for column in (usage, limit, lives))
    used, allowed, life = of_all
    return used.astype(np.float64), allowed.astype(np.float64), life


def read_cell(path: str | Path, *, seed: int = 0) -> Cell:
    """Return the cell in a file, whose step is the usual distance of its samples, or of Google's sample in a folder."""
    folder = Path(path)
    if (folder / GOOGLE_FILE).is_file():
        return Cell("google2019", read_google(folder, machines=GOOGLE_MACHINES, seed=seed))
    samples = read_task_samples(path).samples
    apart, counts = np.unique(np.diff(samples.time)[np.diff(samples.task) == 0], return_counts=True)
    usual = [(count, step) for step, count in zip(apart.tolist(), counts.tolist(), strict=True) if step > 0]
    return Cell(folder.stem, attrs.evolve(samples, step=max(usual)[1]) if usual else samples)


def read_google(folder: str | Path, *, machines: int, seed: int) -> TaskSamples:
    """Return the sample of instances of the Google 2019 trace, dealt out at random among machines.

    As in the simulator of [5]: times are floored to five minutes, usage is the 90th percentile of CPU within a sample,
    and the largest of a step. Samples without a usage, -1, are left out.
    """
    path = Path(folder) / GOOGLE_FILE
    step = GOOGLE_STEP_SECONDS * MICROSECONDS
    task = pl.struct("collection_id", "instance_index").rank("dense").cast(pl.Int64).alias("task")
    usage, limit = pl.col("p90_cpu_usage").max().cast(pl.Float64), pl.col("cpu_limit").max().cast(pl.Float64)
    check = Checker(path)
    requested = ("time", "p90_cpu_usage", "cpu_limit", "collection_id", "instance_index")
    check.columns(check.collect(pl.scan_parquet(path, glob=False).head(0)), dict.fromkeys(requested, "number"))
    check.raise_problems()
    rows = check.collect(
        pl.scan_parquet(path, glob=False)
        .select("time", "p90_cpu_usage", "cpu_limit", task)
        .filter(pl.col("p90_cpu_usage") >= 0.0)
        .group_by("task", pl.col("time") // step * step)
        .agg(usage, limit)
        .sort("task", "time")
    )
    if not len(rows):
        check.refuse("no sample with a usage", "at least one")
    tasks = rows["task"].to_numpy()
    machine = np.random.default_rng(seed).integers(0, machines, tasks.max() + 1)
    return TaskSamples.from_columns(
        machine=machine[tasks],
        task=tasks,
        time=rows["time"].to_numpy(),
        usage=rows["p90_cpu_usage"].to_numpy(),
        limit=rows["cpu_limit"].to_numpy(),
        step=step,
    )
