"""The time of new processes until their first plan: `plb bench start`.

Each figure is measured in separate processes. Times without compilation are the fastest of several; times with
compilation are measured once, with an empty cache directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from rich.table import Table

from cluster.runs.pool import cores
from cluster.tables import new_table
from plb.compiler.cache import SUFFIX
from plb.errors import PlbError
from plb.phrasing import counted

RUNS = 5
"""Number of processes, of which the fastest counts."""
IMPORT = """
import time
begun = time.perf_counter()
import plb
print(time.perf_counter() - begun)
"""
CLUSTER = """
engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("memory")]), seed=7)
for index in range(4):
    engine.update_node(Node(f"n{index}", capacities={"memory": 64}))
engine.update_service(Service("orders", default_load={Role.PRIMARY: {"memory": 8}}))
partitions = [f"orders/{index}" for index in range(12)]
for partition in partitions:
    engine.update_partition(Partition(partition, service="orders"))
replicas = [engine.replicas(partition)[0].index for partition in partitions]
"""
"""The cluster of examples/embedding.py."""
FIRST_PLAN = f"""
import time
begun = time.perf_counter()
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Role, Service
{CLUSTER}
engine.report_loads(replicas, [[8]] * len(replicas))
assert len(engine.refresh(0.0).moves) == len(replicas)
print(time.perf_counter() - begun)
"""
WARMUP = """
import sys
from plb_command import main
sys.argv = ["plb", "warmup"]
main()
"""


@attrs.frozen
class Timed:
    """The times of a process."""

    seconds: float
    """Seconds that the process measures and prints."""
    process_seconds: float
    """Seconds from the start of the process to its exit."""


@attrs.frozen
class StartFigures:
    """The figures of `plb bench start`."""

    imported: Timed
    """Times of `import plb`."""
    warm: Timed
    """Times from `import plb` to the first plan of examples/embedding.py, with compiled kernels."""
    cold: Timed
    """Times from `import plb` to the first plan of examples/embedding.py, without compiled kernels."""
    cold_kernels: int
    """Kernels that were compiled for the first plan without compiled kernels."""
    warmup_seconds: float
    """Seconds of `plb warmup` from its start to its exit, without compiled kernels."""
    warmup_kernels: int
    """Kernels that `plb warmup` compiled."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures by name, with the number of cores."""
        return {
            "import_seconds": self.imported.seconds,
            "import_process_seconds": self.imported.process_seconds,
            "warm_first_plan_seconds": self.warm.seconds,
            "warm_first_plan_process_seconds": self.warm.process_seconds,
            "cold_first_plan_seconds": self.cold.seconds,
            "cold_first_plan_process_seconds": self.cold.process_seconds,
            "cold_kernels": self.cold_kernels,
            "warmup_seconds": self.warmup_seconds,
            "warmup_kernels": self.warmup_kernels,
            "cores": cores(),
        }


def start_table(figures: StartFigures) -> Table:
    """Return a table of the times of new processes."""
    table = new_table(("a new process", "seconds", "from start to exit"))
    cold_label = f"first plan that compiles {counted(figures.cold_kernels, 'kernel')}"
    rows = {"import plb": figures.imported, "first plan, kernels compiled": figures.warm, cold_label: figures.cold}
    for label, timed in rows.items():
        table.add_row(label, f"{timed.seconds:.2f}", f"{timed.process_seconds:.2f}")
    warmup_label = f"plb warmup that compiles {counted(figures.warmup_kernels, 'kernel')}, {counted(cores(), 'core')}"
    table.add_row(warmup_label, "", f"{figures.warmup_seconds:.2f}")
    return table


def bench_start(report: Callable[[str], None] = lambda _step: None) -> StartFigures:
    """Measure the times of new processes; `report` gets the name of each step before it begins."""
    report("import")
    imported = _fastest(IMPORT)
    report("first plan with compiled kernels")
    warm = warm_first_plan()
    report("first plan that compiles its kernels")
    cold, cold_kernels = cold_first_plan()
    report("plb warmup")
    return StartFigures(imported, warm, cold, cold_kernels, *_cold_warmup())


def warm_first_plan() -> Timed:
    """Return the times of a new process from `import plb` to its first plan, with compiled kernels."""
    _timed(FIRST_PLAN)
    return _fastest(FIRST_PLAN)


def cold_first_plan() -> tuple[Timed, int]:
    """Return the times of a new process from `import plb` to its first plan, without compiled kernels.

    The second value is the number of kernels that the process compiled.
    """
    with tempfile.TemporaryDirectory() as cache:
        return _timed(FIRST_PLAN, cache), _kernels_in(cache)


def _cold_warmup() -> tuple[float, int]:
    """Return the seconds of `plb warmup` without compiled kernels, and the number of kernels that it compiled."""
    with tempfile.TemporaryDirectory() as cache:
        return _run(WARMUP, cache)[1], _kernels_in(cache)


def _kernels_in(cache: str) -> int:
    """Return the number of kernels in a cache directory."""
    return len(list(Path(cache).glob(f"*{SUFFIX}")))


def _fastest(program: str) -> Timed:
    """Return the least times of several processes that run a program, which prints seconds."""
    runs = [_timed(program) for _ in range(RUNS)]
    return Timed(min(run.seconds for run in runs), min(run.process_seconds for run in runs))


def _timed(program: str, cache: str | None = None) -> Timed:
    """Return the times of a process that runs a program, which prints seconds.

    `cache`: the directory of compiled kernels, by default the usual one.
    """
    printed, seconds = _run(program, cache)
    return Timed(float(printed), seconds)


def _run(program: str, cache: str | None) -> tuple[str, float]:
    """Return the output of a program in a new process, and the seconds from its start to its exit.

    `cache`: the directory of compiled kernels; None: the usual one.
    """
    environment = dict(os.environ) if cache is None else {**os.environ, "PLB_CACHE_DIR": cache}
    command = [sys.executable, "-c", program]
    begun = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - begun
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise PlbError(f"bench start: a process failed: {lines[-1]}")
    return run.stdout, seconds
