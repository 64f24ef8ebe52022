"""Readers of the Azure VM traces (AzurePublicDataset) of 2017 and 2019 (V1 and V2), and of the trace for packing, 2020.

**2017 and 2019**: CPU of virtual machines over 30 days. The directory holds ``vmtable.csv`` and
``vm_cpu_readings-file-*.csv``, plain or ``.gz`` as published; some of the files of readings are enough, but each holds
a stretch of time, so that lives are cut where files are missing.

- **Metric.** ``cpu`` in cores: the mean utilisation of each 5 minutes (or the maximum, with ``--aggregate max``) by
  the machine's cores. Use of memory is not published; its size is part of the class only.
- **MaxUsage**: the machine's cores. In 2019 sizes are buckets, given by their upper end; as in the analysis that
  comes with the trace, more than 24 cores count as 30 and more than 64 GB as 70.
- **Class**: cores and memory, ``vm_c4_m7``. Category, subscription and deployment are not used.
- **Lifetimes** end where ``vmtable`` has a deletion before the end of the trace; others are censored.

**2020** (SQLite): requests for virtual machines over 14 days, and their lives.

- **Metrics.** ``cpu``, ``memory``, ``hdd``, ``ssd`` and ``nic`` as shares of the machine that offers the most VM types
  (the lowest number decides between equals); VMs of other types are refused. An empty resource is 0. The trace has
  requests and no usage: the series of a tenant is constant, and MaxUsage is the request.
- **Tenants**: one a VM, ``<vmId>@<first step>``; the VMs of one ``tenantId`` are one family. **Class**: the VM type,
  with ``_low`` where the priority is low.
- **Lifetimes** are whole steps, rounded up, and cut to 90 days before and after the start of the trace: older starts
  are often placeholders, and machines that still run after 90 days are censored.
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
import polars as pl

from plb.array_types import Bool, Float32, Int
from plb.model import Role
from workloads.column_checks import LARGEST, Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, TracePart, family_numbers, listed_classes, measured
from workloads.readers.external_sort import OWNER, TIME, ConversionReport, Frame
from workloads.readers.files import TextTable, need_files
from workloads.readers.sampled import SampledReader, lengths_of_pieces
from workloads.trace import DAY_SECONDS, HOUR_SECONDS, STEP_SECONDS, MetricInfo, TraceSet, bounds_of, one_series_each

READINGS = TextTable(
    columns={"timestamp": pl.Int64, "vmid": pl.String} | dict.fromkeys(("mincpu", "maxcpu", "avgcpu"), pl.Float64)
)
"""The files of readings."""
MACHINES = TextTable(
    columns=dict.fromkeys(("vmid", "subscriptionid", "deploymentid"), pl.String)
    | dict.fromkeys(("vmcreated", "vmdeleted"), pl.Int64)
    | dict.fromkeys(("maxcpu", "avgcpu", "p95maxcpu"), pl.Float64)
    | dict.fromkeys(("vmcategory", "vmcorecount", "vmmemory"), pl.String)
)
"""The file ``vmtable.csv``."""
OPEN_BUCKETS = {">24": "30", ">64": "70"}
"""Sizes above the largest bucket of 2019, as in the published analysis of the trace."""


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the readings in a directory, at most `options.rows_in_memory` at a time; `scratch`: for unpacked files."""
    usage = pl.col("maxcpu" if options.aggregate == "max" else "avgcpu")
    columns = [pl.col("vmid").alias(OWNER), pl.col("timestamp").alias(TIME), *measured({"cpu": usage})]
    for path in need_files(source, ["vm_cpu_readings-file-*.csv"], "vm_cpu_readings-file-*.csv files, plain or .gz"):
        for rows in READINGS.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows)


def _machines(source: Path, scratch: Path) -> pl.LazyFrame:
    """Return the table of owners (`SampledReader.owners`) from `vmtable`: scale and limit of CPU, class and end."""
    folder = source.parent if source.is_file() else source
    path = need_files(folder, ["vmtable.csv"], "vmtable.csv, which has the cores of the machines, plain or .gz")[0]
    sizes = [
        pl.col(column).str.strip_chars().replace(OPEN_BUCKETS).cast(pl.Float64, strict=False).alias(name)
        for column, name in (("vmcorecount", "cores"), ("vmmemory", "memory"))
    ]
    columns = [pl.col("vmid").alias(OWNER), pl.col("vmdeleted"), *sizes]
    table = MACHINES.whole(path, scratch, columns)
    check = Checker(path)
    for name, values in (("vmcorecount", table["cores"]), ("vmmemory", table["memory"])):
        good = ((values > 0) & (values <= LARGEST)).fill_null(value=False)
        check.bad_rows(~good.to_numpy(), name, values, "a finite number > 0")
    check.bad_rows(table[OWNER].is_null().to_numpy(), "vmid", table[OWNER], "the name of a machine")
    check.distinct(table[OWNER], "vmid", "a machine that no row above has")
    check.raise_problems()
    ended = pl.col("vmdeleted") < pl.col("vmdeleted").max()
    return table.lazy().select(
        OWNER,
        (pl.col("cores") / 100.0).alias("scale_cpu"),
        pl.col("cores").cast(pl.Float32).alias("limit_cpu"),
        pl.format("vm_c{}_m{}", *(_short(name) for name in ("cores", "memory"))).alias("tenant_class"),
        pl.when(ended).then(pl.col("vmdeleted")).alias("end_s"),
    )


def _short(name: str) -> pl.Expr:
    """Return the numbers of a column as texts, whole numbers without decimals if 64 bits hold them."""
    is_whole = pl.col(name) == pl.col(name).floor()
    digits = pl.col(name).cast(pl.Int64, strict=False).cast(pl.String)
    return pl.coalesce(pl.when(is_whole).then(digits), pl.col(name).cast(pl.String))


def _reader(name: str) -> SampledReader:
    """Return the reader for the traces of 2017 and 2019."""
    return SampledReader(
        name=name,
        files="vmtable.csv and vm_cpu_readings-file-*.csv, plain or .gz",
        metrics=(MetricInfo("cpu", "cores", trend=False),),
        origin="the start of the trace; its date and time of day are not published",
        request="the machine's cores; memory is in the class only",
        frames=_frames,
        places=("vmid", "timestamp"),
        reasons=(MISSING, NEGATIVE),
        owners=_machines,
        owners_complete=True,
        classes=listed_classes,
    )


AZURE2017, AZURE2019 = _reader("azure2017"), _reader("azure2019")


RESOURCES = {"cpu": "core", "memory": "memory", "hdd": "hdd", "ssd": "ssd", "nic": "nic"}
"""Columns of ``vmType`` by metric."""
REQUESTS = ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime")
"""Columns of ``vm``; times are in days."""
MOST_LIFE_DAYS = 90.0
"""Days before and after the start of the trace to which lives are cut."""
MOST_DAYS = 36_525.0
"""A century, before or after the start of the trace."""
MOST_KEY, MOST_SHARE = 2**61, 1e6
"""Largest number of a machine, tenant or type, and largest share of a machine."""
LOW_PRIORITY = 1
"""The priority of VMs that may be evicted."""
NOT_OFFERED = "of a VM type that the chosen machine does not offer"
BACKWARDS = "that end before they start"
TOO_FAR = f"that end or start more than {MOST_LIFE_DAYS:g} days from the start of the trace"
REQUESTS_AT_A_TIME = 20_000
"""Requests that are read at a time."""

Rows = list[tuple[Any, ...]]
"""Requests, each with the values of `REQUESTS`."""


@attrs.frozen(kw_only=True)
class PackingReader:
    """The reader; see `workloads.readers.base.Reader`."""

    name: str = "azure-packing2020"
    files: str = "one .sqlite file with the tables vm and vmType"
    metrics: tuple[MetricInfo, ...] = tuple(MetricInfo(name, "share of a machine", trend=False) for name in RESOURCES)
    step_seconds: float = STEP_SECONDS
    origin: str = "the start of the trace; VMs that began before have negative times"
    request: str = "the request; there is no usage in this trace"
    """The properties of `Reader` with these names."""

    def parts(self, source: Path, options: Options, tally: ConversionReport, scratch: Path) -> Iterator[TracePart]:
        """Yield all tenants, some requests at a time (see `workloads.readers.base.Reader`)."""
        tally.refuse(dict.fromkeys((NOT_OFFERED, BACKWARDS, TOO_FAR), 0))
        path = need_files(source, ["*.sqlite", "*.sqlite3", "*.db"], self.files)[0]
        with _read_only(path) as database:
            shares = _shares(path, database)
            rows = database.execute(f"SELECT {', '.join(REQUESTS)} FROM vm ORDER BY vmId")
            while batch := rows.fetchmany(REQUESTS_AT_A_TIME):
                tally.read(len(batch))
                for requests in self._bounded(_usable(path, batch, shares, tally), options):
                    part = self._part(requests, shares, options, tally)
                    if part is not None:
                        yield part
        if not tally.tenants:
            Checker(path).refuse("no request that can be used", "at least one row of the table vm")

    def _bounded(self, rows: Rows, options: Options) -> Iterator[Rows]:
        """Yield the requests in batches whose steps fit into memory."""
        batch_of_row = np.cumsum(self._steps(rows)) // options.rows_in_memory
        for batch in np.unique(batch_of_row).tolist():
            yield [rows[index] for index in np.flatnonzero(batch_of_row == batch).tolist()]

    def _steps(self, rows: Rows) -> Int:
        """Return the lifetime of each request in steps, rounded up, (len(rows),)."""
        days = np.array([(MOST_LIFE_DAYS if row[5] is None else row[5]) - row[4] for row in rows], np.float64)
        return np.maximum(np.ceil(days * DAY_SECONDS / self.step_seconds - 1e-6), 1).astype(np.int64)

    def _part(
        self, rows: Rows, shares: dict[Any, Float32], options: Options, tally: ConversionReport
    ) -> TracePart | None:
        """Return the tenants of requests, and count them in `tally`; None if all are too short.

        `rows`: a tuple of `REQUESTS` for each request; `shares`: share of a node of each metric, (R,), by VM type.
        """
        lifetime = self._steps(rows)
        days = options.window_days
        pieces, lengths = lengths_of_pieces(
            lifetime, None if days is None else int(days * DAY_SECONDS / self.step_seconds)
        )
        long_enough = lengths >= max((options.min_hours or 0.0) * HOUR_SECONDS / self.step_seconds, 1)
        final = np.append(np.diff(pieces) != 0, True)  # whether a piece is the last of its request
        step = np.array([int(np.floor(row[4] * DAY_SECONDS / self.step_seconds)) for row in rows], np.int64)
        begin = step[pieces] + bounds_of(lengths)[:-1] - np.repeat(bounds_of(lifetime)[:-1], np.bincount(pieces))
        tally.owners += len(rows)
        tally.steps += int(lengths.sum())
        tally.cut(lengths, long_enough)
        if not long_enough.any():
            return None
        row_of_piece = [rows[index] for index in pieces[long_enough].tolist()]
        censored = np.array([row[5] is None for row in row_of_piece]) | ~final[long_enough]
        traces = self._trace_set(row_of_piece, begin[long_enough], lengths[long_enough], censored, shares)
        return TracePart(traces, begin[long_enough] * int(self.step_seconds))

    def _trace_set(self, rows: Rows, begin: Int, lengths: Int, censored: Bool, shares: dict[Any, Float32]) -> TraceSet:
        """Return the traces of T tenants; each has a request, first step, length, and whether it is cut, (T,)."""
        names = [f"type{row[2]}{'_low' if row[3] == LOW_PRIORITY else ''}" for row in rows]
        requested = np.array([shares[row[2]] for row in rows], np.float32)
        return one_series_each(
            Role.PRIMARY,
            class_names=names,
            lifetime_steps=lengths,
            metrics=self.metrics,
            step_seconds=self.step_seconds,
            tenant=np.array([f"{row[0]}@{step}" for row, step in zip(rows, begin.tolist(), strict=True)]),
            family=family_numbers([row[1] for row in rows]),
            replicas=np.ones(len(rows), np.int8),
            censored=censored,
            max_usage=requested,
            values=np.repeat(requested, lengths, axis=0),
        )


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading while the block runs; raise `TraceError` if it is damaged or lacks a column."""
    check = Checker(path)
    requested = {"vm": REQUESTS, "vmType": ("vmTypeId", "machineId", *RESOURCES.values())}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for table, columns in requested.items():
                present = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                for column in columns:
                    if column not in present:
                        check.add(f"table {table} with {sorted(present)}", "a column of that name", column=column)
            check.raise_problems()
            yield database
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        check.refuse(f"damaged contents ({error})", "an SQLite database")


def _shares(path: Path, database: sqlite3.Connection) -> dict[Any, Float32]:
    """Return, by number of the VM type, the shares of the chosen machine that it takes, in the order of the metrics."""
    rows = database.execute(f"SELECT machineId, vmTypeId, {', '.join(RESOURCES.values())} FROM vmType").fetchall()
    check = Checker(path)
    for row_number, row in enumerate(rows, 1):
        _check_keys(check, ("machineId", "vmTypeId"), row, row_number, "in table vmType")
        for name, value in zip(RESOURCES.values(), row[2:], strict=True):
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= MOST_SHARE):
                check.add(repr(value), f"a share from 0 to {MOST_SHARE:g}, in table vmType", row_number, name)
    check.raise_problems()
    if not rows:
        check.refuse("no rows in table vmType", "at least one VM type")
    offers = Counter(row[0] for row in rows)
    most = max(offers.values())
    machine = min(name for name, count in offers.items() if count == most)
    return {row[1]: np.array([value or 0.0 for value in row[2:]], np.float32) for row in rows if row[0] == machine}


def _check_keys(check: Checker, names: Sequence[str], row: tuple[Any, ...], row_number: int, table: str) -> None:
    """Record the first values of a row, one for each of `names`, that are no whole number in range.

    `row_number` is the number of the row, `table` says in words where it is.
    """
    for name, value in zip(names, row, strict=False):
        if not isinstance(value, int) or abs(value) > MOST_KEY:
            check.add("NULL" if value is None else repr(value), f"a whole number, {table}", row_number, name)


def _usable(path: Path, rows: Rows, shares: dict[Any, Float32], tally: ConversionReport) -> Rows:
    """Return the usable requests among the rows read last, with lives cut to the trace, and count refused requests.

    Raise `TraceError` for a missing number or time.
    """
    check = Checker(path)
    for row_number, row in enumerate(rows, tally.rows_read - len(rows) + 1):
        _check_keys(check, REQUESTS[:3], row, row_number, "in table vm by vmId")
        for name, value in zip(REQUESTS[4:], row[4:], strict=True):
            missing = value is None and name == "endtime"
            if not missing and not (isinstance(value, int | float) and abs(value) <= MOST_DAYS):
                days = f"days from the start of the trace, from {-MOST_DAYS:g} to {MOST_DAYS:g}, in table vm by vmId"
                check.add(repr(value), days, row_number, name)
    check.raise_problems()
    offered = [row for row in rows if row[2] in shares]
    forwards = [row for row in offered if row[5] is None or row[5] >= row[4]]
    inside = [row for row in forwards if row[4] <= MOST_LIFE_DAYS and (row[5] is None or row[5] >= -MOST_LIFE_DAYS)]
    refused = len(rows) - len(offered), len(offered) - len(forwards), len(forwards) - len(inside)
    tally.refuse(dict(zip((NOT_OFFERED, BACKWARDS, TOO_FAR), refused, strict=True)))
    ends = [None if row[5] is None or row[5] > MOST_LIFE_DAYS else row[5] for row in inside]  # None: after the trace
    return [(*row[:4], max(row[4], -MOST_LIFE_DAYS), end) for row, end in zip(inside, ends, strict=True)]


AZURE_PACKING2020 = PackingReader()
