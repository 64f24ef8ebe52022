"""Instances of provisioning from numbers in user units, such as cores and GB, and back.

`with_graph` and `larger_instance` make the instances of [3] section 5.1, table 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int32
from plb.errors import ConflictError, InvalidValueError
from plb.provisioning import Affinity, Instance, NodeType, whole_units
from plb.validation import check_count, check_items, check_number
from workloads.provisioning.graphs import GraphKind, affinity_graph

MOST_DEMAND = 1e9
"""The largest demand of a replica and the largest capacity of a node, in user units."""
DECIMALS = 6
"""Decimals that are kept of demand, as many as the contest's files have; fewer where numbers are so large that they
would not fit in 30 bits."""


@attrs.frozen
class NodeSpec:
    """Nodes of one kind, in user units; a `plb.provisioning.NodeType` has them in whole units.

    Parameters
    ----------
    name
        Of the kind.
    capacity
        (R,) of each resource.
    count
        Number of nodes; None: unlimited.
    """

    name: str
    capacity: tuple[float, ...]
    count: int | None = None


PAPER_NODES = (NodeSpec("node", (64.0, 128.0)),)
"""The nodes of [3] section 5.1: 64 cores and 128 GB, unlimited."""


def build_instance(
    *,
    name: str,
    resources: Sequence[str],
    applications: Sequence[str],
    replicas: Int32,
    demand: Float,
    affinity: Affinity,
    nodes: Sequence[NodeSpec],
) -> Instance:
    """Return an instance with its numbers in the largest decimal units that represent them exactly.

    Where a number has more decimals than `DECIMALS`, demand is rounded up and capacity down.

    Parameters
    ----------
    name
        Of the instance.
    resources
        Names of the R resources.
    applications, replicas
        Names of the L applications, and how many replicas they have.
    demand
        (L, R, T) of a replica, from 0 to `MOST_DEMAND`.
    affinity
        Limits between applications.
    nodes
        The kinds of nodes, those to be used first in front.

    Raises
    ------
    InvalidValueError
        Demand or a capacity is out of range, or a replica fits on no node.
    ConflictError
        A kind of nodes has more or fewer capacities than there are resources.
    """
    capacities = _capacities(nodes, resources)
    _check_demand(demand, applications, resources)
    whole_demand = np.empty(demand.shape, np.int32)
    whole_capacities = np.empty(capacities.shape, np.int32)
    units = []
    for number in range(len(resources)):
        together = np.concatenate([demand[:, number].ravel(), capacities[:, number]])
        whole, unit = whole_units(together, _decimals(float(together.max())))
        whole_demand[:, number] = whole[: -len(nodes)].reshape(demand[:, number].shape)
        whole_capacities[:, number] = np.floor(np.round(capacities[:, number] / unit, 3))
        units.append(unit)
    kinds = zip(nodes, whole_capacities, strict=True)
    return Instance(
        name=name,
        resources=tuple(resources),
        applications=tuple(applications),
        replicas=replicas,
        demand=whole_demand,
        affinity=affinity,
        nodes=tuple(NodeType(node.name, capacity, node.count) for node, capacity in kinds),
        units=tuple(units),
    )


def _check_demand(demand: Float, applications: Sequence[str], resources: Sequence[str]) -> None:
    refused = np.argwhere(~((demand >= 0) & (demand <= MOST_DEMAND)))
    if len(refused):
        application, resource, point = refused[0].tolist()
        value = float(demand[application, resource, point])
        item, field = f"application {applications[application]}", f"demand[{resources[resource]}]"
        raise InvalidValueError(item, field, value, f"a number from 0 to {MOST_DEMAND:g}")


def _capacities(nodes: Sequence[NodeSpec], resources: Sequence[str]) -> Float:
    """Return the capacities of all kinds of nodes, (K, R)."""
    if not check_items("instance", "nodes", nodes, NodeSpec):
        raise InvalidValueError("instance", "nodes", [], "at least one kind of nodes")
    for node in nodes:
        if len(node.capacity) != len(resources):
            raise ConflictError(
                f"node type {node.name}: {len(node.capacity)} capacities, expected {len(resources)} "
                f"({', '.join(resources)})"
            )
        for resource, value in zip(resources, node.capacity, strict=True):
            check_number(f"node type {node.name}", f"capacity[{resource}]", value, high=MOST_DEMAND)
    return np.array([node.capacity for node in nodes], np.float64)


def _decimals(largest: float) -> int:
    """Return how many decimals may be kept of numbers up to this one, so that they stay below 2^30 units."""
    return max(0, min(DECIMALS, math.floor(math.log10(MOST_DEMAND / max(largest, 1.0)))))


def in_user_units(values: npt.ArrayLike, unit: float) -> Float:
    """Return whole units as numbers in user units, the floats nearest to their decimals."""
    parts = round(1.0 / unit)
    exact = parts >= 1 and 1.0 / parts == unit
    return np.asarray(values) / parts if exact else np.asarray(values) * unit


def user_demand(instance: Instance) -> Float:
    """Return the demand of an instance in user units, (L, R, T)."""
    rows = [in_user_units(instance.demand[:, number], unit) for number, unit in enumerate(instance.units)]
    return np.stack(rows, axis=1)


def user_nodes(instance: Instance) -> tuple[NodeSpec, ...]:
    """Return the nodes of an instance in user units."""
    return tuple(
        NodeSpec(
            node.name,
            tuple(float(in_user_units(value, unit)) for value, unit in zip(node.capacity, instance.units, strict=True)),
            node.count,
        )
        for node in instance.nodes
    )


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


def without_self_limits(instance: Instance) -> Instance:
    """Return an instance without limits of applications for themselves, as in the data sets of [3]."""
    limits = instance.affinity
    kept = limits.source != limits.target
    return attrs.evolve(instance, affinity=Affinity(limits.source[kept], limits.target[kept], limits.most[kept]))


def with_graph(instance: Instance, kind: GraphKind | str, density: float, seed: int) -> Instance:
    """Return an instance of the same applications with another graph, see `affinity_graph`."""
    return attrs.evolve(
        instance,
        name=f"{instance.name}-{kind}-{density:g}-{seed}",
        affinity=affinity_graph(kind, len(instance.applications), density, seed),
    )


def larger_instance(
    instance: Instance, applications: int, kind: GraphKind | str, density: float, seed: int
) -> Instance:
    """Return an instance with sampled demand and numbers of replicas, and another graph.

    Demand is that of an application sampled with replacement, the number of replicas that of another one, as in the
    programs of the authors of [3]. For a given seed both are the same for all graphs.

    Parameters
    ----------
    instance
        The instance with the distributions and the nodes.
    applications
        How many there are to be, named from 1 on.
    kind, density
        Of the affinity graph.
    seed
        Of the random numbers.
    """
    check_count("larger instance", "applications", applications, low=1)
    draws = np.random.default_rng(check_count("larger instance", "seed", seed))
    like, replicas_of = draws.integers(len(instance.applications), size=(2, applications))
    drawn = attrs.evolve(
        instance,
        name=f"{instance.name}-{applications}",
        applications=tuple(str(number) for number in range(1, applications + 1)),
        replicas=instance.replicas[replicas_of],
        demand=instance.demand[like],
        affinity=Affinity.none(),
    )
    return with_graph(drawn, kind, density, seed)
