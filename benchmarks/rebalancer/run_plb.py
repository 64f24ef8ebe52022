"""One run of plb on an instance, with its default settings: figures as JSON, and the assignment as a file.

Seconds are CPU seconds of this process: `time.perf_counter`, on which budgets of plb rely, is replaced by
`time.process_time`. Kernels are loaded beforehand, by the same call on a small instance.

    python benchmarks/rebalancer/run_plb.py free results/rebalancer/balance-1000-0.npz --seconds 3
    python benchmarks/rebalancer/run_plb.py priced results/rebalancer/balance-100-0.npz --proposals 100000 \
        --set initial_temperature=0.1
"""

from __future__ import annotations

import argparse
import ast
import json
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from instances import COPIES, IS_LIMIT, METRICS, UNPLACED, Instance, draw, read
from score import score

from plb import (
    Budget,
    Metric,
    Node,
    PartitionColumns,
    PlacementAndLoadBalancing,
    PlbConfig,
    Role,
    Service,
)

TASKS = {"free": "balance", "limited": "balance", "priced": "balance", "placement": "placement", "repair": "repair"}
"""Kind of the instances of each task."""
CALLS = {"placement": PlacementAndLoadBalancing.place, "repair": PlacementAndLoadBalancing.repair}
MOVED_SHARE = 0.02
"""Share of the replicas that may move if moves are limited."""
NO_LIMIT = 10
"""Factor of the capacity of a metric that is only to be balanced."""
SERVICE = "tenants"


def problem(task: str, instance: Instance) -> dict[str, Any]:
    """Return the settings that state a task: limits, the measure of balance, what moves cost, and one thread."""
    metrics = [Metric(name, violation_threshold=1.0, balancing_by_percentage=True) for name in METRICS]
    settings = {"metrics": metrics, "capacity_limit": "capacity", "chains": 1, "threads": 1}
    if task in ("free", "limited"):
        settings |= {"ignore_cost_in_scoring": True, "max_percentage_to_move": 1.0}
    if task == "limited":
        settings["max_moves"] = round(MOVED_SHARE * instance.places.size)
    return settings


def engine_of(instance: Instance, settings: Mapping[str, Any], seed: int = 0) -> PlacementAndLoadBalancing:
    """Return an engine that knows the cluster of an instance."""
    engine = PlacementAndLoadBalancing(PlbConfig(**settings), seed=seed)
    limits = np.where(IS_LIMIT, instance.capacity, NO_LIMIT * instance.capacity).tolist()
    engine.update_nodes(
        Node(f"n{node}", capacities=dict(zip(METRICS, limit, strict=True)), fault_domain=f"fd:/rack{rack}")
        for node, (limit, rack) in enumerate(zip(limits, instance.rack, strict=True))
    )
    engine.update_service(Service(SERVICE, stateful=False, target_replicas=COPIES))
    names = np.array([*(f"n{node}" for node in range(len(instance.rack))), ""])
    partitions = [f"p{index}" for index in range(len(instance.load))]
    columns = PartitionColumns(partitions, service=SERVICE, nodes=names[instance.places], roles=Role.INSTANCE)
    engine.report_loads(engine.update_partitions(columns), np.repeat(instance.load, COPIES, axis=0))
    for node in np.nonzero(instance.drained)[0]:
        engine.drain_node(f"n{node}")
    return engine


def places_of(engine: PlacementAndLoadBalancing, partitions: int) -> np.ndarray:
    """Return the (P, 3) node of each replica, or `UNPLACED`."""
    nodes = [[replica.node for replica in engine.replicas(f"p{index}")] for index in range(partitions)]
    return np.array([[UNPLACED if node is None else int(node[1:]) for node in of] for of in nodes])


class Stopwatch:
    """CPU seconds of the parts of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, part: str, call: Callable[[], Any]) -> Any:
        """Return what `call` returns, and note its CPU seconds."""
        begun = time.process_time()
        result = call()
        self.seconds[part] = round(time.process_time() - begun, 3)
        return result


def run(task: str, instance: Instance, budget: Budget | None, *, seed: int = 0, **changed: Any) -> dict[str, Any]:
    """Return the figures of a run, and the `places` after it.

    Parameters
    ----------
    changed
        Settings other than the defaults.
    """
    watch = Stopwatch()
    settings = problem(task, instance) | changed
    engine = watch.timed("build", lambda: engine_of(instance, settings, seed))
    call = CALLS.get(task, PlacementAndLoadBalancing.balance)
    plan = watch.timed("solve", lambda: call(engine, budget=budget))
    watch.timed("apply", lambda: engine.apply(plan))
    places = places_of(engine, len(instance.load))
    return {
        "engine": "plb",
        "task": task,
        "cpu_seconds": watch.seconds,
        "end_reason": plan.end_reason,
        "generated": plan.proposals.generated,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "score": score(instance, places),
        "places": places,
    }


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of a setting such as ``chains=2`` or ``estimator=gaussian``."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main() -> None:
    """Run plb and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("instance", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--proposals", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--to", type=Path, help="file for the assignment")
    options = parser.parse_args()
    time.perf_counter = time.process_time
    changed = dict(options.set)
    run(options.task, draw(TASKS[options.task], 40), Budget(seconds=0.2), **changed)
    limits = {"seconds": options.seconds, "proposals": options.proposals}
    budget = Budget(**limits) if any(limits.values()) else None
    figures = run(options.task, read(options.instance), budget, seed=options.seed, **changed)
    places = figures.pop("places")
    if options.to is not None:
        np.savez_compressed(options.to, places=places)
    print(json.dumps(figures | {"instance": options.instance.stem, **limits, "settings": changed}))


if __name__ == "__main__":
    main()
