"""Time to make and to apply a plan of many moves, beside that of the search; and to order moves that wait for others.

A balancing of uneven loads with free moves is measured, 30 replicas a node and 3 metrics, after a first call that makes
all arrays. Then half of the replicas come to a full node that the others leave. Seconds are CPU seconds.

    python benchmarks/plans_of_many_moves.py
    python benchmarks/plans_of_many_moves.py 1000 --proposals 1000 100000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from plb import LONG_SEARCH, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.planning import phases
from plb.search.move_order import Steps, executable_order
from plb.state.arrays import Problem, Solution
from plb.testing import configuration_of

SIZES = (1_000, 10_000)
PROPOSALS = (10_000, 1_000_000, 10_000_000)
METRICS = ("cpu", "memory", "disk")
COPIES = 3
PARTITIONS_A_NODE = 10
ORDERED = (1_000, 4_000, 250_000)
OTHERS = 20
"""Nodes that the replicas of the full node leave for, and come from."""


def uneven(nodes: int) -> PlacementAndLoadBalancing:
    """Return an engine with more replicas on the first nodes than on the last."""
    random = np.random.default_rng(3)
    config = PlbConfig(
        metrics=[Metric(name) for name in METRICS],
        max_percentage_to_move=1.0,
        w_imbalance=20.0 * nodes,
        ignore_cost_in_scoring=True,
        **LONG_SEARCH | {"chains": 1, "threads": 1},
    )
    engine = PlacementAndLoadBalancing(config, seed=1)
    for index in range(nodes):
        engine.update_node(
            Node(f"n{index}", capacities=dict.fromkeys(METRICS, 1_500.0), fault_domain=f"fd:/{index % 20}")
        )
    engine.update_service(Service("s", target_replicas=COPIES))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * (COPIES - 1)]
    first = (random.random(PARTITIONS_A_NODE * nodes) ** 1.3 * (nodes - COPIES)).astype(int).tolist()
    for number, place in enumerate(first):
        replicas = [Replica(role, f"n{place + copy}") for copy, role in enumerate(roles)]
        engine.update_partition(Partition(f"p{number}", service="s", replicas=replicas))
    rows = [one.index for number in range(len(first)) for one in engine.replicas(f"p{number}")]
    engine.report_loads(rows, random.gamma(2.0, 9.0, (len(rows), len(METRICS))).round(2))
    return engine


class Timed:
    """A function with the CPU seconds of all its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        begun = time.process_time()
        try:
            return self._function(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - begun


def measure(nodes: int, budgets: list[int]) -> None:
    """Print a line for each number of proposals."""
    start = uneven(nodes).snapshot()
    for proposals in budgets:
        engine = PlacementAndLoadBalancing.from_snapshot(start)
        engine.apply(engine.balance(budget=10))
        search, call, application = Timed(phases.balance), Timed(engine.balance), Timed(engine.apply)
        before, phases.balance = phases.balance, search  # type: ignore[assignment]
        try:
            plan = call(budget=proposals)
        finally:
            phases.balance = before
        application(plan)
        rest = call.seconds - search.seconds
        share = (rest + application.seconds) / search.seconds
        seconds = f"{search.seconds:>9.2f}{rest:>9.2f}{application.seconds:>9.2f}{share:>9.1%}"
        print(f"{nodes:>8,}{proposals:>12,}{len(plan.moves):>9,}{seconds}")


def exchanged(moves: int) -> tuple[Problem, Solution, Steps]:
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
    rows = np.array([engine.replicas(f"p{index}")[0].index for index in range(moves)])
    engine.report_loads(rows, loads)
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    target = np.where(np.arange(moves) >= half, 1 + np.arange(moves) % OTHERS, 0)
    np.subtract.at(solution.node_load, solution.node[rows], problem.load[rows])
    np.add.at(solution.node_load, target, problem.load[rows])
    solution.node[rows] = target
    return problem, solution, Steps(rows, np.full(moves, NOWHERE))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--proposals", nargs="*", type=int, default=PROPOSALS)
    options = parser.parse_args()
    executable_order(*exchanged(4))  # loads the kernels
    print(f"{'nodes':>8}{'proposals':>12}{'moves':>9}{'search':>9}{'plan':>9}{'apply':>9}{'share':>9}")
    for nodes in options.nodes:
        measure(nodes, options.proposals)
    print(f"\n{'moves':>8}{'order of those of one full node':>38}")
    for moves in ORDERED:
        order = Timed(executable_order)
        assert len(order(*exchanged(moves)).row) == moves
        print(f"{moves:>8,}{order.seconds:>36.3f} s")


if __name__ == "__main__":
    main()
