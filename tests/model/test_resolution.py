"""Quanta: powers of two in which loads are whole numbers, exact up to the limits."""

from __future__ import annotations

import logging
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.model.quanta import LARGEST_VALUE, QUANTA_OF_LARGEST, UNLIMITED, MetricQuanta, default_quantum
from tests.engine.strategies import examples

limits = st.sampled_from([2.0**20, 2.0**20 + 1, 2.0**19, 2.0**19 + 1, 1e-30])
positive = st.floats(1e-6, 2.0**40) | st.integers(1, 2**40).map(float) | limits


@examples(300)
@given(positive)
def test_default_quantum_is_the_finest_with_at_most_2_to_the_20_quanta(value):
    """It is a power of two, at most 1; half of it would need more than 2^20 quanta, or it is at the floor of 2^-40."""
    quantum = default_quantum(value)
    assert math.frexp(quantum)[0] == 0.5
    assert 2.0**-40 <= quantum <= 1
    assert Fraction(value) / Fraction(quantum) <= QUANTA_OF_LARGEST or quantum == 1
    assert Fraction(value) / Fraction(quantum / 2) > QUANTA_OF_LARGEST or quantum <= 2.0**-40


@examples(300)
@given(positive.filter(lambda first: first <= LARGEST_VALUE), st.floats(0, 2.0**30))
def test_load_is_rounded_up_to_the_next_quantum(first, load):
    """The first value sets the quantum; a load becomes the least whole number of quanta that is not below it."""
    quanta = MetricQuanta([Metric("cpu")])
    quanta.capacities("node n", {"cpu": first})
    quantum = Fraction(float(quanta.quanta[0]))
    if Fraction(load) / quantum > LARGEST_VALUE:
        with pytest.raises(InvalidValueError, match=r"p: load\[cpu\] = .* expected at most"):
            quanta.loads("p", "load", {"cpu": load})
    else:
        assert quanta.loads("p", "load", {"cpu": load})[0] == math.ceil(Fraction(load) / quantum)
        assert quanta.bulk("p", np.array([[load]]))[0, 0] == math.ceil(Fraction(load) / quantum)


@examples(200)
@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=8))
def test_whole_loads_are_exact_in_any_order(values):
    """Whole numbers need no rounding, up to the largest that a quantum of one allows."""
    quanta = MetricQuanta([Metric("cpu", quantum=1.0)])
    for value in values:
        assert quanta.loads("p", "load", {"cpu": value})[0] == value
        assert quanta.to_user("cpu", value) == value


@examples(300)
@given(
    st.floats(0.001, 1.0) | st.sampled_from([0.95, 0.5, 1, 0.1, 1 / 3]),
    st.integers(0, 2**30),
    st.sampled_from([1.0, 0.5, 2.0**-10]),
)
def test_threshold_is_exactly_the_ceiling_of_share_times_capacity(share, capacity, quantum):
    """It is ceil(f·c) of the share as written, in exact fractions; a load of zero never reaches it."""
    metric = Metric("cpu", violation_threshold=share, quantum=quantum)
    threshold = MetricQuanta([metric]).threshold(metric, capacity)
    exact = Fraction(str(share)) * capacity
    assert threshold == max(1, math.ceil(exact))
    assert threshold - 1 < exact or capacity == 0


def test_threshold_of_unlimited_capacity_is_unlimited():
    metric = Metric("cpu")
    assert MetricQuanta([metric]).threshold(metric, UNLIMITED) == UNLIMITED


def test_capacity_is_rounded_down():
    """A node never seems larger than it is."""
    quanta = MetricQuanta([Metric("cpu", quantum=0.5)])
    assert quanta.capacities("node n", {"cpu": 3.7})[0] == 7
    assert quanta.capacities("node n", {})[0] == UNLIMITED
    assert quanta.capacities("node n", {"cpu": 0})[0] == 0


def test_rounding_of_a_metric_is_reported_once(caplog):
    """The log has one line for each metric, for any number of rounded loads, single or in bulk."""
    engine = engine_of(Metric("cpu", quantum=0.5), Metric("memory", quantum=0.5))
    with caplog.at_level(logging.INFO, logger="plb"):
        for _ in range(3):
            engine.report_load("p", "n0", {"cpu": 1.3})
            engine.report_loads([0], [[1.3, 2.0]])
        engine.report_loads([0], [[1.3, 2.1]])
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "loads of metric cpu are rounded up to quanta of 0.5",
        "loads of metric memory are rounded up to quanta of 0.5",
    ]
    assert engine._state.rows.load[0].tolist() == [3, 5]


def engine_of(*metrics: Metric, nodes: int = 2, **capacities: float) -> PlacementAndLoadBalancing:
    """Return an engine of a few nodes with one instance on the first."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics))
    for index in range(nodes):
        engine.update_node(Node(f"n{index}", capacities=capacities))
    engine.update_service(Service("web", stateful=False))
    engine.update_partition(Partition("p", service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
    return engine


@pytest.mark.parametrize(("load", "fits"), [(18, True), (18.5, True), (18.999, True), (19, False), (20, False)])
def test_node_is_filled_to_the_largest_quantum_below_the_threshold(load, fits):
    """With capacity 20 and threshold 0.95, a load of 19 is a violation, and lower loads are none."""
    engine = engine_of(Metric("cpu", quantum=2.0**-10), nodes=1, cpu=20)
    engine.update_service(Service("busy", stateful=False, default_load={Role.INSTANCE: {"cpu": load}}))
    engine.update_partition(Partition("busy", service="busy"))
    assert len(engine.place("busy").moves) == fits


def test_service_fabric_mode_fills_a_node_to_its_capacity():
    """It is filled to c, inclusive; the violation threshold stays the same."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], capacity_limit="capacity"))
    engine.update_node(Node("n0", capacities={"cpu": 20}))
    engine.update_service(Service("busy", stateful=False, default_load={Role.INSTANCE: {"cpu": 20}}))
    engine.update_partition(Partition("busy", service="busy"))
    engine.apply(engine.place("busy"))
    assert [v.threshold for v in engine.violations()] == [19]


def test_loads_whose_squares_would_overflow_lose_digits():
    """n·load² stays below 2^63: with 2^30 quanta per node, seven nodes need no rounding, nine lose one binary digit."""
    from plb.testing import configuration_of

    for nodes, digits in ((7, 0), (9, 1)):
        engine = engine_of(Metric("cpu", quantum=1.0, violation_threshold=1), nodes=nodes, cpu=2**30)
        assert configuration_of(engine).problem.coarseness.tolist() == [0], "without load nothing is rounded"
        engine.report_load("p", "n0", {"cpu": 2**30})
        assert configuration_of(engine).problem.coarseness.tolist() == [digits]


def test_sums_are_exact_at_the_limits():
    """The largest accepted loads have exact sums without overflow."""
    engine = engine_of(Metric("cpu", quantum=1.0, violation_threshold=1), nodes=2, cpu=2**30)
    engine.report_load("p", "n0", {"cpu": 2**30 - 1})
    from plb.testing import configuration_of

    configuration = configuration_of(engine)
    assert configuration.solution.squares.tolist() == [(2**30 - 1) ** 2]
    assert configuration.solution.total.tolist() == [2**30 - 1]
    assert configuration.energy == engine.config.w_imbalance, "all load on one of two nodes: a deviation of 1"
