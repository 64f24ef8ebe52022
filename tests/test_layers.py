"""Imports point downwards, and `import plb` is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("numba", "scipy", "polars", "matplotlib", "simpy", "typer", "rich", "hypothesis", "torch")
MOST_MODULES = 450
"""Limit for the modules that are loaded, of which NumPy, attrs and the standard library have more than half."""

IMPORT = """
import sys
import plb
print(*sys.modules)
"""


def python(code: str) -> str:
    """Run code in a new interpreter and return its output."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_import_of_plb_is_light():
    """It imports no heavy library, no search and few modules, so that it takes well under a second."""
    modules = python(IMPORT).split()
    assert not set(HEAVY) & {name.partition(".")[0] for name in modules}
    assert len(modules) <= MOST_MODULES
    assert not {"plb.planning.planner", "plb.planning.phases", "plb.search.placement"} & {*modules}


def test_a_new_engine_loads_no_compiler():
    """The first plan or history imports Numba; the description of the cluster does not."""
    code = """
import sys
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Service
engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
engine.update_node(Node("n0"))
engine.update_service(Service("web", stateful=False))
engine.update_partition(Partition("web/0", service="web"))
print("numba" in sys.modules)
"""
    assert python(code).strip() == "False"


def test_import_contracts_hold():
    """The order is cluster > workloads > plb, as in pyproject.toml. import-linter checks it."""
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout
