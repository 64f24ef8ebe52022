"""Placement policies are found by name, keep every rule, and place one replica at a time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.policies import smallest_first
from plb.model.outcome import Idle
from plb.policies import BUILT_IN
from plb.policies.fits import FirstFit, Random
from plb.settings.config import ANNEALING
from plb.testing import all_clusters, clusters, configuration_of, walks
from tests.engine.oracle import assert_rules_are_kept, placement_of, sums_from_scratch
from tests.engine.stories import four_nodes
from tests.engine.strategies import examples
from tests.machines import short_policy_test
from tests.risk.oracles import draw_forecast


class LastFit:
    """Takes the last node."""

    name = "last_fit"

    def choose(self, configuration, row, nodes):
        return nodes[-1]


class Picky(LastFit):
    """Takes only the node named n1."""

    name = "picky"

    def choose(self, configuration, row, nodes):
        return next((node for node in nodes if configuration.node(node).name == "n1"), None)


class Stray(LastFit):
    """Always takes node 3, and evicts row 0 from any node."""

    name = "stray"

    def choose(self, configuration, row, nodes):
        return 3

    def leaving(self, configuration, node, rows):
        return [0]


class LargestFirst(LastFit):
    """Evicts the replica with the largest load first."""

    name = "largest_first"

    def leaving(self, configuration, node, rows):
        return sorted(rows, key=lambda row: -configuration.load_of(row).sum())


class Counting(LastFit):
    """Takes the nodes in turn, from plan to plan."""

    name = "counting"

    def __init__(self):
        self.placed = 0

    def choose(self, configuration, row, nodes):
        self.placed += 1
        return nodes[self.placed % len(nodes)]


class Clearing(LastFit):
    """Empties node 0 before it places a replica."""

    name = "clearing"

    def evict(self, configuration, row):
        return [Proposal(int(one), configuration.nodes - 1) for one in configuration.rows_on(0) if one != row]

    def choose(self, configuration, row, nodes):
        return nodes[0]


class Evicting(LastFit):
    """Evicts by given moves, valid or not."""

    name = "evicting"

    def __init__(self, *moves):
        self.moves = moves

    def evict(self, configuration, row):
        return self.moves


class OffEvenNodes:
    """No replica may be on n0 or n2."""

    name = "off_even_nodes"

    def refuses(self, configuration, proposal):
        return any(one.target in (0, 2) for one in configuration.relocations(proposal))

    def broken(self, configuration):
        return [row for row in configuration.rows if configuration.node_of(row) in (0, 2)]


class ChildrenOffLowNodes:
    """No child may be on n0."""

    name = "children_off_low_nodes"
    nodes = (0,)

    def refuses(self, configuration, proposal):
        relocations = configuration.relocations(proposal)
        return any(one.target in self.nodes and self._is_child(configuration, one.row) for one in relocations)

    def broken(self, configuration):
        rows = [row for row in configuration.rows if self._is_child(configuration, row)]
        return [row for row in rows if configuration.node_of(row) in self.nodes]

    def _is_child(self, configuration, row):
        return configuration.service_of(row).name == "tail"


class ChildrenOffHighNodes(ChildrenOffLowNodes):
    """No child may be on another node than n0."""

    name = "children_off_high_nodes"
    nodes = (1, 2, 3)


class NowhereButOnOddNodes(OffEvenNodes):
    """The same constraint; replicas without a node break it as well."""

    name = "nowhere_but_on_odd_nodes"

    def broken(self, configuration):
        return [row for row in configuration.rows if configuration.node_of(row) in (0, 2, -1)]


OBJECTS = (
    *(LastFit(), Picky(), Stray(), LargestFirst(), Counting(), Clearing(), Evicting()),
    *(OffEvenNodes(), ChildrenOffLowNodes(), ChildrenOffHighNodes(), NowhereButOnOddNodes()),
)
NAMES = (*(one.name for one in BUILT_IN), "last_fit", "picky", "largest_first", "counting", "clearing")
VERBS = ("place", "repair", "refresh")


def plan_of(engine, verb):
    return engine.refresh(0.0) if verb == "refresh" else getattr(engine, verb)()


def engine_of(policy, places=(), objects=OBJECTS, **options):
    return four_nodes(places, policy=policy, objects=objects, **options)


def engine_in(cluster, policy, **settings):
    """Return an engine of a cluster with a built-in policy, or one of `OBJECTS`."""
    own = next((item for item in OBJECTS if item.name == policy), None)
    return cluster.engine(policy=policy, extensions={"extension_policy": own}, **settings)


def targets(plan):
    return {move.partition: move.target for move in plan.moves}


# every policy

test_first_fit, test_random, test_clearing = (short_policy_test(one) for one in (FirstFit(), Random(), Clearing()))


@pytest.mark.parametrize("verb", VERBS)
@examples(60)
@given(cluster=all_clusters(), policy=st.sampled_from([ANNEALING, *NAMES]))
def test_plans_of_a_policy_break_no_rule(verb, cluster, policy):
    """A plain check finds the plan of any policy, and of the search, within every hard constraint."""
    engine = engine_in(cluster, policy, checks="phase")
    before = placement_of(engine, cluster)
    plan = plan_of(engine, verb)
    assert placement_of(engine, cluster) == before, "making a plan changes nothing"
    assert_rules_are_kept(cluster, engine.config, before, plan)
    assert plan == plan_of(engine_in(cluster, policy), verb), "equal engines plan the same"


@examples(80)
@given(cluster=clusters(), policy=st.sampled_from(NAMES))
def test_counts_of_a_plan_are_consistent(cluster, policy):
    """Every evaluated node was refused by a rule or scored; an unplaced replica accounts for every node."""
    plan = engine_in(cluster, policy).place()
    counts = plan.proposals
    assert counts.generated == counts.scored + sum(counts.refused_by_rule.values())
    assert counts.accepted <= counts.scored
    assert counts.accepted >= sum(move.source is None for move in plan.moves)
    for one in plan.unplaced:
        assert one.fitting == 0
        assert sum(one.ruled_out.values()) == len(cluster.nodes)
        assert not {built_in.name for built_in in BUILT_IN} & set(one.ruled_out), "built-in policies decline nothing"


@examples(80)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=8),
    st.sampled_from(["first_fit", "random", "worst_fit_max", "largest_first"]),
)
def test_repair_relieves_a_node_if_another_has_free_capacity(loads, policy):
    engine = engine_of(policy, ("n0",) * len(loads), nodes=7)
    for index, load in enumerate(loads):
        engine.report_load(f"web/{index}", "n0", {"cpu": load})
    plan = engine.repair()
    assert bool(plan.moves) == (sum(loads) > 18)
    engine.apply(plan)
    assert engine.violations() == ()


@examples(80)
@given(cluster=clusters(complete=True), policy=st.sampled_from(["first_fit", "random", "largest_first"]))
def test_repair_moves_nothing_only_if_nothing_can_move(cluster, policy):
    """A node stays too full only if none of the replicas that could help has a feasible node."""
    engine = engine_in(cluster, policy)
    start = configuration_of(engine)
    plan = engine.repair()
    if plan.moves or plan.bound_by:
        return
    problem = start.problem
    over = (start.solution.node_load > problem.limit) & problem.watched[:, None]
    for node in np.flatnonzero(over.any(axis=1)):
        for row in start.rows_on(node):
            if problem.repairable[row] and (problem.load[row, over[node]] > 0).any():
                assert not len(start.nodes_for(int(row)))


@examples(60)
@given(clusters(with_history=True), st.data())
def test_configuration_has_the_data_of_policies(cluster, data):
    """Feasible nodes, capacities and violation probabilities equal those computed node by node."""
    configuration = configuration_of(cluster.engine(w_failovers=1.0))
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    limits = [[node.capacities.get(metric.name, np.inf) for metric in cluster.metrics] for node in cluster.nodes]
    assert configuration.capacities.tolist() == limits
    bounded = np.isfinite(configuration.capacities) & (configuration.capacities > 0)
    assert not configuration.shares[~bounded].any()
    assert configuration.shares[bounded] == pytest.approx(
        configuration.loads[bounded] / configuration.capacities[bounded]
    )
    assert len(configuration.held_out) <= cluster.config["held_out_nodes"]
    present = sums_from_scratch(configuration.problem, configuration.solution.node)["violating"]
    repetitions = configuration.problem.peak.shape[2]
    assert configuration.violation_probabilities.tolist() == [count / repetitions for count in present]
    for row in configuration.rows.tolist():
        others = [node for node in range(configuration.nodes) if node != configuration.node_of(row)]
        allowed = [node for node in others if configuration.refusal(Proposal(row, node)) is None]
        assert configuration.nodes_for(row).tolist() == allowed
        with_row = configuration.violation_probabilities_with(row)
        for node in range(configuration.nodes):
            places = configuration.solution.node.copy()
            places[row] = node
            right = sums_from_scratch(configuration.problem, places)["violating"][node]
            assert with_row[node] == right / repetitions


@examples(40)
@given(clusters(with_history=True, down=False))
def test_forecasts_of_replicas_have_what_their_draws_depend_on(cluster):
    """The summed levels of traces that are drawn replica by replica agree with the engine's sums."""
    engine = cluster.engine(w_failovers=1.0, replay="as_recorded")
    configuration = configuration_of(engine, now=5.0)
    history, problem = configuration.history, configuration.problem
    levels, settings = history.in_quanta(configuration.description.quanta), engine.config
    for node in range(configuration.nodes):
        sums = np.zeros((settings.repetitions, len(settings.metrics)), np.int64)
        for row in configuration.rows_on(node).tolist():
            forecast = configuration.forecast_of(row)
            sums += levels[draw_forecast(history, forecast, 5.0, k=settings.repetitions, seed=engine.seed).trace]
        risk = (sums >= problem.threshold[node]).any(axis=1).mean()
        assert risk == configuration.violation_probabilities[node]


# decisions of a policy


def test_each_policy_places_on_its_nodes():
    waiting = (None,) * 7
    assert list(targets(engine_of("first_fit", waiting).place()).values()) == ["n0"] * 6 + ["n1"]
    assert list(targets(engine_of("last_fit", waiting).place()).values()) == ["n3"] * 6 + ["n2"]
    plan = engine_of("picky", waiting, capacity_limit="capacity").place()
    assert list(targets(plan).values()) == ["n1"] * 6
    assert plan.end_reason == "the policy has decided"
    assert str(plan.unplaced[0]) == (
        "instance of web/6 fits on none of 4 nodes: ruled out 1 by capacity (3 cpu needed, at most 2 free, on "
        "n1), 3 by picky (the policy does not choose it)"
    )


def test_random_policy_uses_all_nodes_and_the_seed_of_the_engine():
    plans = []
    for seed in (1, 1, 2):
        engine = engine_of("random", (None,) * 600, load=0)
        engine.seed = seed
        plans.append(targets(engine.place()))
    assert plans[0] == plans[1] != plans[2]
    shares = Counter(plans[0].values())
    assert set(shares) == {"n0", "n1", "n2", "n3"}
    assert max(abs(count - 150) for count in shares.values()) < 5 * np.sqrt(600 * 3 / 16)


def test_smallest_replica_leaves_first_until_the_node_is_within_its_limit():
    """[1] section 8.1 is the default; a policy may use another order. Load of other metrics does not count."""
    for policy, left in (("first_fit", ["web/1", "web/2"]), ("largest_first", ["web/0"])):
        engine = engine_of(policy, ("n0",) * 4)
        for index, load in enumerate((12, 1, 5, 6)):
            engine.report_load(f"web/{index}", "n0", {"cpu": load})
        plan = engine.repair()
        assert [move.partition for move in plan.moves] == left
        assert {move.reason.rule for move in plan.moves} == {"capacity"}
        assert plan.phases == (Phase.REPAIR,)


@examples(50)
@given(clusters(complete=True))
def test_smallest_first_adds_up_shares_of_the_capacity(cluster):
    """The order is that of the sum over metrics of load by capacity, in user units."""
    configuration = configuration_of(cluster.engine())
    for node in range(configuration.nodes):
        capacity = configuration.capacities[node]
        counted = np.isfinite(capacity) & (capacity > 0)
        rows = configuration.rows_on(node)
        usage = {int(row): (configuration.load_of(row)[counted] / capacity[counted]).sum() for row in rows}
        order = smallest_first(configuration, node, rows)
        assert sorted(order) == rows.tolist()
        assert all(usage[one] <= usage[other] + 1e-12 for one, other in pairwise(order))


def test_policy_does_not_balance_and_reports_it():
    """Neither `balance` nor `refresh` moves a replica that the engine's search would move."""
    places = ("n0",) * 5
    assert engine_of("annealing", places, max_percentage_to_move=1.0, w_imbalance=1000.0).balance().moves
    engine = engine_of("first_fit", places, max_percentage_to_move=1.0, w_imbalance=1000.0)
    for plan in (engine.balance(), engine.refresh(0.0)):
        assert plan.moves == ()
        assert plan.outcomes[0].idle[Phase.BALANCING] is Idle.BY_POLICY


def test_policy_keeps_its_state_with_its_engine():
    first, second = engine_of("counting", (None,)), engine_of("counting", (None,))
    assert [targets(first.place())["web/0"] for _ in range(3)] == ["n1", "n2", "n3"]
    assert targets(second.place())["web/0"] == "n1"


def test_policy_that_evicts_moves_others_first():
    """All of its moves run, or none; if placement must not move others, its eviction is not called."""
    plan = engine_of("clearing", ("n0", "n0", None)).place()
    assert targets(plan) == {"web/0": "n3", "web/1": "n3", "web/2": "n0"}
    assert [str(move.reason) for move in plan.moves if move.partition == "web/0"] == [
        "frees capacity on node n0 for web/2"
    ]
    full = ("n0", "n0", *["n3"] * 6, None)
    assert targets(engine_of("clearing", full).place()) == {"web/8": "n0"}
    assert engine_of("clearing", full).place().proposals.refused_by_rule["capacity"] >= 1
    kept = engine_of("clearing", ("n0", "n0", None), move_existing_replica_for_placement=False)
    assert targets(kept.place()) == {"web/2": "n0"}
    few = engine_of("clearing", ("n0", "n0", None), max_moves=1)
    assert targets(few.place()) == {"web/2": "n0"}
    assert few.place().bound_by == ("moves",)


def test_nodes_that_a_constraint_refuses_are_not_offered():
    """Placement does not use them, repair moves replicas off them, and an unplaced replica names the constraint."""
    engine = engine_of("first_fit", ("n0", None, "n2"), extension_constraints=["off_even_nodes"])
    plan = engine.refresh(0.0)
    assert targets(plan) == {"web/1": "n1", "web/0": "n1", "web/2": "n1"}
    assert plan.proposals.refused_by_rule["off_even_nodes"] >= 2
    engine = engine_of("first_fit", (None,), load=18, nodes=1, extension_constraints=["off_even_nodes"])
    assert [(one.rule, one.nodes) for one in engine.place().unplaced[0].diagnosis] == [("off_even_nodes", 1)]


def test_children_join_a_parent_that_a_policy_moves():
    engine = engine_of("largest_first", ("n0", "n0"))
    engine.update_service(Service("tail", stateful=False, affinity_to="web", default_load={Role.INSTANCE: {"cpu": 1}}))
    engine.remove_partition("web/1")
    engine.update_partition(Partition("tail/0", service="tail", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.update_node(Node("n0", capacities={"cpu": 3}))
    assert targets(engine.repair()) == {"web/0": "n3", "tail/0": "n3"}


def test_all_or_nothing_placement_is_complete_or_empty():
    engine = engine_of("picky", partially_place_services=False)
    engine.update_service(Service("pair", stateful=False, target_replicas=2))
    engine.update_partition(Partition("pair/0", service="pair"))
    plan = engine.place()
    assert plan.moves == ()
    assert [one.ruled_out for one in plan.unplaced] == [{}, {"picky": 4}]


# invalid answers and names


def test_node_or_row_that_was_not_offered_is_an_error():
    engine = engine_of("stray", ("n3",) * 6 + (None,))
    with pytest.raises(InvalidValueError, match=r"policy stray: choose for row 6 = 3 is not allowed; expected None or"):
        engine.place()
    engine.report_load("web/1", "n3", {"cpu": 9})
    engine.report_load("web/0", "n3", {"cpu": 0})
    with pytest.raises(InvalidValueError, match="policy stray: leaving of node 3 = 0 is not allowed; expected some of"):
        engine.repair()
    assert engine.node_loads()["n3"] == {"cpu": 21.0}


@pytest.mark.parametrize(
    "move", [Proposal(6, 1), Proposal(0, 9), Proposal(0, -1), Proposal(99, 1), Proposal(-1, 1), Proposal(0, 1, 1)]
)
def test_eviction_that_frees_no_capacity_is_refused(move, monkeypatch):
    """The move is of the replica itself, of unknown nodes or replicas, or an exchange with a replica elsewhere."""
    engine = engine_of("evicting", ("n3",) * 6 + (None,))
    monkeypatch.setattr(Evicting, "evict", lambda *_: [move])
    with pytest.raises(InvalidValueError, match="policy evicting: evict for row 6 = Proposal"):
        engine.place()


def test_evictions_may_be_exchanges():
    engine = engine_of("evicting", ("n0", "n2", None), objects=[Evicting(Proposal(0, 2, 1))])
    assert targets(engine.place()) == {"web/0": "n2", "web/1": "n0", "web/2": "n3"}


@pytest.mark.parametrize("answer", [True, 1.0, "n1", -1, 99, [1]])
def test_answer_of_another_kind_is_refused(answer, monkeypatch):
    engine = engine_of("last_fit", (None,))
    monkeypatch.setattr(LastFit, "choose", lambda *_: answer)
    with pytest.raises(InvalidValueError, match="policy last_fit"):
        engine.place()


@pytest.mark.parametrize("answer", [None, 3, "all", [(0, 1)], [None]])
def test_evictions_and_orders_of_another_type_are_refused(answer, monkeypatch):
    monkeypatch.setattr(Evicting, "evict", lambda *_: answer)
    with pytest.raises(InvalidValueError, match="policy evicting: evict for row 1 = "):
        engine_of("evicting", ("n0", None)).place()
    monkeypatch.setattr(LargestFirst, "leaving", lambda *_: answer)
    with pytest.raises(InvalidValueError, match="policy largest_first: leaving of node 0 = "):
        engine_of("largest_first", ("n0",) * 7).repair()


def test_policy_cannot_change_the_offered_nodes(monkeypatch):

    def choose(_policy, _configuration, _row, nodes):
        nodes[:] = 3
        return 3

    monkeypatch.setattr(LastFit, "choose", choose)
    with pytest.raises(InvalidValueError, match=r"choose for row 6 = 3 is not allowed; expected None or one of"):
        engine_of("last_fit", ("n3",) * 6 + (None,)).place()


def test_children_that_join_their_parent_break_no_other_constraint():
    """Each constraint counts separately, even if the children broke one already; other replicas leave the node."""
    engine = engine_of("last_fit", ("n0",), extension_constraints=["children_off_low_nodes", "children_off_high_nodes"])
    for service, above, load in (("tail", "web", 1), ("lone", None, 2)):
        default_load = {Role.INSTANCE: {"cpu": load}}
        engine.update_service(Service(service, stateful=False, affinity_to=above, default_load=default_load))
        replicas = [Replica(Role.INSTANCE, "n0")]
        engine.update_partition(Partition(f"{service}/0", service=service, replicas=replicas))
    engine.update_node(Node("n0", capacities={"cpu": 3}))
    assert targets(engine.repair()) == {"lone/0": "n3"}


def test_repair_places_no_waiting_replica():
    """A constraint that lists waiting replicas as broken does not change this."""
    engine = engine_of("first_fit", ("n0", None), extension_constraints=["nowhere_but_on_odd_nodes"])
    assert targets(engine.repair()) == {"web/0": "n1"}


def test_names_of_policies_are_checked(monkeypatch):
    """The test covers unknown names, built-in names, and objects that are no policy."""

    class Annealing(LastFit):
        name = "annealing"

    class Random(LastFit):
        name = "random"

    with pytest.raises(UnknownNameError, match="unknown placement policy 'first_fot'; did you mean 'first_fit'"):
        PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy="first_fot"))
    with pytest.raises(InvalidValueError, match="policy = 3 is not allowed; expected the name of a placement policy"):
        PlbConfig(metrics=[Metric("cpu")], policy=3)
    config = PlbConfig(metrics=[Metric("cpu")])
    for one in (Annealing(), Random()):
        with pytest.raises(ConflictError, match="built-in policy"):
            PlacementAndLoadBalancing(config, extension_policy=one)
    for one in (OffEvenNodes(), LastFit):
        with pytest.raises(InvalidValueError, match="`name` and a `choose"):
            PlacementAndLoadBalancing(config, extension_policy=one)
    for name in (3, "", [], None):
        monkeypatch.setattr(LastFit, "name", name)
        with pytest.raises(InvalidValueError, match=r"extension_policy: name = .* expected a string"):
            PlacementAndLoadBalancing(config, extension_policy=LastFit())


# the verifier


class Undecided(LastFit):
    """Takes the first node in every other search."""

    name = "undecided"
    searches = 0

    def begin(self, configuration, rng):
        Undecided.searches += 1
        self.first = Undecided.searches % 2

    def choose(self, configuration, row, nodes):
        return nodes[0] if self.first else nodes[-1]


class Untidy(LastFit):
    """Applies a trial and does not undo it."""

    name = "untidy"

    def choose(self, configuration, row, nodes):
        configuration.apply(Proposal(row, int(nodes[-1])))
        return nodes[-1]


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (Stray(), InvalidValueError, "policy stray"),
        (Undecided(), AssertionError, "undecided: the same seed brings"),
        (Untidy(), AssertionError, "untidy: choose does not take back what it changes: .*node"),
    ],
)
def test_verifier_finds_errors_of_a_policy(policy, error, message):
    """The errors are a node that was not offered, a decision without a seed, and a changed configuration."""
    with pytest.raises(error, match=message):
        short_policy_test(policy)()


def test_configuration_without_description_has_no_forecast():
    known = configuration_of(engine_of("annealing", ("n0",)))
    bare = Configuration(known.problem, known.solution)
    with pytest.raises(ConflictError, match="no description"):
        bare.forecast_of(0)
