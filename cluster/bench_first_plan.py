"""How long a new process takes to its first plan, with and without compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

RUNS = 3
FIRST_PLAN = """
import time
begun = time.perf_counter()
import plb
metrics = [plb.Metric("cpu", trend=False), plb.Metric("memory"), plb.Metric("disk")]
engine = plb.PlacementAndLoadBalancing(plb.PlbConfig(metrics=metrics), seed=0)
for index in range(40):
    engine.update_node(plb.Node(f"n{index}", capacities={"cpu": 80, "memory": 408, "disk": 5000},
                                fault_domain=f"fd:/rack{index % 5}", upgrade_domain=f"ud{index % 10}"))
engine.update_service(plb.Service("tenants", target_replicas=4))
for index in range(10):
    engine.update_partition(plb.Partition(f"p{index}", service="tenants"))
assert len(engine.refresh(now=0.0).moves) == 40
print(time.perf_counter() - begun)
"""


def first_plan_seconds() -> float:
    """Return the seconds from `import plb` to the first plan in a new process, once the kernels are compiled."""
    _once({})
    return min(_once({}) for _ in range(RUNS))


def cold_first_plan_seconds() -> float:
    """Return the same where nothing is compiled yet."""
    with tempfile.TemporaryDirectory() as directory:
        return _once({"PLB_CACHE_DIR": directory})


def _once(environment: dict[str, str]) -> float:
    run = subprocess.run(
        [sys.executable, "-c", FIRST_PLAN],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return float(run.stdout)
