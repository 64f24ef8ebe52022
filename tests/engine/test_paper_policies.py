"""The placement policies of [1] sections 6 and 8.3, against the algorithms as the paper has them, in plain Python."""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.arrays import NOWHERE
from plb.configuration import Proposal
from plb.model import DeactivationIntent, DeactivationStatus
from plb.policies import BUILT_IN
from plb.policies.fits import BestFit, WorstFit
from plb.policies.inner_product import InnerProduct
from plb.policies.prv import PrvBestFit, PrvWorstFit
from plb.policies.repacking import Repacking
from plb.policies.standard_deviation import StandardDeviation
from plb.policies.weighting import Weighting
from plb.registry import own_policy, register_policy
from plb.steps import UNLIMITED
from plb.testing import clusters, configuration_of, policy_test, walks

from .strategies import examples

BY_NAME = {policy.name: policy for policy in BUILT_IN}
test_best_fit_sum, test_best_fit_max = (policy_test(BestFit(weighting)) for weighting in Weighting)
test_worst_fit_sum, test_worst_fit_max = (policy_test(WorstFit(weighting)) for weighting in Weighting)
test_standard_deviation, test_inner_product = policy_test(StandardDeviation()), policy_test(InnerProduct())
test_repacking, test_repacking_in_few_classes = policy_test(Repacking()), policy_test(Repacking(size_classes=3))
test_prv_best_fit, test_prv_worst_fit = policy_test(PrvBestFit()), policy_test(PrvWorstFit(held_out=1))
weightings = st.sampled_from(Weighting)
thetas = st.sampled_from([0.0, 0.01, 0.3, 0.7, 1.0])


# the quantities of the paper, in fractions


class Counted:
    """A configuration, counted row by row."""

    def __init__(self, configuration):
        problem, place = configuration.problem, configuration.solution.node.tolist()
        self.problem = problem
        self.metrics, self.repetitions = range(problem.load.shape[1]), range(problem.peak.shape[2])
        self.on = {node: [] for node in range(len(problem.limit))}
        for row, node in enumerate(place):
            if node != NOWHERE and not problem.leaving[row]:
                self.on[node].append(row)
        self.up = [node for node in self.on if problem.counted[node]]

    def share(self, node, rows):
        """Return the load of rows as a share of the capacity of a node, by metric; 0 where it has none."""
        capacity = [int(value) for value in self.problem.capacity[node]]
        load = [sum(int(self.problem.load[row, metric]) for row in rows) for metric in self.metrics]
        return [
            Fraction(load[metric], capacity[metric]) if 0 < capacity[metric] < UNLIMITED else Fraction(0)
            for metric in self.metrics
        ]

    def shares_of_up(self):
        """Return the load of every node that is up as shares."""
        return [self.share(node, self.on[node]) for node in self.up]

    def mean_usage(self):
        """Return w_j of equation (3)."""
        shares = [self.share(node, [row]) for node, rows in self.on.items() for row in rows]
        return [sum(share[metric] for share in shares) / max(1, len(shares)) for metric in self.metrics]

    def w(self, weighting, node, rows):
        """Return W of rows on a node."""
        share = self.share(node, rows)
        if weighting is Weighting.MAX:
            return max(share)
        return sum(weight * one for weight, one in zip(self.mean_usage(), share, strict=True))

    def probability(self, node, rows):
        """Return the share of the repetitions in which rows on a node are in violation."""
        if node not in self.up or not self.repetitions:
            return Fraction(0)
        peak, threshold = self.problem.peak, self.problem.threshold
        violations = sum(
            any(sum(int(peak[row, metric, k]) for row in rows) >= threshold[node, metric] for metric in self.metrics)
            for k in self.repetitions
        )
        return Fraction(violations, len(self.repetitions))

    def alike(self, one, other):
        """Tell whether two nodes are the same to a policy that compares loads."""
        return self.share(one, self.on[one]) == self.share(other, self.on[other]) and np.array_equal(
            self.problem.capacity[one], self.problem.capacity[other]
        )


def assert_is_least(counted, chosen, values):
    """Assert that a node has the least of the values by node, and is the first of nodes that are the same."""
    least = min(values.values())
    assert abs(values[chosen] - least) <= Fraction(1, 10**9) * (1 + abs(least))
    assert not [node for node in values if node < chosen and counted.alike(node, chosen)]


@st.composite
def questions(draw, **settings):
    """Draw a configuration of some way, a replica, and the nodes that take it."""
    cluster = draw(clusters(with_history=True))
    configuration = configuration_of(cluster.engine(w_failovers=1.0, **settings))
    for proposal in draw(walks(configuration)):
        configuration.apply(proposal)
    rows = configuration.rows.tolist()
    offers = [(row, nodes) for row in rows if len(nodes := configuration.nodes_for(row))]
    row, nodes = draw(st.sampled_from(offers)) if offers else (None, [])
    return configuration, row, nodes


@st.composite
def uneven(draw):
    """Draw a question about unequal nodes with room for two metrics, and replicas of all sizes on them."""
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
    row, nodes = draw(st.sampled_from(offers)) if offers else (None, [])
    return configuration, row, nodes


def sign_of(kind):
    """Return what turns the fullest, or the emptiest, into the least."""
    return -1 if issubclass(kind, BestFit | PrvBestFit) and kind is not PrvWorstFit else 1


# the policies


@pytest.mark.parametrize("kind", [BestFit, WorstFit])
@examples(80)
@given(question=questions() | uneven(), weighting=weightings)
def test_fits_take_the_fullest_and_the_emptiest_node(kind, question, weighting):
    """By W of the load with the replica, over all nodes that are offered."""
    configuration, row, nodes = question
    if row is None:
        return
    counted = Counted(configuration)
    values = {node: sign_of(kind) * counted.w(weighting, node, [*counted.on[node], row]) for node in nodes.tolist()}
    assert_is_least(counted, kind(weighting).choose(configuration, row, nodes), values)


def lasting(counted, nodes):
    """Return those of the nodes that are not being deactivated, or all where each of them is."""
    return [node for node in nodes.tolist() if node in counted.up] or nodes.tolist()


def candidates_by_algorithm(counted, row, nodes, theta, held_out):
    """Return among which nodes the fit of algorithms 2 and 3 decides."""
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
    """The fullest of the candidates, or of the nodes of least Delta."""
    configuration, row, nodes = question
    if row is None:
        return
    counted = Counted(configuration)
    candidates = candidates_by_algorithm(counted, row, lasting(counted, nodes), theta, ())
    chosen = PrvBestFit(theta=theta, weighting=weighting).choose(configuration, row, nodes)
    values = {node: -counted.w(weighting, node, [*counted.on[node], row]) for node in candidates}
    assert_is_least(counted, chosen, values)


@examples(120)
@given(question=questions(), weighting=weightings, theta=thetas, held_out=st.integers(0, 4))
def test_prv_worst_fit_is_algorithm_3(question, weighting, theta, held_out):
    """The emptiest of the candidates, of the held-out candidates, or of the nodes of least Delta."""
    configuration, row, nodes = question
    if row is None:
        return
    counted = Counted(configuration)
    loads = {node: round(counted.w(weighting, node, counted.on[node]), 12) for node in counted.up}
    least = sorted(counted.up, key=lambda node: (loads[node], node))[:held_out]
    candidates = candidates_by_algorithm(counted, row, lasting(counted, nodes), theta, least)
    policy = PrvWorstFit(theta=theta, weighting=weighting, held_out=held_out)
    values = {node: counted.w(weighting, node, [*counted.on[node], row]) for node in candidates}
    assert_is_least(counted, policy.choose(configuration, row, nodes), values)


@examples(80)
@given(question=questions() | uneven())
def test_standard_deviation_takes_the_node_that_leaves_loads_most_even(question):
    """Each placement is made, and the standard deviations of all nodes that are up are taken anew."""
    configuration, row, nodes = question
    if row is None:
        return
    counted, values = Counted(configuration), {}
    for node in lasting(counted, nodes):
        back = configuration.apply(Proposal(row, node))
        shares = [[float(one) for one in share] for share in Counted(configuration).shares_of_up()]
        values[node] = Fraction(float(np.std(shares, axis=0).sum())) if len(shares) else Fraction(0)
        configuration.apply(back)
    chosen = StandardDeviation().choose(configuration, row, nodes)
    assert values[chosen] <= min(values.values()) + Fraction(1, 10**7)
    assert not [node for node in values if node < chosen and counted.alike(node, chosen)]


@examples(80)
@given(question=questions() | uneven())
def test_inner_product_takes_the_node_whose_room_suits_the_demand(question):
    """The largest sum over metrics of weight, demand and room, as shares of the capacity of the node."""
    configuration, row, nodes = question
    if row is None:
        return
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


# repacking


def size_class(counted, row, node, classes):
    """Return i where the largest share of the replica lies in (1/(i+1), 1/i], at most `classes`."""
    largest = max(counted.share(node, [row]))
    return next((i for i in range(1, classes) if largest > Fraction(1, i + 1)), classes)


@examples(200)
@given(cluster=clusters(with_history=False), classes=st.integers(1, 8), most_moves=st.integers(0, 3))
def test_repacking_moves_few_and_smaller_ones_off_the_first_node_that_would_do(cluster, classes, most_moves):
    """No rule refuses any of the moves in turn, and the replica then goes where they leave."""
    configuration = configuration_of(cluster.engine())
    policy = Repacking(size_classes=classes, most_moves=most_moves)
    for row in configuration.rows.tolist():
        before = configuration.nodes_for(row).tolist()
        moves = policy.make_room(configuration, row)
        assert len(moves) <= most_moves
        counted = Counted(configuration)
        backs = []
        for move in moves:
            source = configuration.node_of(move.row)
            assert size_class(counted, move.row, source, classes) > size_class(counted, row, source, classes)
            assert move.target == configuration.nodes_for(move.row)[0]
            assert configuration.refusal(move) is None
            backs.append((source, configuration.apply(move)))
        if moves:
            nodes = configuration.nodes_for(row)
            chosen = policy.choose(configuration, row, nodes)
            assert {source for source, _ in backs} == {chosen}
            assert chosen not in before
            assert all(chosen < node for node in before), "where it fits anyway is further on"
        for _, back in reversed(backs):
            configuration.apply(back)


def packed(nodes, waiting, **settings):
    """Return nodes of capacity 20, filled up to it, with these loads on each, and where the waiting load goes."""
    config = PlbConfig(metrics=[Metric("cpu")], policy="repacking", capacity_limit="capacity", **settings)
    engine = PlacementAndLoadBalancing(config)
    for node, loads in enumerate(nodes):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 20}))
        for index, load in enumerate(loads):
            name = f"{node}/{index}"
            engine.update_service(Service(name, stateful=False, default_load={Role.INSTANCE: {"cpu": load}}))
            engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, f"n{node}")]))
    engine.update_service(Service("new", stateful=False, default_load={Role.INSTANCE: {"cpu": waiting}}))
    engine.update_partition(Partition("new", service="new"))
    return {move.partition: move.target for move in engine.place().moves}


@pytest.mark.parametrize(
    ("nodes", "waiting", "moves"),
    [
        pytest.param([[4, 6], []], 10, {"new": "n0"}, id="there is room beside all"),
        pytest.param([[4, 7], []], 10, {"0/0": "n1", "new": "n0"}, id="of two smaller ones, the larger class stays"),
        pytest.param([[4, 8], [19]], 8, {"new": "n0"}, id="there is room beside them in full"),
        pytest.param([[9, 9], []], 8, {"new": "n1"}, id="none is of a smaller class"),
        pytest.param([[7, 8], []], 11, {"0/1": "n1", "new": "n0"}, id="of one class, the first stays"),
        pytest.param([[4, 7], [18], []], 10, {"0/0": "n2", "new": "n0"}, id="what leaves goes by first fit, too"),
        pytest.param([[11, 9], [18], []], 10, {"new": "n2"}, id="beside the larger ones there is no room"),
        pytest.param([[11, 4], [20]], 9, {}, id="what would leave has nowhere to go"),
        pytest.param([[1] * 20, [10], []], 10, {**{f"0/{i}": "n1" for i in range(10, 20)}, "new": "n0"}, id="ten"),
        pytest.param([[1] * 20, []], 11, {"new": "n1"}, id="eleven are too many"),
    ],
)
def test_repacking_by_hand(nodes, waiting, moves):
    """What is moved for a replica, and where it goes."""
    assert packed(nodes, waiting) == moves


def test_repacking_looks_only_at_what_the_replica_needs():
    """On a node that is too full of memory, a replica without memory finds room for its processors."""
    config = PlbConfig(metrics=[Metric("cpu"), Metric("memory")], policy="repacking", capacity_limit="capacity")
    engine = PlacementAndLoadBalancing(config)
    for node in range(2):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 20, "memory": 20}))
    for name, load, replicas in (
        ("large", {"cpu": 11, "memory": 30}, [Replica(Role.INSTANCE, "n0")]),
        ("small", {"cpu": 4}, [Replica(Role.INSTANCE, "n0")]),
        ("new", {"cpu": 9}, []),
    ):
        engine.update_service(Service(name, stateful=False, default_load={Role.INSTANCE: load}))
        engine.update_partition(Partition(name, service=name, replicas=replicas))
    assert {move.partition: move.target for move in engine.place().moves} == {"small": "n1", "new": "n0"}


def test_repacking_moves_nothing_where_placement_must_not():
    """It is first fit then."""
    assert packed([[4, 7], []], 10, move_existing_replica_for_placement=False) == {"new": "n1"}
    assert packed([[4, 7], []], 10, policy_options={"most_moves": 0}) == {"new": "n1"}


# held-out nodes


def test_held_out_nodes_follow_the_load_and_come_last():
    """The emptiest node is held out at each placement anew, until the others are too full."""
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_worst_fit", policy_options={"held_out": 1})
    engine = PlacementAndLoadBalancing(config)
    for node in range(3):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 10}))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 3}}))
    for index in range(10):
        engine.update_partition(Partition(f"p{index}", service="s"))
    plan = engine.place()
    assert [move.target for move in plan.moves] == ["n1", "n2", "n1", "n2", "n1", "n2", "n0", "n0", "n0"]


# options


def test_options_change_a_copy_of_the_policy():
    """Those that are not given stay as registered; the registered policy stays as it is."""
    register_policy(PrvWorstFit(theta=0.05, held_out=5, weighting="sum", name="careful"))
    changed = own_policy("careful", {"theta": 0.2})
    assert changed == PrvWorstFit(theta=0.2, held_out=5, weighting=Weighting.SUM, name="careful")
    assert own_policy("careful") == PrvWorstFit(theta=0.05, held_out=5, weighting=Weighting.SUM, name="careful")
    assert own_policy("prv_worst_fit") == PrvWorstFit(theta=0.01, held_out=3, weighting=Weighting.MAX)


@pytest.mark.parametrize(
    ("policy", "options", "error", "words"),
    [
        ("prv_best_fit", {"theta": 1.5}, InvalidValueError, "policy prv_best_fit: theta = 1.5 is not .* >= 0 and <= 1"),
        ("prv_worst_fit", {"held_out": 2.5}, InvalidValueError, "policy prv_worst_fit: held_out = 2.5 is not allowed"),
        ("prv_worst_fit", {"weighting": "man"}, InvalidValueError, "weighting = 'man' .* expected one of sum, max"),
        ("prv_worst_fit", {"hold_out": 2}, UnknownNameError, "unknown option 'hold_out'; did you mean 'held_out'"),
        ("prv_best_fit", {"held_out": 2}, UnknownNameError, "policy prv_best_fit: unknown option 'held_out'; known: "),
        ("prv_best_fit", {"name": "x"}, UnknownNameError, "policy prv_best_fit: unknown option 'name'; known: "),
        (
            "repacking",
            {"size_classes": 0},
            InvalidValueError,
            "policy repacking: size_classes = 0 .* whole number >= 1",
        ),
        ("repacking", {"most_moves": -1}, InvalidValueError, "policy repacking: most_moves = -1 is not allowed"),
        ("best_fit_max", {"theta": 0.1}, InvalidValueError, "policy_options = .* as best_fit_max has no options"),
        ("annealing", {"theta": 0.1}, InvalidValueError, "policy_options = .* as annealing has no options"),
        ("prv_best_fit", {1: 0.1}, InvalidValueError, "PlbConfig: policy_options = {1: 0.1} is not allowed"),
        ("prv_best_fit", 0.1, InvalidValueError, "PlbConfig: policy_options = 0.1 is not allowed; expected a mapping"),
    ],
)
def test_option_that_is_none_is_refused(policy, options, error, words):
    """With the policy, the option and what is allowed, or the nearest right name."""
    with pytest.raises(error, match=words):
        PlbConfig(metrics=[Metric("cpu")], policy=policy, policy_options=options)


@attrs.frozen
class Measured:
    """A policy of a user whose class checks with attrs alone."""

    name = "measured"
    most: int = attrs.field(default=1, validator=attrs.validators.ge(0))

    def choose(self, configuration, row, nodes):
        """Return a node."""
        return nodes[min(self.most, len(nodes) - 1)]


def test_policy_of_a_user_has_the_options_of_its_class():
    """What its constructor raises becomes an error that names policy and value."""
    register_policy(Measured())
    assert own_policy("measured", {"most": 2}).most == 2
    with pytest.raises(InvalidValueError, match=r"policy_options = {'most': -1} .* policy measured takes"):
        PlbConfig(metrics=[Metric("cpu")], policy="measured", policy_options={"most": -1})


def test_options_cannot_be_changed_behind_the_settings():
    """Neither by who gave them, nor in the settings."""
    options = {"theta": 0.02}
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_best_fit", policy_options=options)
    options["theta"] = 7
    assert dict(config.policy_options) == {"theta": 0.02}
    with pytest.raises(TypeError):
        config.policy_options["theta"] = 7
    assert hash(config) == hash(attrs.evolve(config))


def test_engine_takes_other_options_when_it_is_configured_anew():
    """The policy is made afresh, as for another policy."""
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_worst_fit", policy_options={"held_out": 0})
    engine = PlacementAndLoadBalancing(config)
    for node in range(2):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 10}))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 1}}))
    engine.update_partition(Partition("p", service="s"))
    assert engine.place().moves[0].target == "n0"
    engine.configure(attrs.evolve(config, policy_options={"held_out": 1}))
    assert engine.place().moves[0].target == "n1"


@pytest.mark.parametrize("policy", ["standard_deviation", "prv_best_fit", "prv_worst_fit"])
def test_node_that_is_being_deactivated_comes_last(policy):
    """It is in no statistic, so that it would seem to cost nothing."""
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
