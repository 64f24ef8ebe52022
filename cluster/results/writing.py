"""Writes the results directory: Parquet tables for each run, a summary without timings, and the timings.

::

    OUT/summary.json      scenario, seed, hash, versions, split of the tenants, totals of every run
    OUT/timings.json      wall-clock seconds of every run and of its slowest plans, without compilation; only this file
                          differs between equal runs
    OUT/columns.json      type and meaning of every column of every table
    OUT/runs/POLICY-REPEAT/TABLE.parquet
    OUT/*.png             plots
    OUT/report.html       written by `plb report`
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from errno import EACCES, EISDIR, ENOSPC, ENOTDIR
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from cluster.errors import ResultsExistError
from cluster.plots.formats import PlotFormat
from cluster.scenario.digests import code_of_tenants_in, digest_of
from cluster.scenario.scenario import Scenario
from cluster.simulation.recorder import RunResult
from cluster.simulation.run_tables import TABLES, column_descriptions, columns_of, extension_terms_of
from cluster.simulation.tenant_pools import Source
from plb import ConflictError, __version__
from workloads.writing import STANDARD_OUTPUT, in_one_piece, write_parquet

LEAST_FREE = 1 << 16
"""Minimum free space of a disk in bytes."""
SUMMARY, TIMINGS, COLUMNS, RUNS, REPORT = "summary.json", "timings.json", "columns.json", "runs", "report.html"
PLOTS = tuple(f"{name}.{suffix}" for name in ("violations", "load", "load_map") for suffix in PlotFormat)
"""Files that `cluster.results.summary_tables` writes."""
PACKAGES = ("attrs", "cattrs", "numba", "numpy", "polars", "scipy", "simpy")


class ResultsFolder:
    """A directory to which the results of runs are written as they end; `force` removes existing results."""

    def __init__(self, folder: Path, scenario: Scenario, source: Source, *, force: bool = False) -> None:
        """Clear the directory and write a summary without runs; `source`: the workload, for the stamp."""
        self.folder = folder
        self._head = stamp(scenario, source)
        """The part of the summary that is known before the runs."""
        self._requested = len(scenario.run.policies) * scenario.run.repeats
        """Number of all runs."""
        self._runs: dict[tuple[str, int], RunResult] = {}
        """The runs so far, by policy and repeat."""
        check_free(folder, force=force)
        _clear(folder)
        folder.mkdir(parents=True, exist_ok=True)
        terms = [term for policy in scenario.run.policies for term in scenario.extension_names("terms", policy)]
        write_json(folder / COLUMNS, column_descriptions(terms))
        self._write_summary()

    def add(self, run: RunResult) -> None:
        """Write the tables of a run, and update the summary."""
        self._runs[run.policy, run.repeat] = run
        folder = self.folder / RUNS / f"{run.policy}-{run.repeat}"
        for name, frame in run.tables.items():
            columns = columns_of(name, extension_terms_of(frame.columns))
            meanings = {f"column.{column}": spec.meaning for column, spec in columns.items()}
            write_parquet(frame, folder / f"{name}.parquet", meanings)
        self._write_summary()

    def _write_summary(self) -> None:
        """Write the summary and the timings of the runs so far."""
        ordered = [self._runs[key] for key in sorted(self._runs)]
        complete = len(ordered) == self._requested and all(run.complete for run in ordered)
        runs = [{"policy": r.policy, "repeat": r.repeat, "complete": r.complete, **r.totals} for r in ordered]
        write_json(self.folder / SUMMARY, {**self._head, "complete": complete, "runs": runs})
        timings = [
            {
                "policy": run.policy,
                "repeat": run.repeat,
                "seconds": run.timings,
                "slowest": [attrs.asdict(plan) for plan in run.slowest],
            }
            for run in ordered
        ]
        write_json(self.folder / TIMINGS, {"runs": timings})


def files_of_results(folder: Path) -> list[Path]:
    """Return the files of a results directory except plots; for tables, the directories of their runs."""
    return [*(folder / name for name in (SUMMARY, TIMINGS, COLUMNS)), *folder.glob(f"{RUNS}/*")]


def check_free(folder: Path, *, force: bool = False, forced: str = "overwrite it") -> None:
    """Raise an error if results cannot be written to a directory, or if it has files, unless `force`.

    `forced`: what ``--force`` does, for the message.
    """
    if folder == STANDARD_OUTPUT:
        raise ConflictError("-: standard output is no directory; give a directory to write to")
    if folder.exists() and (not folder.is_dir() or (not force and any(folder.iterdir()))):
        raise ResultsExistError(folder, forced=forced)
    check_writable(folder)


def check_file(path: Path | None, *, force: bool = True) -> None:
    """Raise an error if a file cannot be written, or exists and is not to be overwritten (`force`).

    Call it before a long run; None is no file.
    """
    if path is None or path == STANDARD_OUTPUT:
        return
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a directory; give the name of a file", str(path))
    if path.is_file() and not force:
        raise ResultsExistError(path, of_directory=False)
    check_writable(path.parent)


def check_outputs(
    inputs: Sequence[Path], outputs: Sequence[Path | None], json: Path | None, *, force: bool = False
) -> None:
    """Raise an error for an output that is unwritable, given twice, read, or there already without `force`.

    `json` is overwritten in any case; outputs that are None are not written.
    """
    full_paths: set[Path] = set()
    for path in (*outputs, json):
        if path is None:
            continue
        full_path = path.resolve()
        for source in inputs if path != STANDARD_OUTPUT else ():
            if source.resolve() in (full_path, full_path.parent):
                conflict = "is read" if source.resolve() == full_path else "is in a directory that is read"
                raise ConflictError(f"{path}: {conflict}; give another file to write to")
        if full_path in full_paths:
            raise ConflictError(f"{path}: is given twice; give a separate file for each output")
        full_paths.add(full_path)
        check_file(path, force=force or path is json)


def check_writable(folder: Path) -> None:
    """Raise `OSError` if a directory, which may not exist yet, is not writable or its disk is full."""
    nearest_existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest_existing.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(nearest_existing))
    if not os.access(nearest_existing, os.W_OK):
        raise PermissionError(EACCES, "cannot be written to", str(nearest_existing))
    if shutil.disk_usage(nearest_existing).free < LEAST_FREE:
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(nearest_existing))


def stamp(scenario: Scenario, source: Source) -> dict[str, Any]:
    """Return the stamp of results: scenario, seed, hash, versions, split of the tenants and units of metrics."""
    return {
        "scenario": scenario.as_json(),
        "scenario_sha256": scenario.digest(),
        "seed": scenario.run.seed,
        "versions": versions(),
        "split": {**source.split, **code_of_tenants_in(scenario.workload.kind)},
        "metrics": {metric.name: metric.unit for metric in source.metrics},
    }


def stamped(
    figures: Mapping[str, Any], configuration: Mapping[str, Any] | str | None, seed: int | None
) -> dict[str, Any]:
    """Return figures with a ``stamp``: seed, versions, and SHA-256 of the configuration, which has all inputs."""
    digest = digest_of(configuration) if isinstance(configuration, Mapping) else configuration
    return {**figures, "stamp": {"seed": seed, "configuration_sha256": digest, "versions": versions()}}


def write_figures(
    path: Path | None, figures: Mapping[str, Any], configuration: Mapping[str, Any] | str | None, seed: int | None
) -> None:
    """Write `stamped` figures as JSON, unless the path is None."""
    if path is not None:
        write_json(path, stamped(figures, configuration, seed))


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python and of the packages that results may depend on, including `more`."""
    version_of = {"python": platform.python_version(), "plb": __version__}
    for package in (*PACKAGES, *more):
        try:
            version_of[package] = version(package)
        except PackageNotFoundError:
            version_of[package] = "not installed"
    return version_of


def json_object(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if there is no such file or no object in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values to a file as JSON, atomically."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text atomically: readers see the old file or the new one."""
    with in_one_piece(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _clear(folder: Path) -> None:
    """Remove the results of an earlier run from a directory; other files stay."""
    tables = [path for name in TABLES for path in (folder / RUNS).glob(f"*/{name}.parquet")]
    for path in [*(folder / name for name in (SUMMARY, TIMINGS, COLUMNS, REPORT, *PLOTS)), *tables]:
        path.unlink(missing_ok=True)
    for run_folder in [*{path.parent for path in tables}, folder / RUNS]:
        if run_folder.is_dir() and not any(run_folder.iterdir()):
            run_folder.rmdir()
