"""Instances of provisioning from numbers in user units, such as cores and GB, and back.

`with_graph` and `larger_instance` make the instances of [3] section 5.1, table 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int, Int32
from plb.errors import ConflictError, InvalidValueError
from plb.provisioning import Affinity, Instance, NodeType, whole_units
from plb.validation import check_count, check_items, check_member, check_number

LIMIT_COUNTS = (13_144, 3_992, 6_556, 361, 25)
"""How often the limits 0, 1, 2, 3 and 4 occur between different applications in the contest's data (preliminary B,
app_interference.csv); 24,078 in all, the number of restrictions that [3] section 5.1 gives."""

Arcs = tuple[Int32, Int32]
"""Source and target of each of E arcs, (E,) each."""


class GraphKind(StrEnum):
    """Generation of arcs ([3] section 5.1)."""

    ARBITRARY = "arbitrary"
    """Different pairs with equal probability, up to the number given by the density."""
    NORMAL = "normal"
    """From each application a normally distributed number of arcs (mean ΔL, deviation ΔL/2, rounded, 0 to L - 1),
    to other applications with equal probability."""
    THRESHOLD = "threshold"
    """Two numbers from 0 to 1 for each application, one for arcs that leave it and one for arcs that reach it: there
    is an arc where the mean of the two at its ends is at most `threshold_of` the density."""


def affinity_graph(kind: GraphKind | str, applications: int, density: float, seed: int) -> Affinity:
    """Return a random graph of limits: an arc from i to j says how many replicas of j may share a node with one of i.

    The numbers, 0 to 4, are as frequent as in the data of the Tianchi contest ([3]).

    Parameters
    ----------
    kind
        Generation of arcs.
    applications
        L, the number of applications.
    density
        Δ, arcs by L(L - 1), from 0 to 0.5. Arbitrary graphs have just so many arcs, rounded down. Normal graphs have
        on average 0.4 % more, as no application has a negative number of arcs. The expected density of threshold
        graphs is 2d² for their threshold d, about Δ + (√(Δ/2) - Δ)/L.
    seed
        Seed of the random numbers.
    """
    kind = check_member("affinity graph", "kind", kind, GraphKind)
    check_count("affinity graph", "applications", applications, low=1)
    check_number("affinity graph", "density", density, high=0.5)
    draws = np.random.default_rng([check_count("affinity graph", "seed", seed), *kind.encode()])
    arcs = {GraphKind.ARBITRARY: _arbitrary, GraphKind.NORMAL: _normal, GraphKind.THRESHOLD: _threshold}
    source, target = arcs[kind](applications, density, draws)
    values = np.repeat(np.arange(len(LIMIT_COUNTS), dtype=np.int32), LIMIT_COUNTS)
    return Affinity(source, target, values[draws.integers(len(values), size=len(source), dtype=np.uint16)])


def _arbitrary(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    """Return sources and targets of distinct arcs, drawn with equal probability from all pairs of L applications."""
    pairs = applications * (applications - 1)
    return _ends(_sample_distinct(pairs, int(density * pairs), draws), applications)


def _sample_distinct(population: int, size: int, draws: np.random.Generator) -> Int:
    """Return `size` different random numbers below `population`, ascending, each equally likely.

    `size` is at most half of `population`.
    """
    drawn = np.zeros(0, np.int64)
    while len(drawn) < size:
        share = (size - len(drawn)) / (population - len(drawn))
        # as many as are expected to give the missing values, and a few more, so that one round is mostly enough
        expected = -population * math.log1p(-share)
        candidates = draws.integers(population, size=int(expected + 3 * math.sqrt(expected)) + 4)
        drawn = _distinct(np.concatenate([drawn, candidates]))
    surplus = draws.choice(len(drawn), len(drawn) - size, replace=False, shuffle=False)
    return np.delete(drawn, surplus)


def _distinct(numbers: Int) -> Int:
    """Return the distinct numbers, ascending, and sort `numbers`.

    `np.unique` hashes, which takes twenty times as long.
    """
    numbers.sort()
    new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    return numbers[new]


def _ends(pairs: Int, applications: int) -> Arcs:
    """Return the arcs of the numbers of pairs of different applications, which count by source, then by target."""
    targets = max(applications - 1, 1)
    source = (pairs // targets).astype(np.int32)
    target = (pairs % targets).astype(np.int32)
    target += target >= source
    return source, target


def _normal(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    """Return sources and targets of arcs; numbers of arcs from L applications are normal with the mean `density`·L."""
    mean = applications * density
    degrees = np.rint(draws.normal(mean, mean / 2.0, applications)).astype(np.int64).clip(0, applications - 1)
    source = np.repeat(np.arange(applications, dtype=np.int32), degrees)
    target = np.empty(len(source), np.int32)
    start = 0
    for degree in degrees.tolist():
        target[start : start + degree] = np.sort(draws.choice(applications - 1, degree, replace=False, shuffle=False))
        start += degree
    target += target >= source
    return source, target


def threshold_of(applications: int, density: float) -> float:
    """Return the threshold of G. Bacci and S. Nicoloso (arXiv 1706.03526) for a density of at most 0.5.

    It makes the density the expected one of undirected graphs; [3]'s authors take it for directed graphs, too.
    """
    if density == 0.0:
        return -1.0  # below all weights, so that there is no arc
    return (1.0 + math.sqrt(1.0 + 8.0 * applications * (applications - 1) * density)) / (4.0 * applications)


def _threshold(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    """Return sources and targets of all arcs between L applications whose two random weights are low enough.

    An application has a weight for arcs that leave it and another for arcs that reach it; the mean of the two at the
    ends of an arc is at most `threshold_of` the density.
    """
    outward, inward = draws.random(applications), draws.random(applications)
    order = np.argsort(inward, kind="stable").astype(np.int32)
    reach = 2.0 * threshold_of(applications, density) - outward
    degrees = np.searchsorted(inward[order], reach, side="right")
    source = np.repeat(np.arange(applications, dtype=np.int32), degrees)
    rank = np.arange(len(source)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    target = order[rank]
    different = source != target
    return source[different], target[different]


MOST_DEMAND = 1e9
"""The largest demand of a replica and the largest capacity of a node, in user units."""
DECIMALS = 6
"""Decimals that are kept of demand, as many as the contest's files have; fewer where numbers are so large that they
would not fit in 30 bits."""


@attrs.frozen
class NodeSpec:
    """Nodes of one kind, in user units; a `plb.provisioning.NodeType` has them in whole units."""

    name: str
    """Name of the kind."""
    capacity: tuple[float, ...]
    """(R,) capacity of a node for each resource."""
    count: int | None = None
    """Number of nodes; None: unlimited."""


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
        The kinds of nodes in the order of their use.

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
    for resource in range(len(resources)):
        user_values = np.concatenate([demand[:, resource].ravel(), capacities[:, resource]])
        unit_values, unit = whole_units(user_values, _decimals(float(user_values.max())))
        whole_demand[:, resource] = unit_values[: -len(nodes)].reshape(demand[:, resource].shape)
        whole_capacities[:, resource] = np.floor(np.round(capacities[:, resource] / unit, 3))
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
    """Raise `InvalidValueError` if demand, (L, R, T), is out of range."""
    refused = np.argwhere(~((demand >= 0) & (demand <= MOST_DEMAND)))
    if len(refused):
        application, resource, point = refused[0].tolist()
        item, field = f"application {applications[application]}", f"demand[{resources[resource]}]"
        value = float(demand[application, resource, point])
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
    """Return how many decimals can be kept of numbers up to `largest`, so that they stay below 2^30 units."""
    return max(0, min(DECIMALS, math.floor(math.log10(MOST_DEMAND / max(largest, 1.0)))))


def in_user_units(values: npt.ArrayLike, unit: float) -> Float:
    """Return whole numbers of units, each worth `unit`, in user units: the floats nearest to the decimal numbers."""
    parts = round(1.0 / unit)
    exact = parts >= 1 and 1.0 / parts == unit
    return np.asarray(values) / parts if exact else np.asarray(values) * unit


def user_demand(instance: Instance) -> Float:
    """Return the demand of an instance in user units, (L, R, T)."""
    rows = [in_user_units(instance.demand[:, resource], unit) for resource, unit in enumerate(instance.units)]
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

    Demand and the number of replicas are each sampled with replacement from the applications, as in the programs of
    the authors of [3]. For a given seed both are the same for all graphs.

    Parameters
    ----------
    instance
        The instance with the distributions and the nodes.
    applications
        How many applications the result has; their names are 1, 2 and so on.
    kind, density
        Of the affinity graph.
    seed
        Of the random numbers.
    """
    check_count("larger instance", "applications", applications, low=1)
    draws = np.random.default_rng(check_count("larger instance", "seed", seed))
    demand_of, replicas_of = draws.integers(len(instance.applications), size=(2, applications))
    sampled = attrs.evolve(
        instance,
        name=f"{instance.name}-{applications}",
        applications=tuple(str(number) for number in range(1, applications + 1)),
        replicas=instance.replicas[replicas_of],
        demand=instance.demand[demand_of],
        affinity=Affinity.none(),
    )
    return with_graph(sampled, kind, density, seed)
