"""The header of this project's Parquet files: JSON under the key ``plb`` of the file's key-value metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import polars as pl

from plb.errors import InvalidValueError
from plb.validation import check_name, check_number
from workloads.column_checks import DAMAGED, Checker
from workloads.trace import MetricInfo

KEY = "plb"
VERSION = 1
COLUMNS = ("tenant", "tenant_class", "role", "time_s")
"""Columns of traces, besides those of the metrics."""
WHOLE_STEP = "a whole number >= 1"


@attrs.frozen(kw_only=True)
class Header:
    """The header of a file.

    Parameters
    ----------
    kind
        Kind of file: ``"traces"``, ``"tenants"`` or ``"history"``.
    metrics
        Names, units and trends of the metrics.
    step_seconds
        Sampling interval, a whole number of seconds.
    provenance
        Where the data come from: any JSON object, such as region, digest and seed.

    Raises
    ------
    InvalidValueError
        A file could not be read with such a step or such names of metrics.
    """

    kind: str
    metrics: tuple[MetricInfo, ...]
    step_seconds: float
    provenance: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        item, step = f"{self.kind} file", check_number(f"{self.kind} file", "step_seconds", self.step_seconds, low=1.0)
        if not step.is_integer():
            raise InvalidValueError(item, "step_seconds", self.step_seconds, WHOLE_STEP)
        names = [check_name(f"{item}: metric", metric.name) for metric in self.metrics]
        if not names or len(set(names)) < len(names):
            raise InvalidValueError(item, "metrics", names, "at least one metric, and names that differ")
        taken = set(names) & set(COLUMNS) if self.kind == "traces" else ()
        if taken:
            allowed = f"names that are none of the other columns, {', '.join(COLUMNS)}"
            raise InvalidValueError(item, "metrics", names, allowed)

    def metadata(self) -> dict[str, str]:
        """Return the header as key-value metadata for a Parquet file."""
        content = {
            "format": self.kind,
            "version": VERSION,
            "step_s": self.step_seconds,
            "metrics": [attrs.asdict(metric) for metric in self.metrics],
            "provenance": dict(self.provenance),
        }
        return {KEY: json.dumps(content, sort_keys=True)}


def read_header(path: Path, kind: str) -> Header:
    """Return the header of a file, or raise `TraceError` where it is no file of this kind and version."""
    expected = (
        f"JSON with format {kind!r}, version {VERSION}, step_s {WHOLE_STEP} "
        'and metrics [{"name", "unit", "trend"}] with names that are not empty and differ'
    )
    check = Checker(path)
    try:
        text = pl.read_parquet_metadata(path).get(KEY)
    except FileNotFoundError:
        check.refuse("no such file", f"a {kind} file")
    except DAMAGED as error:
        check.refuse(f"no Parquet file ({str(error)[:200]})", f"a {kind} file")
    try:
        content = json.loads(text or "null")
        header = _header(content)
        good = content["format"] == kind and content["version"] == VERSION
    except (TypeError, KeyError, ValueError, OverflowError, RecursionError):  # the last two: too large, too deep
        good = False
    if not good:
        check.refuse(f"metadata {KEY} = {text!r}", expected)
    return header


def _header(content: dict[str, Any]) -> Header:
    metrics = tuple(MetricInfo(str(m["name"]), str(m["unit"]), bool(m["trend"])) for m in content["metrics"])
    if any(not isinstance(m["trend"], bool) for m in content["metrics"]):
        raise ValueError("trend must be true or false")
    if not all(isinstance(m["name"], str) for m in content["metrics"]):
        raise ValueError("names must be texts")
    return Header(
        kind=content["format"],
        metrics=metrics,
        step_seconds=float(content["step_s"]),
        provenance=dict(content.get("provenance", {})),
    )
