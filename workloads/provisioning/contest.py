"""The files of the contest of Alibaba (Tianchi, 2018) as an instance of provisioning.

A directory holds four files, plain or compressed, without headers:

- ``*app_resources*.csv``: application, CPU curve and memory curve (98 values each, | between them), disk, P, M, PM;
- ``*instance_deploy*.csv``: instance, application, initial machine (may be empty);
- ``*machine_resources*.csv``: machine, CPU, memory, disk, P, M, PM;
- ``*app_interference*.csv``: applications A and B, and k: on a machine with an A at most k of B. For A = B the contest
  allows k + 1 instances of A.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from plb.array_types import Bool, Float
from plb.errors import InvalidValueError
from plb.provisioning import Affinity, Instance
from plb.provisioning.instance import ANY_NUMBER
from plb.validation import check_names
from workloads.column_checks import Checker
from workloads.provisioning.authors import MOST_REPLICAS, read_table, unknown_names
from workloads.provisioning.user_units import MOST_DEMAND, NodeSpec, build_instance
from workloads.readers.alibaba import (
    APPS,
    APPS_FILE,
    CURVES,
    INSTANCES,
    INSTANCES_FILE,
    POINTS,
    check_apps,
    check_instances,
    curves_of,
    one_file,
)
from workloads.readers.files import TextTable

CONSTANT = ("disk", "P", "M", "PM")
"""The resources whose demand is constant."""
RESOURCES = (*CURVES, *CONSTANT)
"""All resources of the contest."""
MACHINES_FILE, INTERFERENCE_FILE = "*machine_resources*.csv", "*app_interference*.csv"
MACHINES = TextTable(columns={"machine": pl.String} | dict.fromkeys(RESOURCES, pl.Float64))
INTERFERENCE = TextTable(columns={"app": pl.String, "other": pl.String, "limit": pl.Int64})


def read_contest(
    directory: str | Path,
    *,
    resources: Sequence[str] = CURVES,
    nodes: Sequence[NodeSpec] | None = None,
    self_limits: bool = True,
) -> Instance:
    """Read an instance.

    Applications without an instance are omitted with their limits; the others have the order of the file.

    Parameters
    ----------
    directory
        Directory of the files.
    resources
        Of ``cpu``, ``memory``, ``disk``, ``P``, ``M`` and ``PM``; the last four are constant over time.
    nodes
        The kinds of nodes in the order of their use. None: the contest's machines, one kind for each capacity, the
        larger in front.
    self_limits
        Whether limits of applications for themselves are read; [3]'s data sets are without.

    Raises
    ------
    TraceError
        A file is missing or damaged, or rows are wrong: it names file, row (from 1) and column.
    InvalidValueError
        `resources` holds another name or one twice, or a replica fits on no node.
    """
    directory = Path(directory)
    resources = check_resources(resources)
    apps = _read_apps(directory, resources)
    instances = read_instances(directory, apps["app"].to_list())
    replicas = np.bincount(instances["application"].to_numpy(), minlength=len(apps))
    present = replicas > 0
    affinity = _read_limits(directory, apps["app"].to_list(), present, self_limits=self_limits)
    apps = apps.filter(pl.Series(present))
    return build_instance(
        name=directory.resolve().name,
        resources=resources,
        applications=apps["app"].to_list(),
        replicas=replicas[present].astype(np.int32),
        demand=np.stack([_demand(apps, resource) for resource in resources], axis=1),
        affinity=affinity,
        nodes=tuple(nodes) if nodes is not None else _kinds(read_machines(directory, resources), resources),
    )


def check_resources(resources: Sequence[str]) -> tuple[str, ...]:
    """Return names of the contest's resources, or refuse them."""
    required = check_names("contest", "resources", resources)
    if not required or len(set(required)) < len(required) or set(required) - set(RESOURCES):
        raise InvalidValueError("contest", "resources", list(required), f"different names of {', '.join(RESOURCES)}")
    return required


def _read_apps(directory: Path, resources: Sequence[str]) -> pl.DataFrame:
    """Return the table of applications, of which the columns of `resources` are checked."""
    path = one_file(directory, APPS_FILE)
    apps = read_table(path, APPS)
    check_apps(path, apps)
    check = Checker(path)
    for name in CURVES:
        peak = curves_of(apps[name]).max(axis=1)
        check.bad_rows(peak > MOST_DEMAND, name, peak, f"numbers up to {MOST_DEMAND:g}")
    check.raise_problems()
    _check_constants(path, apps, [name for name in resources if name in CONSTANT])
    return apps


def _check_constants(path: Path, frame: pl.DataFrame, names: Sequence[str]) -> None:
    """Raise `TraceError` unless columns of a table hold numbers from 0 to `MOST_DEMAND`."""
    check = Checker(path)
    for name in names:
        values = frame[name].fill_null(np.nan).to_numpy()
        check.bad_rows(~((values >= 0) & (values <= MOST_DEMAND)), name, values, f"a number from 0 to {MOST_DEMAND:g}")
    check.raise_problems()


def _demand(apps: pl.DataFrame, resource: str) -> Float:
    """Return the demand for one resource, (L, POINTS)."""
    if resource in CURVES:
        return curves_of(apps[resource])
    return np.repeat(apps[resource].to_numpy()[:, None], POINTS, axis=1)


def read_instances(directory: Path, applications: Sequence[str]) -> pl.DataFrame:
    """Return the instances: their names, ``application`` (index of `applications`), and ``machine`` or null."""
    path = one_file(directory, INSTANCES_FILE)
    rows = read_table(path, INSTANCES)
    check_instances(path, rows)
    check = Checker(path)
    application = unknown_names(check, "app", rows["app"], applications, f"an application of {APPS_FILE}")
    rows = rows.with_columns(pl.Series("application", application))
    many = rows.filter(pl.col("application").is_duplicated()).group_by("app").len()
    for name, count in many.filter(pl.col("len") > MOST_REPLICAS).iter_rows():
        check.add(f"{count} instances of {name}", f"at most {MOST_REPLICAS}", column="app")
    check.raise_problems()
    return rows


def read_machines(directory: Path, resources: Sequence[str]) -> pl.DataFrame:
    """Return the machines: their names, and their capacity for each resource."""
    path = one_file(directory, MACHINES_FILE)
    machines = read_table(path, MACHINES)
    check = Checker(path)
    check.columns(machines, {"machine": "text"})
    check.distinct(machines["machine"], "machine", "a machine that no row above has")
    check.raise_problems()
    _check_constants(path, machines, resources)
    return machines.select("machine", *resources)


def _kinds(machines: pl.DataFrame, resources: Sequence[str]) -> tuple[NodeSpec, ...]:
    """Return a kind of nodes for each capacity of machines, by descending capacity."""
    kinds = machines.group_by(resources).len().sort(resources, descending=True)
    return tuple(
        NodeSpec("x".join(f"{value:g}" for value in capacity), tuple(capacity), count)
        for *capacity, count in kinds.iter_rows()
    )


def _read_limits(directory: Path, applications: Sequence[str], present: Bool, *, self_limits: bool) -> Affinity:
    """Return the limits between applications that have instances, as indices of these.

    `present`, (applications,), is whether an application has instances.
    """
    path = one_file(directory, INTERFERENCE_FILE)
    rows = read_table(path, INTERFERENCE, may_be_empty=True)
    check = Checker(path)
    expected = f"an application of {APPS_FILE}"
    ends = [unknown_names(check, column, rows[column], applications, expected) for column in ("app", "other")]
    good = rows["limit"].is_between(0, ANY_NUMBER - 1).fill_null(value=False).to_numpy()
    check.bad_rows(~good, "limit", rows["limit"], f"a whole number from 0 to {ANY_NUMBER - 1}")
    check.raise_problems()
    source, target = ends
    itself = source == target
    most = rows["limit"].to_numpy() + itself
    kept = present[source] & present[target] & (~itself | self_limits)
    index = np.cumsum(present) - 1
    return Affinity(*(column[kept].astype(np.int32) for column in (index[source], index[target], most)))
