"""Plans as tables, one row for each node and application, and what differs between two, one row for each move.

Plans have the columns ``node``, ``node_type``, ``application`` and ``replicas``, and moves ``application``, ``source``,
``target`` (empty: no node) and ``replicas``. The ending of the file name selects CSV, which
may be compressed (.gz, .xz, .bz2), or Parquet.

The initial machines of the contest are a plan, too: a start for replanning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from plb.array_types import Int32
from plb.errors import InvalidValueError
from plb.provisioning import Instance, Moves, ProvisioningPlan, lower_bound
from plb.provisioning.plan import NOWHERE
from workloads.column_checks import Checker
from workloads.provisioning.authors import (
    need_file,
    positions,
    read_authors,
    read_headed,
    unknown_names,
    whole_numbers,
    writer_of,
)
from workloads.provisioning.contest import MACHINES_FILE, check_resources, read_contest, read_instances, read_machines
from workloads.provisioning.user_units import PAPER_NODES, NodeSpec, user_nodes
from workloads.readers.alibaba import INSTANCES_FILE, one_file
from workloads.writing import in_one_piece, write_parquet

COLUMNS = ("node", "node_type", "application", "replicas")
"""Columns of a plan."""
FROM_FILE = "file"
"""Stands for the algorithm of a plan that was read."""


def write_plan(path: str | Path, plan: ProvisioningPlan) -> None:
    """Write a plan, its nodes in order.

    Raises
    ------
    InvalidValueError
        The name of the file ends in .zst.
    """
    path = Path(path)
    order = np.lexsort((plan.application, plan.node))
    node, application = plan.node[order], plan.application[order]
    types = pl.Series([node_type.name for node_type in plan.instance.nodes], dtype=pl.String)
    frame = pl.DataFrame(
        {
            "node": pl.Series(plan.node_names(), dtype=pl.String).gather(node),
            "node_type": types.gather(plan.kind[node]),
            "application": pl.Series(plan.instance.applications, dtype=pl.String).gather(application),
            "replicas": plan.count[order],
        }
    )
    _write(path, frame)


def write_moves(path: str | Path, instance: Instance, moves: Moves) -> None:
    """Write the columns application, source, target and replicas of moves; a node outside the plan is empty.

    Raises
    ------
    InvalidValueError
        The name of the file ends in .zst.
    """
    names = pl.Series([*moves.nodes, None], dtype=pl.String)
    frame = pl.DataFrame(
        {
            "application": pl.Series(instance.applications, dtype=pl.String).gather(moves.application),
            "source": names.gather(np.where(moves.source == NOWHERE, len(moves.nodes), moves.source)),
            "target": names.gather(np.where(moves.target == NOWHERE, len(moves.nodes), moves.target)),
            "replicas": moves.count,
        }
    )
    _write(Path(path), frame)


def _write(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as Parquet or CSV, by the ending of the name."""
    if path.suffix == ".parquet":
        write_parquet(frame, path)
        return
    with in_one_piece(path) as partial, writer_of(path)(partial, "wb") as file:
        file.write(frame.write_csv().encode())


def read_plan(path: str | Path, instance: Instance, *, of_another: bool = False) -> ProvisioningPlan:
    """Read a plan for an instance; its `faults` tell whether it is valid.

    Parameters
    ----------
    path
        The file.
    instance
        What is placed; nodes are numbered in the order in which the file first names them, and keep their names.
    of_another
        Whether the plan may be for an instance with further applications, such as an earlier one: their rows are left
        out.

    Raises
    ------
    TraceError
        There is no such file, it is damaged, or rows are wrong (unknown names, a node of two types, a node and an
        application a second time, no number of replicas): it names file, row (of CSV the line, from 1) and column.
    """
    path = Path(path)
    need_file(path, f"a plan with columns {', '.join(COLUMNS)}")
    parquet = path.suffix == ".parquet"
    frame = _read_parquet(path) if parquet else read_headed(path, COLUMNS)
    check = Checker(path, rows_above=0 if parquet else 1)
    if of_another:
        application = positions(frame["application"], instance.applications)
    else:
        expected = f"an application of instance {instance.name}"
        application = unknown_names(check, "application", frame["application"], instance.applications, expected)
    type_names = [node_type.name for node_type in instance.nodes]
    node_type = unknown_names(check, "node_type", frame["node_type"], type_names, f"one of {', '.join(type_names)}")
    node_names = frame["node"].unique(maintain_order=True)
    node = positions(frame["node"], node_names.to_list())
    kind_of_node = node_type[np.unique(node, return_index=True)[1]]
    check.bad_rows(node_type != kind_of_node[node], "node_type", frame["node_type"], "the type that the node has above")
    pairs = frame.select(pl.struct("node", "application")).to_series()
    repeated = ~pairs.is_first_distinct().to_numpy()
    check.bad_rows(repeated, "application", frame["application"], "one that no row above has for this node")
    count = whole_numbers(check, frame, "replicas", low=1)
    check.raise_problems()
    kept = application >= 0
    used_nodes, node_of_row = np.unique(node[kept], return_inverse=True)
    return _plan_of_file(
        instance,
        kind_of_node[used_nodes],
        application[kept],
        node_of_row.astype(np.int32),
        count[kept],
        node_names.gather(used_nodes),
    )


def _plan_of_file(
    instance: Instance, kind: Int32, application: Int32, node: Int32, count: Int32, names: pl.Series
) -> ProvisioningPlan:
    """Return a plan that was read; the arguments are fields of `ProvisioningPlan`."""
    bound = lower_bound(instance)
    return ProvisioningPlan(
        instance, kind, application, node, count, FROM_FILE, seconds=0.0, lower_bound=bound, names=tuple(names)
    )


def _read_parquet(path: Path) -> pl.DataFrame:
    """Return the columns of a plan in a Parquet file as texts, after checks."""
    check = Checker(path)
    frame = check.read()
    check.columns(frame, dict.fromkeys(COLUMNS[:3], "text") | {COLUMNS[3]: "number"})
    check.raise_problems()
    if not len(frame):
        check.refuse("no rows", "at least one row")
    if frame[COLUMNS[3]].dtype.is_float():  # 2.0 is a whole number, too
        integers = frame[COLUMNS[3]].cast(pl.Int64, strict=False)
        if (integers == frame[COLUMNS[3]]).all():
            frame = frame.with_columns(integers)
    return frame.select(pl.col(name).cast(pl.String) for name in COLUMNS)


def read_contest_placement(directory: str | Path, instance: Instance) -> ProvisioningPlan:
    """Read the initial machines of the instances of the contest; about one in ten has none.

    Nodes have the names of the machines.

    Parameters
    ----------
    directory
        Where the contest's files are.
    instance
        Read from the same files, with the machines as its nodes.

    Raises
    ------
    TraceError
        A file is missing or damaged, or names an application or a machine that is not there, or a machine is of no
        kind that the instance has.
    """
    directory = Path(directory)
    resources = check_resources(instance.resources)
    rows = read_instances(directory, instance.applications)
    machines = read_machines(directory, resources)
    check = Checker(one_file(directory, INSTANCES_FILE))
    machine = positions(rows["machine"], machines["machine"].to_list())
    unknown = (machine < 0) & rows["machine"].is_not_null().to_numpy()
    check.bad_rows(unknown, "machine", rows["machine"], f"a machine of {MACHINES_FILE}")
    check.raise_problems()
    pairs = pl.DataFrame({"machine": machine, "application": rows["application"]}).filter(pl.col("machine") >= 0)
    pairs = pairs.group_by("machine", "application").len("count").sort("machine", "application")
    used, node = np.unique(pairs["machine"].to_numpy(), return_inverse=True)
    kind = _kinds(directory, machines, instance)[used]
    application, count = pairs["application"].to_numpy(), pairs["count"].cast(pl.Int32).to_numpy()
    return _plan_of_file(instance, kind, application, node.astype(np.int32), count, machines["machine"].gather(used))


def _kinds(directory: Path, machines: pl.DataFrame, instance: Instance) -> Int32:
    """Return the index of each machine's kind among the node types of the instance, (machines,)."""
    capacity = machines.select(instance.resources).to_numpy()
    kind = np.full(len(machines), -1, np.int32)
    for index, node in reversed(list(enumerate(user_nodes(instance)))):
        kind[(capacity == np.array(node.capacity)).all(axis=1)] = index
    check = Checker(one_file(directory, MACHINES_FILE))
    capacities = machines.select(pl.concat_str(instance.resources, separator=", ")).to_series()
    allowed = " or ".join(", ".join(f"{value:g}" for value in node.capacity) for node in user_nodes(instance))
    check.bad_rows(kind < 0, ", ".join(instance.resources), capacities, f"what a node of the instance has, {allowed}")
    check.raise_problems()
    return kind


_NODE = re.compile(r"((?P<name>[^=,]+)=)?(?P<capacity>\d+(\.\d+)?(,\d+(\.\d+)?)*)(x(?P<count>\d{1,9}))?")


def read_instance(path: str | Path, nodes: Sequence[NodeSpec] | None = None) -> Instance:
    """Read an instance: the files of the contest if the path is a directory, else a file of the authors of [3].

    Parameters
    ----------
    path
        File or directory.
    nodes
        The kinds of nodes in the order of their use. None: the contest's machines, and for the authors' files the
        nodes of [3] section 5.1.

    Raises
    ------
    TraceError, InvalidValueError
        As `read_contest` and `read_authors` do.
    """
    path = Path(path)
    if path.is_dir():
        return read_contest(path, nodes=nodes)
    return read_authors(path, nodes=PAPER_NODES if nodes is None else nodes)


def parse_nodes(specs: Sequence[str]) -> list[NodeSpec]:
    """Return kinds of nodes from texts with name, capacity and number: ``64,128`` or ``large=92,288x3000``."""
    nodes = []
    for number, text in enumerate(specs):
        match = _NODE.fullmatch(text.strip())
        if match is None:
            raise InvalidValueError("nodes", f"kind {number}", text, "capacities such as 64,128 or large=92,288x3000")
        capacity = tuple(float(value) for value in match["capacity"].split(","))
        count = None if match["count"] is None else int(match["count"])
        nodes.append(NodeSpec(match["name"] or ("node" if number == 0 else f"node{number + 1}"), capacity, count))
    return nodes
