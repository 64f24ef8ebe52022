"""Plans as tables, one row for each node and application, and what differs between two, one row for each move.

The columns of a plan are ``node``, ``node_type``, ``application`` and ``replicas``, those of moves ``application``,
``source``, ``target`` (empty: no node) and ``replicas``. The ending of the file name selects CSV, which
may be compressed (.gz, .xz, .bz2), or Parquet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from plb.provisioning import Instance, Moves, ProvisioningPlan, lower_bound
from plb.provisioning.moves import NOWHERE
from workloads.checks import Checker
from workloads.provisioning.tables import need_file, positions, read_headed, unknown_names, whole_numbers, writer_of
from workloads.writing import in_one_piece, write_parquet

COLUMNS = ("node", "node_type", "application", "replicas")
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
    """Write moves, by application.

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
        Whether the plan may be one for another instance, as from before applications went: rows of applications that
        the instance does not have are left out.

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
    types = [node_type.name for node_type in instance.nodes]
    node_type = unknown_names(check, "node_type", frame["node_type"], types, f"one of {', '.join(types)}")
    names = frame["node"].unique(maintain_order=True)
    node = positions(frame["node"], names.to_list())
    kind = node_type[np.unique(node, return_index=True)[1]]
    check.bad_rows(node_type != kind[node], "node_type", frame["node_type"], "the type that the node has above")
    pairs = frame.select(pl.struct("node", "application")).to_series()
    doubled = ~pairs.is_first_distinct().to_numpy()
    check.bad_rows(doubled, "application", frame["application"], "one that no row above has for this node")
    count = whole_numbers(check, frame, "replicas", low=1)
    check.raise_problems()
    known = application >= 0
    used, number = np.unique(node[known], return_inverse=True)
    return ProvisioningPlan(
        instance=instance,
        kind=kind[used],
        application=application[known],
        node=number.astype(np.int32),
        count=count[known],
        algorithm=FROM_FILE,
        seconds=0.0,
        lower_bound=lower_bound(instance),
        names=tuple(names.gather(used).to_list()),
    )


def _read_parquet(path: Path) -> pl.DataFrame:
    """Return the columns as text."""
    check = Checker(path)
    frame = check.read()
    check.columns(frame, dict.fromkeys(COLUMNS[:3], "text") | {COLUMNS[3]: "number"})
    check.raise_problems()
    if not len(frame):
        check.refuse("no rows", "at least one row")
    if frame[COLUMNS[3]].dtype.is_float():  # 2.0 is a whole number, too
        whole = frame[COLUMNS[3]].cast(pl.Int64, strict=False)
        if (whole == frame[COLUMNS[3]]).all():
            frame = frame.with_columns(whole)
    return frame.select(pl.col(name).cast(pl.String) for name in COLUMNS)
