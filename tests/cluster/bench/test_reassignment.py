"""Machine reassignment: an instance by hand, agreement of the engine's energy with the costs, and files with errors."""

from __future__ import annotations

import lzma
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cluster.bench.reassignment import bench_reassignment, engine_of, models_of, search_instance
from cluster.bench.reassignment_instances import read_instance
from cluster.errors import InstanceFileError
from plb.errors import UnknownNameError
from plb.search.budget import Budget

DATA = Path(os.environ.get("PLB_DATA", "/work/shared/data")) / "roadef2012"

MODEL = """
2
1 100
0 10
4
0 0 30 400 16 80 0 1 4 5
0 0 10 240 8 160 1 0 3 4
1 1 15 100 12 80 4 3 0 2
1 2 10 100 8 80 5 4 2 0
2
2 0
1 1 0
3
0 12 10 1000
0 10 20 100
1 6 200 1
1
0 1 20
10
1 10 100
"""
"""The example of the problem statement: two resources, of which the first is transient."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with the example and its assignment."""
    (tmp_path / "model_example.txt").write_text(MODEL)
    (tmp_path / "assignment_example.txt").write_text("0 3 0\n")
    return tmp_path


def test_costs_by_hand(directory: Path):
    instance = read_instance(directory / "model_example.txt")
    # machine 0 uses 18 and 210, 2 and 130 above its safety capacity; machine 3 uses 10 and 20, 2 above
    assert instance.costs(instance.original)["load"] == 2 * 100 + 130 * 10 + 2 * 100
    # free are (12, 190), (10, 240), (15, 100), (0, 80)
    assert instance.costs(instance.original)["balance"] == 10 * (50 + 0 + 200 + 0)
    moved = instance.costs(np.array([0, 2, 1]))
    assert (moved["process moves"], moved["service moves"], moved["machine moves"]) == (101, 10, 100 * (2 + 1))
    assert instance.violations(instance.original) == []
    assert instance.violations(np.array([2, 3, 2])) == [
        "machine 2 uses 18 of 15 of resource 0",
        "machine 2 uses 210 of 100 of resource 1",
    ]
    assert instance.violations(np.array([3, 3, 0])) == [
        "machine 3 uses 22 of 10 of resource 0",
        "machine 3 has 2 processes of service 0",
        "service 0 is in 1 of 2 locations",
        "service 1 lacks service 0 in neighbourhood 0",
    ]


def test_transient_resources_count_on_both_machines(directory: Path):
    instance = read_instance(directory / "model_example.txt")
    assert instance.violations(np.array([1, 0, 0]))[:1] == ["machine 1 uses 12 of 10 of resource 0"]
    assert "machine 0 uses 28 of 30 of resource 0" not in instance.violations(np.array([2, 0, 0]))
    instance.capacity[0, 0] = 27
    assert instance.violations(np.array([2, 0, 0])) == ["machine 0 uses 28 of 27 of resource 0"]


def test_search_finds_the_optimum(directory: Path):
    """It is that of all assignments without violations, and the engine's energy differs by a constant."""
    instance = read_instance(directory / "model_example.txt")
    assignments = [np.array(one) for one in product(range(4), repeat=3)]
    least = min(instance.cost(one) for one in assignments if not instance.violations(one))
    figures = search_instance(instance, 0.3, seed=1)
    assert (figures.cost, figures.violations) == (least, ())
    assert figures.best_known is figures.gap is figures.left is None
    assert figures.as_json()["cost"] == least


@pytest.mark.parametrize("name", ["a1_1", "a1_3", "a2_4"])
def test_energy_is_the_cost(name: str):
    model = DATA / f"model_{name}.txt.xz"
    if not model.is_file():
        pytest.skip(f"{model} is not here")
    instance = read_instance(model)
    engine = engine_of(instance, seed=3)
    plan = engine.balance(budget=Budget(30_000))
    engine.apply(plan)
    found = np.array([int(str(engine.replicas(f"p{one}")[0].node)[1:]) for one in range(len(instance.service))])
    assert plan.energy_after.total == instance.cost(found) < instance.cost(instance.original)
    assert instance.violations(found) == []


def test_compressed_files_and_names(directory: Path):
    for kind in ("model", "assignment"):
        data = (directory / f"{kind}_example.txt").read_bytes()
        (directory / f"{kind}_other.txt.xz").write_bytes(lzma.compress(data))
    assert [path.name for path in models_of(directory)] == ["model_example.txt", "model_other.txt.xz"]
    steps: list[str] = []
    figures = bench_reassignment(models_of(directory, ["other"]), seconds=0.01, report=steps.append)
    assert ([one.name for one in figures], steps) == (["other"], ["other, 0.01 s"])
    with pytest.raises(UnknownNameError, match="othre"):
        models_of(directory, ["othre"])


@pytest.mark.parametrize(
    ("model", "assignment", "message"),
    [
        (MODEL, "0 3", "assignment_example.txt: 2 numbers, where at least 3 are expected"),
        (MODEL, "0 3 4", "machines of processes from 0 to 4, expected 0 to 3"),
        (MODEL, "0 3 0 0", "4 numbers, where 3 are expected"),
        (MODEL + "7", "0 3 0", "model_example.txt: 74 numbers, where 73 are expected"),
        (MODEL.replace("1 1 0\n", "1 1 9\n"), "0 3 0", "services that others depend on from 9 to 9"),
        (MODEL.replace("1 6 200", "2 6 200"), "0 3 0", "services of processes from 0 to 2, expected 0 to 1"),
        (MODEL.replace("30", "thirty"), "0 3 0", "model_example.txt: .*thirty"),
        ("-1", "0", "model_example.txt"),
    ],
)
def test_errors_name_the_file(directory: Path, model: str, assignment: str, message: str):
    (directory / "model_example.txt").write_text(model)
    (directory / "assignment_example.txt").write_text(assignment)
    with pytest.raises(InstanceFileError, match=message):
        read_instance(directory / "model_example.txt")


def test_directory_without_instances(tmp_path: Path):
    with pytest.raises(InstanceFileError, match="no instance"):
        models_of(tmp_path)
