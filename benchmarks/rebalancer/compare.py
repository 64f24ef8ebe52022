"""plb and Rebalancer in turn over tasks, sizes and budgets: figures in docs/data/rebalancer.json for `make pages`.

All processes are bound to one core, and all seconds are CPU seconds. plb has its default settings. Rebalancer has
several settings, of which each cell shows the best.

    python benchmarks/rebalancer/compare.py --engines rebalancer --python REBALANCER/bin/python
    python benchmarks/rebalancer/compare.py --engines plb --tasks free limited --sizes 100 1000
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instances import cached
from run_plb import TASKS

sys.path.insert(0, str(Path(__file__).parents[2]))

from cluster.studies.publication import processor
from docs.tables.other_systems import BALANCING, RUN_AS, SIZES, budgets, cells

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = ROOT / "docs/data/rebalancer.json"


def settings_of_rebalancer(task: str, nodes: int) -> Iterator[dict[str, Any]]:
    """Yield the settings that were best of those tried for a task and a size."""
    single, fast = {"moveTypeName": "SINGLE_COLDEST_STRATIFIED"}, {"singleFastMoveTypeSpec": {}}
    partners = {} if nodes <= 100 else {"sampleSize": {"defaultSampleSize": 1}}
    swap = {"swapMoveTypeSpec": {"greedyOnSrc": True, **partners}}
    if task == "free":
        yield {"search": {"stratifiedSampleSize": 5, "moveTypeList": [single, swap]}}
    if task == "limited":
        for hot in (5, 20, 60):
            yield {"search": {"stratifiedSampleSize": 5, "minHotObjects": hot}}
    if task == "priced":
        for hot in (1, 20):
            search = {"stratifiedSampleSize": 5, "minHotObjects": hot, "moveTypeList": [single, swap]}
            yield {"search": search, "price": 0.3 / nodes}
    if task == "placement":
        chain = {"singleEndChainMoveTypeSpec": {}}
        for sample in (10, 50):
            yield {"search": {"stratifiedSampleSize": sample, "moveTypeList": [single, fast, swap, chain]}}
    if task == "repair":
        yield {"search": {"stratifiedSampleSize": 5, "moveTypeList": [single, fast]}}


def called(python: str, script: str, *arguments: object) -> dict[str, Any]:
    """Return the figures that a script prints."""
    command = [python, str(HERE / script), *map(str, arguments)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return figures


def runs_of_plb(data: dict[str, Any], task: str, nodes: int, instance: Path) -> Iterator[dict[str, Any]]:
    """Yield a run for each budget; placement and repair have the default budget."""
    for seconds in budgets(nodes) if task in BALANCING else (None,):
        options = [] if seconds is None else ["--seconds", seconds]
        if task == "as many":
            options += ["--set", f"max_moves={cells(data['runs'], task, nodes, seconds)[0]['moved']}"]
        figures = called(sys.executable, "run_plb.py", RUN_AS.get(task, task), instance, *options)
        cpu, used = figures["cpu_seconds"], figures["cpu_seconds"]["solve"]
        yield {"seconds": seconds, "used": used, "build": cpu["build"], "apply": cpu["apply"], **figures["score"]}


def runs_of_rebalancer(python: str, task: str, nodes: int, instance: Path) -> Iterator[dict[str, Any]]:
    """Yield for each budget the best run of several settings; placement and repair run to their last move."""
    found: dict[float | None, list[dict[str, Any]]] = {}
    at = budgets(nodes)
    wall = math.ceil(1.2 * max(at) * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
    for settings in settings_of_rebalancer(task, nodes):
        options = ["--at", *at, "--wall", wall, "--set", json.dumps(settings)]
        figures = called(python, "run_rebalancer.py", task, instance, *options)
        common = {"build": figures["build"], "settings": settings}
        if task in BALANCING:
            for seconds, score in figures["after"][:-1]:
                used = min(seconds, figures["last_move"]) if figures["is_over"] else figures["overrun"] * seconds
                found.setdefault(seconds, []).append({"used": used, **common, **score})
        else:
            score = figures["after"][-1][1]
            found.setdefault(None, []).append({"used": figures["last_move"], **common, **score})
    for seconds, alternatives in found.items():
        yield {"seconds": seconds, **min(alternatives, key=_badness)}


def _badness(figures: dict[str, Any]) -> tuple[float, ...]:
    """Return what makes the figures of a run worse, first things first."""
    return tuple(figures[name] for name in ("unplaced", "over", "on_drained", "cv"))


def kept(data: dict[str, Any], engine: str, task: str, nodes: int, runs: list[dict[str, Any]]) -> None:
    """Put runs in place of the earlier ones of the same engine, task and size."""
    others = [run for run in data["runs"] if (run["engine"], run["task"], run["nodes"]) != (engine, task, nodes)]
    rounded = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in run.items()} for run in runs
    ]
    data["runs"] = others + [{"engine": engine, "task": task, "nodes": nodes, **run} for run in rounded]
    data["runs"].sort(key=lambda run: (run["engine"], run["task"], run["nodes"], run["seconds"] or 0.0))


def write(data: dict[str, Any]) -> None:
    """Write the figures to their file, one run a line."""
    *lines, last = [json.dumps(run) for run in data["runs"]]
    runs = "".join(f"  {line},\n" for line in lines)
    head = json.dumps({name: value for name, value in data.items() if name != "runs"})
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(f'{head[:-1]}, "runs": [\n{runs}  {last}\n]}}\n')


def measure(options: argparse.Namespace) -> None:
    """Run the engines and write their figures."""
    os.sched_setaffinity(0, {options.core})
    data = json.loads(DATA.read_text()) if DATA.exists() else {"versions": {}, "runs": []}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    versions = {
        "plb": commit.strip(),
        "rebalancer": (HERE / "requirements.txt").read_text().rpartition("==")[2].strip(),
    }
    for nodes in options.sizes:
        for task in options.tasks:
            instance = cached(options.instances, TASKS[RUN_AS.get(task, task)], nodes, options.seed)
            for engine in options.engines:
                if engine == "plb":
                    runs = runs_of_plb(data, task, nodes, instance)
                elif task in RUN_AS:
                    continue  # its runs are those of the other task
                else:
                    runs = runs_of_rebalancer(options.python, task, nodes, instance)
                kept(data, engine, task, nodes, list(runs))
                data["versions"][engine] = versions[engine]
                data["processor"] = processor()
                write(data)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=("rebalancer", "plb"), default=["rebalancer", "plb"])
    parser.add_argument("--tasks", nargs="+", choices=[*TASKS, *RUN_AS], default=[*TASKS, *RUN_AS])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--python", default="python3", help="a Python that has Rebalancer")
    parser.add_argument("--instances", type=Path, default=Path("results/rebalancer"), help="directory of the instances")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=0)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
