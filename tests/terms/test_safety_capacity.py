"""The cost above safety capacities: by hand, after random walks, at the optimum, and with bad input."""

from __future__ import annotations

import pytest

from plb import InvalidValueError, Node, UnknownNameError
from plb.ready_made import SafetyCapacity
from plb.testing import Cluster, Invariant, verify
from tests.machines import short_machine_of
from tests.terms.walks import engine_with

pytestmark = pytest.mark.kernels

UNITS = [Invariant.SCALE]  # the cost is in units of load


def _for_cluster(cluster: Cluster) -> SafetyCapacity:
    """Return a term with shares and steps for the metrics of a cluster, and loads for its first node."""
    shares = {metric.name: [(0.25, 1.0), (0.5, 4.0), (0.9, 3.0)] for metric in cluster.metrics}
    first = cluster.metrics[0].name
    loads = {"n0": {first: [(3.0, 1.0), (7.0, 2.5)]}, "n1": {first: 2.0}}
    return SafetyCapacity({**shares, first: 0.3}, loads=loads, weights={first: 2.0})


TestSteps = short_machine_of(SafetyCapacity(), without=UNITS, made_for=_for_cluster)


@pytest.mark.parametrize(
    ("term", "cost"),
    [
        (SafetyCapacity({"cpu": 0.5}), 3.0),
        (SafetyCapacity({"cpu": 0.5}, weights={"cpu": 10.0}), 30.0),
        (SafetyCapacity({"cpu": [(0.5, 1.0), (0.7, 5.0)]}), 2 + 5.0),
        (SafetyCapacity({"cpu": [(0.5, 4.0), (0.7, 1.0)]}), 8 + 1.0),
        (SafetyCapacity(loads={"n0": {"cpu": 2}}), 6.0),
        (SafetyCapacity({"cpu": 0.5}, loads={"n0": {"cpu": [(4, 1), (6, 2)]}, "gone": {"cpu": 0}}), 2 + 4.0),
        (SafetyCapacity({"cpu": 0}), 8.0),
        (SafetyCapacity({"cpu": 1}), 0.0),
        (SafetyCapacity(), 0.0),
    ],
)
def test_cost_of_a_node_by_hand(term: SafetyCapacity, cost: float):
    """A node of capacity 10 with a load of 8; the other node is so large that it never costs."""
    nodes = [Node("n0", capacities={"cpu": 10}), Node("n1", capacities={"cpu": 1000})]
    verify(term).given(nodes=nodes, replicas=[(0, 5), (0, 3)]).totals(cost)


def test_a_node_without_a_capacity_has_no_share():
    """Only a load by name of the node costs there."""
    facts = verify(SafetyCapacity({"cpu": 0.5})).given(nodes=2, replicas=[(0, 5)])
    facts.totals(0)
    facts = verify(SafetyCapacity({"cpu": 0.5}, loads={"n1": {"cpu": 1}})).given(
        nodes=[Node("n0"), Node("n1")], replicas=[(0, 5)]
    )
    facts.moves((0, 1)).changes_by(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shares": {"cpu": -0.1}}, r"energy term safety_capacity: shares\[cpu\] = -0.1 .* >= 0"),
        ({"shares": {"cpu": True}}, r"shares\[cpu\] = True"),
        ({"shares": {"cpu": "0.5"}}, r"shares\[cpu\] = '0.5' .* pairs of a number and a slope"),
        ({"shares": {"cpu": []}}, r"shares\[cpu\] = \[\] .* at least one step"),
        ({"shares": {"cpu": [(0.5, 1), (0.5, 2)]}}, r"shares\[cpu\] = .* steps in ascending order"),
        ({"shares": {"cpu": [0.5]}}, r"shares\[cpu\]\[0\] = 0.5 .* a pair"),
        ({"shares": {"cpu": [(0.5, 1, 2)]}}, r"shares\[cpu\]\[0\] = .* a pair"),
        ({"shares": {"cpu": [(0.5, -1)]}}, r"shares\[cpu\]\[0\] = -1"),
        ({"shares": [0.5]}, r"shares = \[0.5\] .* a mapping of metrics"),
        ({"loads": {"n0": 3}}, r"loads\[n0\] = 3 .* a mapping of metrics"),
        ({"loads": {"n0": {"cpu": float("nan")}}}, r"loads\[n0\]\[cpu\] = nan"),
        ({"weights": {"cpu": -1}}, r"weights\[cpu\] = -1"),
        ({"name": ""}, r"name = ''"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, object], message: str):
    with pytest.raises(InvalidValueError, match=message):
        SafetyCapacity(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("term", [SafetyCapacity({"cpus": 0.5}), SafetyCapacity(weights={"cpus": 1})])
def test_an_unknown_metric_is_refused_by_the_search(term: SafetyCapacity):
    engine = engine_with(term, [(1, 1)], ["s"])
    with pytest.raises(UnknownNameError, match=r"energy term safety_capacity: .*unknown metric 'cpus'; did you mean"):
        engine.balance()
