"""One run of Rebalancer on an instance: figures as JSON, after several numbers of CPU seconds.

Rebalancer ends by wall time, and its search does not depend on the end. Its list of moves says after how many
evaluations each was made. So one run gives all budgets: after S seconds stands what was reached at the same share of
the evaluations as S is of the CPU seconds of the search. Building the model inside of `solve` counts as building.

    python -m venv REBALANCER; REBALANCER/bin/pip install -r benchmarks/rebalancer/requirements.txt
    REBALANCER/bin/python benchmarks/rebalancer/run_rebalancer.py free results/rebalancer/balance-1000-0.npz \
        --at 1 3 10 --set '{"search": {"stratifiedSampleSize": 5}}'
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rebalancer
from instances import COPIES, IS_LIMIT, METRICS, UNPLACED, Instance, read
from rebalancer import ProblemSolver
from score import score

MOVED_SHARE = 0.02
NEW = "new"
"""The container of the replicas without a node."""
SEARCH = {
    "moveTypeList": [{"moveTypeName": "SINGLE_COLDEST_STRATIFIED"}],
    "stratifiedSampleSize": 10,
    "includeEqualSizeRandomSampleForSingleColdestMoveType": True,
    "minHotObjects": 1,
    "hottestTraversalConfig": {"pruneOptimalSubgraphs": True},
    "randomSeed": 0,
}
"""Settings of the local search if a run changes none, in Rebalancer's own words (`LocalSearchSolverSpec`)."""
FORMULAS = {"LINEAR": 1, "SQUARES": 2, "MAX": 3, "IDEAL": 4, "RELATIVE_UTIL_VARIANCE": 6}
ABSOLUTE = 1
HIT_TIME_LIMIT = 2
RACKS = "rack"


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Parameters
    ----------
    search
        Changes of `SEARCH`.
    formula
        Formula of the goals of balance.
    price
        Weight of the goal to move few replicas, of the task that has one.
    """

    search: dict[str, Any] = field(default_factory=dict)
    formula: str = "SQUARES"
    price: float = 0.0


def solver_of(task: str, instance: Instance, settings: Settings, wall_seconds: int) -> ProblemSolver:
    """Return a solver that knows an instance and the goals of a task."""
    solver = ProblemSolver(service_name="benchmark", service_scope="local")
    solver.set_log_level("ERR").set_object_name("replica").set_container_name("node")
    _describe(solver, instance)
    _add_constraints(solver, instance)
    if task in ("free", "limited", "priced"):
        _add_balance(solver, instance, settings.formula)
    if task == "limited":
        solver.add_constraint({"minimizeMovementSpec": _movement(allowance=round(MOVED_SHARE * instance.places.size))})
    if task == "priced":
        solver.add_goal({"minimizeMovementSpec": _movement()}, settings.price)
    solver.add_solver({"localSearchSolverSpec": SEARCH | settings.search | {"solveTime": wall_seconds}})
    return solver


def _describe(solver: ProblemSolver, instance: Instance) -> None:
    """Add replicas with loads and places, nodes with capacities, and racks."""
    names = [[f"p{index}.{copy}" for copy in range(COPIES)] for index in range(len(instance.load))]
    on_node: dict[str, list[str]] = {f"n{node}": [] for node in range(len(instance.rack))}
    if (instance.places == UNPLACED).any():
        on_node[NEW] = []
    for replicas, nodes in zip(names, instance.places.tolist(), strict=True):
        for replica, node in zip(replicas, nodes, strict=True):
            on_node[NEW if node == UNPLACED else f"n{node}"].append(replica)
    solver.set_assignment(on_node)
    for metric, loads, limits in zip(METRICS, instance.load.T, instance.capacity.T, strict=True):
        of_replicas = {r: load for replicas, load in zip(names, loads.tolist(), strict=True) for r in replicas}
        solver.add_object_dimension(metric, of_replicas)
        of_nodes = {f"n{node}": limit for node, limit in enumerate(limits.tolist())}
        solver.add_container_dimension(metric, of_nodes, 1.0)
    solver.add_partition("partition", {f"p{index}": replicas for index, replicas in enumerate(names)})
    racks = {f"n{node}": f"rack{rack}" for node, rack in enumerate(instance.rack.tolist())}
    solver.add_similar_containers([list(racks)] + ([[NEW]] if NEW in on_node else []))
    solver.add_scope(RACKS, racks | ({NEW: NEW} if NEW in on_node else {}))


def _add_constraints(solver: ProblemSolver, instance: Instance) -> None:
    """Add memory and disk, one replica of a partition a rack, and nodes (and no node) that are to be empty."""
    is_new = (instance.places == UNPLACED).any()
    but_new = {"filter": {"itemsBlacklist": [NEW]}} if is_new else {}
    one = {"type": ABSOLUTE, "globalLimit": 1.0}
    for metric, is_limit in zip(METRICS, IS_LIMIT, strict=True):
        if is_limit:
            spec = {"name": metric, "scope": "node", "dimension": metric}
            solver.add_constraint({"capacitySpec": spec | but_new})
    spec = {"name": RACKS, "scope": RACKS, "partitionName": "partition", "limit": one}
    solver.add_constraint({"groupCountSpec": spec | but_new})
    emptied = [f"n{node}" for node in np.nonzero(instance.drained)[0]] + ([NEW] if is_new else [])
    if emptied:
        solver.add_constraint({"toFreeSpec": {"name": "to empty", "containers": emptied}})


def _add_balance(solver: ProblemSolver, instance: Instance, formula: str) -> None:
    """Add the balance of each metric, with weights by which equal relative differences count alike."""
    means = COPIES * instance.load.sum(axis=0) / instance.capacity.sum(axis=0)
    for metric, mean in zip(METRICS, means, strict=True):
        spec = {"name": f"balance {metric}", "scope": "node", "dimension": metric, "formula": FORMULAS[formula]}
        solver.add_goal({"balanceSpec": spec}, 1_000.0 / float(mean))


def _movement(**options: Any) -> dict[str, Any]:
    return {"name": "moves", "scope": "node", "dimension": "replica_count", "doNotNormalize": True, **options}


class Replay:
    """The assignment after a number of evaluations, which must not fall from call to call."""

    def __init__(self, instance: Instance, steps: list[dict[str, Any]]) -> None:
        self.instance, self.steps, self.evaluations = instance, steps, 0
        self.places = instance.places.copy()
        self._next = 0

    def until(self, evaluations: float) -> np.ndarray:
        """Return the (P, 3) places when this many evaluations have been made."""
        while self._next < len(self.steps) and self.evaluations + self.steps[self._next]["evalsCount"] <= evaluations:
            step = self.steps[self._next]
            for move in step["moves"]:
                partition, copy = move["object"][1:].split(".")
                self.places[int(partition), int(copy)] = _node_of(move["dstContainer"])
            self.evaluations += step["evalsCount"]
            self._next += 1
        return self.places


def _node_of(container: str) -> int:
    return UNPLACED if container == NEW else int(container[1:])


def run(task: str, instance: Instance, at: list[float], wall_seconds: int, settings: Settings) -> dict[str, Any]:
    """Return the figures of a run, with those after each of the CPU seconds `at` that it reached, and at its end."""
    begun = time.process_time()
    solver = solver_of(task, instance, settings, wall_seconds)
    built, wall = time.process_time(), time.perf_counter()
    solution = solver.solve()
    wall = time.perf_counter() - wall
    share = (time.process_time() - built) / wall  # of the processor
    modelled, searched = (solution["problemProfile"][f"{part}Sec"] for part in ("materialization", "solve"))
    summary, steps = solution["solverSummaries"][-1], solution["movesSummary"]
    pace = share * searched / max(1, summary["evalStats"]["numEvals"])
    replay, is_over = Replay(instance, steps), summary["endReason"] != HIT_TIME_LIMIT
    after = [[s, score(instance, replay.until(s / pace))] for s in at if is_over or s <= share * searched]
    return {
        "engine": "rebalancer",
        "version": rebalancer.__version__,
        "task": task,
        "settings": asdict(settings),
        "build": built - begun + share * modelled,
        "last_move": pace * sum(step["evalsCount"] for step in steps),
        "overrun": (wall - modelled) / wall_seconds,
        "is_over": is_over,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "after": [*after, [share * searched, score(instance, _final(solution, instance))]],
    }


def _final(solution: dict[str, Any], instance: Instance) -> np.ndarray:
    """Return the (P, 3) places of the solution."""
    places = np.empty_like(instance.places)
    for replica, container in solution["assignment"].items():
        partition, copy = replica[1:].split(".")
        places[int(partition), int(copy)] = _node_of(container)
    return places


def main() -> None:
    """Run Rebalancer and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("free", "limited", "priced", "placement", "repair"))
    parser.add_argument("instance", type=Path)
    parser.add_argument("--at", type=float, nargs="+", default=[1.0, 3.0, 10.0], help="CPU seconds")
    parser.add_argument("--wall", type=int, help="wall seconds; the largest of --at and a tenth if not given")
    parser.add_argument("--set", type=json.loads, default={}, help="settings that differ, as JSON")
    options = parser.parse_args()
    wall = options.wall or int(np.ceil(1.1 * max(options.at)))
    figures = run(options.task, read(options.instance), options.at, wall, Settings(**options.set))
    print(json.dumps(figures | {"instance": options.instance.stem}))


if __name__ == "__main__":
    main()
