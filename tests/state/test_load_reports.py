"""Bulk reports enter loads, and note which replicas they change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels
QUANTUM = 0.25
REPLICAS = 5
LOADS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 3.0, 3.1]), min_size=2, max_size=2)
REPORTS = st.lists(st.dictionaries(st.integers(0, REPLICAS - 1), LOADS, max_size=REPLICAS), max_size=4)


def engine_with_replicas() -> PlacementAndLoadBalancing:
    """Return an engine with two metrics, of which the second service has only the first."""
    metrics = [Metric("cpu", quantum=QUANTUM), Metric("disk", quantum=QUANTUM)]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics))
    engine.update_node(Node("n"))
    engine.update_service(Service("all", stateful=False))
    engine.update_service(Service("some", stateful=False, metrics={"cpu": 1.0}))
    for number in range(REPLICAS):
        service = "some" if number % 2 else "all"
        engine.update_partition(Partition(f"p{number}", service=service, replicas=[Replica(Role.INSTANCE, "n")]))
    return engine


@examples(100)
@given(REPORTS)
def test_reports_in_any_order_change_what_differs(reports: list[dict[int, list[float]]]) -> None:
    """Loads are rounded up, the largest demand only rises, and replicas with equal loads are not changed.

    A report is no reason to describe a replica again.
    """
    engine = engine_with_replicas()
    table = engine._state.rows
    row_of = [engine.replicas(f"p{number}")[0].index for number in range(REPLICAS)]
    known = {number: ([0, 0], [0.0, 0.0], False) for number in range(REPLICAS)}
    for report in reports:
        table.changes.take()
        assert not len(table.changes.described)
        engine.report_loads([row_of[number] for number in report], list(report.values()))
        changed = []
        for number, given_loads in report.items():
            demand = [given_loads[0], 0.0 if number % 2 else given_loads[1]]
            loads = [math.ceil(value / QUANTUM) for value in demand]
            largest = [max(pair) for pair in zip(known[number][1], demand, strict=True)]
            if known[number] != (loads, largest, True):
                changed.append(row_of[number])
            known[number] = (loads, largest, True)
        assert not len(table.changes.described)
        assert table.changes.take().tolist() == sorted(changed)
        for number, row in enumerate(row_of):
            found = (table.load[row].tolist(), table.largest_demand[row].tolist(), bool(table.reported[row]))
            assert found == known[number]
    expected = np.sum([loads for loads, _, _ in known.values()], axis=0) * QUANTUM
    assert engine.node_loads() == {"n": {"cpu": expected[0], "disk": expected[1]}}
