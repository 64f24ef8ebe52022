"""Alternatives of a replica: feasible nodes and energies against oracles, and the changes that other nodes need."""

from __future__ import annotations

import numpy as np
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
from plb.array_types import NOWHERE
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import find_refusals
from plb.extensions.configuration import Proposal
from plb.model.expressions import unmet_clauses
from plb.model.rules import BUDGETS, NO_REFUSAL, Rule
from plb.planning.explanations.diagnosis import Audit, diagnose_rule, diagnoses_of_rule
from plb.planning.rule_priorities import placement_masks, rule_priorities
from plb.testing import Cluster, all_clusters, clusters, configuration_of
from tests.engine.extension_constraints import OffLastNode
from tests.engine.oracle import energy_by_hand
from tests.engine.refusals_by_hand import by_hand
from tests.engine.stories import add_partition, engine_on, engine_with
from tests.engine.strategies import examples


def alternatives_of(engine: PlacementAndLoadBalancing, cluster: Cluster) -> list[Alternatives]:
    return [one for partition in cluster.partitions for one in engine.alternatives(partition.name)]


@examples(60)
@given(all_clusters())
def test_every_node_is_a_place_or_names_its_first_failed_rule(cluster):
    """A node that no rule excludes is a place; otherwise its first obstacle is the first rule that fails."""
    engine = cluster.engine()
    names = [node.name for node in cluster.nodes]
    for found in alternatives_of(engine, cluster):
        configuration = configuration_of(engine)
        if configuration.node_of(found.index) != NOWHERE:
            configuration.apply(Proposal(found.index, NOWHERE))
        given_up = sum(1 << rule for rule in Rule if rule.name.lower() in found.given_up)
        right = by_hand(configuration, placement_masks(engine.config)[0] & ~given_up)
        refused = {name: right.refusal(Proposal(found.index, node)) for node, name in enumerate(names)}
        closed = {one.node: one.rules[0] for one in found.closed}
        broken = {name: rule for name, rule in refused.items() if rule not in (NO_REFUSAL, *BUDGETS)}
        assert closed == {name: Rule(rule).name.lower() for name, rule in broken.items()}
        assert {place.node for place in found.places} == {*names} - {*closed}
        counts = {one.rule: one.nodes for one in found.diagnosis}
        assert counts == {rule: [*closed.values()].count(rule) for rule in counts}
        assert sum(counts.values()) == len(closed) == found.nodes - len(found.places)


@examples(60)
@given(all_clusters())
def test_energies_equal_the_formula_with_the_replica_there(cluster):
    """Total and terms agree with the formulas over sums from scratch; the lowest energy comes first."""
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
    """Alternatives of a replica that waits after an applied plan give the same rules and numbers as `Plan.unplaced`."""
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
    """A placed replica has the present probabilities; a waiting one has those with the replica on each node."""
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
def test_alternatives_do_not_change_the_engine(cluster):
    """Replicas, time and the next plan stay the same, also after a question about another time."""
    engine, alone = cluster.engine(), cluster.engine()
    engine.place(budget=60)
    alone.place(budget=60)
    for partition in cluster.partitions:
        engine.alternatives(partition.name)
        engine.alternatives(partition.name, now=86_400.0)
        assert engine.replicas(partition.name) == alone.replicas(partition.name)
    assert (engine._planner.searches, engine._planner.now) == (alone._planner.searches, alone._planner.now)
    assert engine.repair(budget=60, now=600.0) == alone.repair(budget=60, now=600.0)


@examples(40)
@given(all_clusters())
def test_many_nodes_are_diagnosed_as_each_alone(cluster):
    engine = cluster.engine()
    planner = engine._planner
    problem = planner.problem(planner.now)._replace(bounded=False, counts_departed=False)
    solution = planner.start(problem).copy()
    for row, node in enumerate(solution.node.tolist()):
        move_row(problem, solution, row, NOWHERE)
        audit = Audit(planner.state, problem, solution, rule_priorities(engine.config))
        for rule in (rule for rule in Rule if rule not in BUDGETS):
            refusing = np.full(len(engine.nodes), NO_REFUSAL)
            find_refusals(problem, solution, 1 << rule, row, refusing)
            nodes = np.flatnonzero(refusing == rule)
            alone = [diagnose_rule(audit, row, rule, nodes[[position]]) for position in range(len(nodes))]
            assert [*diagnoses_of_rule(audit, row, rule, nodes)] == alone
        move_row(problem, solution, row, node)


def test_places_are_ranked_by_their_energy():
    replicas = {"a": ("n0", 10), "b": ("n1", 30), "c": ("n2", 5), "d": ("n3", 20), "x": ("n1", 8)}
    engine = engine_with({f"n{index}": 100 for index in range(4)}, replicas, w_imbalance=10.0)
    (found,) = engine.alternatives("x")
    assert [place.node for place in found.places] == ["n2", "n0", "n1", "n3"]
    assert found.rank == 3
    assert found.places == tuple(found.places)
    assert found.places[1:] == tuple(found.places)[1:]
    assert [place.energy.movement for place in found.places] == [1.0, 1.0, 0.0, 1.0]
    saved = found.standing.energy.total - found.places[0].energy.total
    others = f"3 other nodes would take it, the best, n2, would lower the energy by {saved:g}"
    assert str(found) == f"instance of x is on n1; {others}"


def racks(**changes: Node) -> PlacementAndLoadBalancing:
    """Return an engine with one node for each rule, and web/0 with one placed and one waiting replica."""
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


def test_changes_are_listed_for_each_node():
    """A node lists all its obstacles, the nearest node first: a shortage counts its share, another rule counts one."""
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
def test_node_with_the_listed_change_is_a_place(changed):
    """A node with enough free capacity, back in service, or with the property is a place."""
    _, waits = racks(**{changed.name: changed}).alternatives("web/0")
    assert [place.node for place in waits.places] == [changed.name]


def test_overfull_node_lacks_more_than_the_load_of_the_replica():
    """The shortage counts from the load of the node, not from its limit."""
    engine = racks()
    engine.update_service(Service("big", stateful=False))
    add_partition(engine, "big/0", Replica(Role.INSTANCE, "full"))
    engine.report_load("big/0", "full", {"cpu": 10})
    _, waits = engine.alternatives("web/0")
    (change,) = next(one.changes for one in waits.closed if one.node == "full")
    assert change == "12 more cpu must be free on full (it needs 5 and 0 is free)"


def test_blocked_nodes_and_extension_constraints_are_obstacles():
    """Block list and placement constraint are separate obstacles; an extension constraint has its own name."""
    engine = engine_on("n0", "n1", "n2", "n3", objects=[OffLastNode()], extension_constraints=[OffLastNode.name])
    engine.update_service(Service("web", stateful=False, blocked_nodes=["n1"]))
    add_partition(engine, "web/0", Replica(Role.INSTANCE, "n0"))
    (found,) = engine.alternatives("web/0")
    assert {one.node: one.changes for one in found.closed} == {
        "n1": ("n1 must no longer be blocked for the service",),
        "n3": ("off last node must allow it (off last node)",),
    }
    assert {one.rule: one.nodes for one in found.diagnosis} == {"placement": 1, "off_last_node": 1}


def test_soft_rule_that_the_replica_breaks_is_not_checked_on_other_nodes():
    """Upgrade domains are soft: two replicas share one, so the third node of it is as good as any."""
    engine = engine_on(*(Node(f"n{index}", upgrade_domain=domain) for index, domain in enumerate("aaabb")))
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    add_partition(engine, "web/0", Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1"))
    first, _ = engine.alternatives("web/0")
    assert first.given_up == ("upgrade_domain",)
    assert {place.node for place in first.places} == {"n0", "n2", "n3", "n4"}
    add_partition(engine, "web/0", Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n3"))
    first, _ = engine.alternatives("web/0")
    assert first.given_up == ()
    assert [one.rules for one in first.closed] == [("exclusion",), ("upgrade_domain",)]


def test_immovable_replica_gives_its_reason():
    """The replica is pinned; a full node would not accept its own replica again."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=1.0)]), seed=3)
    for index in range(2):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}))
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(Role.INSTANCE, "n0", pinned=True))
    engine.report_load("web/0", "n0", {"cpu": 20})
    (found,) = engine.alternatives("web/0")
    assert found.immovable is Immovable.PINNED
    assert found.rank is None
    assert found.standing.node == "n0"
    assert str(found).endswith("; it may not move: pinned")
    assert "is on n0 and fits on no other of 2 nodes" in str(found)


def test_invalid_queries_are_refused():
    """An unknown partition gives the nearest name, an invalid time its range; without nodes the answer is empty."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    engine.update_service(Service("web", stateful=False))
    engine.update_partition(Partition("web/0", service="web"))
    assert engine.alternatives("web/0") == ()
    with pytest.raises(UnknownNameError, match="did you mean 'web/0'"):
        engine.alternatives("web/1")
    with pytest.raises(InvalidValueError, match="now"):
        engine.alternatives("web/0", now=float("nan"))


def test_child_needs_its_parent_on_the_node():
    """Affinity excludes every node but that of the parent, and names the parent."""
    engine = engine_on("n0", "n1", "n2")
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("child", stateful=False, affinity_to="parent"))
    add_partition(engine, "parent/0", Replica("instance", "n1"))
    add_partition(engine, "child/0", Replica("instance", "n1"))
    (found,) = engine.alternatives("child/0")
    assert [place.node for place in found.places] == ["n1"]
    assert [one.changes for one in found.closed] == [
        (f"parent must have a replica on {node} ({found.diagnosis[0]})",) for node in ("n0", "n2")
    ]


def test_preferred_locations_are_checked_if_enabled():
    """A returning replica prefers the node of its standby; other nodes would have to be preferred as well."""
    settings = {"preferred_location_constraint_priority": 0, "partially_place_services": True}
    engine = engine_on("n0", "n1", "n2", **settings)
    engine.update_service(Service("db", target_replicas=2))
    returning = Replica("secondary", "n1", state="standby", upgrade="replica_returns")
    add_partition(engine, "db/0", Replica("primary", "n0"), returning)
    waits = next(one for one in engine.alternatives("db/0") if one.standing is None)
    assert [place.node for place in waits.places] == ["n1"]
    assert {one.node: one.changes[0] for one in waits.closed} == {
        "n0": "the other replica of the partition must leave n0",
        "n2": "n2 must be a preferred location (its partition has standbys on n1)",
    }


def test_node_buffer_is_reserved_for_new_replicas():
    """A tenth of each node is reserved for new replicas: a placed replica may not use it, a waiting one may."""
    metric = Metric("cpu", quantum=1.0, node_buffer_percentage=0.1)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric], capacity_limit="capacity"), seed=3)
    for index in range(2):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 95}}))
    add_partition(engine, "web/0", Replica("instance", "n0"))
    add_partition(engine, "web/1")
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
    """Parts that a top-level && joins are reported separately; parts in parentheses or next to || as a whole."""
    found = [str(clause) for clause in unmet_clauses(constraint, properties, primary=True)]
    if unmet is None:
        whole = constraint.rpartition(" && ")[0] if constraint.startswith("(") else constraint
        assert [clause.split("'")[1] for clause in found] == [whole]
    else:
        assert found == unmet
