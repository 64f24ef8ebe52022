"""`plb bench search`: the term of excess load, both searches, the printed table and the written figures."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cluster.bench import search
from cluster.bench.search import (
    QUICK,
    SHAPES,
    STRETCH,
    SearchRun,
    anneal_for,
    engine_of,
    excess_load,
    placement_of,
    rows_of,
    search_by_engine,
    search_plainly,
    shapes_of,
)
from cluster.bench.search_instances import Fullness, Objective, SearchShape, draw_instance, loads_with_left
from cluster.console import BAD_INPUT
from plb import UnknownNameError
from plb.model.rules import ALL_RULES
from plb.testing import configuration_of
from tests.cluster.bench.search_shapes import SEEDS, is_feasible, small_shapes
from tests.command_line import plb

SHAPE = {objective: SearchShape(5, 120, 3, 2, 3, Fullness.TIGHT, objective) for objective in Objective}
SECONDS = 0.05
READINGS = 20
"""Readings of the clock of the plain annealer; the first is its beginning."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second pass at each reading of the clock by the benchmark, so that results do not depend on the machine."""
    passed = count()
    monkeypatch.setattr(search, "working_time", lambda: float(next(passed)))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("objective", Objective)
def test_the_plain_annealer_ends_at_a_better_feasible_placement(objective: Objective):
    """Its sums are exact, and its weights those of the instance: it accepts what lowers the objective."""
    instance = draw_instance(1, SHAPE[objective])
    engine = engine_of(instance, instance.start, 1)
    rows = rows_of(engine, instance)
    configuration = configuration_of(engine)
    weight, steps = sum(engine.config.extension_terms.values()), excess_load(instance).new_data(configuration)
    proposals = anneal_for(configuration.problem, configuration.solution, ALL_RULES, steps, weight, READINGS, 1)
    placement = configuration.solution.node[rows]
    assert proposals == STRETCH * (READINGS - 1)
    assert is_feasible(instance, placement)
    assert instance.share_left(instance.energy(placement)) < 0.5
    configuration.check()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("objective", Objective)
def test_both_searches_lower_the_energy(objective: Objective):
    """What is left is the energy over the initial excess, as the optimum is 0."""
    instance = draw_instance(2, SHAPE[objective])
    for run in (search_by_engine(instance, 4, 2), search_plainly(instance, READINGS, 2)):
        assert 0 <= run.left < 0.9
        assert run.left == run.energy / instance.initial_excess
        assert run.proposals > 0


@pytest.mark.usefixtures("clock")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(small_shapes(), SEEDS)
def test_a_plan_keeps_to_the_capacities_with_what_it_leaves_behind(shape: SearchShape, seed: int):
    """Both searches see the transient load, and end at a feasible placement."""
    instance = draw_instance(seed, shape)
    engine = engine_of(instance, instance.start, seed)
    rows = rows_of(engine, instance)
    engine.apply(engine.balance(budget=2000))
    configuration = configuration_of(engine_of(instance, instance.start, seed))
    steps, weight = excess_load(instance).new_data(configuration), sum(engine.config.extension_terms.values())
    anneal_for(configuration.problem, configuration.solution, ALL_RULES, steps, weight, 3, seed)
    for placement in (placement_of(engine, instance, rows), configuration.solution.node[rows]):
        assert is_feasible(instance, placement)
        assert (loads_with_left(instance.shape, instance.load, instance.start, placement) < instance.capacity).all()


@pytest.mark.usefixtures("clock")
def test_the_engine_is_called_again_until_the_time_is_over():
    """Each call has the rest of the time and begins where the last one ended, until none is left."""
    instance = draw_instance(1, SHAPE[Objective.EXCESS_LOAD])
    runs = [search_by_engine(instance, seconds, 1) for seconds in (2, 3, 4)]
    assert [run.calls for run in runs] == [1, 2, 3]
    assert [run.seconds for run in runs] == [3, 4, 5]


@pytest.mark.parametrize("objective", Objective)
def test_plans_of_the_engine_follow_each_other(objective: Objective):
    """The energy never rises from one plan to the next, is that of the instance, and its placements are feasible."""
    instance = draw_instance(1, SHAPE[objective])
    engine = engine_of(instance, instance.start, 1)
    rows = rows_of(engine, instance)
    energies = [instance.energy(instance.start)]
    for call in range(3):
        plan = engine.balance(budget=1_000 + call)
        engine.apply(plan)
        placement = placement_of(engine, instance, rows)
        energies.append(instance.energy(placement))
        assert is_feasible(instance, placement)
        energy = plan.energy_after
        objective_value = energy.imbalance if objective is Objective.IMBALANCE else energy.total
        assert objective_value == pytest.approx(energies[-1], abs=1e-7)
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] < energies[0]


def test_shapes_are_chosen_by_name_and_by_number_of_nodes():
    """Both together; nothing given is everything."""
    assert shapes_of() == SHAPES
    assert [shape.name for shape in shapes_of(QUICK)] == list(QUICK)
    assert {shape.nodes for shape in shapes_of(nodes=[4, 50])} == {4, 50}
    assert [shape.name for shape in shapes_of(["loose-4-100", "tight-20-400"], [20])] == ["tight-20-400"]
    with pytest.raises(UnknownNameError, match="number of nodes '7'"):
        shapes_of(nodes=[7])


def test_search_prints_a_table_and_writes_its_figures(tmp_path: Path):
    """The figures of an instance have its sizes, its energies and both searches."""
    path = tmp_path / "left.json"
    arguments = ("--only", "loose-4-100", "--only", "tight-10-500", "--seconds", SECONDS, "--seed", 3, "--json", path)
    run = plb("bench", "search", *arguments)
    assert run.exit_code == 0, run.output
    assert "loose-4-100" in run.stdout
    assert "share of the initial excess after 0.05 s" in run.stdout
    found = json.loads(path.read_text())
    assert found["stamp"]["seed"] == 3
    loose, tight = found["instances"]
    assert (loose["nodes"], loose["replicas"], loose["fullness"], loose["objective"]) == (4, 100, "loose", "imbalance")
    assert (tight["name"], tight["objective"], tight["least_energy"]) == ("tight-10-500", "excess load", 0)
    instance = draw_instance(3, shapes_of(["loose-4-100"])[0])
    assert loose["start_energy"] == instance.energy(instance.start)
    for one in (loose, tight):
        assert one["initial_excess"] == one["start_energy"] - one["least_energy"]
        for of_search in (one["engine"], one["plain_annealer"]):
            assert of_search["left"] == (of_search["energy"] - one["least_energy"]) / one["initial_excess"]
            assert of_search["seconds"] >= SECONDS


def test_a_quick_run_is_short(monkeypatch: pytest.MonkeyPatch):
    """Three instances and three seconds; other instances where these are chosen."""
    asked: list[float] = []

    def note(_instance: object, seconds: float, _seed: int) -> SearchRun:
        asked.append(seconds)
        return SearchRun(0.0, 0.0, seconds, 1, 1)

    monkeypatch.setattr(search, "search_by_engine", note)
    monkeypatch.setattr(search, "search_plainly", note)
    quick = plb("bench", "search", "--quick")
    assert [name in quick.stdout for name in QUICK] == [True] * 3
    assert asked == [search.QUICK_SECONDS] * 6
    chosen = plb("bench", "search", "--quick", "--nodes", 4)
    assert [name for name in ("loose-4-100", "tight-4-100", *QUICK[1:]) if name in chosen.stdout] == [
        "loose-4-100",
        "tight-4-100",
    ]


def test_an_unknown_instance_is_an_error():
    """The message suggests the nearest names."""
    run = plb("bench", "search", "--only", "tight-20-40")
    assert run.exit_code == BAD_INPUT
    assert "did you mean 'tight-20-400'" in run.stderr


def test_equal_seeds_give_equal_plans():
    """An engine of an instance has nothing random but its seed, and its rows are the replicas in their order."""
    instance = draw_instance(4, SHAPE[Objective.EXCESS_LOAD])
    engines = [engine_of(instance, instance.start, 4) for _ in range(2)]
    plans = [engine.balance(budget=2_000) for engine in engines]
    assert plans[0] == plans[1]
    assert plans[0].moves
    assert np.array_equal(rows_of(engines[0], instance), np.arange(len(instance.load)))
