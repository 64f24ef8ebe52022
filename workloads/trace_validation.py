"""What a trace file must fulfil, checked over whole columns, and the header of the Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import polars as pl

from plb.array_types import Bool, Float, Int, Int8, Int32
from plb.errors import InvalidValueError
from plb.model import Role
from plb.validation import check_name, check_number
from workloads.column_checks import DAMAGED, LATEST, ROWS_LISTED, TIMES, Checker
from workloads.trace import MetricInfo

KEY = "plb"
"""Key of the header in the metadata of a file."""
VERSION = 1
"""Version of the formats."""
COLUMNS = ("tenant", "tenant_class", "role", "time_s")
"""Columns of traces, besides the metrics."""
WHOLE_STEP = "a whole number >= 1"
"""The allowed values of a step in seconds."""


@attrs.frozen(kw_only=True)
class Header:
    """The header of a file; a step or names of metrics that no file can have raise `InvalidValueError`."""

    kind: str
    """Kind of file: ``"traces"``, ``"tenants"`` or ``"history"``."""
    metrics: tuple[MetricInfo, ...]
    """Names, units and trends of the metrics."""
    step_seconds: float
    """Sampling interval, a whole number of seconds."""
    provenance: Mapping[str, Any] = attrs.field(factory=dict)
    """Where the data come from: any JSON object, such as region, digest and seed."""

    def __attrs_post_init__(self) -> None:
        """Raise `InvalidValueError` if the step is no whole number, or names of metrics are empty, equal or taken."""
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
    """Return the header of a file, or raise `TraceError` if it is no file of this kind and of `VERSION`."""
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
    """Return the header of decoded JSON; other content raises an error of Python."""
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


MOST_REPLICAS = 127
"""Most replicas of a tenant."""
ROLES = {role.name.lower(): int(role) for role in Role}
"""Numbers of the roles by their names in files."""
TIME_TOLERANCE = 1e-6
"""Times may be off by this share of a step (they may have been written as floats)."""


NO_ROW = -1_000_000
"""Key of tenant and role (`_SampleChecks.key`) before the first row; no row has it."""


class SeriesTable(NamedTuple):
    """The series found in a file of samples."""

    tenant: Int32
    """Row in the tenants table, shape (S,)."""
    role: Int8
    """`plb.model.Role`, shape (S,)."""
    start: Int
    """Bounds of the series, shape (S + 1,)."""


def check_tenants(tenants: pl.DataFrame, header: Header, path: Path) -> None:
    """Raise `TraceError` unless the tenants table is complete and its values are in range."""
    check = Checker(path)
    maxima = [f"max_{metric.name}" for metric in header.metrics]
    requested = {"tenant": "text", "tenant_class": "text", "replicas": "number", "lifetime_s": "number"}
    optional = {name: "number" for name in ("family", "start_s") if name in tenants.columns}
    if check.columns(tenants, requested | {"censored": "flag"} | dict.fromkeys(maxima, "number") | optional):
        for name in ("tenant", "tenant_class"):
            empty = (tenants[name].cast(pl.String).str.strip_chars() == "").to_numpy()
            check.bad_rows(empty, name, tenants[name], "a name that is not empty")
        check.distinct(tenants["tenant"], "tenant", "a name that no row above has")
        _check_whole(check, tenants, "replicas", 1, MOST_REPLICAS)
        if "family" in optional:
            _check_whole(check, tenants, "family", -(2**62), 2**62)
        if "start_s" in optional:
            start = tenants["start_s"].to_numpy()
            inside = (start >= -LATEST) & (start <= LATEST)
            check.bad_rows(~inside, "start_s", start, TIMES)
        life_steps = tenants["lifetime_s"].to_numpy() / header.step_seconds
        finite = np.where(np.isfinite(life_steps), life_steps, 0.0)
        is_multiple = (finite > 0.5) & (np.abs(finite - np.rint(finite)) < TIME_TOLERANCE)
        expected = f"a positive multiple of the step, {header.step_seconds:g}"
        check.bad_rows(~is_multiple, "lifetime_s", tenants["lifetime_s"], expected)
        check.numbers(tenants, maxima)
    check.raise_problems()
    if not len(tenants):
        check.refuse("no rows", "at least one tenant")


def _check_whole(check: Checker, frame: pl.DataFrame, name: str, low: int, high: int) -> None:
    """Record the rows in which a column is no whole number from `low` to `high`."""
    values = frame[name].to_numpy()
    good = np.isfinite(values) & (values == np.rint(values)) & (values >= low) & (values <= high)
    check.bad_rows(~good, name, values, f"a whole number from {low} to {high}")


def check_samples(frames: Iterable[pl.DataFrame], tenants: pl.DataFrame, header: Header, path: Path) -> SeriesTable:
    """Return the series of a file, or raise `TraceError` with all problems.

    `frames` are consecutive parts of its rows.
    """
    checks = _SampleChecks(tenants, header, path)
    for frame in frames:
        checks.take(frame)
    return checks.table()


class _SampleChecks:
    """The checks of a file of samples, part by part, and the state that they keep between parts."""

    def __init__(self, tenants: pl.DataFrame, header: Header, path: Path) -> None:
        """Begin before the first row; `tenants`: the checked tenants table; `path`: the samples file, for problems."""
        self.check = Checker(path)
        """The problems so far."""
        self.tenants, self.header = tenants, header
        self.metrics = [metric.name for metric in header.metrics]
        self.index = tenants.select(pl.col("tenant").cast(pl.String)).with_row_index("owner")
        """Names of the tenants with their rows in the table."""
        self.complete = self.sound = True
        """Whether all columns were complete, and whether every row was valid in itself."""
        self.key, self.time = NO_ROW, np.nan
        """Number for tenant and role, and time, of the last row."""
        self.has_rows = np.zeros(len(tenants), np.bool_)
        """(T,) whether a tenant has rows."""
        self.has_role = np.zeros((len(tenants), len(Role)), np.bool_)
        """(T, roles) whether a tenant has a series of a role."""
        self.series: list[tuple[Int, ...]] = []
        """First row, tenant and role of the series, by part."""

    def take(self, frame: pl.DataFrame) -> None:
        """Check `frame`, the next rows of the file: its columns, then its values."""
        requested = {"tenant": "text", "tenant_class": "text", "role": "text", "time_s": "number"}
        requested |= dict.fromkeys(self.metrics, "number")
        if not self.check.columns(frame.head(0), requested):
            self.check.raise_problems()
        self.complete = self.check.columns(frame, requested) and self.complete
        if self.complete and len(frame):
            self._take_complete(frame)
        self.check.rows_above += len(frame)

    def _take_complete(self, frame: pl.DataFrame) -> None:
        """Check the values of `frame`, the next rows of the file, at least one; its columns are complete."""
        check, before = self.check, len(self.check.problems)
        check.numbers(frame, self.metrics)
        owner = _owners(check, frame, self.index)
        role = _roles(check, frame)
        key = owner * (len(Role) + 1) + role
        first = np.diff(key, prepend=self.key) != 0
        time = frame["time_s"].to_numpy().astype(np.float64)
        _check_times(check, time, self.time, first, self.header.step_seconds)
        self._check_once(frame, owner, role, first)
        self.sound = self.sound and len(check.problems) == before
        if self.sound:  # these checks need every row to belong to a tenant
            _check_against_tenants(check, frame, owner, self.tenants, self.metrics)
            start = np.flatnonzero(first)
            self.series.append((start + check.rows_above, owner[start], role[start]))
        self.key, self.time = int(key[-1]), float(time[-1])

    def _check_once(self, frame: pl.DataFrame, owner: Int, role: Int, first: Bool) -> None:
        """Record the rows that start a series of a tenant and role a second time, and note tenants and roles seen.

        `owner`, `role` and `first`, whether a row is the first of a series, are (rows,); -1 stands for none.
        """
        self.has_rows[owner[first & (owner >= 0)]] = True
        start = np.flatnonzero(first & (owner >= 0) & (role >= 0))
        started = owner[start], role[start]
        is_first = np.zeros(len(start), np.bool_)
        is_first[np.unique(np.ravel_multi_index(started, self.has_role.shape), return_index=True)[1]] = True
        again = np.zeros(len(frame), np.bool_)
        again[start[~is_first | self.has_role[started]]] = True
        self.has_role[started] = True
        self.check.bad_rows(again, "tenant", frame["tenant"], "the rows of a tenant and role in one piece")

    def table(self) -> SeriesTable:
        """Return the series of all rows, or raise `TraceError` with all problems."""
        check = self.check
        absent = np.flatnonzero(~self.has_rows)
        if self.complete and len(absent):
            listed = ", ".join(repr(name) for name in self.tenants["tenant"].gather(absent[:ROWS_LISTED]).to_list())
            problem = f"no rows of {len(absent)} tenants: {listed}"
            check.add(problem, "rows of every tenant of the table", column="tenant")
        if not self.complete or not self.sound or len(absent):
            check.raise_problems()
        start, owner, role = (np.concatenate(parts) for parts in zip(*self.series, strict=True))
        start = np.append(start, check.rows_above)
        table = SeriesTable(owner.astype(np.int32), role.astype(np.int8), start)
        _check_lengths(check, self.tenants, table, self.header.step_seconds)
        _check_roles(check, self.tenants, self.has_role)
        check.raise_problems()
        return table


def _owners(check: Checker, samples: pl.DataFrame, index: pl.DataFrame) -> Int:
    """Return the row of each sample's tenant in the tenants table, -1 if it has none.

    `index` is `_SampleChecks.index`.
    """
    rows = samples.select(pl.col("tenant").cast(pl.String)).join(index, on="tenant", how="left", maintain_order="left")
    owner = rows["owner"].cast(pl.Int64).fill_null(-1).to_numpy()
    check.bad_rows(owner < 0, "tenant", samples["tenant"], "a tenant of the tenants table")
    return owner


def _roles(check: Checker, samples: pl.DataFrame) -> Int:
    """Return the number of the role of each row of `samples`, -1 for an unknown name, which is recorded."""
    role = samples["role"].cast(pl.String).replace_strict(ROLES, default=-1, return_dtype=pl.Int64).to_numpy()
    check.bad_rows(role < 0, "role", samples["role"], f"one of {', '.join(ROLES)}")
    return role


def _check_times(check: Checker, time: Float, above: float, first: Bool, step: float) -> None:
    """Check the times of rows, (rows,); `first`, (rows,), is whether a row is the first of a series.

    `above` is the time of the row above, and `step` the sampling interval, in seconds.
    """
    check.bad_rows(first & ~(np.abs(time) <= TIME_TOLERANCE * step), "time_s", time, "0 in the first row of a series")
    with np.errstate(invalid="ignore", over="ignore"):  # times that are not finite advance by no step
        advance = np.diff(time, prepend=above) / step
    wrong = ~first & ~(np.abs(advance - 1.0) <= TIME_TOLERANCE)
    back = wrong & ~(advance > 1.0)
    check.bad_rows(back, "time_s", time, f"rows in order: the time of the row above plus the step, {step:g}")
    check.bad_rows(wrong & ~back, "time_s", time, f"no gap: the time of the row above plus the step, {step:g}")


def _check_against_tenants(
    check: Checker, samples: pl.DataFrame, owner: Int, tenants: pl.DataFrame, metrics: list[str]
) -> None:
    """Check the classes and values of rows against their tenants; `owner`, (rows,), are rows of `tenants`."""
    classes = tenants["tenant_class"].cast(pl.String).gather(owner)
    differs = (samples["tenant_class"].cast(pl.String) != classes).to_numpy()
    check.bad_rows(differs, "tenant_class", samples["tenant_class"], "the class in the tenants table")
    for name in metrics:
        most = tenants[f"max_{name}"].to_numpy()[owner].astype(np.float32)
        over = samples[name].to_numpy().astype(np.float32) > most
        check.bad_rows(over, name, samples[name], f"at most max_{name} of the tenant")


def _check_lengths(check: Checker, tenants: pl.DataFrame, series: SeriesTable, step: float) -> None:
    """Check that each series has as many rows as its tenant lives steps."""
    rows = np.diff(series.start)
    requested = np.rint(tenants["lifetime_s"].to_numpy() / step).astype(np.int64)[series.tenant]
    for index in np.flatnonzero(rows != requested)[:ROWS_LISTED].tolist():
        problem = f"a series of {rows[index]} rows"
        check.add(problem, f"{requested[index]} rows (lifetime_s by step)", int(series.start[index + 1]), "time_s")


def _check_roles(check: Checker, tenants: pl.DataFrame, has_role: Bool) -> None:
    """Check that each tenant has the series for its number of replicas; `has_role`: (T, roles) whether it has one."""
    several = tenants["replicas"].to_numpy() > 1
    primary, secondary, instance = (has_role[:, role] for role in Role)
    stateful = primary & ~instance & (secondary == several)
    for row in np.flatnonzero(~(stateful | (instance & ~primary & ~secondary)))[:ROWS_LISTED].tolist():
        roles = ", ".join(name for name, role in ROLES.items() if has_role[row, role])
        requested = "primary and secondary" if several[row] else "primary only"
        name = tenants["tenant"][row]
        check.add(f"tenant {name!r} with roles {roles}", f"{requested} (or instance only)", column="role")
