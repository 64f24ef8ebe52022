"""The comparison with Rebalancer: its instances, its scorer, and its runs of plb."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from docs.tables import other_systems
from plb import Budget
from tests.sources import ROOT


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "rebalancer")
    names = ("instances", "score", "run_plb", "compare")
    loaded: dict[str, ModuleType] = {name: importlib.import_module(name) for name in names}
    return SimpleNamespace(**loaded)


def counted(instance, places) -> dict[str, float]:
    """Return the figures of the scorer, by loops."""
    nodes, metrics = range(len(instance.rack)), range(3)
    used = [[0] * 3 for _ in nodes]
    figures = dict.fromkeys(("moved", "unplaced", "rack_mates", "on_drained"), 0)
    for load, before, after in zip(instance.load, instance.places, places, strict=True):
        racks: set[int] = set()
        for node in after:
            if node < 0:
                figures["unplaced"] += 1
                continue
            figures["rack_mates"] += int(instance.rack[node]) in racks
            figures["on_drained"] += int(instance.drained[node])
            racks.add(int(instance.rack[node]))
            for metric in metrics:
                used[node][metric] += int(load[metric])
        figures["moved"] += sum(node >= 0 and node not in after for node in before)
    limits = instance.capacity.tolist()
    shares = [[used[n][m] / limits[n][m] for n in nodes if not instance.drained[n]] for m in metrics]
    over = sum(any(used[n][m] > limits[n][m] for m in (1, 2)) for n in nodes)
    cv = float(np.mean([np.std(of) / np.mean(of) for of in shares]))
    return figures | {"over": over, "hottest": max(max(of) for of in shares), "cv": cv}


@pytest.mark.parametrize("kind", ["balance", "placement", "repair"])
def test_the_score_of_an_instance_is_what_loops_count(modules, kind):
    """Also after replicas have changed places at random, so that constraints are broken."""
    instance = modules.instances.draw(kind, 20, seed=3)
    random = np.random.default_rng(1)
    is_changed = random.random(instance.places.shape) < 0.3
    changed = np.where(is_changed, random.integers(-1, 20, instance.places.shape), instance.places)
    for places in (instance.places, changed):
        assert modules.score.score(instance, places) == pytest.approx(counted(instance, places))


@pytest.mark.parametrize(
    ("kind", "broken"), [("balance", ()), ("placement", ("unplaced",)), ("repair", ("over", "on_drained"))]
)
def test_an_instance_breaks_only_what_its_task_mends(modules, kind, broken, tmp_path):
    """A file holds the same instance, and another seed another one."""
    path = modules.instances.cached(tmp_path, kind, 50, 1)
    instance = modules.instances.read(path)
    figures, same = modules.score.score(instance, instance.places), modules.instances.draw(kind, 50, 1)
    assert {name for name in ("unplaced", "over", "rack_mates", "on_drained") if figures[name]} == set(broken)
    assert figures == modules.score.score(same, same.places)
    assert not np.array_equal(instance.load, modules.instances.draw(kind, 50, 2).load)


@pytest.mark.parametrize("task", ["free", "limited", "priced", "placement", "repair"])
def test_plb_runs_each_task_and_breaks_no_constraint(modules, task):
    """A limit of moves holds, and free balancing leaves a cluster more even."""
    instance = modules.instances.draw(modules.run_plb.TASKS[task], 100)
    before = modules.score.score(instance, instance.places)
    figures = modules.run_plb.run(task, instance, Budget(proposals=20_000))
    after = figures["score"]
    assert not np.array_equal(instance.places, figures["places"]) or task == "priced"
    assert after["over"] == after["rack_mates"] == after["unplaced"] == 0
    assert after["moved"] <= 60 or task != "limited"
    assert after["cv"] < before["cv"] or task not in ("free", "limited")


def test_settings_of_a_run_are_numbers_or_names(modules):
    """A value that is no literal is a text."""
    read = modules.run_plb.setting
    assert read("w_imbalance=1e3") == ("w_imbalance", 1000.0)
    assert read("cooling=by_budget") == ("cooling", "by_budget")


def run_of(engine: str, task: str, seconds: float | None, **changed: float) -> dict[str, object]:
    """Return a run of 1,000 nodes as the file of figures has it."""
    undone = {"unplaced": 0, "over": 0, "on_drained": 0}
    run = {"engine": engine, "task": task, "nodes": 1_000, "seconds": seconds, "build": 2.0, "used": 9.5}
    return {**run, **undone, "cv": 0.1, "hottest": 0.8, "moved": 1_234, **changed}


def test_the_tables_show_both_engines_and_the_better_one(modules, monkeypatch):
    """A run without a partner has no line; a new run of a cell replaces the earlier one."""
    compare = modules.compare
    data = {"versions": {}, "runs": []}
    for engine, cv in (("plb", 0.3), ("plb", 0.05), ("rebalancer", 0.1)):
        compare.kept(data, engine, "free", 1_000, [run_of(engine, "free", 10.0, cv=cv)])
    compare.kept(data, "plb", "limited", 1_000, [run_of("plb", "limited", 10.0)])
    for engine, left in (("plb", 0), ("rebalancer", 12)):
        compare.kept(data, engine, "placement", 1_000, [run_of(engine, "placement", None, unplaced=left)])
    monkeypatch.setattr(other_systems, "figures", {"rebalancer": data}.__getitem__)
    assert other_systems.balance_table().splitlines()[2:] == [
        "| free moves | 1,000 | 0.1000 | **0.0500** | 1,234 | 1,234 |"
    ]
    assert other_systems.other_table().splitlines()[2:] == [
        "| build the model | 1,000 | 2.00 s | 2.00 s |",
        "| placement | 1,000 | 9.50 s, 1,234 moves, 12 not placed | 9.50 s, 1,234 moves |",
    ]
