"""The placement policies of [1] sections 6 and 8.3, compared with the algorithms of the paper in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.configuration import Proposal
from plb.model import DeactivationIntent, DeactivationStatus
from plb.policies.fits import BestFit, InnerProduct, PrvBestFit, PrvWorstFit, StandardDeviation, Weighting, WorstFit
from plb.testing import clusters, configuration_of, walks
from tests.engine.counted import Counted, assert_is_least
from tests.engine.strategies import examples
from tests.machines import short_policy_test

test_best_fit_sum, test_best_fit_max = (short_policy_test(BestFit(weighting)) for weighting in Weighting)
test_worst_fit_sum, test_worst_fit_max = (short_policy_test(WorstFit(weighting)) for weighting in Weighting)
test_standard_deviation, test_inner_product = short_policy_test(StandardDeviation()), short_policy_test(InnerProduct())
test_prv_best_fit, test_prv_worst_fit = short_policy_test(PrvBestFit()), short_policy_test(PrvWorstFit(held_out=1))
weightings = st.sampled_from(Weighting)
thetas = st.sampled_from([0.0, 0.01, 0.3, 0.7, 1.0])


@st.composite
def questions(draw, **settings):
    """Draw a configuration after a walk, a replica, and its feasible nodes."""
    cluster = draw(clusters(with_history=True))
    configuration = configuration_of(cluster.engine(w_failovers=1.0, **settings))
    for proposal in draw(walks(configuration)):
        configuration.apply(proposal)
    rows = configuration.rows.tolist()
    offers = [(row, nodes) for row in rows if len(nodes := configuration.nodes_for(row))]
    assume(offers)
    return configuration, *draw(st.sampled_from(offers))


@st.composite
def uneven(draw):
    """Draw a question about unequal nodes with capacities of two metrics, and replicas of all sizes on them."""
    metrics = ("cpu", "memory")
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(name) for name in metrics]))
    names = [f"n{index}" for index in range(draw(st.integers(2, 5)))]
    for name in names:
        engine.update_node(Node(name, capacities={metric: draw(st.sampled_from([50, 80, 200])) for metric in metrics}))
    places = [None, *draw(st.lists(st.sampled_from(names), max_size=8))]
    for index, place in enumerate(places):
        load = {metric: draw(st.integers(0, 9)) for metric in metrics}
        engine.update_service(Service(f"s{index}", stateful=False, default_load={Role.INSTANCE: load}))
        replicas = [] if place is None else [Replica(Role.INSTANCE, place)]
        engine.update_partition(Partition(f"p{index}", service=f"s{index}", replicas=replicas))
    configuration = configuration_of(engine)
    offers = [(row, nodes) for row in configuration.rows.tolist() if len(nodes := configuration.nodes_for(row))]
    assume(offers)
    return configuration, *draw(st.sampled_from(offers))


def sign_of(kind):
    """Return the sign that makes the fullest, or the emptiest, node the least."""
    return -1 if issubclass(kind, BestFit | PrvBestFit) and kind is not PrvWorstFit else 1


# the policies


@pytest.mark.parametrize("kind", [BestFit, WorstFit])
@examples(80)
@given(question=questions() | uneven(), weighting=weightings)
def test_fits_take_the_fullest_and_the_emptiest_node(kind, question, weighting):
    """The order is W of the load with the replica, over all offered nodes."""
    configuration, row, nodes = question
    counted = Counted(configuration)
    values = {node: sign_of(kind) * counted.w(weighting, node, [*counted.on[node], row]) for node in nodes.tolist()}
    assert_is_least(counted, kind(weighting).choose(configuration, row, nodes), values)


def active_nodes(counted, nodes):
    """Return the nodes that are not being deactivated, or all of them if each is."""
    return [node for node in nodes.tolist() if node in counted.up] or nodes.tolist()


def candidates_by_algorithm(counted, row, nodes, theta, held_out):
    """Return the nodes among which the fit of algorithms 2 and 3 decides."""
    candidates, held_out_candidates, delta = [], [], {}
    for node in nodes:
        with_row = counted.probability(node, [*counted.on[node], row])
        if with_row < Fraction(theta):
            (held_out_candidates if node in held_out else candidates).append(node)
        else:
            delta[node] = with_row - counted.probability(node, counted.on[node])
    if not candidates:
        candidates = held_out_candidates
    if candidates:
        return candidates
    return [node for node in nodes if delta[node] == min(delta.values())]


@examples(120)
@given(question=questions(), weighting=weightings, theta=thetas)
def test_prv_best_fit_is_algorithm_2(question, weighting, theta):
    configuration, row, nodes = question
    counted = Counted(configuration)
    candidates = candidates_by_algorithm(counted, row, active_nodes(counted, nodes), theta, ())
    chosen = PrvBestFit(theta=theta, weighting=weighting).choose(configuration, row, nodes)
    values = {node: -counted.w(weighting, node, [*counted.on[node], row]) for node in candidates}
    assert_is_least(counted, chosen, values)


@examples(120)
@given(question=questions(), weighting=weightings, theta=thetas, held_out=st.integers(0, 4))
def test_prv_worst_fit_is_algorithm_3(question, weighting, theta, held_out):
    """It takes the emptiest of the candidates, of the held-out candidates, or of the nodes of least Delta."""
    configuration, row, nodes = question
    counted = Counted(configuration)
    loads = {node: round(counted.w(weighting, node, counted.on[node]), 12) for node in counted.up}
    least = sorted(counted.up, key=lambda node: (loads[node], node))[:held_out]
    candidates = candidates_by_algorithm(counted, row, active_nodes(counted, nodes), theta, least)
    policy = PrvWorstFit(theta=theta, weighting=weighting, held_out=held_out)
    values = {node: counted.w(weighting, node, [*counted.on[node], row]) for node in candidates}
    assert_is_least(counted, policy.choose(configuration, row, nodes), values)


@examples(80)
@given(question=questions() | uneven())
def test_standard_deviation_takes_the_node_with_the_most_even_loads(question):
    """Each placement is tried, and the standard deviations of all nodes that are up are computed from scratch."""
    configuration, row, nodes = question
    counted, values = Counted(configuration), {}
    for node in active_nodes(counted, nodes):
        back = configuration.apply(Proposal(row, node))
        shares = [[float(one) for one in share] for share in Counted(configuration).shares_of_up()]
        values[node] = Fraction(float(np.std(shares, axis=0).sum())) if len(shares) else Fraction(0)
        configuration.apply(back)
    chosen = StandardDeviation().choose(configuration, row, nodes)
    assert values[chosen] <= min(values.values()) + Fraction(1, 10**7)
    assert not [node for node in values if node < chosen and counted.equal_nodes(node, chosen)]


@examples(80)
@given(question=questions() | uneven())
def test_inner_product_takes_the_node_with_free_capacity_aligned_with_the_demand(question):
    """It has the largest sum over metrics of weight, demand and free capacity, as shares of the node's capacity."""
    configuration, row, nodes = question
    counted = Counted(configuration)
    weights = counted.mean_usage()
    values = {
        node: -sum(
            weight * demand * (1 - used)
            for weight, demand, used in zip(
                weights, counted.share(node, [row]), counted.share(node, counted.on[node]), strict=True
            )
        )
        for node in nodes.tolist()
    }
    assert_is_least(counted, InnerProduct().choose(configuration, row, nodes), values)


# held-out nodes


def test_held_out_nodes_follow_the_load_and_come_last():
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_worst_fit", policy_options={"held_out": 1})
    engine = PlacementAndLoadBalancing(config)
    for node in range(3):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 10}))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 3}}))
    for index in range(10):
        engine.update_partition(Partition(f"p{index}", service="s"))
    plan = engine.place()
    assert [move.target for move in plan.moves] == ["n1", "n2", "n1", "n2", "n1", "n2", "n0", "n0", "n0"]


@pytest.mark.parametrize("policy", ["standard_deviation", "prv_best_fit", "prv_worst_fit"])
def test_node_that_is_being_deactivated_comes_last(policy):
    """It counts in no statistic, so it would seem to have no cost."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy=policy), seed=0)
    for index in range(3):
        goes = {
            "deactivation_intent": DeactivationIntent.RESTART,
            "deactivation_status": DeactivationStatus.SAFETY_CHECK_IN_PROGRESS,
        }
        engine.update_node(Node(f"n{index}", capacities={"cpu": 20}, **(goes if index == 0 else {})))
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 2}}))
    for index in range(8):
        engine.update_partition(Partition(f"w{index}", service="web"))
    assert {move.target for move in engine.place().moves} <= {"n1", "n2"}
