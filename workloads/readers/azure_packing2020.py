"""Reader of the Azure trace for packing of 2020 (SQLite): requests for virtual machines over 14 days, and their lives.

- **Metrics.** ``cpu``, ``memory``, ``hdd``, ``ssd`` and ``nic`` as shares of one machine. The trace has requests
  and no usage: the series of a tenant is constant, and MaxUsage is the request.
- **Which machine.** A VM type takes different shares of different machines. The shares here are those of the
  machine that offers the most VM types (of several the one with the lowest number); VMs of types that it does not
  offer are refused. A resource that the table leaves empty is 0.
- **Tenants**: one a VM, ``<vmId>@<first step>``; the VMs of one ``tenantId`` are one family. **Class**: the VM
  type, with ``_low`` where the priority is low.
- **Lifetimes** are known: whole steps of 10 minutes, rounded up. Lives are cut to 90 days before and after the start
  of the trace: machines that run when it begins have their true age up to 90 days (older starts are often
  placeholders), and those that still run after 90 days are censored.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float32, Int
from plb.model import Role
from workloads.column_checks import Checker
from workloads.ragged_arrays import bounds_of
from workloads.readers.base import Options, TracePart
from workloads.readers.files import need_files
from workloads.readers.gaps_and_windows import lengths_of_pieces
from workloads.readers.naming import family_numbers
from workloads.readers.report import ConversionReport
from workloads.trace import DAY_SECONDS, HOUR_SECONDS, STEP_SECONDS, MetricInfo, TraceSet

RESOURCES = {"cpu": "core", "memory": "memory", "hdd": "hdd", "ssd": "ssd", "nic": "nic"}
"""Columns of ``vmType`` by metric."""
REQUESTS = ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime")
MOST_LIFE_DAYS = 90.0
"""Days before and after the start of the trace to which lives are cut."""
MOST_DAYS = 36_525.0
"""A century, before or after the start of the trace."""
MOST_KEY, MOST_SHARE = 2**61, 1e6
LOW_PRIORITY = 1
NOT_OFFERED = "of a VM type that the chosen machine does not offer"
BACKWARDS = "that end before they start"
TOO_FAR = f"that end or start more than {MOST_LIFE_DAYS:g} days from the start of the trace"
REQUESTS_AT_A_TIME = 20_000

Rows = list[tuple[Any, ...]]


@attrs.frozen(kw_only=True)
class PackingReader:
    """The reader; see `workloads.readers.base.Reader`."""

    name: str = "azure-packing2020"
    files: str = "one .sqlite file with the tables vm and vmType"
    metrics: tuple[MetricInfo, ...] = tuple(MetricInfo(name, "share of a machine", trend=False) for name in RESOURCES)
    step_seconds: float = STEP_SECONDS
    origin: str = "the start of the trace; VMs that began before have negative times"
    request: str = "the request; there is no usage in this trace"

    def parts(self, source: Path, options: Options, tally: ConversionReport, scratch: Path) -> Iterator[TracePart]:
        """Yield all tenants, some requests at a time (see `workloads.readers.base.Reader`)."""
        tally.refuse(dict.fromkeys((NOT_OFFERED, BACKWARDS, TOO_FAR), 0))
        path = need_files(source, ["*.sqlite", "*.sqlite3", "*.db"], self.files)[0]
        with _read_only(path) as database:
            shares = _shares(path, database)
            rows = database.execute(f"SELECT {', '.join(REQUESTS)} FROM vm ORDER BY vmId")
            while batch := rows.fetchmany(REQUESTS_AT_A_TIME):
                tally.read(len(batch))
                for some in self._bounded(_usable(path, batch, shares, tally), options):
                    part = self._part(some, shares, options, tally)
                    if part is not None:
                        yield part
        if not tally.tenants:
            Checker(path).refuse("no request that can be used", "at least one row of the table vm")

    def _bounded(self, rows: Rows, options: Options) -> Iterator[Rows]:
        """Yield the requests so many at a time that their steps fit into memory."""
        ends = np.cumsum(self._steps(rows)) // options.rows_in_memory
        for place in np.unique(ends).tolist():
            yield [rows[at] for at in np.flatnonzero(ends == place).tolist()]

    def _steps(self, rows: Rows) -> Int:
        days = np.array([(MOST_LIFE_DAYS if row[5] is None else row[5]) - row[4] for row in rows], np.float64)
        return np.maximum(np.ceil(days * DAY_SECONDS / self.step_seconds - 1e-6), 1).astype(np.int64)

    def _part(
        self, rows: Rows, shares: dict[Any, Float32], options: Options, tally: ConversionReport
    ) -> TracePart | None:
        lifetime = self._steps(rows)
        days = options.window_days
        pieces, lengths = lengths_of_pieces(
            lifetime, None if days is None else int(days * DAY_SECONDS / self.step_seconds)
        )
        long_enough = lengths >= max((options.min_hours or 0.0) * HOUR_SECONDS / self.step_seconds, 1)
        final = np.append(np.diff(pieces) != 0, True)
        step = np.array([int(np.floor(row[4] * DAY_SECONDS / self.step_seconds)) for row in rows], np.int64)
        begin = step[pieces] + bounds_of(lengths)[:-1] - np.repeat(bounds_of(lifetime)[:-1], np.bincount(pieces))
        tally.owners += len(rows)
        tally.steps += int(lengths.sum())
        tally.cut(lengths, long_enough)
        if not long_enough.any():
            return None
        of_piece = [rows[at] for at in pieces[long_enough].tolist()]
        lives = np.array([row[5] is None for row in of_piece]) | ~final[long_enough]
        traces = self._trace_set(of_piece, begin[long_enough], lengths[long_enough], lives, shares)
        return TracePart(traces, begin[long_enough] * int(self.step_seconds))

    def _trace_set(self, rows: Rows, begin: Int, lengths: Int, censored: Bool, shares: dict[Any, Float32]) -> TraceSet:
        names = [f"type{row[2]}{'_low' if row[3] == LOW_PRIORITY else ''}" for row in rows]
        classes, codes = np.unique(names, return_inverse=True)
        asked = np.array([shares[row[2]] for row in rows], np.float32)
        return TraceSet(
            metrics=self.metrics,
            step_seconds=self.step_seconds,
            classes=tuple(classes.tolist()),
            tenant=np.array([f"{row[0]}@{at}" for row, at in zip(rows, begin.tolist(), strict=True)]),
            family=family_numbers([row[1] for row in rows]),
            class_code=codes.astype(np.int16),
            replicas=np.ones(len(rows), np.int8),
            lifetime_steps=lengths.astype(np.int32),
            censored=censored,
            max_usage=asked,
            series_tenant=np.arange(len(rows), dtype=np.int32),
            series_role=np.full(len(rows), Role.PRIMARY, np.int8),
            series_start=bounds_of(lengths),
            values=np.repeat(asked, lengths, axis=0),
        )


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database for reading; raise `TraceError` where it is none or damaged, or lacks a table or column."""
    check = Checker(path)
    requested = {"vm": REQUESTS, "vmType": ("vmTypeId", "machineId", *RESOURCES.values())}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for table, columns in requested.items():
                found = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                for column in columns:
                    if column not in found:
                        check.add(f"table {table} with {sorted(found)}", "a column of that name", column=column)
            check.raise_problems()
            yield database
    except sqlite3.DatabaseError as error:
        check.refuse(f"damaged contents ({error})", "an SQLite database")


def _shares(path: Path, database: sqlite3.Connection) -> dict[Any, Float32]:
    """Return what each VM type takes of the chosen machine, in the order of the metrics."""
    rows = database.execute(f"SELECT machineId, vmTypeId, {', '.join(RESOURCES.values())} FROM vmType").fetchall()
    check = Checker(path)
    for number, row in enumerate(rows, 1):
        _check_keys(check, ("machineId", "vmTypeId"), row, number, "in table vmType")
        for name, value in zip(RESOURCES.values(), row[2:], strict=True):
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= MOST_SHARE):
                check.add(repr(value), f"a share from 0 to {MOST_SHARE:g}, in table vmType", number, name)
    check.raise_problems()
    if not rows:
        check.refuse("no rows in table vmType", "at least one VM type")
    offers = Counter(row[0] for row in rows)
    most = max(offers.values())
    machine = min(name for name, count in offers.items() if count == most)
    return {row[1]: np.array([value or 0.0 for value in row[2:]], np.float32) for row in rows if row[0] == machine}


def _check_keys(check: Checker, names: Sequence[str], row: tuple[Any, ...], number: int, where: str) -> None:
    """Note the columns in front of a row that do not number a machine, a tenant or a type."""
    for name, value in zip(names, row, strict=False):
        if not isinstance(value, int) or abs(value) > MOST_KEY:
            check.add("NULL" if value is None else repr(value), f"a whole number, {where}", number, name)


def _usable(path: Path, rows: Rows, shares: dict[Any, Float32], tally: ConversionReport) -> Rows:
    """Return the usable requests, with lives cut to the range of the trace.

    Raise `TraceError` for those without a VM, tenant, type or start.
    """
    check = Checker(path)
    for number, row in enumerate(rows, tally.rows_read - len(rows) + 1):
        _check_keys(check, REQUESTS[:3], row, number, "in table vm by vmId")
        for name, value in zip(REQUESTS[4:], row[4:], strict=True):
            missing = value is None and name == "endtime"
            if not missing and not (isinstance(value, int | float) and abs(value) <= MOST_DAYS):
                days = f"days from the start of the trace, from {-MOST_DAYS:g} to {MOST_DAYS:g}, in table vm by vmId"
                check.add(repr(value), days, number, name)
    check.raise_problems()
    offered = [row for row in rows if row[2] in shares]
    forwards = [row for row in offered if row[5] is None or row[5] >= row[4]]
    inside = [row for row in forwards if row[4] <= MOST_LIFE_DAYS and (row[5] is None or row[5] >= -MOST_LIFE_DAYS)]
    refused = len(rows) - len(offered), len(offered) - len(forwards), len(forwards) - len(inside)
    tally.refuse(dict(zip((NOT_OFFERED, BACKWARDS, TOO_FAR), refused, strict=True)))
    return [(*row[:4], *_cut(*row[4:])) for row in inside]


def _cut(start: float, end: float | None) -> tuple[float, float | None]:
    """Return start and end of a life within the range of the trace; None: it goes on at the end."""
    return max(start, -MOST_LIFE_DAYS), None if end is None or end > MOST_LIFE_DAYS else end


AZURE_PACKING2020 = PackingReader()
