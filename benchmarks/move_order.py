"""Time to order the moves of a plan in which half of the replicas come to a full node that the others leave.

python benchmarks/move_order.py
python benchmarks/move_order.py 500 4000
"""

from __future__ import annotations

import sys
import time

import numpy as np

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.search.move_order import Step, executable_order
from plb.state.arrays import Problem, Solution
from plb.testing import configuration_of

SIZES = (250, 500, 1_000, 4_000)
OTHERS = 20
"""Nodes that the replicas leave for, and come from."""


def exchanged(moves: int) -> tuple[Problem, Solution, list[Step]]:
    """Return a cluster whose first node exchanges all its replicas, and the steps."""
    random = np.random.default_rng(5)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu"), Metric("memory")]))
    loads = random.integers(1, 9, (moves, 2)).astype(float)
    half = moves // 2
    full = np.maximum(loads[:half].sum(axis=0), loads[half:].sum(axis=0)) * 1.02
    engine.update_node(Node("n0", capacities={"cpu": float(full[0]), "memory": float(full[1])}))
    for index in range(OTHERS):
        engine.update_node(Node(f"m{index}"))
    engine.update_service(Service("s", stateful=False))
    for index in range(moves):
        node = "n0" if index >= half else f"m{index % OTHERS}"
        engine.update_partition(Partition(f"p{index}", service="s", replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(f"p{index}", node, dict(zip(("cpu", "memory"), loads[index].tolist(), strict=True)))
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    rows = [engine.replicas(f"p{index}")[0].index for index in range(moves)]
    for index, row in enumerate(rows):
        target = 1 + index % OTHERS if index >= half else 0
        solution.node_load[solution.node[row]] -= problem.load[row]
        solution.node_load[target] += problem.load[row]
        solution.node[row] = target
    return problem, solution, [(row, NOWHERE) for row in rows]


def main() -> None:
    """Print a line for each number of moves."""
    for moves in [int(size) for size in sys.argv[1:]] or SIZES:
        problem, solution, steps = exchanged(moves)
        begun = time.process_time()
        assert len(executable_order(problem, solution, steps)) == moves
        print(f"{moves:>8,} moves {time.process_time() - begun:>9.3f} s")


if __name__ == "__main__":
    main()
