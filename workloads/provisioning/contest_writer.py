"""An instance of provisioning as the files of the contest, see `workloads.provisioning.contest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from plb.errors import InvalidValueError
from plb.provisioning import Instance
from workloads.provisioning.building import Floats, user_demand, user_nodes
from workloads.provisioning.contest import CONSTANT, RESOURCES, check_resources
from workloads.readers.tianchi2018 import CURVES, POINTS
from workloads.writing import in_one_piece

Rows = Iterator[Sequence[str]]


def write_contest(directory: str | Path, instance: Instance) -> None:
    """Write the four files, so that `read_contest` gives the same instance again.

    No instance has a machine. Resources that the instance does not have are written as 0. Names of node types are not
    part of the format; the reader names them by what they have, and puts the larger in front.

    Parameters
    ----------
    directory
        Made where it is not there.
    instance
        With 98 time points, resources of the contest, those but CPU and memory constant, and counted nodes.

    Raises
    ------
    InvalidValueError
        The instance cannot be written in this format.
    """
    _check(instance)
    directory = Path(directory)
    demand = dict(zip(instance.resources, np.moveaxis(user_demand(instance), 1, 0), strict=True))
    files = {
        "app_resources": _apps(instance, demand),
        "instance_deploy": _instances(instance),
        "machine_resources": _machines(instance),
        "app_interference": _limits(instance),
    }
    for name, rows in files.items():
        with in_one_piece(directory / f"{name}.csv") as partial, partial.open("w", encoding="utf-8") as file:
            file.writelines(",".join(row) + "\n" for row in rows)


def _check(instance: Instance) -> None:
    """Raise an error for properties that the format does not have."""
    item = f"instance {instance.name}"
    check_resources(instance.resources)
    if instance.time_points != POINTS:
        raise InvalidValueError(item, "time points", instance.time_points, f"{POINTS}, as the contest has")
    for number, resource in enumerate(instance.resources):
        if resource in CONSTANT and (instance.demand[:, number] != instance.demand[:, number, :1]).any():
            raise InvalidValueError(item, "demand", f"{resource} that varies", "constant demand, as the contest has")
    for node in instance.nodes:
        if node.count is None:
            raise InvalidValueError(f"node type {node.name}", "count", None, "how many there are, as the contest has")
    for name in instance.applications:
        if not name or set(name) & set(',"\n\r'):
            raise InvalidValueError(item, "application", name, "a name, without commas, quotes and line ends")


def _text(value: float) -> str:
    return repr(float(value))


def _apps(instance: Instance, demand: dict[str, Floats]) -> Rows:
    for number, name in enumerate(instance.applications):
        curves = ("|".join(map(_text, _of(demand, resource, number))) for resource in CURVES)
        yield name, *curves, *(_text(_of(demand, resource, number)[0]) for resource in CONSTANT)


def _of(demand: dict[str, Floats], resource: str, number: int) -> list[float]:
    return demand[resource][number].tolist() if resource in demand else [0.0] * POINTS


def _instances(instance: Instance) -> Rows:
    number = 0
    for name, replicas in zip(instance.applications, instance.replicas.tolist(), strict=True):
        for _ in range(replicas):
            number += 1
            yield f"inst_{number}", name, ""


def _machines(instance: Instance) -> Rows:
    number = 0
    for node in user_nodes(instance):
        has = dict(zip(instance.resources, node.capacity, strict=True))
        for _ in range(node.count or 0):
            number += 1
            yield f"machine_{number}", *(_text(has.get(resource, 0.0)) for resource in RESOURCES)


def _limits(instance: Instance) -> Rows:
    limits = instance.affinity
    for source, target, most in zip(limits.source.tolist(), limits.target.tolist(), limits.most.tolist(), strict=True):
        # the contest counts the other replicas, so a single replica is always allowed
        limit = most - 1 if source == target else most
        yield instance.applications[source], instance.applications[target], str(limit)
