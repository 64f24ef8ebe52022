"""Clusters for the comparison with Rebalancer, drawn by a seed and kept as `.npz` files.

Thirty replicas a node, three a partition, in ten racks (twenty from 1,000 nodes on). Loads are lognormal whole numbers,
nodes have three sizes. Memory and disk are limits; cpu is only to be balanced.

    python benchmarks/rebalancer/instances.py balance 1000 --to results/rebalancer
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

METRICS = ("cpu", "memory", "disk")
IS_LIMIT = np.array([False, True, True])
KINDS = ("balance", "placement", "repair")
COPIES = 3
REPLICAS_A_NODE = 30
SIZES = (1.0, 1.5, 2.0)
UNPLACED = -1
FILL = {"balance": (0.55, 0.72, 0.74), "placement": (0.55, 0.92, 0.92), "repair": (0.55, 0.72, 0.74)}
"""Load of all replicas as a share of all capacity, by metric, new ones included."""
HEAT = 0.3
"""Half of the nodes draw this share more replicas than their size asks for, the others as much less."""
NEW_SHARE = 0.05
DRAINED_SHARE = 0.02
CROWDED_SHARE = 0.03
SMALLEST_EXCESS, LARGEST_EXCESS = 1.02, 1.2
MEDIAN_LOAD, LARGEST_LOAD = 1_000.0, 6_000
CANDIDATES = 8
"""Nodes of which a replica takes the emptiest where the cluster is to be even."""


@dataclass(frozen=True)
class Instance:
    """A cluster and its replicas; all arrays are whole numbers.

    Parameters
    ----------
    capacity
        (N, 3) capacity of each node by metric.
    rack
        (N,) rack of each node.
    drained
        (N,) whether the node is to be emptied.
    load
        (P, 3) load of each replica of a partition by metric.
    places
        (P, 3) node of each replica, or `UNPLACED`.
    """

    capacity: np.ndarray
    rack: np.ndarray
    drained: np.ndarray
    load: np.ndarray
    places: np.ndarray

    def node_loads(self, places: np.ndarray) -> np.ndarray:
        """Return the (N, 3) loads of the nodes for the (P, 3) `places` of the replicas."""
        placed = places != UNPLACED
        nodes, partitions = places[placed], np.nonzero(placed)[0]
        columns = [np.bincount(nodes, weights, len(self.rack)) for weights in self.load[partitions].T]
        return np.stack(columns, axis=1).astype(np.int64)


def draw(kind: str, nodes: int, seed: int = 0) -> Instance:
    """Return an instance of one of the `KINDS` with a number of nodes."""
    random = np.random.default_rng([seed, nodes, kind == "placement"])
    load = _loads(random, nodes * REPLICAS_A_NODE // COPIES)
    size = random.choice(SIZES, nodes)
    share = size / size.sum()
    capacity = np.ceil(share[:, None] * COPIES * load.sum(axis=0) / FILL[kind]).astype(np.int64)
    rack = np.arange(nodes) % (10 if nodes < 1_000 else 20)
    if kind == "placement":
        present = load[round(NEW_SHARE * len(load)) :]
        places = _placed(random, capacity, rack, present, share, CANDIDATES)
        places = np.concatenate([np.full((len(load) - len(present), COPIES), UNPLACED), places])
    else:
        heat = 1.0 + HEAT * random.permutation(np.where(np.arange(nodes) % 2, 1.0, -1.0))
        places = _placed(random, capacity, rack, load, share * heat, 1)
    instance = Instance(capacity, rack, np.zeros(nodes, np.bool_), load, places)
    return _damaged(random, instance) if kind == "repair" else instance


def _loads(random: np.random.Generator, partitions: int) -> np.ndarray:
    """Return the loads of the replicas of each partition, correlated between the metrics."""
    logarithms = 0.5 * random.standard_normal((partitions, 1)) + 0.65 * random.standard_normal((partitions, 3))
    return np.minimum(np.ceil(MEDIAN_LOAD * np.exp(logarithms)), LARGEST_LOAD).astype(np.int64)


def _placed(
    random: np.random.Generator,
    capacity: np.ndarray,
    rack: np.ndarray,
    load: np.ndarray,
    weight: np.ndarray,
    candidates: int,
) -> np.ndarray:
    """Place the replicas, largest first, each on the emptiest of some drawn nodes with room and a rack of its own."""
    limits, racks, used = capacity.tolist(), rack.tolist(), np.zeros_like(capacity).tolist()
    drawn = _endless_draws(random, weight)
    places = np.empty((len(load), COPIES), np.int64)
    for partition in np.argsort(-load.max(axis=1), kind="stable").tolist():
        loads = load[partition].tolist()
        taken: dict[int, int] = {}
        while len(taken) < COPIES:
            nodes = [next(drawn) for _ in range(candidates)]
            free = [n for n in nodes if racks[n] not in taken and _has_room(used[n], loads, limits[n])]
            if free:
                node = min(free, key=lambda n: _use(used[n], limits[n]))
                used[node] = [before + more for before, more in zip(used[node], loads, strict=True)]
                taken[racks[node]] = node
        places[partition] = list(taken.values())
    return places


def _has_room(used: list[int], loads: list[int], limits: list[int]) -> bool:
    """Return whether a node has room for a replica in memory and disk."""
    return used[1] + loads[1] <= limits[1] and used[2] + loads[2] <= limits[2]


def _use(used: list[int], limits: list[int]) -> float:
    """Return a measure of how full a node is, mainly by its fullest metric."""
    return sum((load / limit) ** 4 for load, limit in zip(used, limits, strict=True))


def _endless_draws(random: np.random.Generator, weight: np.ndarray):
    """Yield nodes with the probabilities `weight`, which need not be normalised."""
    while True:
        yield from random.choice(len(weight), 65_536, p=weight / weight.sum()).tolist()


def _damaged(random: np.random.Generator, instance: Instance) -> Instance:
    """Return the instance with nodes to be emptied, and nodes whose memory or disk holds less than is on them."""
    nodes = len(instance.rack)
    counts = [max(1, round(share * nodes)) for share in (DRAINED_SHARE, CROWDED_SHARE)]
    emptied, crowded = np.split(random.permutation(nodes)[: sum(counts)], [counts[0]])
    metric = random.choice(np.nonzero(IS_LIMIT)[0], len(crowded))
    loads = instance.node_loads(instance.places)[crowded, metric]
    instance.capacity[crowded, metric] = loads / random.uniform(SMALLEST_EXCESS, LARGEST_EXCESS, len(crowded))
    instance.drained[emptied] = True
    return instance


def write(instance: Instance, path: Path) -> None:
    """Write an instance to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{field.name: getattr(instance, field.name) for field in fields(instance)})


def read(path: Path) -> Instance:
    """Return the instance of a file."""
    with np.load(path) as arrays:
        return Instance(**arrays)


def cached(folder: Path, kind: str, nodes: int, seed: int = 0) -> Path:
    """Return the file of an instance in `folder`; it is drawn if it is not there."""
    path = folder / f"{kind}-{nodes}-{seed}.npz"
    if not path.exists():
        write(draw(kind, nodes, seed), path)
    return path


def main() -> None:
    """Draw an instance and print the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("nodes", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", type=Path, default=Path("results/rebalancer"))
    options = parser.parse_args()
    print(cached(options.to, options.kind, options.nodes, options.seed))


if __name__ == "__main__":
    main()
