"""A demand history as a Parquet file: one row a past trace.

Columns ``tenant_class``, ``role``, ``lifetime_s``, ``censored``, and for each metric ``level_<metric>``,
``initial_<metric>``, ``growth_s_<metric>`` and ``maximum_<metric>`` ([1] section 5.3; see `plb.risk.demand`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from plb.errors import PlbError
from plb.risk.demand import DemandHistory
from workloads.checks import Checker
from workloads.header import Header, read_header
from workloads.trace import STEP_SECONDS, MetricInfo
from workloads.validation import ROLES
from workloads.writing import write_parquet

MATRICES = {"level": "level_", "initial": "initial_", "growth": "growth_s_", "maximum": "maximum_"}


def write_history(
    history: DemandHistory,
    path: str | Path,
    *,
    metrics: Sequence[MetricInfo] = (),
    step_seconds: float = STEP_SECONDS,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a demand history to a Parquet file.

    Parameters
    ----------
    history
        What to write.
    path
        The file; its directory is made where it is missing.
    metrics
        Units and trends of the history's metrics, kept in the file; by default unknown.
    step_seconds
        Sampling interval of the traces of the history, seconds.
    provenance
        Provenance of the history (any JSON object), for example region, digest, seed and number of tenants.
    """
    known = {metric.name: metric for metric in metrics}
    infos = tuple(known.get(name, MetricInfo(name, "")) for name in history.metrics)
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
    """Read a demand history from a Parquet file.

    Raises
    ------
    TraceError
        A column is missing or a value is out of range; it names file, row, column and what was expected.
    """
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
