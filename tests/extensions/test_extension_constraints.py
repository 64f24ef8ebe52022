"""Constraints of users: every phase keeps them, and reports name them as they name the built-in rules."""

from __future__ import annotations

import pytest

from plb import (
    BrokenConstraint,
    MoveKind,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    Replica,
    Role,
    Service,
)
from tests.engine.extension_constraints import CONSTRAINTS, OnePrimaryANode
from tests.engine.stories import add_partition, engine_on, four_nodes, places_of
from tests.machines import short_machine_of

pytestmark = pytest.mark.kernels

LOADS = {Role.PRIMARY: {"cpu": 10.0}, Role.SECONDARY: {"cpu": 2.0}}

TestOnePrimaryANode = short_machine_of(OnePrimaryANode())


def test_no_phase_breaks_a_constraint_and_repair_restores_it():
    """Placement and balancing do not use the node; repair moves replicas off it and gives the reason."""
    engine = four_nodes(objects=CONSTRAINTS, extension_constraints=["off_last_node"])
    engine.apply(engine.place())
    assert places_of(engine)[4] != "n3"
    plan = engine.repair()
    assert [(move.source, move.reason.rule, move.reason.node) for move in plan.moves] == [("n3", "off_last_node", "n3")]
    engine.apply(plan)
    assert "n3" not in places_of(engine)
    assert engine.repair().moves == ()
    engine.report_load("web/0", places_of(engine)[0], {"cpu": 12})
    plan = engine.balance()
    engine.apply(plan)
    assert "n3" not in places_of(engine)
    assert plan.proposals.refused_by_rule["off_last_node"] > 0


def test_replica_that_only_a_constraint_excludes_names_it():
    engine = four_nodes(("n0", "n1", "n2", None, None), objects=CONSTRAINTS, extension_constraints=["off_last_node"])
    for index in range(3):
        engine.report_load(f"web/{index}", f"n{index}", {"cpu": 18})
    unplaced = engine.place().unplaced
    assert len(unplaced) == 2
    assert ("off_last_node", 1) in [(one.rule, one.nodes) for one in unplaced[0].diagnosis]


def primary(node: str, **fields) -> Replica:
    return Replica(Role.PRIMARY, node, **fields)


def secondary(node: str, **fields) -> Replica:
    return Replica(Role.SECONDARY, node, **fields)


def database_engine(*constraints: str, replicas: int = 3, **settings) -> PlacementAndLoadBalancing:
    """Return an engine of four nodes and a stateful service; a primary has load 10, a secondary 2."""
    engine = engine_on("n0", "n1", "n2", "n3", objects=CONSTRAINTS, extension_constraints=constraints, **settings)
    engine.update_service(Service("db", target_replicas=replicas, default_load=LOADS))
    return engine


def texts_of(plan) -> list[str]:
    return [str(move) for move in plan.moves]


class Together:
    """The replicas of web and of beside are on one side of the cluster: on n0 and n1, or on n2 and n3."""

    name = "together"

    def refuses(self, configuration, proposal):
        back = configuration.apply(proposal)
        broken = bool(self.broken(configuration))
        configuration.apply(back)
        return broken

    def broken(self, configuration):
        rows = [row for row in configuration.rows if configuration.service_of(row).name in ("web", "beside")]
        return rows if len({configuration.node_of(row) // 2 for row in rows}) > 1 else []


def test_moves_that_are_allowed_only_together_are_made_together():
    """A parent and its child cross to the empty side in one proposal; alone, each would break the constraint."""
    settings = {"w_imbalance": 1000.0, "max_percentage_to_move": 1.0, "checks": "step"}
    engine = engine_on("n0", "n1", "n2", "n3", objects=[Together()], extension_constraints=["together"], **settings)
    load = {Role.INSTANCE: {"cpu": 10}}
    engine.update_service(Service("web", stateful=False, default_load=load))
    engine.update_service(Service("beside", stateful=False, affinity_to="web", default_load=load))
    engine.update_service(Service("fixed", stateful=False, default_load=load))
    for name, node in (("web/0", "n0"), ("beside/0", "n0"), ("fixed/0", "n0"), ("fixed/1", "n1")):
        replica = Replica(Role.INSTANCE, node, pinned=name.startswith("fixed"))
        engine.update_partition(Partition(name, service=name.partition("/")[0], replicas=[replica]))
    plan = engine.balance(budget=2000)
    assert {move.partition for move in plan.moves} == {"web/0", "beside/0"}
    assert {move.target for move in plan.moves} in ({"n2"}, {"n3"})


@pytest.mark.parametrize(("constraints", "taker"), [((), "n1"), (("one_primary_a_node",), "n2")])
def test_role_is_handed_over_only_where_a_constraint_allows_it(constraints, taker):
    """The best secondary is on a node with another primary; the plan counts what the constraint refused."""
    engine = database_engine(*constraints)
    add_partition(engine, "db/other", primary("n1"), missing=0)
    engine.report_load("db/other", "n1", {"cpu": 0})
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    engine.report_load("db/0", "n1", {"cpu": 0})
    plan = engine.place()
    assert texts_of(plan) == [f"swap primary of db/0 from n0 to {taker}"]
    assert plan.proposals.refused_by_rule.get("one_primary_a_node", 0) == len(constraints)


def test_role_stays_if_a_constraint_allows_no_other_node():
    """The plan counts the refusal, and does not relax a hard constraint as it relaxes soft rules."""
    engine = database_engine("one_primary_a_node", replicas=2)
    add_partition(engine, "db/other", primary("n1"), missing=0)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"))
    plan = engine.place()
    assert plan.moves == ()
    assert plan.proposals.refused_by_rule["one_primary_a_node"] > 0


@pytest.mark.parametrize(("constraints", "taker"), [((), "n1"), (("off_last_node",), "n2")])
def test_aligned_primaries_swap_together_only_if_all_of_them_may(constraints, taker):
    engine = database_engine(*constraints, check_aligned_affinity_for_upgrade=True)
    engine.update_service(Service("child", target_replicas=3, affinity_to="db", default_load=LOADS))
    places = ["n3" if taker == "n2" else "n1", "n2"]
    marked = primary("n0", upgrade="swap_out")
    add_partition(engine, "db/0", marked, *map(secondary, places))
    add_partition(engine, "child/0", primary("n0"), *map(secondary, places))
    for name in ("db/0", "child/0"):
        engine.report_load(name, places[0], {"cpu": 0})
    plan = engine.place()
    assert {move.target for move in plan.moves} == {taker}
    assert sorted(move.partition for move in plan.moves) == ["child/0", "db/0"]


@pytest.mark.parametrize(("constraints", "kind"), [((), MoveKind.PROMOTE), (("one_primary_a_node",), MoveKind.VOID)])
def test_secondary_is_promoted_only_where_a_constraint_allows_it(constraints, kind):
    """It stays on its node, and only its role would break the constraint."""
    engine = database_engine(*constraints, replicas=2)
    add_partition(engine, "db/other", primary("n0"), missing=0)
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"))
    assert [move.kind for move in engine.place().moves] == [kind]


def test_promotions_and_new_primaries_of_one_plan_keep_to_a_constraint_together():
    """Each alone may be on n0, the only node that accepts new replicas or has a marked secondary."""
    engine = database_engine("one_primary_a_node", replicas=1)
    for name in ("n1", "n2", "n3"):
        engine.update_node(Node(name, up=False))
    for index in range(2):
        add_partition(engine, f"db/{index}", secondary("n0", upgrade="primary_returns"), missing=0)
    add_partition(engine, "db/new")
    plan = engine.place()
    assert [(move.kind, move.partition) for move in plan.moves] == [(MoveKind.PROMOTE, "db/0"), (MoveKind.VOID, "db/1")]
    assert plan.unplaced[0].ruled_out == {"node": 3, "one_primary_a_node": 1}
    engine.apply(plan)
    assert engine.violations() == ()


@pytest.mark.parametrize(("constraints", "source"), [((), "n1"), (("anchored",), "n2")])
def test_surplus_is_dropped_only_from_nodes_that_a_constraint_allows(constraints, source):
    """The drop of the replica on n1 would leave the least energy."""
    engine = database_engine(*constraints, replicas=2)
    add_partition(engine, "db/other", secondary("n1"), missing=0)
    add_partition(engine, "db/0", primary("n0"), secondary("n1"), secondary("n2"))
    assert texts_of(engine.place()) == [f"drop secondary of db/0 from {source}"]


def test_surplus_that_a_constraint_keeps_stays_and_is_counted_as_refused():
    """The primary is never dropped, and the secondary never leaves n1."""
    engine = database_engine("anchored", replicas=1)
    add_partition(engine, "db/0", primary("n0"), secondary("n1"))
    plan = engine.place()
    assert plan.moves == ()
    assert plan.proposals.refused_by_rule["anchored"] > 0


def test_violations_list_every_broken_constraint():
    """They come by name, partition and row, after the built-in rules; a waiting replica breaks none."""
    engine = database_engine("off_last_node", "one_primary_a_node", replicas=2)
    assert engine.violations() == ()
    engine.update_service(Service("web", stateful=False, blocked_nodes=["n2"]))
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n2")]))
    for index in range(2):
        add_partition(engine, f"db/{index}", primary("n3"))
    misplaced, *refused = engine.violations()
    rows = [engine.replicas(f"db/{index}")[0].index for index in range(2)]
    assert misplaced.rule == "placement"
    assert refused == [
        BrokenConstraint(name, f"db/{index}", Role.PRIMARY, "n3", row)
        for name in ("off_last_node", "one_primary_a_node")
        for index, row in enumerate(rows)
    ]
    assert str(refused[0]) == "primary of db/0 on node n3 breaks off last node"


def test_all_or_nothing_placement_reports_the_nodes_that_a_constraint_excluded():
    engine = database_engine("off_last_node", replicas=4, partially_place_services=False)
    add_partition(engine, "db/0")
    unplaced = engine.place().unplaced
    assert [(one.together.found, one.together.requested) for one in unplaced] == [(3, 4)] * 4
    assert unplaced[0].ruled_out == {"off_last_node": 1}
    assert unplaced[-1].ruled_out == {"exclusion": 3, "off_last_node": 1}
