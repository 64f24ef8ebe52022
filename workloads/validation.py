"""What a trace file must fulfil, checked over whole columns."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from plb.model import Role
from workloads.checks import Checker
from workloads.header import Header
from workloads.segments import spread

MOST_REPLICAS = 127
ROLES = {role.name.lower(): int(role) for role in Role}
TIME_TOLERANCE = 1e-6
"""Times may be off by this share of a step (they may have been written as floats)."""


class SeriesTable(NamedTuple):
    """The series found in a file of samples."""

    tenant: npt.NDArray[np.int32]
    """Row in the tenants table, shape (S,)."""
    role: npt.NDArray[np.int8]
    """`plb.model.Role`, shape (S,)."""
    start: npt.NDArray[np.int64]
    """Bounds of the series, shape (S + 1,)."""


def check_tenants(tenants: pl.DataFrame, header: Header, path: Path) -> None:
    """Raise `TraceError` unless the tenants table is complete and its values are in range."""
    check = Checker(path)
    maxima = [f"max_{metric.name}" for metric in header.metrics]
    wanted = {"tenant": "text", "tenant_class": "text", "replicas": "number", "lifetime_s": "number"}
    optional = {"family": "number"} if "family" in tenants.columns else {}
    if check.columns(tenants, wanted | {"censored": "flag"} | dict.fromkeys(maxima, "number") | optional):
        for name in ("tenant", "tenant_class"):
            empty = (tenants[name].cast(pl.String).str.strip_chars() == "").to_numpy()
            check.bad_rows(empty, name, tenants[name], "a name that is not empty")
        doubled = ~tenants["tenant"].is_first_distinct().to_numpy()
        check.bad_rows(doubled, "tenant", tenants["tenant"], "a name that no row above has")
        _check_whole(check, tenants, "replicas", 1, MOST_REPLICAS)
        if optional:
            _check_whole(check, tenants, "family", -(2**62), 2**62)
        life = tenants["lifetime_s"].to_numpy() / header.step_seconds
        finite = np.where(np.isfinite(life), life, 0.0)
        whole = (finite > 0.5) & (np.abs(finite - np.rint(finite)) < TIME_TOLERANCE)
        expected = f"a positive multiple of the step, {header.step_seconds:g}"
        check.bad_rows(~whole, "lifetime_s", tenants["lifetime_s"], expected)
        check.numbers(tenants, maxima)
    if not check.problems and not len(tenants):
        check.add("no rows", "at least one tenant")
    check.raise_problems()


def _check_whole(check: Checker, frame: pl.DataFrame, name: str, low: int, high: int) -> None:
    values = frame[name].to_numpy()
    good = np.isfinite(values) & (values == np.rint(values)) & (values >= low) & (values <= high)
    check.bad_rows(~good, name, values, f"a whole number from {low} to {high}")


def check_samples(samples: pl.DataFrame, tenants: pl.DataFrame, header: Header, path: Path) -> SeriesTable:
    """Return the series of a file of samples, or raise `TraceError` with every problem that was found."""
    check = Checker(path)
    names = [metric.name for metric in header.metrics]
    wanted = {"tenant": "text", "tenant_class": "text", "role": "text", "time_s": "number"}
    if not check.columns(samples, wanted | dict.fromkeys(names, "number")):
        check.raise_problems()
    check.numbers(samples, names)
    owner = _owners(check, samples, tenants)
    role = _roles(check, samples)
    start = _runs(owner, role)
    _check_times(check, samples, start, header.step_seconds)
    _check_once(check, samples, owner, role, start)
    if not check.problems:  # the rest needs every row to belong to a tenant
        table = SeriesTable(owner[start[:-1]].astype(np.int32), role[start[:-1]].astype(np.int8), start)
        _check_against_tenants(check, samples, tenants, table, header)
        _check_roles(check, tenants, table)
    check.raise_problems()
    return table


def _owners(check: Checker, samples: pl.DataFrame, tenants: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the row of each sample's tenant in the tenants table; -1 where there is none."""
    index = tenants.select(pl.col("tenant").cast(pl.String)).with_row_index("owner")
    rows = samples.select(pl.col("tenant").cast(pl.String)).join(index, on="tenant", how="left", maintain_order="left")
    owner = rows["owner"].cast(pl.Int64).fill_null(-1).to_numpy()
    check.bad_rows(owner < 0, "tenant", samples["tenant"], "a tenant of the tenants table")
    absent = np.setdiff1d(np.arange(len(tenants)), owner)
    if len(absent):
        listed = ", ".join(repr(name) for name in tenants["tenant"].gather(absent[:5]).to_list())
        check.add(f"no rows of {len(absent)} tenants: {listed}", "rows of every tenant of the table", column="tenant")
    return owner


def _roles(check: Checker, samples: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the role of each row; -1 where it is unknown."""
    role = samples["role"].cast(pl.String).replace_strict(ROLES, default=-1, return_dtype=pl.Int64).to_numpy()
    check.bad_rows(role < 0, "role", samples["role"], f"one of {', '.join(ROLES)}")
    return role


def _runs(owner: npt.NDArray[np.int64], role: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the bounds of the runs of rows with one tenant and role."""
    key = owner * (len(Role) + 1) + role
    return np.concatenate([np.flatnonzero(np.diff(key, prepend=key[:1] - 1)), [len(key)]]).astype(np.int64)


def _check_times(check: Checker, samples: pl.DataFrame, start: npt.NDArray[np.int64], step: float) -> None:
    time = samples["time_s"].to_numpy().astype(np.float64)
    first = np.zeros(len(time), np.bool_)
    first[start[:-1]] = True
    check.bad_rows(first & ~(np.abs(time) <= TIME_TOLERANCE * step), "time_s", time, "0 in the first row of a series")
    advance = np.diff(time, prepend=np.nan) / step
    wrong = ~first & ~(np.abs(advance - 1.0) <= TIME_TOLERANCE)
    back = wrong & ~(advance > 1.0)
    check.bad_rows(back, "time_s", time, f"rows in order: the time of the row above plus the step, {step:g}")
    check.bad_rows(wrong & ~back, "time_s", time, f"no gap: the time of the row above plus the step, {step:g}")


def _check_once(
    check: Checker,
    samples: pl.DataFrame,
    owner: npt.NDArray[np.int64],
    role: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
) -> None:
    """Check that no series starts a second time."""
    key = owner[start[:-1]] * (len(Role) + 1) + role[start[:-1]]
    again = np.ones(len(key), np.bool_)
    again[np.unique(key, return_index=True)[1]] = False
    mask = np.zeros(len(owner), np.bool_)
    mask[start[:-1][again & (owner[start[:-1]] >= 0) & (role[start[:-1]] >= 0)]] = True
    check.bad_rows(mask, "tenant", samples["tenant"], "the rows of a tenant and role in one piece")


def _check_against_tenants(
    check: Checker, samples: pl.DataFrame, tenants: pl.DataFrame, series: SeriesTable, header: Header
) -> None:
    owner = spread(series.tenant, series.start)
    classes = tenants["tenant_class"].cast(pl.String).gather(owner)
    differs = (samples["tenant_class"].cast(pl.String) != classes).to_numpy()
    check.bad_rows(differs, "tenant_class", samples["tenant_class"], "the class in the tenants table")
    for metric in header.metrics:
        most = tenants[f"max_{metric.name}"].to_numpy()[owner].astype(np.float32)
        over = samples[metric.name].to_numpy().astype(np.float32) > most
        check.bad_rows(over, metric.name, samples[metric.name], f"at most max_{metric.name} of the tenant")
    rows = np.diff(series.start)
    wanted = np.rint(tenants["lifetime_s"].to_numpy() / header.step_seconds).astype(np.int64)[series.tenant]
    for place in np.flatnonzero(rows != wanted)[:5].tolist():
        found = f"a series of {rows[place]} rows"
        check.add(found, f"{wanted[place]} rows (lifetime_s by step)", int(series.start[place + 1]), "time_s")


def _check_roles(check: Checker, tenants: pl.DataFrame, series: SeriesTable) -> None:
    """Check that each tenant has the series that its number of replicas asks for."""
    has = np.zeros((len(tenants), len(Role)), np.bool_)
    has[series.tenant, series.role] = True
    several = tenants["replicas"].to_numpy() > 1
    primary, secondary, instance = (has[:, role] for role in Role)
    stateful = primary & ~instance & (secondary == several)
    for row in np.flatnonzero(~(stateful | (instance & ~primary & ~secondary)))[:5].tolist():
        roles = ", ".join(name for name, role in ROLES.items() if has[row, role])
        wanted = "primary and secondary" if several[row] else "primary only"
        name = tenants["tenant"][row]
        check.add(f"tenant {name!r} with roles {roles}", f"{wanted} (or instance only)", column="role")
