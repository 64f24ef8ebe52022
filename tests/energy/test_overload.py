"""Expected overload: the expected shortage of nodes, which V does not show for a node already in violation."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.energy.expected_overload import MOST
from plb.energy.score import UNITS
from plb.extensions.configuration import built_in_term
from plb.model.move import Phase
from plb.model.outcome import Idle
from plb.risk import DemandHistory
from plb.testing import clusters, configuration_of, walks
from tests.engine.strategies import examples

SIZES = {"giant": 100, "large": 60, "small": 1}
"""Future demand of a replica of each class."""
NUMBERS = count()


def two_nodes(**settings) -> PlacementAndLoadBalancing:
    """Return two nodes of 100 with a threshold of 95, and tenants whose demand grows to `SIZES`."""
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=list(SIZES),
        role=[Role.INSTANCE] * len(SIZES),
        lifetime=[1e6] * len(SIZES),
        level=[[size] for size in SIZES.values()],
        initial=[[0]] * len(SIZES),
        growth=[[1000]] * len(SIZES),
        maximum=[[size] for size in SIZES.values()],
    )
    config = PlbConfig(metrics=[Metric("cpu")], repetitions=4, w_imbalance=0.0, **settings)
    engine = PlacementAndLoadBalancing(config, history=history)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 100}))
    for name in SIZES:
        engine.update_service(Service(name, stateful=False, tenant_class=name, target_replicas=1))
    return engine


def add_tenant(engine: PlacementAndLoadBalancing, service: str, node: str, *, pinned: bool = False) -> None:
    replica = Replica(Role.INSTANCE, node, pinned=pinned)
    engine.update_partition(Partition(f"{service}/{next(NUMBERS)}", service=service, replicas=[replica], created=0.0))


def test_node_in_violation_gets_no_further_replica():
    """V is 1 for the first node with and without the new replica; on the other node V rises, but overload is lower."""
    chosen = {}
    for weight in (0.0, 100.0):
        engine = two_nodes(w_failovers=0.1, w_overload=weight)
        add_tenant(engine, "giant", "n0", pinned=True)
        add_tenant(engine, "large", "n1", pinned=True)
        engine.update_partition(Partition("new", service="large", created=0.0))
        (move,) = engine.place(now=0.0).moves
        chosen[weight] = move.target
    assert chosen == {0.0: "n0", 100.0: "n1"}


def two_large_on_one(**settings) -> PlacementAndLoadBalancing:
    """Return two tenants on one node of 100; each needs 5 now and will need 60 more."""
    engine = two_nodes(w_failovers=0.1, **settings)
    for _ in range(2):
        add_tenant(engine, "large", "n0")
    engine.report_loads([0, 1], [[5.0], [5.0]])
    return engine


def test_balancing_moves_replicas_ahead_of_a_shortage():
    """Evenness has no weight here: one of the two moves to the other node because of the expected overload."""
    plan = two_large_on_one().balance(now=0.0)
    assert [(move.source, move.target) for move in plan.moves] == [("n0", "n1")]
    assert plan.moves[0].reason.term == "expected_overload"
    assert plan.energy_before.expected_overload == pytest.approx((2 * 65 - 95) / 95, abs=1e-4)
    assert plan.energy_after.expected_overload == 0.0


def test_move_needs_a_gain_above_its_cost():
    """At a weight of 1, a quarter of a node's overload costs less than a move."""
    assert two_large_on_one(w_overload=1.0).balance(now=0.0).moves == ()


def test_overload_alone_does_not_start_balancing():
    """An uneven metric and its thresholds start balancing: no load is reported here."""
    engine = two_nodes(w_failovers=0.1)
    for _ in range(2):
        add_tenant(engine, "large", "n0")
    plan = engine.balance(now=0.0)
    assert plan.moves == ()
    assert plan.energy_before.expected_overload > 0.2
    assert plan.outcomes[0].idle[Phase.BALANCING] is Idle.BALANCED


def test_overload_without_weight_is_not_kept():
    """Switched on, it equals that of an engine that always had it; switched off, it is 0."""
    engine, always = two_large_on_one(w_overload=0.0), two_large_on_one()
    right = always.balance(now=0.0, budget=0).energy_before
    assert engine.balance(now=0.0, budget=0).energy_before.expected_overload == 0.0
    engine.configure(always.config)
    assert engine.balance(now=0.0, budget=0).energy_before == right
    engine.configure(attrs.evolve(always.config, w_overload=0.0))
    assert engine.balance(now=0.0, budget=0).energy_before.expected_overload == 0.0


@pytest.mark.kernels
def test_overload_counts_up_to_a_thousand_thresholds():
    """A node without capacity has a threshold of one quantum; its overload stays bounded."""
    engine = two_nodes(w_failovers=0.1)
    engine.update_node(Node("n0", capacities={"cpu": 0}))
    for _ in range(40):
        add_tenant(engine, "giant", "n0")
    assert engine.balance(now=0.0, budget=0).energy_before.expected_overload == MOST / UNITS
    assert built_in_term("expected_overload").total(configuration_of(engine)) == MOST / UNITS


@pytest.mark.kernels
@examples(80)
@given(clusters(with_history=True), st.data())
def test_overload_is_the_excess_of_peaks_over_thresholds(cluster, data):
    """The term equals its formula in fractions, to the unit in which each node and metric keep it."""
    configuration = configuration_of(cluster.engine(w_overload=100.0))
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    problem, solution = configuration.problem, configuration.solution
    nodes, metrics = problem.threshold.shape
    right = Fraction(0)
    for node in range(nodes):
        for metric in range(metrics):
            threshold = int(problem.threshold[node, metric])
            for peaks in solution.aggregate[node, metric].tolist() if problem.counted[node] else ():
                right += Fraction(max(0, peaks - threshold), threshold)
    found = Fraction(int(solution.totals.expected_overload), UNITS)
    if right < MOST // UNITS:
        assert right - Fraction(nodes * metrics, UNITS) <= found <= right + Fraction(1, UNITS)
    else:
        assert found > 0
