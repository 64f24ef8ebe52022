r"""The CSV format of [3]'s authors: one row an application, tabs between columns, with a header.

- ``app_id``, the application's name;
- ``nb_instances``, its replicas;
- ``core`` and ``memory``, what a replica asks for: a number, or a list of numbers, one a time point, ``[0.5, 0.7]``;
- ``inter_degree``, how many limits ``inter_aff`` lists;
- ``inter_aff``, limits of others beside it: ``[(7, 2), (9, 0)]`` allows two replicas of application 7 and none of 9.

Files may be compressed (.gz, .xz, .bz2, .zst).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from plb.arrays import Int32
from plb.provisioning import Affinity, Instance, NodeType, whole_units
from workloads.checks import Checker

COLUMNS = ("app_id", "nb_instances", "core", "memory", "inter_degree", "inter_aff")
RESOURCES = ("core", "memory")
NODES = (("node", (64.0, 128.0), None),)
"""Of [3] section 5.1: 64 cores and 128 GB, as many as it takes."""
MOST_REPLICAS = 10**6

_LIMIT = r"\(\s*'?([^,()'\s]+)'?\s*,\s*(\d+)\s*\)"
_LIMITS = rf"^\s*\[\s*(?:{_LIMIT}\s*,?\s*)*\]\s*$".replace("(\\d+)", "\\d+").replace("([^,()'\\s]+)", "[^,()'\\s]+")

NodeSpec = tuple[str, Sequence[float], int | None]
"""Name, capacities in the order of resources, and how many there are; None: as many as it takes."""
Floats = npt.NDArray[np.float64]


def read_authors(path: str | Path, *, nodes: Sequence[NodeSpec] = NODES) -> Instance:
    """Read an instance.

    Parameters
    ----------
    path
        The file.
    nodes
        The kinds of nodes, those to be used first in front.

    Raises
    ------
    TraceError
        The file cannot be read, or rows are wrong: it names file, row (from 1, without the header) and column.
    InvalidValueError
        A replica fits on no node.
    """
    path = Path(path)
    check = Checker(path)
    frame = _read(check, path)
    names = frame["app_id"].to_list()
    replicas = _numbers(check, frame, "nb_instances", 1)
    demand = [_curves(check, frame, resource) for resource in RESOURCES]
    source, target, most = _limits(check, frame, names)
    check.raise_problems()
    points = {curve.shape[1] for curve in demand}
    if len(points) > 1:
        check.add(f"{demand[0].shape[1]} values in core, {demand[1].shape[1]} in memory", "equally many time points")
        check.raise_problems()
    return make_instance(
        path.name.split(".")[0],
        RESOURCES,
        names,
        replicas,
        demand,
        Affinity.from_columns(source, target, most, len(names)),
        nodes,
    )


def make_instance(
    name: str,
    resources: Sequence[str],
    applications: Sequence[str],
    replicas: Int32,
    demand: Sequence[Floats],
    affinity: Affinity,
    nodes: Sequence[NodeSpec],
) -> Instance:
    """Return an instance from numbers in user units: demand (L, T) of each resource, capacities of each kind of node."""
    whole, units = [], []
    capacities = np.array([capacity for _, capacity, _ in nodes], np.float64)
    for number, values in enumerate(demand):
        both, unit = whole_units(np.concatenate([values.ravel(), capacities[:, number]]))
        whole.append(both)
        units.append(unit)
    rows = [both[: values.size].reshape(values.shape) for both, values in zip(whole, demand, strict=True)]
    limits = np.stack([both[-len(nodes) :] for both in whole], axis=1)
    return Instance(
        name=name,
        resources=tuple(resources),
        applications=tuple(applications),
        replicas=replicas,
        demand=np.stack(rows, axis=1),
        affinity=affinity,
        nodes=tuple(NodeType(kind, limit, count) for (kind, _, count), limit in zip(nodes, limits, strict=True)),
        units=tuple(units),
    )


def _read(check: Checker, path: Path) -> pl.DataFrame:
    """Return the columns as text."""
    frame = check.undamaged(
        lambda: pl.read_csv(
            unpacked(path), separator="\t", infer_schema=False, quote_char=None, truncate_ragged_lines=False
        )
    )
    check.columns(frame, dict.fromkeys(COLUMNS, "text"))
    check.raise_problems()
    if frame.is_empty():
        check.add("no rows", "at least one application")
    doubled = ~frame["app_id"].is_first_distinct().to_numpy()
    check.bad_rows(doubled, "app_id", frame["app_id"], "an application that no row above has")
    return frame


def _numbers(check: Checker, frame: pl.DataFrame, column: str, low: int) -> Int32:
    values = frame[column].str.strip_chars().cast(pl.Int64, strict=False)
    good = values.is_between(low, MOST_REPLICAS).fill_null(value=False).to_numpy()
    check.bad_rows(~good, column, frame[column], f"a whole number from {low} to {MOST_REPLICAS}")
    return values.fill_null(low).to_numpy().clip(low, MOST_REPLICAS).astype(np.int32)


def _curves(check: Checker, frame: pl.DataFrame, column: str) -> Floats:
    """Return what replicas ask for, (L, T)."""
    lists = frame[column].str.strip_chars(" []").str.split(",").list.eval(pl.element().str.strip_chars())
    values = lists.cast(pl.List(pl.Float64), strict=False)
    points = int(values.list.len().mode()[0]) if len(values) else 1
    inside = values.list.eval(pl.element().is_between(0.0, 1e9).fill_null(value=False)).list.all()
    good = (inside & (values.list.len() == points)).fill_null(value=False).to_numpy()
    number = "a finite number of at least 0"
    expected = number if points == 1 else f"{points} finite numbers of at least 0, as in most rows"
    check.bad_rows(~good, column, frame[column].str.slice(0, 60), expected)
    if not good.all():
        return np.zeros((len(frame), points))
    return np.asarray(values.explode().to_numpy(), np.float64).reshape(len(frame), points)


def _limits(check: Checker, frame: pl.DataFrame, names: list[str]) -> tuple[Any, Any, Any]:
    """Return application, other application and how many of it are allowed, one value each for a limit."""
    text = frame["inter_aff"]
    good = text.str.contains(_LIMITS).to_numpy()
    check.bad_rows(~good, "inter_aff", text.str.slice(0, 60), "a list such as [(7, 2), (9, 0)]")
    pairs = text.str.extract_all(_LIMIT)
    count = pairs.list.len().to_numpy()
    degree = _numbers(check, frame, "inter_degree", 0)
    wrong = good & (degree != count)
    check.bad_rows(wrong, "inter_degree", frame["inter_degree"], "as many as inter_aff lists")
    source = np.repeat(np.arange(len(frame)), count)
    both = pairs.explode().drop_nulls()
    other = both.str.extract(_LIMIT, 1)
    most = both.str.extract(_LIMIT, 2).cast(pl.Int64, strict=False).clip(0, MOST_REPLICAS)
    known = pl.DataFrame({"name": names, "number": np.arange(len(names))}).unique("name", keep="first")
    target = pl.DataFrame({"name": other}).join(known, on="name", how="left", maintain_order="left")["number"]
    unknown = target.is_null().to_numpy()
    if unknown.any():
        first = int(np.flatnonzero(unknown)[0])
        check.add(
            f"a limit for application {other[first]}",
            "applications that the file has",
            int(source[first]) + 1,
            "inter_aff",
            int(unknown.sum()),
        )
    return source, target.fill_null(0).to_numpy(), most.to_numpy()


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, unpacked by its ending."""
    import bz2
    import gzip
    import lzma

    opening: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    with opening.get(path.suffix, open)(path, "rb") as file:
        content: bytes = file.read()
    return content


def write_authors(path: str | Path, instance: Instance) -> None:
    """Write an instance of cores and memory; its nodes are not part of the format."""
    values = [(instance.demand[:, number] * unit).round(9) for number, unit in enumerate(instance.units)]
    limits = instance.affinity
    order = np.argsort(limits.source, kind="stable")
    start = np.searchsorted(limits.source[order], np.arange(len(instance.applications) + 1))
    rows = []
    for number, name in enumerate(instance.applications):
        arcs = order[start[number] : start[number + 1]]
        pairs = [
            f"({instance.applications[other]}, {most})"
            for other, most in zip(limits.target[arcs].tolist(), limits.most[arcs].tolist(), strict=True)
        ]
        cells = (
            name,
            str(instance.replicas[number]),
            *(_cell(curve[number].tolist()) for curve in values),
            str(len(pairs)),
            f"[{', '.join(pairs)}]",
        )
        rows.append("\t".join(cells))
    Path(path).write_text("\n".join(["\t".join(COLUMNS), *rows]) + "\n", encoding="utf-8")


def _cell(curve: list[float]) -> str:
    numbers = [f"{value:.12g}" for value in curve]
    return numbers[0] if len(numbers) == 1 else f"[{', '.join(numbers)}]"
