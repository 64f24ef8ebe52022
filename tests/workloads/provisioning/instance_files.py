"""Writes instances in the formats of the contest and of the authors, and makes demand constant, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from plb.array_types import Float
from plb.provisioning import Instance
from workloads.provisioning import build_instance
from workloads.provisioning.authors import COLUMNS, writer_of
from workloads.provisioning.authors import RESOURCES as AUTHORS_RESOURCES
from workloads.provisioning.contest import CONSTANT, RESOURCES
from workloads.provisioning.user_units import user_demand, user_nodes
from workloads.readers.alibaba import CURVES, POINTS

Rows = Iterator[Sequence[str]]
"""The fields of each row of a file."""


def write_contest(directory: Path, instance: Instance) -> None:
    """Write the four files of an instance of 98 time points and counted nodes; no instance has a machine.

    Resources that the instance does not have are written as 0. Names of node types are not part of the format.
    """
    demand = dict(zip(instance.resources, np.moveaxis(user_demand(instance), 1, 0), strict=True))
    files = {
        "app_resources": _app_rows(instance, demand),
        "instance_deploy": _instance_rows(instance),
        "machine_resources": _machine_rows(instance),
        "app_interference": _limit_rows(instance),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        (directory / f"{name}.csv").write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")


def _text(value: float) -> str:
    """Return a number as a text from which it can be read exactly."""
    return repr(float(value))


def _app_rows(instance: Instance, demand: dict[str, Float]) -> Rows:
    """Yield the rows of the applications; `demand` has the demand, (L, POINTS), by resource."""
    for application, name in enumerate(instance.applications):
        curves = ("|".join(map(_text, _curve(demand, resource, application))) for resource in CURVES)
        yield name, *curves, *(_text(_curve(demand, resource, application)[0]) for resource in CONSTANT)


def _curve(demand: dict[str, Float], resource: str, application: int) -> list[float]:
    """Return the demand of an application for a resource over time; 0 if the instance does not have the resource."""
    return demand[resource][application].tolist() if resource in demand else [0.0] * POINTS


def _instance_rows(instance: Instance) -> Rows:
    """Yield the rows of the replicas of all applications."""
    replica = 0
    for name, replicas in zip(instance.applications, instance.replicas.tolist(), strict=True):
        for _ in range(replicas):
            replica += 1
            yield f"inst_{replica}", name, ""


def _machine_rows(instance: Instance) -> Rows:
    """Yield the rows of the nodes."""
    machine = 0
    for node in user_nodes(instance):
        capacity = dict(zip(instance.resources, node.capacity, strict=True))
        for _ in range(node.count or 0):
            machine += 1
            yield f"machine_{machine}", *(_text(capacity.get(resource, 0.0)) for resource in RESOURCES)


def _limit_rows(instance: Instance) -> Rows:
    """Yield the rows of the limits between applications."""
    limits = instance.affinity
    for source, target, most in zip(limits.source.tolist(), limits.target.tolist(), limits.most.tolist(), strict=True):
        # the contest counts the other replicas, so a single replica is always allowed
        limit = most - 1 if source == target else most
        yield instance.applications[source], instance.applications[target], str(limit)


def write_authors(path: Path, instance: Instance) -> None:
    """Write an instance of cores and memory; the names of its resources and its nodes are not part of the format."""
    with writer_of(path)(path, "wt", encoding="utf-8") as file:
        file.write("\t".join(COLUMNS) + "\n")
        file.writelines("\t".join(row) + "\n" for row in _author_rows(instance))


def _author_rows(instance: Instance) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the row of each application."""
    names, limits, demand = instance.applications, instance.affinity, user_demand(instance)
    order = np.argsort(limits.source, kind="stable")
    start = np.searchsorted(limits.source[order], np.arange(len(names) + 1))
    for application, name in enumerate(names):
        arcs = order[start[application] : start[application + 1]]
        targets = zip(limits.target[arcs].tolist(), limits.most[arcs].tolist(), strict=True)
        pairs = [f"({names[target]}, {most})" for target, most in targets]
        curves = (_cell(demand[application, resource].tolist()) for resource in range(len(AUTHORS_RESOURCES)))
        yield name, str(instance.replicas[application]), *curves, str(len(pairs)), f"[{', '.join(pairs)}]"


def _cell(curve: list[float]) -> str:
    """Return demand at all time points as a field: a number, or a list of several."""
    numbers = [repr(value).removesuffix(".0") for value in curve]
    return numbers[0] if len(numbers) == 1 else f"[{', '.join(numbers)}]"


def peaks_only(instance: Instance) -> Instance:
    """Return an instance with constant demand: the highest of each curve, rounded up to whole user units.

    This is how [3] section 5.1 makes instances without temporal changes.
    """
    peaks = np.ceil(user_demand(instance).max(axis=2, keepdims=True))
    return build_instance(
        name=instance.name,
        resources=instance.resources,
        applications=instance.applications,
        replicas=instance.replicas,
        demand=peaks,
        affinity=instance.affinity,
        nodes=user_nodes(instance),
    )
