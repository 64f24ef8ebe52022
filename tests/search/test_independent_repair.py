"""Where a refresh performs one action, repairs look at each rule alone first, and stop at the first that succeeds."""

from __future__ import annotations

import pytest
from hypothesis import given

from plb import Application, Metric, Node, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.constraints.capacity import NodeViolation
from plb.extensions.configuration import Configuration
from plb.model.rules import ALL_RULES, Rule
from plb.planning.rule_priorities import rule_priorities
from plb.state.arrays import siblings_of
from plb.testing import all_clusters
from tests.engine.applications_by_hand import load_of, members, nodes_in_use
from tests.engine.breaches_by_pass import has_to_leave_by_hand, is_misplaced_by_hand
from tests.engine.refusals_by_hand import by_hand
from tests.engine.ruled_clusters import ruled_clusters
from tests.engine.stories import add_partition, engine_on, search_of
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

seeds = pytest.mark.parametrize("seed", range(6))


def crowded_and_overloaded(*, one_action: bool, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with a partition that has too many replicas in one datacentre and too much load in the other.

    No replica of the first, of load 50, fits into the second, where two free nodes hold 40.
    """
    metric = Metric("cpu", quantum=1.0, violation_threshold=1.0)
    config = PlbConfig(
        metrics=[metric],
        capacity_limit="capacity",
        capacity_constraint_priority=1,
        one_action_per_refresh=one_action,
        **settings,
    )
    engine = PlacementAndLoadBalancing(config, seed=1)
    for index, capacity in enumerate((50, 50, 50, 50, 30, 30, 40, 40)):
        domain = f"fd:/dc{index // 4}/rack{index // 2}"
        engine.update_node(Node(f"n{index}", fault_domain=domain, capacities={"cpu": capacity}))
    load = {Role.PRIMARY: {"cpu": 50}, Role.SECONDARY: {"cpu": 50}}
    engine.update_service(Service("db", target_replicas=6, default_load=load))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 5]
    add_partition(engine, "db/0", *(Replica(role, f"n{index}") for index, role in enumerate(roles)))
    for node in ("n4", "n5"):
        engine.report_load("db/0", node, {"cpu": 40})
    return engine


@seeds
def test_nodes_are_unloaded_although_the_spread_stays_broken(seed):
    """Both overloaded nodes are left, though one after the other would empty a rack; all else stays."""
    engine = crowded_and_overloaded(one_action=True)
    engine.seed = seed
    moves = {(move.source, move.target) for move in engine.repair().moves}
    assert moves in ({("n4", "n6"), ("n5", "n7")}, {("n4", "n7"), ("n5", "n6")})


@seeds
def test_next_repair_takes_the_harder_rule(seed):
    """The first repair ends with the soft rule; without any change in between, the second one repairs the spread."""
    engine = crowded_and_overloaded(one_action=True)
    engine.seed = seed
    engine.apply(engine.repair())
    assert not over_capacity(engine)
    (move,) = engine.repair().moves
    assert (move.source in ("n0", "n1", "n2", "n3"), move.target in ("n4", "n5")) == (True, True)


def test_without_the_setting_one_repair_goes_through_all_priorities():
    engine = crowded_and_overloaded(one_action=False)
    engine.apply(engine.repair())
    assert "fault_domain" not in {one.rule for one in engine.violations()}


@pytest.mark.parametrize(("one_action", "leaves"), [(True, False), (False, True)])
@seeds
def test_replicas_in_unusable_domains_leave_a_crowded_one_first(seed, one_action, leaves):
    """The one on a blocked node cannot move; with the setting, no other replica leaves in its place."""
    racks = ("dc0/r0", "dc1/r0", "dc1/r1", "dc1/r2", "dc1/r3", "dc0/r1")
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{rack}") for index, rack in enumerate(racks)]
    engine = engine_on(*nodes, one_action_per_refresh=one_action)
    engine.seed = seed
    engine.update_service(Service("db", target_replicas=5, blocked_nodes={"n2"}))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 4]
    add_partition(engine, "db/0", *(Replica(role, f"n{index}") for index, role in enumerate(roles)))
    assert bool(engine.repair().moves) is leaves


@seeds
def test_others_leave_if_more_have_to_than_are_in_unusable_domains(seed):
    """Two of six replicas have to leave; the one on the blocked node cannot, one of the others does."""
    racks = [*(f"dc1/r{index}" for index in range(6)), *(f"dc0/r{index}" for index in range(4))]
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{rack}") for index, rack in enumerate(racks)]
    engine = engine_on(*nodes, one_action_per_refresh=True)
    engine.seed = seed
    engine.update_service(Service("db", target_replicas=8, blocked_nodes={"n2"}))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 7]
    add_partition(engine, "db/0", *(Replica(role, f"n{index}") for index, role in enumerate(roles)))
    assert len(engine.repair().moves) == 1


@seeds
def test_spread_improves_by_as_many_moves_as_a_plan_may_have(seed):
    """One move does not end the breach of the partition, but two plans do."""
    engine = engine_on(*(Node(f"n{i}", fault_domain=f"fd:/{i // 4}") for i in range(8)), one_action_per_refresh=True)
    engine.seed = seed
    engine.update_service(Service("db", target_replicas=4, max_moves=1))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3]
    add_partition(engine, "db/0", *(Replica(role, f"n{index}") for index, role in enumerate(roles)))
    for _ in range(2):
        assert engine.violations()
        engine.apply(engine.repair())
    assert not engine.violations()


@seeds
@pytest.mark.parametrize("kind", ["good", "bad"])
def test_replica_that_may_not_move_may_stay_on_a_wrong_node(seed, kind):
    """Both overloaded nodes are left, whether the pinned replica of the partition is on an allowed node or not."""
    metric = Metric("cpu", quantum=1.0, violation_threshold=1.0)
    limits = {"capacity_limit": "capacity", "capacity_constraint_priority": 1}
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric], one_action_per_refresh=True, **limits), seed=seed)
    racks = ("dc0/r0", "dc0/r0", "dc0/r1", "dc0/r1", "dc1/r2", "dc1/r2", "dc1/r3", "dc1/r3", "dc1/r3", "dc0/r0")
    for index, (rack, capacity) in enumerate(zip(racks, (50, 50, 50, 50, 30, 30, 40, 40, 50, 50), strict=True)):
        properties = {"kind": kind if index == 8 else "good"}
        node = Node(f"n{index}", fault_domain=f"fd:/{rack}", capacities={"cpu": capacity}, properties=properties)
        engine.update_node(node)
    load = {Role.PRIMARY: {"cpu": 50}, Role.SECONDARY: {"cpu": 50}}
    engine.update_service(Service("db", target_replicas=8, default_load=load, placement_constraint="kind != bad"))
    replicas = [Replica(Role.SECONDARY, f"n{index}", pinned=index == 8) for index in (1, 2, 3, 4, 5, 8, 9)]
    add_partition(engine, "db/0", Replica(Role.PRIMARY, "n0"), *replicas)
    for node in ("n4", "n5"):
        engine.report_load("db/0", node, {"cpu": 40})
    assert {move.source for move in engine.repair().moves} == {"n4", "n5"}


@seeds
@pytest.mark.parametrize("priority", [0, 1])
def test_application_is_not_repaired_at_the_cost_of_its_other_rule(seed, priority):
    """It has too much load on both nodes that it may use; repairs would else alternate between its rules for ever."""
    nodes = [f"n{index}" for index in range(6)]
    engine = engine_on(*nodes, one_action_per_refresh=True, application_capacity_constraint_priority=priority)
    engine.seed = seed
    engine.update_application(Application("app", most_nodes=2, node_capacity={"cpu": 9}))
    engine.update_service(Service("web", stateful=False, application="app", default_load={Role.INSTANCE: {"cpu": 5}}))
    for index in range(4):
        add_partition(engine, f"web/{index}", Replica(Role.INSTANCE, f"n{index % 2}"))
    assert not engine.repair().moves


@seeds
def test_overload_is_not_repaired_at_the_cost_of_a_spread(seed):
    """The only node with room is in the domain of the sibling."""
    nodes = [Node(f"n{i}", fault_domain=f"fd:/{'abb'[i]}", capacities={"cpu": 4 if i == 0 else 100}) for i in range(3)]
    engine = engine_on(*nodes, one_action_per_refresh=True)
    engine.seed = seed
    load = {Role.PRIMARY: {"cpu": 5}, Role.SECONDARY: {"cpu": 5}}
    engine.update_service(Service("db", target_replicas=2, default_load=load))
    add_partition(engine, "db/0", Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1"))
    assert not engine.repair().moves


@examples(200)
@given(cluster=ruled_clusters())
def test_repair_breaks_no_hard_rule_anew(cluster):
    """A replica breaks a hard rule, a partition its spread and an application its limits only if it did before."""
    engine = cluster.engine(one_action_per_refresh=True)
    before = hard_breaches(engine)
    engine.apply(engine.repair())
    assert hard_breaches(engine) <= before


@examples(60)
@given(cluster=all_clusters())
def test_repair_overfills_no_node_anew(cluster):
    engine = cluster.engine(one_action_per_refresh=True, upgrade_domain_constraint_priority=0)
    overloaded = over_capacity(engine)
    engine.apply(engine.repair())
    assert over_capacity(engine) <= overloaded


@pytest.mark.parametrize("one_action", [True, False])
@seeds
def test_missing_replicas_take_no_part_in_a_repair(seed, one_action):
    """A child joins its parent in the domain that it leaves; the plan adds no replica of the parent on its old node.

    Nor does it add one of the child in that domain, so that the child could go to the other one, with its sibling.
    """
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{domain}") for index, domain in enumerate("aabbabab")]
    engine = engine_on(*nodes, one_action_per_refresh=one_action)
    engine.seed = seed
    loads = {"default_load": {Role.INSTANCE: {"cpu": 6}}}
    engine.update_service(Service("parent", stateful=False, target_replicas=5, **loads))
    engine.update_service(Service("child", stateful=False, target_replicas=3, affinity_to="parent", **loads))
    add_partition(engine, "parent/0", *(Replica(Role.INSTANCE, node) for node in ("n0", "n1", "n2")))
    add_partition(engine, "child/0", Replica(Role.INSTANCE, "n3"), Replica(Role.INSTANCE, "n0", pinned=True))
    assert [(move.source, move.target) for move in engine.repair().moves] == [("n3", "n2")]


def hard_breaches(engine: PlacementAndLoadBalancing) -> set[tuple[int, int, int]]:
    """Return what breaks a hard rule other than capacity: rule, row or application, and a number of its breaches."""
    run = search_of(engine)
    problem, places = run.problem, run.solution.node.tolist()
    configuration = Configuration(problem, run.solution)
    right, found = by_hand(configuration, ALL_RULES), set()
    for row, at in enumerate(places):
        if at == NOWHERE or problem.unspread[row]:
            continue
        crowded = {rule for level, rule in enumerate(problem.domain_rule.tolist()) if right.is_crowded(level, row)}
        found |= {(rule, min(siblings_of(problem, row)), 0) for rule in crowded}
        misplaced = [
            rule for rule in (Rule.PLACEMENT, Rule.AFFINITY) if is_misplaced_by_hand(configuration, 1 << rule, row)
        ]
        found |= {(rule, row, 0) for rule in misplaced}
        found |= {(Rule.EXCLUSION, row, 0)} if has_to_leave_by_hand(configuration, row) else set()
    for application, most in enumerate(problem.most_nodes.tolist()):
        used = nodes_in_use(problem, places, application)
        loads = [load_of(problem, members(problem, places, application, node)) for node in used]
        overloads = sum(int((load > problem.application_node_limit[application]).sum()) for load in loads)
        found |= {(Rule.SCALE_OUT, application, count) for count in range(len(used) - most)}
        found |= {(Rule.APPLICATION_CAPACITY, application, count) for count in range(overloads)}
    priorities = rule_priorities(engine.config)
    return {one for one in found if priorities.get(Rule(one[0]), 0) == 0}


def over_capacity(engine: PlacementAndLoadBalancing) -> set[tuple[str, str]]:
    """Return each node and metric with more load than the capacity."""
    found = [one for one in engine.violations(soft=True) if isinstance(one, NodeViolation)]
    return {(one.node, one.metric) for one in found if one.load > one.limit}


@seeds
@pytest.mark.parametrize(("one_action", "share", "moves"), [(True, 1.0, 3), (True, 0.0, 0), (False, 1.0, 0)])
def test_family_meets_on_a_node_that_none_of_it_was_on(seed, one_action, share, moves):
    """One child may not come to the parent, the other may not go with it to the first; all three may go to n2.

    The parent leaves for a node other than the child's only where rules are repaired alone, and parents may move.
    """
    setting = "move_parent_to_fix_affinity_violation"
    settings = {setting: True, f"{setting}_transition_percentage": share}
    engine = engine_on("n0", "n1", "n2", one_action_per_refresh=one_action, **settings)
    engine.seed = seed
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("near", stateful=False, affinity_to="parent", blocked_nodes={"n1"}))
    engine.update_service(Service("far", stateful=False, affinity_to="parent", blocked_nodes={"n0"}))
    for name, node in (("parent", "n0"), ("near", "n0"), ("far", "n1")):
        add_partition(engine, f"{name}/0", Replica(Role.INSTANCE, node))
    assert [move.target for move in engine.repair().moves] == ["n2"] * moves
