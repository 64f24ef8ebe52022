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
"""For each replica, the moves and exchanges after which the shuffle ends, and the proposals after which it ends at the
latest."""
EXCHANGES = 0.5
"""Share of exchanges among the proposals of the shuffle."""
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
    """Number of nodes, at least two."""
    replicas: int
    """Number of replicas: at least two for each node, and one partition more."""
    metrics: int
    """Number of metrics."""
    siblings: int
    """Number of replicas of a partition, which divides the number of replicas."""
    racks: int
    """Number of fault domains: at least `siblings`, at most `nodes`."""
    fullness: Fullness
    """How full the nodes are."""
    objective: Objective
    """What the search has to lower."""
    transient: int = 0
    """Number of transient metrics, which come first: a moved replica also loads the node that it has left
    (`plb.model.metric.Metric`).
    """

    def __attrs_post_init__(self) -> None:
        """Raise an error if the sizes are out of range or contradict each other."""
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
    """The sizes: N nodes, M replicas, R metrics."""
    load: Int
    """(M, R) load of each replica, in units. The replicas of a partition are consecutive."""
    rack: Int
    """(N,) fault domain of each node."""
    capacity: Int
    """(N, R) capacity of each node, in units."""
    safety: Int
    """(N, R) safety capacity of each node, in units: below the capacity, at least the load in the perfect placement."""
    start: Int
    """(M,) feasible placement from which the search begins."""
    perfect: Int
    """(M,) feasible placement whose energy is 0."""

    @property
    def least_energy(self) -> float:
        """The energy of the perfect placement, below which there is none."""
        return 0.0

    @property
    def initial_excess(self) -> float:
        """The energy of the start above the least energy."""
        return self.energy(self.start) - self.least_energy

    def share_left(self, energy: float) -> float:
        """Return the energy above the least energy as a share of the initial excess; 0 if there was none."""
        excess = self.initial_excess
        return (energy - self.least_energy) / excess if excess > 0 else 0.0

    def node_loads(self, placement: Int) -> Int:
        """Return the load of each node in a placement, (M,), by metric, (N, R)."""
        return _node_loads(self.shape, self.load, placement)

    def energy(self, placement: Int) -> float:
        """Return the objective of a placement, (M,)."""
        loads = self.node_loads(placement)
        if self.shape.objective is Objective.IMBALANCE:
            return float((loads.std(axis=0) / loads.mean(axis=0)).mean())
        return float(np.maximum(0, loads - self.safety).sum() / self.load.sum())


def draw_instance(seed: int, shape: SearchShape) -> SearchInstance:
    """Return the instance that a seed gives for a shape.

    Its loads add up to the targets of the nodes in the placement `perfect`, which random moves turn into the start;
    capacities follow from these loads.
    """
    rng = np.random.default_rng(seed)
    rack = np.arange(shape.nodes) % shape.racks
    nodes_and_metrics = (shape.nodes, shape.metrics)
    node_size, used_share = np.ones(nodes_and_metrics, np.int64), rng.uniform(*shape.fullness.value, nodes_and_metrics)
    if shape.objective is Objective.EXCESS_LOAD:
        node_size = rng.integers(1, LARGEST_NODE + 1, nodes_and_metrics)
        used_share[:, ::2] = rng.uniform(*Fullness.LOOSE.value, used_share[:, ::2].shape)
    target = TARGET * node_size
    perfect = _dealt(rng, shape, rack, node_size.mean(axis=1))
    load = _loads(rng, perfect, target)
    capacity = np.floor(target / used_share).astype(np.int64)
    safety_margin = np.floor(target * rng.uniform(0.0, LARGEST_MARGIN, target.shape)).astype(np.int64)
    start = _shuffled(rng, shape, rack, load, capacity, perfect)
    if shape.transient:
        loads = loads_with_left(shape, load, start, perfect)[:, : shape.transient]
        capacity[:, : shape.transient] = np.floor(loads / rng.uniform(*shape.fullness.value, loads.shape))
    safety = np.minimum(target + safety_margin, capacity - 1)
    return SearchInstance(shape, load, rack, capacity, safety, start, perfect)


def _node_loads(shape: SearchShape, load: Int, placement: Int) -> Int:
    """Return the load of each node, (N, R), in a placement, (M,), of replicas with a load, (M, R)."""
    loads = np.zeros((shape.nodes, shape.metrics), np.int64)
    np.add.at(loads, placement, load)
    return loads


def loads_with_left(shape: SearchShape, load: Int, start: Int, placement: Int) -> Int:
    """Return the load of each node, (N, R), while replicas move from the start to a placement, both (M,).

    `load`: (M, R) of each replica. A moved replica loads the node that it leaves, too, with its first `shape.transient`
    metrics.
    """
    loads = _node_loads(shape, load, placement)
    moved = placement != start
    np.add.at(loads[:, : shape.transient], start[moved], load[moved, : shape.transient])
    return loads


def _dealt(rng: np.random.Generator, shape: SearchShape, rack: Int, node_size: Float) -> Int:
    """Return a placement, (M,), with about as many replicas on a node as its size, (N,), asks for, and at least one.

    `rack`: (N,) rack of each node. A partition takes nodes in distinct racks, first nodes without a replica, then nodes
    with the fewest for their size.
    """
    replica_counts = np.zeros(shape.nodes, np.int64)
    nodes_of_partitions = []
    for _ in range(shape.replicas // shape.siblings):
        crowding = (replica_counts + rng.random(shape.nodes)) / node_size
        node_of_rack: dict[int, int] = {}
        for node in np.lexsort((crowding, replica_counts > 0)).tolist():
            node_of_rack.setdefault(int(rack[node]), node)
            if len(node_of_rack) == shape.siblings:
                break
        nodes = rng.permutation(list(node_of_rack.values()))
        replica_counts[nodes] += 1
        nodes_of_partitions.append(nodes)
    return np.concatenate(nodes_of_partitions)


def _loads(rng: np.random.Generator, placement: Int, target: Int) -> Int:
    """Return loads of the replicas, (M, R), that add up to the target of each node, (N, R), in a placement, (M,)."""
    replica_count, metric_count = len(placement), target.shape[1]
    sizes = rng.normal(0.0, SPREAD_OF_REPLICAS, (replica_count, 1))
    weight = np.exp(sizes + rng.normal(0.0, SPREAD_OF_METRICS, (replica_count, metric_count)))
    load = np.empty((replica_count, metric_count), np.int64)
    for node, node_target in enumerate(target):
        rows = np.flatnonzero(placement == node)
        cumulative_share: Float = np.cumsum(weight[rows], axis=0) / weight[rows].sum(axis=0)
        cumulative_share[-1] = 1.0
        load[rows] = np.diff(np.floor(node_target * cumulative_share).astype(np.int64), axis=0, prepend=0)
    return load


def _shuffled(rng: np.random.Generator, shape: SearchShape, rack: Int, load: Int, capacity: Int, placement: Int) -> Int:
    """Return a placement, (M,), after random feasible moves and exchanges, which fill some nodes more than others.

    `rack`: (N,) rack of each node; `load`: (M, R) of each replica; `capacity`: (N, R) of each node.
    """
    node_probabilities = rng.exponential(1.0, shape.nodes)
    node_probabilities /= node_probabilities.sum()
    shuffle = _Shuffle(shape, rack, load, capacity, placement)
    moves = 0
    for _ in range(MOST_ROUNDS):
        rows, partners = rng.integers(0, shape.replicas, (2, shape.replicas)).tolist()
        targets = rng.choice(shape.nodes, shape.replicas, p=node_probabilities).tolist()
        exchanges = (rng.random(shape.replicas) < EXCHANGES).tolist()
        for row, partner, target, is_exchange in zip(rows, partners, targets, exchanges, strict=True):
            moves += shuffle.exchange(row, partner) if is_exchange else shuffle.move(row, target)
        if moves >= MOVES * shape.replicas:
            break
    return np.array(shuffle.node)


class _Shuffle:
    """A placement that feasible moves change; as lists, because Python reads single entries of arrays more slowly.

    `rack`: (N,) of each node; `load`: (M, R) of each replica; `capacity`: (N, R) of each node; `placement`: (M,) node
    of each replica. `free` has the free capacity of each node.
    """

    def __init__(self, shape: SearchShape, rack: Int, load: Int, capacity: Int, placement: Int) -> None:
        """Begin with the node of each replica, `placement`, (M,); the arrays are as in `_shuffled`."""
        self.siblings = shape.siblings
        self.rack: list[int] = rack.tolist()
        self.load: list[list[int]] = load.tolist()
        self.node: list[int] = placement.tolist()
        free = capacity.copy()
        np.subtract.at(free, placement, load)
        self.free: list[list[int]] = free.tolist()

    def move(self, row: int, target: int) -> bool:
        """Move a replica, `row`, to a node, if that is feasible; return whether it is."""
        is_feasible = (
            self.node[row] != target and self._is_apart(row, target) and self._has_capacity(target, self.load[row])
        )
        if is_feasible:
            self._place(row, target, self.load[row])
        return is_feasible

    def exchange(self, row: int, partner: int) -> bool:
        """Exchange two replicas, `row` and `partner`, of different partitions, if feasible; return whether it is."""
        source, target = self.node[row], self.node[partner]
        if source == target or row // self.siblings == partner // self.siblings:
            return False
        gain = [load - exchanged for load, exchanged in zip(self.load[row], self.load[partner], strict=True)]
        if not (self._has_capacity(target, gain) and self._has_capacity(source, [-load for load in gain])):
            return False
        are_apart = self._is_apart(row, target) and self._is_apart(partner, source)
        if are_apart:
            self.node[partner] = source
            self._place(row, target, gain)
        return are_apart

    def _place(self, row: int, target: int, gain: list[int]) -> None:
        """Put a replica, `row`, on a node, whose load grows by `gain`, by metric; its old node loses the same load."""
        source = self.node[row]
        self.node[row] = target
        for metric, metric_gain in enumerate(gain):
            self.free[source][metric] += metric_gain
            self.free[target][metric] -= metric_gain

    def _has_capacity(self, node: int, gain: list[int]) -> bool:
        """Return whether the load of a node may grow by `gain`, a number for each metric."""
        return all(free > load for free, load in zip(self.free[node], gain, strict=True))

    def _is_apart(self, row: int, target: int) -> bool:
        """Return whether no sibling of a replica, `row`, is in the rack of the node `target`."""
        first = row - row % self.siblings
        siblings = (sibling for sibling in range(first, first + self.siblings) if sibling != row)
        return all(self.rack[self.node[sibling]] != self.rack[target] for sibling in siblings)
