"""The formats of this project: a trace is two Parquet files in one directory, a demand history is one.

``traces.parquet`` has one row a sample and columns ``tenant``, ``tenant_class``, ``role`` (primary, secondary or
instance), ``time_s`` (seconds since the replica's creation: 0, one step, two steps ...) and one column a metric. The
rows of a series (a tenant and role) are consecutive, in the order of time, without gaps.

``tenants.parquet`` has one row a tenant and columns ``tenant``, ``tenant_class``, ``replicas``, ``lifetime_s``,
``censored``, ``max_<metric>`` for each metric and, where tenants form families, ``family`` (a whole number); where it
is known when they began, ``start_s`` (seconds).

A demand history has one row a past trace and columns ``tenant_class``, ``role``, ``lifetime_s``, ``censored``, and for
each metric ``level_<metric>``, ``initial_<metric>``, ``growth_s_<metric>`` and ``maximum_<metric>`` ([1] section 5.3;
see `plb.risk.demand_history`).

Units, trends, sampling step, format version and provenance are in the key-value metadata of the files
(`workloads.trace_validation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from plb.errors import PlbError
from plb.risk.demand_history import DemandHistory
from workloads.column_checks import Checker
from workloads.trace import STEP_SECONDS, MetricInfo, TraceSet, per_row, step_of_row
from workloads.trace_validation import ROLES, Header, SeriesTable, check_samples, check_tenants, read_header
from workloads.writing import write_parquet

TRACES_FILE, TENANTS_FILE = "traces.parquet", "tenants.parquet"
"""Names of the files of a trace."""
MATRICES = {"level": "level_", "initial": "initial_", "growth": "growth_s_", "maximum": "maximum_"}
"""The fields of `DemandHistory` by metric, each with the prefix of its columns."""
BATCH_ROWS = 100_000
"""Rows that `check_traces` holds at a time."""


def holds_traces(folder: str | Path) -> bool:
    """Return whether a directory holds traces in this project's format, by the names of its files."""
    return Path(folder, TRACES_FILE).is_file()


def write_traces(traces: TraceSet, path: str | Path, provenance: Mapping[str, Any] | None = None) -> None:
    """Write a trace set and its provenance (any JSON object) into a directory, which is made where it is missing."""
    folder = Path(path)
    for name, kind, frame in (
        (TRACES_FILE, "traces", samples_frame(traces)),
        (TENANTS_FILE, "tenants", tenants_frame(traces)),
    ):
        header = Header(
            kind=kind, metrics=traces.metrics, step_seconds=traces.step_seconds, provenance=provenance or {}
        )
        write_parquet(frame, folder / name, header.metadata())


def read_traces(path: str | Path) -> TraceSet:
    """Read a trace set from a directory.

    Raise `TraceError` with file, row (from 1), column and what was expected, for all problems of a file. Nothing is
    dropped or repaired silently.
    """
    folder = Path(path)
    header, tenants = _checked_tenants(folder)
    samples = Checker(folder / TRACES_FILE).read()
    series = check_samples([samples], tenants, header, folder / TRACES_FILE)
    return _trace_set(header, tenants, samples, series)


def check_traces(path: str | Path) -> tuple[Header, pl.DataFrame]:
    """Check the traces in a directory as `read_traces` does, as a stream; return their header and the tenants table."""
    folder = Path(path)
    header, tenants = _checked_tenants(folder)
    check_samples(Checker(folder / TRACES_FILE).batches(BATCH_ROWS), tenants, header, folder / TRACES_FILE)
    return header, tenants


def _checked_tenants(folder: Path) -> tuple[Header, pl.DataFrame]:
    """Return the header and the tenants table of the traces in a directory, after checks."""
    header = read_header(folder / TRACES_FILE, "traces")
    tenants_header = read_header(folder / TENANTS_FILE, "tenants")
    if (header.metrics, header.step_seconds) != (tenants_header.metrics, tenants_header.step_seconds):
        problem = "other metrics or another step in the metadata"
        Checker(folder / TENANTS_FILE).refuse(problem, f"those of {TRACES_FILE}")
    tenants = Checker(folder / TENANTS_FILE).read()
    check_tenants(tenants, header, folder / TENANTS_FILE)
    return header, tenants


def samples_frame(traces: TraceSet) -> pl.DataFrame:
    """Return the rows of ``traces.parquet``."""
    owner, start = traces.series_tenant, traces.series_start

    def texts(values: npt.NDArray[Any], index: npt.NDArray[Any]) -> pl.Series:
        """Return a text for each row: the entry of `values` at `index` of the row's series."""
        return pl.Series(values, dtype=pl.String).gather(per_row(index, start))

    columns: dict[str, Any] = {
        "tenant": texts(traces.tenant_names(), owner),
        "tenant_class": texts(np.asarray(traces.classes), traces.class_code[owner]),
        "role": texts(np.asarray(list(ROLES)), traces.series_role),
        "time_s": step_of_row(start) * traces.step_seconds,
    }
    return pl.DataFrame(columns | {name: traces.values[:, i] for i, name in enumerate(traces.metric_names)})


def tenants_frame(traces: TraceSet) -> pl.DataFrame:
    """Return the rows of ``tenants.parquet``."""
    columns: dict[str, Any] = {
        "tenant": pl.Series(traces.tenant_names(), dtype=pl.String),
        "tenant_class": pl.Series(traces.class_names(), dtype=pl.String),
        "replicas": traces.replicas,
        "lifetime_s": traces.lifetime_steps * traces.step_seconds,
        "censored": traces.censored,
        "family": traces.family,
    }
    if traces.start is not None:
        columns["start_s"] = traces.start
    return pl.DataFrame(columns | {f"max_{m}": traces.max_usage[:, i] for i, m in enumerate(traces.metric_names)})


def _trace_set(header: Header, tenants: pl.DataFrame, samples: pl.DataFrame, series: SeriesTable) -> TraceSet:
    """Return the trace set of the checked tables of both files: `tenants`, `samples` and the series in them."""
    names = [metric.name for metric in header.metrics]
    classes, codes = np.unique(tenants["tenant_class"].cast(pl.String).to_numpy().astype(np.str_), return_inverse=True)
    families = {"family": tenants["family"].cast(pl.Int64).to_numpy()} if "family" in tenants.columns else {}
    starts = {"start": tenants["start_s"].cast(pl.Float64).to_numpy()} if "start_s" in tenants.columns else {}
    return TraceSet(
        metrics=header.metrics,
        step_seconds=header.step_seconds,
        classes=tuple(classes.tolist()),
        tenant=tenants["tenant"].cast(pl.String).to_numpy().astype(np.str_),
        class_code=codes.astype(np.int16),
        replicas=tenants["replicas"].to_numpy().astype(np.int8),
        lifetime_steps=np.rint(tenants["lifetime_s"].to_numpy() / header.step_seconds).astype(np.int32),
        censored=tenants["censored"].to_numpy(),
        max_usage=np.column_stack([tenants[f"max_{name}"].to_numpy() for name in names]).astype(np.float32),
        series_tenant=series.tenant,
        series_role=series.role,
        series_start=series.start,
        values=np.column_stack([samples[name].to_numpy() for name in names]).astype(np.float32, copy=False),
        **families,
        **starts,
    )


def write_history(
    history: DemandHistory,
    path: str | Path,
    *,
    metrics: Sequence[MetricInfo] = (),
    step_seconds: float = STEP_SECONDS,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a demand history to a Parquet file; its directory is made where it is missing.

    Units and trends of the metrics (by default unknown), the sampling interval of the traces in seconds, and any JSON
    object as provenance, for example region, digest, seed and number of tenants, are kept in the file.
    """
    by_name = {metric.name: metric for metric in metrics}
    infos = tuple(by_name.get(name, MetricInfo(name, "")) for name in history.metrics)
    header = Header(kind="history", metrics=infos, step_seconds=step_seconds, provenance=provenance or {})
    columns: dict[str, Any] = {
        "tenant_class": pl.Series(np.asarray(history.classes)[history.tenant_class], dtype=pl.String),
        "role": pl.Series(np.asarray(list(ROLES))[history.role], dtype=pl.String),
        "lifetime_s": history.lifetime,
        "censored": history.censored,
    }
    for field, prefix in MATRICES.items():
        columns |= {f"{prefix}{name}": getattr(history, field)[:, i] for i, name in enumerate(history.metrics)}
    write_parquet(pl.DataFrame(columns), path, header.metadata())


def read_history(path: str | Path) -> DemandHistory:
    """Read a demand history from a Parquet file, or raise `TraceError` with file, row, column and what was expected."""
    file = Path(path)
    names = [metric.name for metric in read_header(file, "history").metrics]
    check = Checker(file)
    frame = check.read()
    numbers = ["lifetime_s", *(prefix + name for prefix in MATRICES.values() for name in names)]
    requested = {"tenant_class": "text", "role": "text", "censored": "flag"} | dict.fromkeys(numbers, "number")
    if check.columns(frame, requested):
        check.numbers(frame, numbers)
        unknown = ~frame["role"].cast(pl.String).is_in(list(ROLES)).to_numpy()
        check.bad_rows(unknown, "role", frame["role"], f"one of {', '.join(ROLES)}")
    check.raise_problems()
    try:
        return _history(frame, names)
    except PlbError as error:
        check.refuse(str(error), "a demand history")


def _history(frame: pl.DataFrame, names: list[str]) -> DemandHistory:
    """Return the demand history of a checked table; `names` are of the metrics."""
    matrices = {
        field: np.column_stack([frame[prefix + name].to_numpy() for name in names])
        for field, prefix in MATRICES.items()
    }
    return DemandHistory.from_columns(
        names,
        tenant_class=frame["tenant_class"].cast(pl.String).to_list(),
        role=frame["role"].cast(pl.String).replace_strict(ROLES, return_dtype=pl.Int8).to_numpy(),
        lifetime=frame["lifetime_s"].to_numpy(),
        censored=frame["censored"].to_numpy(),
        **matrices,
    )
