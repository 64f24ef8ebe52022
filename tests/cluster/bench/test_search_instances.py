"""The instances of `plb bench search`: what is known of them by construction, checked by the engine and enumeration."""

from __future__ import annotations

from itertools import product
from statistics import fmean, pstdev

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.bench.search import SHAPES, engine_of
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
from plb import InvalidValueError
from plb.array_types import Int
from tests.cluster.bench.search_shapes import SEEDS, is_feasible, small_shapes

ACCURACY = 1e-7
"""Of an imbalance near 0 (docs/energy.md)."""
SMALL = SearchShape(3, 9, 2, 1, 3, Fullness.LOOSE, Objective.IMBALANCE)


def energy_by_hand(instance: SearchInstance, placement: Int) -> float:
    """Return the objective of a placement, replica by replica."""
    shape = instance.shape
    loads = [[0] * shape.nodes for _ in range(shape.metrics)]
    for node, load in zip(placement, instance.load.tolist(), strict=True):
        for metric, one in enumerate(load):
            loads[metric][node] += one
    if shape.objective is Objective.IMBALANCE:
        return fmean(pstdev(of_metric) / fmean(of_metric) for of_metric in loads)
    above = 0
    for metric, of_metric in enumerate(loads):
        above += sum(max(0, load - int(instance.safety[node, metric])) for node, load in enumerate(of_metric))
    return above / int(instance.load.sum())


@settings(max_examples=40)
@given(small_shapes(), SEEDS)
def test_start_and_optimum_obey_the_rules_of_the_engine(shape: SearchShape, seed: int):
    """The engine finds no violation in either, and its energies are those of the instance."""
    instance = draw_instance(seed, shape)
    assert instance.energy(instance.perfect) == pytest.approx(instance.least_energy, abs=ACCURACY)
    for placement in (instance.start, instance.perfect):
        assert is_feasible(instance, placement)
        engine = engine_of(instance, placement, seed)
        assert engine.violations(soft=True) == ()
        before = engine.balance(budget=0).energy_before
        energy = before.imbalance if shape.objective is Objective.IMBALANCE else before.total
        assert energy == pytest.approx(instance.energy(placement), abs=ACCURACY)
        assert energy == pytest.approx(energy_by_hand(instance, placement), abs=ACCURACY)


@settings(max_examples=60)
@given(small_shapes(), SEEDS, st.data())
def test_feasible_placements_are_those_without_violations(shape: SearchShape, seed: int, data: st.DataObject):
    """After some moves to any nodes, the engine finds a violation exactly if the instance says so."""
    instance = draw_instance(seed, shape)
    placement = instance.perfect.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row, node = data.draw(st.integers(0, shape.replicas - 1)), data.draw(st.integers(0, shape.nodes - 1))
        first = row - row % shape.siblings
        if node not in placement[first : first + shape.siblings]:  # the engine refuses such a description
            placement[row] = node
    assert is_feasible(instance, placement) == (engine_of(instance, placement, seed).violations() == ())


@settings(max_examples=15, deadline=None)
@given(small_shapes(most_nodes=3, most_more=0), SEEDS)
def test_no_feasible_placement_has_less_energy(shape: SearchShape, seed: int):
    """All placements of a few replicas are enumerated; the least energy of the feasible ones is the stated one."""
    instance = draw_instance(seed, shape)
    found = []
    for nodes in product(range(shape.nodes), repeat=shape.replicas):
        placement = np.array(nodes)
        if is_feasible(instance, placement):
            found.append(instance.energy(placement))
    assert min(found) == pytest.approx(instance.least_energy, abs=ACCURACY)
    assert min(found) >= instance.least_energy


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
    mixed, filling = (
        shape.objective is Objective.EXCESS_LOAD,
        loads_with_left(instance.shape, instance.load, instance.start, instance.perfect),
    )
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
    """Equal seeds give equal instances, and another seed other loads."""
    one, same, other = (draw_instance(value, shape) for value in (seed, seed, seed + 1))
    for field in attrs.fields(SearchInstance):
        assert np.array_equal(getattr(one, field.name), getattr(same, field.name))
    assert not np.array_equal(one.load, other.load)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_start_of_each_measured_instance_is_feasible_and_has_an_excess(shape: SearchShape):
    """Most replicas are elsewhere than in the perfect placement."""
    instance = draw_instance(0, shape)
    assert instance.load.shape == (shape.replicas, shape.metrics)
    assert instance.capacity.shape == instance.safety.shape == (shape.nodes, shape.metrics)
    assert is_feasible(instance, instance.start)
    assert is_feasible(instance, instance.perfect)
    assert (instance.start != instance.perfect).mean() > 0.5
    assert instance.initial_excess > 0.005
    assert instance.share_left(instance.energy(instance.start)) == 1
    assert instance.share_left(instance.energy(instance.perfect)) == 0


def test_measured_instances_span_the_sizes():
    """From 4 nodes and 100 replicas to 100 nodes and 20,000 replicas, loose and tight, with both objectives."""
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)
    for fullness in Fullness:
        shapes = [shape for shape in SHAPES if shape.fullness is fullness]
        assert {shape.objective for shape in shapes} == set(Objective)
        assert (min(shape.nodes for shape in shapes), max(shape.nodes for shape in shapes)) == (4, 100)
        assert (min(shape.replicas for shape in shapes), max(shape.replicas for shape in shapes)) == (100, 20_000)


def test_without_an_initial_excess_nothing_is_left():
    """The share is 0, not a division by zero."""
    instance = draw_instance(3, SMALL)
    assert attrs.evolve(instance, start=instance.perfect).share_left(0.0) == 0.0


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
    """The error names the field or its range."""
    with pytest.raises(InvalidValueError, match=message):
        attrs.evolve(SMALL, **changes)
