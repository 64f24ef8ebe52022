"""Building a cluster in bulk, and placing new replicas where it is nearly full.

Ten partitions of three replicas a node, in distinct racks of twenty; whole-number loads with a lognormal distribution,
three sizes of nodes. One partition in twenty is new; with them, memory and disk of all nodes together are 92 % full, or
as `--fill` says. Seconds are CPU seconds of the process.

    python benchmarks/tight_placement.py
    python benchmarks/tight_placement.py 1000 --fill 0.96
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from plb import MoveKind, Node, PartitionColumns, PlacementAndLoadBalancing, PlbConfig, Role, Service
from plb.array_types import Array, Float
from plb.model import Metric

SIZES = (1_000, 10_000)
METRICS = ("cpu", "memory", "disk")
RACKS = 20
REPLICAS = 3
DRAWS = 60
"""Sets of four random nodes of which each replica takes the emptiest that fits."""


def drawn_cluster(nodes: int, fill: float) -> tuple[Float, Float, Array]:
    """Return capacities, (N, R), loads, (P, 3, R), and the nodes of the replicas, (P, 3), -1 for those to be placed."""
    random = np.random.default_rng(nodes)
    partitions = 10 * nodes
    spread = random.uniform(0.8, 1.2, (partitions, REPLICAS, len(METRICS)))
    load = np.ceil(random.lognormal(3.0, 0.8, (partitions, 1, len(METRICS))) * spread)
    size = random.choice([1.0, 1.5, 2.0], nodes)
    capacity = np.floor(size[:, np.newaxis] * (load.sum(axis=(0, 1)) / fill / size.sum()))
    capacity[:, 0] *= 2.0
    room, place = capacity.copy(), np.full((partitions, REPLICAS), -1)
    for partition in random.permutation(np.flatnonzero(random.random(partitions) >= 0.05)).tolist():
        for replica in range(REPLICAS):
            taken = place[partition, :replica] % RACKS
            for _ in range(DRAWS):
                drawn = random.integers(0, nodes, 4)
                fits = (room[drawn] >= load[partition, replica]).all(axis=1) & ~np.isin(drawn % RACKS, taken)
                if fits.any():
                    node = drawn[fits][np.argmax((room[drawn[fits]] / capacity[drawn[fits]]).min(axis=1))]
                    place[partition, replica] = node
                    room[node] -= load[partition, replica]
                    break
    return capacity, load, place


def build(capacity: Float, load: Float, place: Array) -> PlacementAndLoadBalancing:
    """Return an engine with the cluster and the loads of all replicas."""
    metrics = [Metric(name, violation_threshold=1.0) for name in METRICS]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, w_failovers=0.0, capacity_limit="capacity"), seed=1)
    engine.update_nodes(
        Node(f"n{index}", capacities=dict(zip(METRICS, row, strict=True)), fault_domain=f"fd:/rack{index % RACKS}")
        for index, row in enumerate(capacity.tolist())
    )
    engine.update_service(Service("tenants", stateful=False, target_replicas=REPLICAS))
    names = np.array([*(f"n{index}" for index in range(len(capacity))), ""], object)
    partitions = [f"p{index}" for index in range(len(place))]
    columns = PartitionColumns(partitions, service="tenants", nodes=names[place], roles=Role.INSTANCE)
    rows = engine.update_partitions(columns)
    order = np.argsort(place < 0, axis=1, kind="stable")  # missing replicas of a partition follow those that are there
    engine.report_loads(rows, np.take_along_axis(load, order[:, :, np.newaxis], axis=1).reshape(-1, len(METRICS)))
    return engine


def measure(nodes: int, fill: float) -> str:
    """Return the line of a size."""
    cluster = drawn_cluster(nodes, fill)
    begun = time.process_time()
    engine = build(*cluster)
    built = time.process_time()
    engine.violations()
    seen = time.process_time()
    plan = engine.place()
    placed = time.process_time()
    kinds = [move.kind for move in plan.moves]
    seconds = "".join(f"{late - early:>13.2f} s" for early, late in ((begun, built), (built, seen), (seen, placed)))
    adds, moves = kinds.count(MoveKind.ADD), kinds.count(MoveKind.MOVE)
    return f"{nodes:>8,}{seconds}{adds:>10,}{len(plan.unplaced):>10,}{moves:>13,}"


def main() -> None:
    """Print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="*", type=int, default=SIZES, help="numbers of nodes, one line each")
    parser.add_argument("--fill", type=float, default=0.92, help="load of memory and disk over capacity, with new ones")
    options = parser.parse_args()
    measure(100, 0.99)  # loads the kernels, also those of evictions
    headings = ("build", "first look", "place")
    print(f"{'nodes':>8}{''.join(f'{name:>15}' for name in headings)}{'placed':>10}{'unplaced':>10}{'other moves':>13}")
    for nodes in options.nodes:
        print(measure(nodes, options.fill))


if __name__ == "__main__":
    main()
