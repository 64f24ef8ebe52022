"""The header of this project's Parquet files: JSON under the key ``plb`` of the file's key-value metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import polars as pl

from workloads.checks import DAMAGED
from workloads.errors import TraceError, TraceProblem
from workloads.trace import MetricInfo

KEY = "plb"
VERSION = 1


@attrs.frozen(kw_only=True)
class Header:
    """What a file says about itself.

    Parameters
    ----------
    kind
        Kind of file: ``"traces"``, ``"tenants"`` or ``"history"``.
    metrics
        Names, units and trends of the metrics.
    step_seconds
        Sampling interval, seconds.
    provenance
        Where the data come from: any JSON object, such as region, digest and seed.
    """

    kind: str
    metrics: tuple[MetricInfo, ...]
    step_seconds: float
    provenance: Mapping[str, Any] = attrs.field(factory=dict)

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
        f"JSON with format {kind!r}, version {VERSION}, step_s a whole number >= 1 "
        'and metrics [{"name", "unit", "trend"}] with names that are not empty and differ'
    )
    try:
        text = pl.read_parquet_metadata(path).get(KEY)
    except FileNotFoundError:
        raise TraceError([TraceProblem(str(path), None, None, "no such file", f"a {kind} file")]) from None
    except DAMAGED as error:
        raise TraceError(
            [TraceProblem(str(path), None, None, f"no Parquet file ({str(error)[:200]})", f"a {kind} file")]
        ) from None
    try:
        content = json.loads(text or "null")
        header = _header(content)
        good = content["format"] == kind and content["version"] == VERSION
        good = good and header.step_seconds >= 1 and header.step_seconds.is_integer()
    except (TypeError, KeyError, ValueError):
        good = False
    if not good:
        raise TraceError([TraceProblem(str(path), None, None, f"metadata {KEY} = {text!r}", expected)])
    return header


def _header(content: dict[str, Any]) -> Header:
    metrics = tuple(MetricInfo(str(m["name"]), str(m["unit"]), bool(m["trend"])) for m in content["metrics"])
    if any(not isinstance(m["trend"], bool) for m in content["metrics"]):
        raise ValueError("trend must be true or false")
    if not all(isinstance(m["name"], str) and m["name"].strip() for m in content["metrics"]):
        raise ValueError("names must be texts that are not empty")
    if not metrics or len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError("metrics must be there, and differ in name")
    return Header(
        kind=content["format"],
        metrics=metrics,
        step_seconds=float(content["step_s"]),
        provenance=dict(content.get("provenance", {})),
    )
