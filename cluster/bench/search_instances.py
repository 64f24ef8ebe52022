"""The instances of `plb bench search`, whose least energy is known by construction.

A perfect placement is drawn first. In it, the replicas of a partition are in distinct racks, and the loads of the
replicas on each node add up exactly to the target of the node, in every metric. Both objectives are 0 then, and neither
can be less. Random feasible moves lead from the perfect placement to the start, so the perfect placement is feasible,
and feasible moves lead from the start to it.
"""

from __future__ import annotations

from enum import Enum

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.errors import InvalidValueError
from plb.validation import check_count

TARGET = 2**17
"""Load of a node of size 1 in the perfect placement, in units: so many that the size of a unit does not matter."""
LARGEST_NODE = 2
"""Largest size of a node, metric by metric. Imbalance counts loads, not shares, so that its nodes all have size 1."""
LARGEST_MARGIN = 0.05
"""Largest distance of a safety capacity from the target, as a share of the target."""
MOVES, MOST_ROUNDS = 3, 500
"""For each replica: moves and exchanges after which the shuffle ends, and proposals after which it ends in any case."""
EXCHANGES = 0.5
"""Share of exchanges among these proposals."""
SPREAD_OF_REPLICAS, SPREAD_OF_METRICS = 0.8, 0.4
"""Deviation of the logarithm of the size of replicas, and of their loads of one metric around this size."""


class Fullness(Enum):
    """How full the nodes are in the perfect placement: bounds of the shares of capacities that are used.

    In tight instances with excess load, every second metric is loose: on full nodes, no load could be above a safety
    capacity that the perfect placement keeps to. The full metrics stand in the way of the others, as disks do.
    """

    LOOSE = 0.60, 0.70
    TIGHT = 0.95, 0.99


class Objective(Enum):
    """What the search has to lower."""

    IMBALANCE = "imbalance"
    """The mean over metrics of the coefficient of variation of the loads of nodes (`plb.energy.imbalance`)."""
    EXCESS_LOAD = "excess load"
    """The share of all load that is above the safety capacities of nodes (`plb.ready_made.capacity_terms`)."""


@attrs.frozen
class SearchShape:
    """The sizes of an instance, which are checked."""

    nodes: int
    replicas: int
    metrics: int
    """Their numbers. There are at least two replicas for each node, and one partition more; and two nodes."""
    siblings: int
    """Number of replicas of a partition, which divides the number of replicas."""
    racks: int
    """Number of fault domains: at least `siblings`, at most `nodes`."""
    fullness: Fullness
    objective: Objective
    """See there."""
    transient: int = 0
    """Number of metrics, the first ones, of which a moved replica also loads the node that it has left
    (`plb.model.metric.Metric`).
    """

    def __attrs_post_init__(self) -> None:
        for name, low in (("nodes", 2), ("metrics", 1), ("siblings", 1)):
            check_count("shape", name, getattr(self, name), low=low)
        if not self.siblings <= self.racks <= self.nodes:
            allowed = f"from {self.siblings}, the replicas of a partition, to {self.nodes}, the nodes"
            raise InvalidValueError("shape", "racks", self.racks, allowed)
        if not 0 <= self.transient <= self.metrics:
            raise InvalidValueError("shape", "transient", self.transient, f"from 0 to {self.metrics}, the metrics")
        least = 2 * self.nodes + self.siblings
        if self.replicas < least or self.replicas % self.siblings:
            allowed = f"a multiple of {self.siblings} that is at least {least}"
            raise InvalidValueError("shape", "replicas", self.replicas, allowed)

    @property
    def name(self) -> str:
        """Name of the instance in the table."""
        transient = "-transient" if self.transient else ""
        return f"{self.fullness.name.lower()}-{self.nodes}-{self.replicas}{transient}"


@attrs.frozen(eq=False)
class SearchInstance:
    """A cluster with a start and a perfect placement.

    A placement is (M,), the node of each replica. It is feasible if every load is below the capacity of its node and
    the replicas of every partition are in distinct racks.
    """

    shape: SearchShape
    """Its sizes: N nodes, M replicas, R metrics."""
    load: Int
    """(M, R) in units. The replicas of a partition are consecutive."""
    rack: Int
    """(N,) fault domain of each node."""
    capacity: Int
    safety: Int
    """(N, R) in units; the safety capacity is below the capacity, and not below the load in the perfect placement."""
    start: Int
    perfect: Int
    """Feasible placements. The energy of the second is 0."""

    @property
    def least_energy(self) -> float:
        """The energy of the perfect placement, below which there is none."""
        return 0.0

    @property
    def initial_excess(self) -> float:
        """The energy of the start above the least energy."""
        return self.energy(self.start) - self.least_energy

    def share_left(self, energy: float) -> float:
        """Return what an energy has left of the initial excess, as a share of it; 0 if there was none."""
        excess = self.initial_excess
        return (energy - self.least_energy) / excess if excess > 0 else 0.0

    def node_loads(self, placement: Int) -> Int:
        """Return the load of each node by metric, (N, R)."""
        return _node_loads(self.shape, self.load, placement)

    def energy(self, placement: Int) -> float:
        """Return the objective of a placement."""
        loads = self.node_loads(placement)
        if self.shape.objective is Objective.IMBALANCE:
            return float((loads.std(axis=0) / loads.mean(axis=0)).mean())
        return float(np.maximum(0, loads - self.safety).sum() / self.load.sum())


def draw_instance(seed: int, shape: SearchShape) -> SearchInstance:
    """Return the instance of a shape and a seed."""
    rng = np.random.default_rng(seed)
    rack = np.arange(shape.nodes) % shape.racks
    by_node = (shape.nodes, shape.metrics)
    size, full = np.ones(by_node, np.int64), rng.uniform(*shape.fullness.value, by_node)
    if shape.objective is Objective.EXCESS_LOAD:
        size = rng.integers(1, LARGEST_NODE + 1, by_node)
        full[:, ::2] = rng.uniform(*Fullness.LOOSE.value, full[:, ::2].shape)
    target = TARGET * size
    perfect = _dealt(rng, shape, rack, size.mean(axis=1))
    load = _loads(rng, perfect, target)
    capacity = np.floor(target / full).astype(np.int64)
    margin = np.floor(target * rng.uniform(0.0, LARGEST_MARGIN, target.shape)).astype(np.int64)
    start = _shuffled(rng, shape, rack, load, capacity, perfect)
    if shape.transient:
        left = loads_with_left(shape, load, start, perfect)[:, : shape.transient]
        capacity[:, : shape.transient] = np.floor(left / rng.uniform(*shape.fullness.value, left.shape))
    safety = np.minimum(target + margin, capacity - 1)
    return SearchInstance(shape, load, rack, capacity, safety, start, perfect)


def _node_loads(shape: SearchShape, load: Int, placement: Int) -> Int:
    """Return the load of each node by metric, (N, R)."""
    loads = np.zeros((shape.nodes, shape.metrics), np.int64)
    np.add.at(loads, placement, load)
    return loads


def loads_with_left(shape: SearchShape, load: Int, start: Int, placement: Int) -> Int:
    """Return the load of each node with what a plan from the start to a placement leaves behind, (N, R)."""
    loads = _node_loads(shape, load, placement)
    moved = placement != start
    np.add.at(loads[:, : shape.transient], start[moved], load[moved, : shape.transient])
    return loads


def _dealt(rng: np.random.Generator, shape: SearchShape, rack: Int, size: Float) -> Int:
    """Return a placement, (M,), with about as many replicas on a node as its size asks for, and at least one.

    A partition takes nodes in distinct racks, first those without a replica, then those with the fewest for their size.
    """
    count = np.zeros(shape.nodes, np.int64)
    placement = []
    for _ in range(shape.replicas // shape.siblings):
        crowded = (count + rng.random(shape.nodes)) / size
        taken: dict[int, int] = {}
        for node in np.lexsort((crowded, count > 0)).tolist():
            taken.setdefault(int(rack[node]), node)
            if len(taken) == shape.siblings:
                break
        nodes = rng.permutation(list(taken.values()))
        count[nodes] += 1
        placement.append(nodes)
    return np.concatenate(placement)


def _loads(rng: np.random.Generator, placement: Int, target: Int) -> Int:
    """Return loads of the replicas, (M, R), that add up to the target of each node, (N, R)."""
    replicas, metrics = len(placement), target.shape[1]
    sizes = rng.normal(0.0, SPREAD_OF_REPLICAS, (replicas, 1))
    weight = np.exp(sizes + rng.normal(0.0, SPREAD_OF_METRICS, (replicas, metrics)))
    load = np.empty((replicas, metrics), np.int64)
    for node, total in enumerate(target):
        rows = np.flatnonzero(placement == node)
        share: Float = np.cumsum(weight[rows], axis=0) / weight[rows].sum(axis=0)
        share[-1] = 1.0
        load[rows] = np.diff(np.floor(total * share).astype(np.int64), axis=0, prepend=0)
    return load


def _shuffled(rng: np.random.Generator, shape: SearchShape, rack: Int, load: Int, capacity: Int, placement: Int) -> Int:
    """Return the placement after random feasible moves and exchanges, which fill some nodes more than others."""
    attraction = rng.exponential(1.0, shape.nodes)
    attraction /= attraction.sum()
    shuffle = _Shuffle(shape, rack, load, capacity, placement)
    moves = 0
    for _ in range(MOST_ROUNDS):
        rows, partners = rng.integers(0, shape.replicas, (2, shape.replicas)).tolist()
        targets = rng.choice(shape.nodes, shape.replicas, p=attraction).tolist()
        exchanges = (rng.random(shape.replicas) < EXCHANGES).tolist()
        for row, partner, target, is_exchange in zip(rows, partners, targets, exchanges, strict=True):
            moves += shuffle.exchange(row, partner) if is_exchange else shuffle.move(row, target)
        if moves >= MOVES * shape.replicas:
            break
    return np.array(shuffle.node)


class _Shuffle:
    """A placement that feasible moves change; as lists, whose single entries Python reads faster than those of arrays.

    `rack`, (N,), is of each node, `load`, (M, R), of each replica, `placement`, (M,), the node of each replica.
    """

    def __init__(self, shape: SearchShape, rack: Int, load: Int, capacity: Int, placement: Int) -> None:
        self.siblings = shape.siblings
        self.rack: list[int] = rack.tolist()
        self.load: list[list[int]] = load.tolist()
        self.node: list[int] = placement.tolist()
        free = capacity.copy()
        np.subtract.at(free, placement, load)
        self.free: list[list[int]] = free.tolist()

    def move(self, row: int, target: int) -> bool:
        """Move a replica, if that is feasible; return whether it is."""
        allowed = (
            self.node[row] != target and self._is_apart(row, target) and self._has_capacity(target, self.load[row])
        )
        if allowed:
            self._place(row, target, self.load[row])
        return allowed

    def exchange(self, row: int, partner: int) -> bool:
        """Exchange two replicas of different partitions, if that is feasible; return whether it is."""
        source, target = self.node[row], self.node[partner]
        if source == target or row // self.siblings == partner // self.siblings:
            return False
        gain = [load - exchanged for load, exchanged in zip(self.load[row], self.load[partner], strict=True)]
        if not (self._has_capacity(target, gain) and self._has_capacity(source, [-load for load in gain])):
            return False
        allowed = self._is_apart(row, target) and self._is_apart(partner, source)
        if allowed:
            self.node[partner] = source
            self._place(row, target, gain)
        return allowed

    def _place(self, row: int, target: int, gain: list[int]) -> None:
        """Move a replica to a node that gains a load in exchange."""
        source = self.node[row]
        self.node[row] = target
        for metric, load in enumerate(gain):
            self.free[source][metric] += load
            self.free[target][metric] -= load

    def _has_capacity(self, node: int, gain: list[int]) -> bool:
        return all(free > load for free, load in zip(self.free[node], gain, strict=True))

    def _is_apart(self, row: int, target: int) -> bool:
        """Return whether no sibling of a replica is in the rack of a node."""
        first = row - row % self.siblings
        siblings = (sibling for sibling in range(first, first + self.siblings) if sibling != row)
        return all(self.rack[self.node[sibling]] != self.rack[target] for sibling in siblings)
