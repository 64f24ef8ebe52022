"""Where else a replica could stand: verdicts and energies against oracles, and what would have to change."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from plb import (
    Alternatives,
    Immovable,
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
from plb.model.expressions import unmet_clauses
from plb.testing import Cluster, all_clusters, clusters, configuration_of
from tests.engine.extension_constraints import OffLastNode
from tests.engine.fingerprint import snapshot
from tests.engine.oracle import energy_by_hand, first_rule_failed, hard_kinds, placement_of
from tests.engine.strategies import examples

DOMAINS = ("fault_domain", "upgrade_domain")


def alternatives_of(engine: PlacementAndLoadBalancing, cluster: Cluster) -> list[Alternatives]:
    """Return the alternatives of all replicas of a cluster."""
    return [one for partition in cluster.partitions for one in engine.alternatives(partition.name)]


def kinds_asked(config: PlbConfig, found: Alternatives) -> list[str]:
    """Return the kinds of domains that were asked: those that are on and not given up."""
    on = [name for name in DOMAINS if getattr(config, f"{name}_constraint_priority") >= 0]
    return [name.removesuffix("_domain") for name in on if name not in found.given_up]


@examples(100)
@given(all_clusters())
def test_every_node_is_a_place_or_closed_by_the_rule_that_it_fails_first(cluster):
    """A node is a place if what the user said rules nothing out, else the first of its obstacles is that rule."""
    engine = cluster.engine()
    standing = placement_of(engine, cluster)
    for found in alternatives_of(engine, cluster):
        without = {**standing, found.index: attrs.evolve(standing[found.index], node=None)}
        kinds = kinds_asked(engine.config, found)
        assert set(hard_kinds(engine.config)) <= set(kinds), "hard rules are not given up"
        closed = {one.node: one.rules[0] for one in found.closed}
        assert sorted([*closed, *(place.node for place in found.places)]) == sorted(node.name for node in cluster.nodes)
        for node in cluster.nodes:
            said = closed.get(node.name)
            rule = first_rule_failed(cluster, engine.config, kinds, standing, without, found.index, node)
            assert ("domain" if said in DOMAINS else said) == rule, (found, node.name)
        counts = {one.rule: one.nodes for one in found.diagnosis}
        assert counts == {rule: [*closed.values()].count(rule) for rule in counts}
        assert sum(counts.values()) == len(closed) == found.nodes - len(found.places)


@examples(100)
@given(all_clusters())
def test_energies_are_those_of_the_formula_with_the_replica_there(cluster):
    """Total and terms agree with the formulas over sums from scratch; the lowest comes first."""
    engine = cluster.engine()
    problem = configuration_of(engine).problem
    names = [node.name for node in cluster.nodes]
    replicas = sum(not r.leaving for p in cluster.partitions for r in engine.replicas(p.name))
    for found in alternatives_of(engine, cluster):
        standing = [] if found.standing is None else [found.standing]
        for place in (*found.places, *standing):
            node = problem.origin.copy()
            node[found.index] = names.index(place.node)
            by_hand = energy_by_hand(engine.config, problem, node, replicas)
            said = {"total": place.energy.total, **place.energy.terms}
            assert said == pytest.approx(by_hand, rel=1e-9, abs=1e-9)
        totals = [place.energy.total for place in found.places]
        assert totals == sorted(totals)


@examples(60)
@given(all_clusters())
def test_refused_replicas_are_reported_as_by_placement(cluster):
    """What waits after a plan was carried out is ruled out by the rules, and with the numbers, of `Plan.unplaced`."""
    engine = cluster.engine(move_existing_replica_for_placement=False)
    plan = engine.place(budget=120)
    engine.apply(plan)
    waiting = [one for one in alternatives_of(engine, cluster) if one.standing is None]
    refused = {(one.partition, one.role): one for one in plan.unplaced if one.together is None}
    for found in waiting:
        unplaced = refused.get((found.partition, found.role))
        if unplaced is not None:
            assert found.diagnosis == unplaced.diagnosis
            assert found.given_up == unplaced.given_up
            assert found.rank is None


@examples(60)
@given(clusters(with_history=True))
def test_probabilities_are_those_of_the_engine(cluster):
    """Where a replica stands, as it stands; where one waits, as if it stood there."""
    engine = cluster.engine()
    now = engine.violation_probabilities()
    for partition in cluster.partitions:
        for found in engine.alternatives(partition.name):
            if found.standing is not None:
                assert found.standing.violation_probability == now[found.standing.node]
                continue
            with_it = engine.violation_probabilities(partition=partition.name)
            first = next(one.index for one in engine.replicas(partition.name) if one.node is None)
            for place in found.places if found.index == first else ():
                assert place.violation_probability == with_it[place.node]


@examples(40)
@given(all_clusters())
def test_asking_leaves_the_engine_exactly_as_it_was(cluster):
    """All that it knows is as before, also when the question is about another time; so is its next plan."""
    engine, alone = cluster.engine(), cluster.engine()
    engine.place(budget=60)
    alone.place(budget=60)
    before = snapshot(engine)
    for partition in cluster.partitions:
        engine.alternatives(partition.name)
        engine.alternatives(partition.name, now=86_400.0)
    assert snapshot(engine) == before
    assert engine.repair(budget=60, now=600.0) == alone.repair(budget=60, now=600.0)


def test_the_present_node_is_evaluated_by_a_twin_cluster():
    """On four equal nodes the energies are those of engines that were told of the replica on each of them."""
    loads = {"n0": 10.0, "n1": 30.0, "n2": 5.0, "n3": 20.0}

    def engine(node: str) -> PlacementAndLoadBalancing:
        made = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
        for name in loads:
            made.update_node(Node(name, capacities={"cpu": 100}))
        made.update_service(Service("web", stateful=False))
        for index, (name, load) in enumerate(loads.items()):
            made.update_partition(Partition(f"web/{index}", service="web", replicas=[Replica("instance", name)]))
            made.report_load(f"web/{index}", name, {"cpu": load})
        made.update_partition(Partition("web/x", service="web", replicas=[Replica("instance", node)]))
        made.report_load("web/x", node, {"cpu": 8.0})
        return made

    (found,) = engine("n1").alternatives("web/x")
    assert [place.node for place in found.places] == ["n2", "n0", "n1", "n3"]
    for place in found.places:
        there = engine(place.node).balance(budget=0).energy_before
        assert place.energy.imbalance == pytest.approx(there.imbalance)
        assert place.energy.total == pytest.approx(there.total + place.energy.movement)
    assert found.rank == 3
    assert [place.energy.movement for place in found.places] == [1.0, 1.0, 0.0, 1.0]
    saved = found.standing.energy.total - found.places[0].energy.total
    others = f"3 other nodes would take it, the best, n2, would lower the energy by {saved:g}"
    assert str(found) == f"instance of web/x stands on n1; {others}"


def racks(**changes: Node) -> PlacementAndLoadBalancing:
    """Return an engine with one node for each rule, and web/0 with one replica that stands and one that waits."""
    engine = PlacementAndLoadBalancing(
        PlbConfig(metrics=[Metric("cpu", quantum=1.0)], capacity_limit="capacity"), seed=3
    )
    nodes = {
        "down": Node("down", fault_domain="fd:/a", properties={"zone": "z1"}, up=False),
        "taken": Node("taken", fault_domain="fd:/b", properties={"zone": "z1"}),
        "wrong": Node("wrong", fault_domain="fd:/a", properties={"zone": "z0"}),
        "crowded": Node("crowded", fault_domain="fd:/b", properties={"zone": "z1"}),
        "full": Node("full", fault_domain="fd:/c", properties={"zone": "z1"}, capacities={"cpu": 3}),
        "both": Node("both", fault_domain="fd:/d", properties={}, capacities={"cpu": 1}),
    }
    for node in (nodes | changes).values():
        engine.update_node(node)
    load = {Role.INSTANCE: {"cpu": 5}}
    constraint = "zone == z1 && (zone ^ z || size > 3)"
    engine.update_service(
        Service("web", stateful=False, target_replicas=2, placement_constraint=constraint, default_load=load)
    )
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "taken")]))
    return engine


def test_what_would_have_to_change_is_said_of_each_node():
    """All obstacles of a node, the nearest node first: a shortage counts its share, each other rule one."""
    _, waits = racks().alternatives("web/0")
    said = {one.node: one.changes for one in waits.closed}
    assert said == {
        "full": ("2 more cpu must be free on full (it needs 5 and 3 is free)",),
        "down": ("down must be back in service (it is down)",),
        "taken": ("the other replica of the partition must leave taken",),
        "wrong": ("'zone == z1' must hold there (zone is 'z0')",),
        "crowded": ("a replica of the partition must leave fd:/b (fd:/b holds 1 and may hold 1)",),
        "both": (
            "'zone == z1' must hold there (the node has no zone)",
            "'(zone ^ z || size > 3)' must hold there (the node has no zone, the node has no size)",
            "4 more cpu must be free on both (it needs 5 and 1 is free)",
        ),
    }
    assert list(said) == ["full", "down", "taken", "wrong", "crowded", "both"]
    assert [one.distance for one in waits.closed] == [0.4, 1.0, 1.0, 1.0, 1.0, 1.8]
    assert waits.nearest == waits.closed, "no two of them fail the same rules"
    assert waits.places == ()
    assert str(waits).startswith("instance of web/0 is not placed and fits on none of 6 nodes; ruled out 1 by node")


@pytest.mark.parametrize(
    "changed",
    [
        Node("full", fault_domain="fd:/c", properties={"zone": "z1"}, capacities={"cpu": 5}),
        Node("down", fault_domain="fd:/a", properties={"zone": "z1"}),
        Node("wrong", fault_domain="fd:/a", properties={"zone": "z1"}),
        Node("both", fault_domain="fd:/d", properties={"zone": "z1"}, capacities={"cpu": 5}),
    ],
    ids=lambda node: node.name,
)
def test_the_change_that_is_asked_for_opens_the_node(changed):
    """With just the missing room, back in service, or with the property, the node is a place."""
    _, waits = racks(**{changed.name: changed}).alternatives("web/0")
    assert [place.node for place in waits.places] == [changed.name]


def test_a_node_that_is_too_full_already_needs_more_than_the_replica():
    """What is missing counts from where the node stands, not from its limit."""
    engine = racks()
    engine.update_service(Service("big", stateful=False))
    engine.update_partition(Partition("big/0", service="big", replicas=[Replica(Role.INSTANCE, "full")]))
    engine.report_load("big/0", "full", {"cpu": 10})
    _, waits = engine.alternatives("web/0")
    (change,) = next(one.changes for one in waits.closed if one.node == "full")
    assert change == "12 more cpu must be free on full (it needs 5 and 0 is free)"


def test_blocked_nodes_and_extension_constraints_are_obstacles():
    """A block list is told apart from the placement constraint; a constraint of the user's own goes by its name."""
    config = PlbConfig(metrics=[Metric("cpu")], extension_constraints=[OffLastNode.name])
    engine = PlacementAndLoadBalancing(config, seed=3)
    for index in range(4):
        engine.update_node(Node(f"n{index}"))
    engine.update_service(Service("web", stateful=False, blocked_nodes=["n1"]))
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
    (found,) = engine.alternatives("web/0")
    assert {one.node: one.changes for one in found.closed} == {
        "n1": ("n1 must no longer be blocked for the service",),
        "n3": ("off last node must allow it (off last node)",),
    }
    assert {one.rule: one.nodes for one in found.diagnosis} == {"placement": 1, "off_last_node": 1}


def test_a_soft_rule_that_the_replica_breaks_is_not_asked_of_other_nodes():
    """Upgrade domains are soft: two replicas stand in one, so that the third of its nodes is as good as any."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    for index, domain in enumerate("aaabb"):
        engine.update_node(Node(f"n{index}", upgrade_domain=domain))
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    together = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1")]
    engine.update_partition(Partition("web/0", service="web", replicas=together))
    first, _ = engine.alternatives("web/0")
    assert first.given_up == ("upgrade_domain",)
    assert {place.node for place in first.places} == {"n0", "n2", "n3", "n4"}
    apart = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n3")]
    engine.update_partition(Partition("web/0", service="web", replicas=apart))
    first, _ = engine.alternatives("web/0")
    assert first.given_up == ()
    assert [one.rules for one in first.closed] == [("exclusion",), ("upgrade_domain",)]


def test_a_replica_that_may_not_move_says_why():
    """Pinned here; a replica on a full node would not be taken there again."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=1.0)]), seed=3)
    for index in range(2):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}))
    engine.update_service(Service("web", stateful=False))
    pinned = [Replica(Role.INSTANCE, "n0", pinned=True)]
    engine.update_partition(Partition("web/0", service="web", replicas=pinned))
    engine.report_load("web/0", "n0", {"cpu": 20})
    (found,) = engine.alternatives("web/0")
    assert found.immovable is Immovable.PINNED
    assert found.rank is None
    assert found.standing.node == "n0"
    assert str(found).endswith("; it may not move: pinned")
    assert "stands on n0 and fits on no other of 2 nodes" in str(found)


def test_questions_about_nothing_are_refused():
    """An unknown partition gives the nearest name, a time that is no number its range; without nodes there is none."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    engine.update_service(Service("web", stateful=False))
    engine.update_partition(Partition("web/0", service="web"))
    assert engine.alternatives("web/0") == ()
    with pytest.raises(UnknownNameError, match="did you mean 'web/0'"):
        engine.alternatives("web/1")
    with pytest.raises(InvalidValueError, match="now"):
        engine.alternatives("web/0", now=float("nan"))


def test_a_child_apart_from_its_parent_needs_the_parent_there():
    """An affinity closes every node but that of the parent, and says whom the child follows."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    for index in range(3):
        engine.update_node(Node(f"n{index}"))
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("child", stateful=False, affinity_to="parent"))
    engine.update_partition(Partition("parent/0", service="parent", replicas=[Replica("instance", "n1")]))
    engine.update_partition(Partition("child/0", service="child", replicas=[Replica("instance", "n1")]))
    (found,) = engine.alternatives("child/0")
    assert [place.node for place in found.places] == ["n1"]
    assert [one.changes for one in found.closed] == [
        (f"parent must have a replica on {node} ({found.diagnosis[0]})",) for node in ("n0", "n2")
    ]


def test_preferred_locations_are_asked_where_they_are_on():
    """A replica that comes back prefers the node of its standby; others would have to be preferred, too."""
    engine = PlacementAndLoadBalancing(
        PlbConfig(metrics=[Metric("cpu")], preferred_location_constraint_priority=0, partially_place_services=True),
        seed=3,
    )
    for index in range(3):
        engine.update_node(Node(f"n{index}"))
    engine.update_service(Service("db", target_replicas=2))
    returning = [Replica("primary", "n0"), Replica("secondary", "n1", state="standby", upgrade="replica_returns")]
    engine.update_partition(Partition("db/0", service="db", replicas=returning))
    waits = next(one for one in engine.alternatives("db/0") if one.standing is None)
    assert [place.node for place in waits.places] == ["n1"]
    assert {one.node: one.changes[0] for one in waits.closed} == {
        "n0": "the other replica of the partition must leave n0",
        "n2": "n2 must be a preferred location (its partition has standbys on n1)",
    }


def test_the_buffer_of_nodes_is_closed_to_what_moves():
    """A tenth of each node is kept for new replicas: one that stands elsewhere may not use it, one that waits may."""
    metric = Metric("cpu", quantum=1.0, node_buffer_percentage=0.1)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric], capacity_limit="capacity"), seed=3)
    for index in range(2):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 95}}))
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica("instance", "n0")]))
    engine.update_partition(Partition("web/1", service="web"))
    (stands,), (waits,) = engine.alternatives("web/0"), engine.alternatives("web/1")
    assert [one.changes for one in stands.closed] == [
        ("5 more cpu must be free on n1 (it needs 95 and 90 is free)",),
    ]
    assert stands.rank == 1
    assert [place.node for place in waits.places] == ["n1"]


@pytest.mark.parametrize(
    ("constraint", "properties", "unmet"),
    [
        ("zone == z1", {"zone": "z1"}, []),
        ("zone == z1", {"zone": "z2"}, ["'zone == z1' must hold there (zone is 'z2')"]),
        ("zone == z1 && size > 3", {"zone": "z1", "size": "2"}, ["'size > 3' must hold there (size is '2')"]),
        ("(a == 1 && b == 2) && c != 3", {"a": "1", "c": "4"}, None),
        ("a == 1 || b == 2 && c == 3", {}, None),
        ("FDPolicy ~ Ignore && a == 1", {}, ["'a == 1' must hold there (the node has no a)"]),
        ("!(a == 1)", {"a": "1"}, ["'!(a == 1)' must hold there (a is '1')"]),
        ("^P zone == z1", {"zone": "z2"}, ["'^P zone == z1' must hold there (zone is 'z2')"]),
        ("!^P a ^ 1 && b == 2", {"a": "12", "b": "2"}, ["'!^P a ^ 1' must hold there (a is '12')"]),
        ("", {}, []),
    ],
)
def test_clauses_that_do_not_hold_are_reported(constraint, properties, unmet):
    """Parts that a top-level && joins are told apart; within parentheses, or beside ||, the whole is told."""
    found = [str(clause) for clause in unmet_clauses(constraint, properties, primary=True)]
    if unmet is None:
        whole = constraint.rpartition(" && ")[0] if constraint.startswith("(") else constraint
        assert [clause.split("'")[1] for clause in found] == [whole]
    else:
        assert found == unmet
