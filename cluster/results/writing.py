"""The results directory: a folder of Parquet tables a run, a summary free of timings, and the timings apart.

::

    OUT/summary.json      scenario, seed, hash, versions, split of the tenants, totals of every run
    OUT/timings.json      wall-clock seconds of every run and of its slowest plans, without compilation; all that
                          differs between equal runs
    OUT/columns.json      type and meaning of every column of every table
    OUT/runs/POLICY-REPEAT/TABLE.parquet
    OUT/*.png             plots
    OUT/report.html       what `plb report` wrote, if it was asked to
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
from cluster.plots.saved import PLOTS
from cluster.scenario.digests import digest_of
from cluster.scenario.scenario import Scenario
from cluster.simulation.pools import Source
from cluster.simulation.record import RunResult
from cluster.simulation.run_tables import TABLES, column_descriptions, columns_of
from plb import ConflictError
from workloads.writing import in_one_piece, write_parquet

LEAST_FREE = 1 << 16
"""Bytes that a disk must have left for anything to begin."""
SUMMARY, TIMINGS, COLUMNS, RUNS, REPORT = "summary.json", "timings.json", "columns.json", "runs", "report.html"
PACKAGES = ("plb", "attrs", "cattrs", "numba", "numpy", "polars", "simpy")


class ResultsFolder:
    """A directory that takes the results of runs as they end.

    Parameters
    ----------
    folder
        The directory; made where it is missing.
    scenario, source
        What is run.
    force
        True: results that are there already are removed.

    Raises
    ------
    ResultsExistError
        The directory holds files and `force` is False.
    """

    def __init__(self, folder: Path, scenario: Scenario, source: Source, *, force: bool = False) -> None:
        self.folder = folder
        self._head = stamp(scenario, source)
        self._requested = len(scenario.run.policies) * scenario.run.repeats
        self._runs: dict[tuple[str, int], RunResult] = {}
        check_free(folder, force=force)
        _clear(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / COLUMNS, column_descriptions())
        self._write_summary()

    def add(self, run: RunResult) -> None:
        """Write the tables of a run, and the summary with it."""
        self._runs[run.policy, run.repeat] = run
        folder = self.folder / RUNS / f"{run.policy}-{run.repeat}"
        for name, frame in run.tables.items():
            meanings = {f"column.{column}": spec.meaning for column, spec in columns_of(name).items()}
            write_parquet(frame, folder / f"{name}.parquet", meanings)
        self._write_summary()

    def _write_summary(self) -> None:
        ordered = [self._runs[key] for key in sorted(self._runs)]
        complete = len(ordered) == self._requested and all(run.complete for run in ordered)
        runs = [{"policy": r.policy, "repeat": r.repeat, "complete": r.complete, **r.totals} for r in ordered]
        write_json(self.folder / SUMMARY, {**self._head, "complete": complete, "runs": runs})
        timings = [
            {
                "policy": run.policy,
                "repeat": run.repeat,
                "seconds": run.timings,
                "slowest": [attrs.asdict(one) for one in run.slowest],
            }
            for run in ordered
        ]
        write_json(self.folder / TIMINGS, {"runs": timings})


def files_of_results(folder: Path) -> list[Path]:
    """Return the files of a results directory beside its pictures: tables by the directories of their runs."""
    return [*(folder / name for name in (SUMMARY, TIMINGS, COLUMNS)), *folder.glob(f"{RUNS}/*")]


def check_free(folder: Path, *, force: bool = False, forced: str = "overwrite it") -> None:
    """Raise an error if a directory cannot take results.

    Parameters
    ----------
    folder
        The directory.
    force
        Whether it may hold files.
    forced
        What the command does then, for the message.

    Raises
    ------
    ResultsExistError
        It holds files and may not be overwritten, or is no directory.
    OSError
        It cannot be written to.
    """
    if folder.exists() and (not folder.is_dir() or (not force and any(folder.iterdir()))):
        raise ResultsExistError(folder, forced=forced)
    check_writable(folder)


def check_file(path: Path | None, *, force: bool = True) -> None:
    """Raise `OSError` if a file cannot be written at this place; better before a long run than after it.

    Parameters
    ----------
    path
        The file; None: none is wanted.
    force
        False: one that is there already may not be overwritten, which is a `ResultsExistError`.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a directory; give the name of a file", str(path))
    if path.is_file() and not force:
        raise ResultsExistError(path, of_directory=False)
    check_writable(path.parent)


def check_outputs(
    inputs: Sequence[Path], outputs: Sequence[Path | None], json: Path | None, *, force: bool = False
) -> None:
    """Raise an error if a file cannot be written, is given twice, or is read or lies in a directory that is.

    Parameters
    ----------
    inputs
        What is read.
    outputs
        Files that are written; None: not wanted. Without `force` none of them may be there already.
    json
        Takes the figures, and may be there.
    force
        Whether files may be overwritten.
    """
    seen: set[Path] = set()
    for path in (*outputs, json):
        if path is None:
            continue
        whole = path.resolve()
        for one in inputs:
            if one.resolve() in (whole, whole.parent):
                what = "is read" if one.resolve() == whole else "is in a directory that is read"
                raise ConflictError(f"{path}: {what}; give another file to write to")
        if whole in seen:
            raise ConflictError(f"{path}: is given twice; give a file of its own for each")
        seen.add(whole)
        check_file(path, force=force or path is json)


def check_writable(folder: Path) -> None:
    """Raise `OSError` if no file can be written to a directory, which may be missing: no right to, or no room."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(nearest))
    if not os.access(nearest, os.W_OK):
        raise PermissionError(EACCES, "cannot be written to", str(nearest))
    if shutil.disk_usage(nearest).free < LEAST_FREE:
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(nearest))


def stamp(scenario: Scenario, source: Source) -> dict[str, Any]:
    """Return what results are stamped with: scenario, seed, hash, versions and the split of the tenants."""
    return {
        "scenario": scenario.as_json(),
        "scenario_sha256": scenario.digest(),
        "seed": scenario.run.seed,
        "versions": versions(),
        "split": dict(source.split),
        "metrics": {metric.name: metric.unit for metric in source.metrics},
    }


def stamped(
    figures: Mapping[str, Any], configuration: Mapping[str, Any] | str | None, seed: int | None
) -> dict[str, Any]:
    """Return figures with what they were made with under ``stamp``: seed, SHA-256 of the configuration, versions.

    Parameters
    ----------
    figures
        Plain JSON values.
    configuration
        All that they depend on, plain JSON values, or its SHA-256; None: nothing.
    seed
        Of all that is random; None: nothing is.
    """
    digest = digest_of(configuration) if isinstance(configuration, Mapping) else configuration
    return {**figures, "stamp": {"seed": seed, "configuration_sha256": digest, "versions": versions()}}


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python and of the packages that results may depend on, those of `more` among them."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def json_object(path: Path) -> dict[str, Any] | None:
    """Return the object that a JSON file holds; None where there is no such file, or something else in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as JSON, as `write_text` does."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text in one piece: a reader sees the old file or the new one, never half of one."""
    with in_one_piece(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _clear(folder: Path) -> None:
    """Remove the results of an earlier run; whatever else is in the directory stays."""
    tables = [path for name in TABLES for path in (folder / RUNS).glob(f"*/{name}.parquet")]
    plots = [folder / f"{name}.png" for name in PLOTS]
    for path in [*(folder / name for name in (SUMMARY, TIMINGS, COLUMNS, REPORT)), *plots, *tables]:
        path.unlink(missing_ok=True)
    for emptied in [*{path.parent for path in tables}, folder / RUNS]:
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()
