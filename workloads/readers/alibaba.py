"""Readers of Alibaba's cluster trace of 2018 and of the contest data (Tianchi, 2018).

**The cluster trace**: usage of the containers of online services over 8 days. The directory holds
``container_usage.csv`` and ``container_meta.csv``, without header, plain or ``.gz``; the published ``.tar.gz`` archives
have to be unpacked.

- **Metrics.** ``cpu`` in cores and ``memory`` in percent of the largest machine's memory. Usage in the trace is in
  percent of the request of a container (stated in issue 62 of alibaba/clusterdata). There is no disk space.
- **Refused rows** have a value of -1 or 101, which mark invalid values, or time 0, which is outside the trace.
- **MaxUsage**: the largest request of the container. **Class**: its requests, each rounded up to a power of two.
- **Lifetimes** follow from the rows. Machines, deployment groups, network, disk traffic and batch jobs are left out.

**The contest**: demand curves of 9,338 applications over one day. The directory holds ``*app_resources*.csv``
(application, CPU curve, memory curve, disk, P, M, PM) and ``*instance_deploy*.csv`` (instance, application, machine),
plain or compressed.

- **Metrics.** ``cpu`` in cores and ``memory`` in GB, 98 values each, which are read as one every 15 minutes (the
  contest does not state the step), and ``disk`` in GB, which is constant. GB is how the contest is usually read; it
  gives no unit.
- **Tenants**: one an application, with the role ``instance`` and as many replicas as it has instances. An
  application with more than 127 instances becomes several tenants of one family, ``<application>/2`` and so on.
- **MaxUsage** is the maximum of the curve: the contest has no other request, its curves are what is reserved.
- Lifetimes are not known, so all tenants are censored. Initial machines, interference, P, M and PM are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import polars as pl

from plb.array_types import Float, Float32, Int
from plb.model import Role
from workloads.column_checks import LARGEST, Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, TracePart, family_numbers, measured, sized_classes
from workloads.readers.external_sort import OWNER, TIME, ConversionReport, Frame
from workloads.readers.files import TextTable, need_files
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo, TraceSet, one_series_each
from workloads.trace_validation import MOST_REPLICAS

USAGE = TextTable(
    columns=dict.fromkeys(("container_id", "machine_id"), pl.String)
    | dict.fromkeys(("time_stamp", "cpu_util_percent", "mem_util_percent", "cpi", "mem_gps", "mpki"), pl.Float64)
    | dict.fromkeys(("net_in", "net_out", "disk_io_percent"), pl.Float64)
)
REQUESTS = TextTable(
    columns=dict.fromkeys(("container_id", "machine_id"), pl.String)
    | {"time_stamp": pl.Float64, "app_du": pl.String, "status": pl.String}
    | dict.fromkeys(("cpu_request", "cpu_limit", "mem_size"), pl.Float64)
)
OUTSIDE = "at time 0, which is outside the trace"
INVALID = "with -1 or 101 percent, which are invalid"


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the usage of the containers, at most `options.rows_in_memory` rows at a time; `scratch`: unpacked files."""
    usage = {"cpu": pl.col("cpu_util_percent"), "memory": pl.col("mem_util_percent")}
    invalid = pl.any_horizontal(value.is_in([-1.0, 101.0]) for value in usage.values())
    time = pl.col("time_stamp")
    values = measured(usage, {OUTSIDE: time == 0, INVALID: invalid})
    columns = [pl.col("container_id").alias(OWNER), time.alias(TIME), *values]
    for path in need_files(source, ["container_usage.csv"], "container_usage.csv, plain or .gz"):
        for rows in USAGE.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows)


def _requests(source: Path, scratch: Path) -> pl.LazyFrame:
    """Return the table of owners (`SampledReader.owners`): largest requests; 100 of `cpu_request` are one core."""
    folder = source.parent if source.is_file() else source
    expected = "container_meta.csv, which has the requests, plain or .gz"
    requests = [pl.col("cpu_request") / 100.0, pl.col("mem_size")]
    columns = [pl.col("container_id").alias(OWNER), *requests]
    path = need_files(folder, ["container_meta.csv"], expected)[0]
    table = REQUESTS.whole(path, scratch, columns)
    largest = table.group_by(OWNER).agg(pl.col("cpu_request", "mem_size").max())
    return (
        largest.lazy()
        .select(
            OWNER,
            (pl.col("cpu_request") / 100.0).alias("scale_cpu"),
            (pl.col("mem_size") / 100.0).alias("scale_memory"),
            pl.col("cpu_request").cast(pl.Float32).alias("limit_cpu"),
            pl.col("mem_size").cast(pl.Float32).alias("limit_memory"),
        )
        .filter(pl.col(name).is_between(0.0, LARGEST, closed="right") for name in ("limit_cpu", "limit_memory"))
    )


ALIBABA2018 = SampledReader(
    name="alibaba2018",
    files="container_usage.csv and container_meta.csv, plain or .gz",
    metrics=(MetricInfo("cpu", "cores", trend=False), MetricInfo("memory", "percent of the largest machine")),
    origin="the start of the trace; its date and time of day are not published",
    request="cpu_request and mem_size of container_meta",
    frames=_frames,
    places=("container_id", "time_stamp"),
    reasons=(MISSING, OUTSIDE, INVALID, NEGATIVE),
    owners=_requests,
    owners_complete=True,
    classes=sized_classes("container", {"c": pl.col("limit_cpu").median(), "m": pl.col("limit_memory").median()}),
)


POINTS = 98
"""Time points of a curve of the contest."""
APPS_FILE, INSTANCES_FILE = "*app_resources*.csv", "*instance_deploy*.csv"
"""Patterns of the names of the contest's files."""
APPS = TextTable(
    columns={"app": pl.String, "cpu": pl.String, "memory": pl.String, "disk": pl.Float64}
    | dict.fromkeys(("P", "M", "PM"), pl.Float64)
)
INSTANCES = TextTable(columns={"instance": pl.String, "app": pl.String, "machine": pl.String})
CURVES = ("cpu", "memory")
"""The resources with a curve."""
WITHOUT_INSTANCE = "applications without an instance"
UNKNOWN_APP = "instances of an application that app_resources does not list"


@attrs.frozen(kw_only=True)
class TianchiReader:
    """The reader; see `workloads.readers.base.Reader`."""

    name: str = "tianchi2018"
    files: str = f"{APPS_FILE} and {INSTANCES_FILE}"
    metrics: tuple[MetricInfo, ...] = (
        MetricInfo("cpu", "cores", trend=False),
        MetricInfo("memory", "GB"),
        MetricInfo("disk", "GB"),
    )
    step_seconds: float = 900.0
    origin: str = "the first point of the curves"
    request: str = "maximum of the curve; the contest has no other"
    """The properties of `Reader` with these names."""

    def parts(self, source: Path, options: Options, tally: ConversionReport, scratch: Path) -> Iterator[TracePart]:
        """Yield all tenants at once (see `workloads.readers.base.Reader`); of the options none applies."""
        path = one_file(source, APPS_FILE)
        apps = APPS.whole(path, scratch, [pl.col(name) for name in APPS.columns])
        check_apps(path, apps)
        disk = np.repeat(apps["disk"].to_numpy()[:, None], POINTS, axis=1)
        curves = np.stack([*(curves_of(apps[name]) for name in CURVES), disk], axis=2).astype(np.float32)
        path = one_file(source, INSTANCES_FILE)
        rows = INSTANCES.whole(path, scratch, [pl.col("instance"), pl.col("app")])
        check_instances(path, rows)
        instances = rows.group_by("app").len()
        counts = apps.select("app").join(instances, on="app", how="left", maintain_order="left")["len"].fill_null(0)
        placed = int(instances.join(apps.select("app"), on="app", how="semi")["len"].sum())
        listed = int(instances["len"].sum())
        tally.read(len(apps) + listed)
        tally.refuse({WITHOUT_INSTANCE: int((counts == 0).sum()), UNKNOWN_APP: listed - placed})
        names = apps["app"].to_list()
        replicas, owner = _replicas(counts.to_numpy().astype(np.int64))
        if not len(owner):
            Checker(path).refuse("only applications without an instance", f"at least one that {INSTANCES_FILE} lists")
        tally.owners += int((counts > 0).sum())
        tally.tenants += len(owner)
        tally.steps += len(owner) * POINTS
        tally.steps_kept += len(owner) * POINTS
        yield TracePart(self._trace_set(names, curves, replicas, owner), np.zeros(len(owner), np.int64))

    def _trace_set(self, names: list[str], curves: Float32, replicas: Int, owner: Int) -> TraceSet:
        """Return the T tenants of A applications.

        `names`, (A,), and `curves`, (A, POINTS, 3), are of applications; `replicas`, (T,), and the application `owner`,
        (T,), ascending, are of tenants.
        """
        tenants = len(owner)
        rank = np.arange(tenants) - np.searchsorted(owner, owner)
        values = np.ascontiguousarray(curves[owner].reshape(-1, len(self.metrics)))
        most = values.reshape(tenants, POINTS, -1).max(axis=1)
        sizes = np.exp2(np.ceil(np.log2(np.maximum(most[:, :2], 0.5))))
        return one_series_each(
            Role.INSTANCE,
            class_names=[f"app_c{cpu:g}_m{memory:g}" for cpu, memory in sizes],
            lifetime_steps=np.full(tenants, POINTS),
            metrics=self.metrics,
            step_seconds=self.step_seconds,
            tenant=np.array(
                [
                    f"{names[app]}/{number + 1}" if number else names[app]
                    for app, number in zip(owner, rank, strict=True)
                ]
            ),
            family=family_numbers([names[app] for app in owner]),
            replicas=replicas.astype(np.int8),
            censored=np.ones(tenants, np.bool_),
            max_usage=most,
            values=values,
        )


def one_file(source: Path, pattern: str) -> Path:
    """Return the file in a directory of the contest that matches a pattern, or raise `TraceError`."""
    if source.is_file():
        Checker(source).refuse("a file", f"the directory of {APPS_FILE} and {INSTANCES_FILE}")
    return need_files(source, [pattern], f"a file {pattern} of the contest, plain or compressed")[0]


def check_apps(path: Path, apps: pl.DataFrame) -> None:
    """Raise `TraceError` for applications without a name, with a repeated one, or with invalid curves or disk."""
    check = Checker(path)
    check.distinct(apps["app"], "app", "an application that no row above has")
    check.bad_rows(apps["app"].is_null().to_numpy(), "app", apps["app"], "the name of an application")
    for name in CURVES:
        numbers = _lists(apps[name])
        inside = numbers.list.eval(pl.element().is_between(0.0, LARGEST).fill_null(value=False)).list.all()
        good = ((numbers.list.len() == POINTS) & inside).fill_null(value=False).to_numpy()
        short = apps[name].str.slice(0, 60)
        check.bad_rows(~good, name, short, f"{POINTS} finite numbers of at least 0, separated by |")
    disk = apps["disk"].fill_null(np.nan).to_numpy()
    check.bad_rows(~((disk >= 0) & (disk <= LARGEST)), "disk", disk, "a finite number of at least 0")
    check.raise_problems()


def curves_of(text: pl.Series) -> Float:
    """Return the curves of a checked column of texts, (A, POINTS)."""
    return _lists(text).explode().to_numpy().reshape(len(text), POINTS)


def _lists(text: pl.Series) -> pl.Series:
    """Return texts of numbers with | between them as lists of numbers."""
    return text.str.split("|").cast(pl.List(pl.Float64), strict=False)


def check_instances(path: Path, rows: pl.DataFrame) -> None:
    """Raise `TraceError` if `rows`, a table of instances, lacks a name or an application, or repeats an instance."""
    check = Checker(path)
    for name in ("instance", "app"):
        check.bad_rows(rows[name].is_null().to_numpy(), name, rows[name], "a name")
    check.distinct(rows["instance"], "instance", "an instance that no row above has")
    check.raise_problems()


def _replicas(counts: Int) -> tuple[Int, Int]:
    """Return the number of replicas and the application of each tenant, (T,), from `counts` of replicas, (A,).

    An application with more than `MOST_REPLICAS` replicas has several tenants.
    """
    tenants = -(-counts // MOST_REPLICAS)
    owner = np.repeat(np.arange(len(counts)), tenants)
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return np.minimum(counts[owner] - rank * MOST_REPLICAS, MOST_REPLICAS), owner


TIANCHI2018 = TianchiReader()
