"""Counting of loads in the imbalance: by percentage of capacity, and with loads too large to square."""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError, Metric
from plb.energy.imbalance import counted_as
from plb.evaluation.delta import compare_with_scratch
from plb.testing import all_clusters, configuration_of, walks
from tests.engine.stories import add_instance, engine_with
from tests.engine.strategies import examples

SHARED = Metric("cpu", quantum=1.0, violation_threshold=1.0, balancing_by_percentage=True)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("metric", "expected"), [(SHARED, 0.0), (attrs.evolve(SHARED, balancing_by_percentage=False), 9 / 11)]
)
def test_percentages_are_balanced_not_loads(metric, expected):
    """100 of 200 and 10 of 20 are the same percentage; as loads their deviation is 45/55."""
    engine = engine_with({"n0": 200, "n1": 20}, {"a": ("n0", 100), "b": ("n1", 10)}, metric=metric)
    assert configuration_of(engine).solution.totals.imbalance == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("capacity", [None, 0])
def test_percentages_need_a_capacity_on_every_node(capacity):
    engine = engine_with({"n0": 200, "n1": 20, "n2": capacity}, {"a": ("n0", 100), "b": ("n1", 10)}, metric=SHARED)
    assert configuration_of(engine).solution.total.tolist() == [110]


@pytest.mark.kernels
@examples(80)
@given(all_clusters(), st.data())
def test_sums_by_percentage_are_exact(cluster, data):
    """Σy and Σy² of y = floor(x·2^20/c) are exact after any walk, in the whole cluster and in each local domain."""
    metrics = tuple(attrs.evolve(m, balancing_by_percentage=True) for m in cluster.metrics)
    small = {metric.name: 8.0 for metric in metrics}
    nodes = tuple(
        attrs.evolve(n, capacities={**small, **{k: c or 4 for k, c in n.capacities.items()}}) for n in cluster.nodes
    )
    engine = attrs.evolve(cluster, metrics=metrics, nodes=nodes).engine(local_domain_weight=0.25)
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    assert problem.by_percentage.all()
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    compare_with_scratch(problem, solution, "walk")
    for metric in range(len(metrics)):
        counted = np.flatnonzero(problem.counted_for[:, metric])
        parts = [_parts(solution.node_load[n, metric], engine._state.capacity[n, metric]) for n in counted]
        assert solution.total[metric] == sum(parts)
        assert solution.squares[metric] == sum(part**2 for part in parts)


def _parts(load, capacity) -> int:
    return int(Fraction(int(load) * 2**20, int(capacity)))


@pytest.mark.kernels
@examples(60)
@given(st.integers(2**29, 2**30 - 1), st.integers(16, 1000), st.integers(-1, 1))
def test_percentage_of_a_load_is_rounded_down_exactly(half, most, offset):
    """Also where load over capacity differs from a whole number of parts by less than a float can tell."""
    capacity = 2 * half + 1
    least = -offset * pow(2**20, -1, capacity) % capacity  # 2^20 of it leave a rest of -offset
    load = least + most * capacity
    problem = configuration_of(engine_with({"n0": capacity}, {}, metric=SHARED)).problem
    assert problem.by_percentage[0]
    assert counted_as(problem, 0, 0, np.int64(load)) == _parts(load, capacity)


def test_percentage_too_large_to_square_is_refused():
    engine = engine_with({"n0": 1, "n1": 1}, {"a": ("n0", 2**30)}, metric=SHARED)
    with pytest.raises(InvalidValueError, match="metric cpu: load of a node over the least capacity = 1073741824"):
        engine.repair()


LARGE = 2**31 - 1


def test_capacity_check_of_the_largest_loads_is_exact():
    """2^31 - 1 and 1 fit into 2^31, and no more: the capacity check rounds nothing."""
    nodes = {f"n{index}": 2**31 for index in range(9)}
    for capacity, fits in ((1, True), (2, False)):
        engine = engine_with({"n0": 2**31}, {"a": ("n0", LARGE)})
        add_instance(engine, capacity)
        assert bool(engine.place().moves) is fits
    engine = engine_with(nodes, {f"p{index}": (f"n{index % 2}", 2**30) for index in range(4)})
    assert len(engine.balance().moves) == 2


@pytest.mark.parametrize("nodes", [2, 9, 1000])
def test_imbalance_does_not_depend_on_the_size_of_the_load(nodes):
    """All load on one of n nodes gives a deviation of sqrt(n - 1) for any load."""
    engine = engine_with(dict.fromkeys((f"n{index}" for index in range(nodes)), None), {"a": ("n0", LARGE)})
    assert configuration_of(engine).solution.totals.imbalance == pytest.approx((nodes - 1) ** 0.5, rel=1e-12)


@pytest.mark.kernels
@examples(60)
@given(all_clusters(), st.data())
def test_sums_of_large_loads_are_exact(cluster, data):
    """Loads beyond 64-bit squares lose some binary digits: the kept sums equal those from scratch."""
    loads = {key: {name: 2**29 * value for name, value in load.items()} for key, load in cluster.loads.items()}
    metrics = tuple(attrs.evolve(metric, quantum=1.0) for metric in cluster.metrics)
    nodes = tuple(attrs.evolve(node, capacities={}) for node in cluster.nodes)
    loads = {key: {name: min(value, 2.0**31) for name, value in load.items()} for key, load in loads.items()}
    engine = attrs.evolve(cluster, metrics=metrics, nodes=nodes, loads=loads, history=None).engine(
        local_domain_weight=0.5
    )
    configuration = configuration_of(engine)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
        compare_with_scratch(configuration.problem, configuration.solution, "walk")
    rounded = configuration.solution.node_load >> configuration.problem.coarseness
    squares = [
        sum(int(x) ** 2 for x in rounded[configuration.problem.counted_for[:, r], r]) for r in range(rounded.shape[1])
    ]
    assert configuration.solution.squares.tolist() == squares
    assert len(nodes) * max(squares, default=0) < 2**66
