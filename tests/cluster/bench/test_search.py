"""`plb bench search`: instances known by construction, checked by the engine and enumeration, and both searches."""

from __future__ import annotations

import json
from itertools import count, product
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from cluster.bench.search_instances import (
    LARGEST_MARGIN,
    LARGEST_NODE,
    TARGET,
    Fullness,
    Objective,
    SearchInstance,
    SearchShape,
    draw_instance,
    loads_with_left,
)
from plb import InvalidValueError, UnknownNameError
from plb.array_types import Int
from plb.model.rules import ALL_RULES
from plb.testing import configuration_of
from tests.command_line import plb

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def small_shapes(draw: st.DrawFn, *, most_nodes: int = 6, most_more: int = 12) -> SearchShape:
    """Draw a shape; `most_more`: largest number of replicas above the least one."""
    nodes = draw(st.integers(2, most_nodes))
    racks = draw(st.integers(1, nodes))
    siblings = draw(st.integers(1, racks))
    least, more = 2 * nodes + siblings, draw(st.integers(0, most_more))
    partitions = -(-least // siblings) + more // siblings
    fullness, objective = draw(st.sampled_from(Fullness)), draw(st.sampled_from(Objective))
    metrics = draw(st.integers(1, 3))
    transient = draw(st.integers(0, metrics))
    return SearchShape(nodes, partitions * siblings, metrics, siblings, racks, fullness, objective, transient)


def is_feasible(instance: SearchInstance, placement: Int) -> bool:
    """Return whether a placement keeps to the capacities and to the spread over racks."""
    racks = np.sort(instance.rack[placement].reshape(-1, instance.shape.siblings), axis=1)
    return bool((racks[:, 1:] != racks[:, :-1]).all() and (instance.node_loads(placement) < instance.capacity).all())


ACCURACY = 1e-7
"""Of an imbalance near 0 (docs/energy.md)."""
SMALL = SearchShape(3, 9, 2, 1, 3, Fullness.LOOSE, Objective.IMBALANCE)


@settings(max_examples=40)
@given(small_shapes(), SEEDS)
def test_start_and_optimum_obey_the_rules_of_the_engine(shape: SearchShape, seed: int):
    instance = draw_instance(seed, shape)
    assert instance.energy(instance.perfect) == pytest.approx(instance.least_energy, abs=ACCURACY)
    for placement in (instance.start, instance.perfect):
        assert is_feasible(instance, placement)
        engine = engine_of(instance, placement, seed)
        assert engine.violations(soft=True) == ()
        before = engine.balance(budget=0).energy_before
        energy = before.imbalance if shape.objective is Objective.IMBALANCE else before.total
        assert energy == pytest.approx(instance.energy(placement), abs=ACCURACY)


@settings(max_examples=60)
@given(small_shapes(), SEEDS, st.data())
def test_feasible_placements_are_those_without_violations(shape: SearchShape, seed: int, data: st.DataObject):
    instance = draw_instance(seed, shape)
    placement = instance.perfect.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row, node = data.draw(st.integers(0, shape.replicas - 1)), data.draw(st.integers(0, shape.nodes - 1))
        first = row - row % shape.siblings
        if node not in placement[first : first + shape.siblings]:  # the engine refuses such a description
            placement[row] = node
    assert is_feasible(instance, placement) == (engine_of(instance, placement, seed).violations() == ())


@settings(max_examples=15)
@given(small_shapes(most_nodes=3, most_more=0), SEEDS)
def test_no_feasible_placement_has_less_energy(shape: SearchShape, seed: int):
    instance = draw_instance(seed, shape)
    placements = map(np.array, product(range(shape.nodes), repeat=shape.replicas))
    least = min(instance.energy(placement) for placement in placements if is_feasible(instance, placement))
    assert least == pytest.approx(instance.least_energy, abs=ACCURACY)
    assert least >= instance.least_energy


@settings(max_examples=40)
@given(small_shapes(), SEEDS)
def test_loads_and_capacities_are_as_full_as_stated(shape: SearchShape, seed: int):
    """Loads of the perfect placement are whole targets; capacities and safety capacities are within their bounds."""
    instance = draw_instance(seed, shape)
    loads = instance.node_loads(instance.perfect)
    size, rest = np.divmod(loads, TARGET)
    assert (rest == 0).all()
    assert 1 <= size.min() <= size.max() <= (LARGEST_NODE if shape.objective is Objective.EXCESS_LOAD else 1)
    assert (loads <= instance.safety).all()
    assert (instance.safety < instance.capacity).all()
    assert (instance.safety <= (1 + LARGEST_MARGIN) * loads).all()
    mixed = shape.objective is Objective.EXCESS_LOAD
    filling = loads_with_left(instance.shape, instance.load, instance.start, instance.perfect)
    for metric in range(shape.metrics):
        is_loose = mixed and metric % 2 == 0 and metric >= shape.transient
        low, high = (Fullness.LOOSE if is_loose else shape.fullness).value
        full = filling[:, metric] / instance.capacity[:, metric]
        assert low <= full.min() <= full.max() <= high + 1 / TARGET, "capacities are rounded down"


@settings(max_examples=30)
@given(small_shapes(), SEEDS, st.data())
def test_what_a_plan_leaves_behind_is_the_transient_load_of_moved_replicas(
    shape: SearchShape, seed: int, data: st.DataObject
):
    """Replica by replica; and to the perfect placement there is room for it."""
    instance = draw_instance(seed, shape)
    placement = np.array(data.draw(st.lists(st.integers(0, shape.nodes - 1), min_size=9, max_size=9)))
    placement = np.concatenate([placement, instance.start])[: shape.replicas]
    expected = instance.node_loads(placement)
    for row, (start, node) in enumerate(zip(instance.start.tolist(), placement.tolist(), strict=True)):
        for metric in range(shape.transient if start != node else 0):
            expected[start, metric] += instance.load[row, metric]
    assert np.array_equal(loads_with_left(instance.shape, instance.load, instance.start, placement), expected)
    assert (loads_with_left(instance.shape, instance.load, instance.start, instance.perfect) < instance.capacity).all()


@settings(max_examples=20)
@given(small_shapes(), SEEDS)
def test_an_instance_is_a_function_of_seed_and_shape(shape: SearchShape, seed: int):
    one, same, other = (draw_instance(value, shape) for value in (seed, seed, seed + 1))
    for field in attrs.fields(SearchInstance):
        assert np.array_equal(getattr(one, field.name), getattr(same, field.name))
    assert not np.array_equal(one.load, other.load)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_start_of_each_measured_instance_is_feasible_and_has_an_excess(shape: SearchShape):
    instance = draw_instance(0, shape)
    assert instance.load.shape == (shape.replicas, shape.metrics)
    assert instance.capacity.shape == instance.safety.shape == (shape.nodes, shape.metrics)
    assert is_feasible(instance, instance.start)
    assert is_feasible(instance, instance.perfect)
    assert (instance.start != instance.perfect).mean() > 0.5
    assert instance.initial_excess > 0.005
    assert instance.share_left(instance.energy(instance.start)) == 1
    assert instance.share_left(instance.energy(instance.perfect)) == 0
    assert attrs.evolve(instance, start=instance.perfect).share_left(0.0) == 0.0, "nothing to divide by"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 1}, "nodes"),
        ({"metrics": 0}, "metrics"),
        ({"racks": 4}, "racks"),
        ({"siblings": 2, "racks": 1}, "racks"),
        ({"replicas": 6}, "replicas"),
        ({"siblings": 2}, "a multiple of 2"),
    ],
)
def test_sizes_out_of_range_are_refused(changes: dict[str, int], message: str):
    with pytest.raises(InvalidValueError, match=message):
        attrs.evolve(SMALL, **changes)


SHAPE = {objective: SearchShape(5, 120, 3, 2, 3, Fullness.TIGHT, objective) for objective in Objective}
SECONDS = 0.05
TICK = 1 / 16
"""Seconds that pass at each reading of the clock; the engine searches for them by a clock of its own."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass only at a reading of the clock by the benchmark, so that results do not depend on the machine."""
    passed = count()
    monkeypatch.setattr(search, "working_time", lambda: TICK * next(passed))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("objective", Objective)
def test_both_searches_lower_the_energy(objective: Objective):
    """What is left is the energy over the initial excess, as the optimum is 0."""
    instance = draw_instance(2, SHAPE[objective])
    for run in (search_by_engine(instance, 4 * TICK, 2), search_plainly(instance, 20 * TICK, 2)):
        assert 0 <= run.left < 0.9
        assert run.left == run.energy / instance.initial_excess
        assert run.proposals > 0


@pytest.mark.usefixtures("clock")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(small_shapes(), SEEDS)
def test_a_plan_keeps_to_the_capacities_with_what_it_leaves_behind(shape: SearchShape, seed: int):
    """Both searches see the transient load, and end at a feasible placement. The sums of the annealer are exact."""
    instance = draw_instance(seed, shape)
    engine = engine_of(instance, instance.start, seed)
    rows = rows_of(engine, instance)
    engine.apply(engine.balance(budget=2000))
    configuration = configuration_of(engine_of(instance, instance.start, seed))
    steps, weight = excess_load(instance).new_data(configuration), sum(engine.config.extension_terms.values(), 0.0)
    proposals = anneal_for(configuration.problem, configuration.solution, ALL_RULES, steps, weight, 3 * TICK, seed)
    assert proposals == 2 * STRETCH
    configuration.check()
    for placement in (placement_of(engine, instance, rows), configuration.solution.node[rows]):
        assert is_feasible(instance, placement)
        assert (loads_with_left(instance.shape, instance.load, instance.start, placement) < instance.capacity).all()


@pytest.mark.usefixtures("clock")
def test_the_engine_is_called_again_until_the_time_is_over():
    """Each call has the rest of the time and begins where the last one ended, until none is left."""
    instance = draw_instance(1, SHAPE[Objective.EXCESS_LOAD])
    runs = [search_by_engine(instance, ticks * TICK, 1) for ticks in (2, 3, 4)]
    assert [run.calls for run in runs] == [1, 2, 3]
    assert [run.seconds for run in runs] == [3 * TICK, 4 * TICK, 5 * TICK]


def test_shapes_are_chosen_by_name_and_by_number_of_nodes():
    assert shapes_of() == SHAPES
    assert [shape.name for shape in shapes_of(QUICK)] == list(QUICK)
    assert {shape.nodes for shape in shapes_of(nodes=[4, 50])} == {4, 50}
    assert [shape.name for shape in shapes_of(["loose-4-100", "tight-20-400"], [20])] == ["tight-20-400"]
    with pytest.raises(UnknownNameError, match="number of nodes '7'"):
        shapes_of(nodes=[7])
    with pytest.raises(UnknownNameError, match="did you mean 'tight-20-400'"):
        shapes_of(["tight-20-40"])


def test_search_prints_a_table_and_writes_its_figures(tmp_path: Path):
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
    for figures in (loose, tight):
        assert figures["initial_excess"] == figures["start_energy"] - figures["least_energy"]
        for run in (figures["engine"], figures["plain_annealer"]):
            assert run["left"] == (run["energy"] - figures["least_energy"]) / figures["initial_excess"]
            assert run["seconds"] >= SECONDS


def test_a_quick_run_is_short(monkeypatch: pytest.MonkeyPatch):
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
    assert all(name in chosen.stdout for name in ("loose-4-100", "tight-4-100"))
    assert not any(name in chosen.stdout for name in QUICK[1:])
