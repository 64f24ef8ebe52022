"""Replicas beside those of a service they depend on: agreement with what is broken, facts, and phases of an engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import (
    InvalidValueError,
    Metric,
    MoveKind,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.ready_made import SameDomain
from plb.testing import configuration_of
from tests.machines import short_machine_of
from tests.rules.questions import check_every_proposal, domain_of, engine_with, racks_of
from tests.rules.test_least_domains import CLUSTERS, LEVELS

pytestmark = pytest.mark.kernels

NEEDS = [
    {"s0": "s1"},
    {"s1": "s0", "s2": ["s0", "s1"]},
    {"s0": "s1", "s1": {"s2"}, "s3": "absent"},
    {"s0": ["s1", "s2", "absent"], "s1": ["s0", "s2"], "s2": ["s1"]},
]


def drawn(cluster) -> SameDomain:
    """Return a rule whose dependencies and level follow from the cluster."""
    return SameDomain(NEEDS[len(cluster.nodes) % 4], level=LEVELS[len(cluster.partitions) % len(LEVELS)])


TestSameDomainOfEveryKind = short_machine_of(SameDomain({}), clusters=CLUSTERS, made_for=drawn)


def oracle_of(rule: SameDomain):

    def broken(configuration):
        rows = configuration.rows.tolist()
        service = {row: configuration.service_of(row).name for row in rows}
        placed = [row for row in rows if configuration.node_of(row) >= 0]
        domain = {row: domain_of(configuration.node(configuration.node_of(row)), rule.level) for row in placed}
        return {
            row
            for row in placed
            if any(
                domain[row] not in {domain[one] for one in placed if service[one] == name}
                for name in rule.needs.get(service[row], ())
                if name in service.values()
            )
        }

    return broken


@settings(max_examples=40, deadline=None)
@given(cluster=CLUSTERS, needs=st.sampled_from(NEEDS), level=st.sampled_from(LEVELS))
def test_exactly_the_proposals_that_break_it_are_refused(cluster, needs, level):
    rule, configuration = SameDomain(needs, level=level), configuration_of(cluster.engine())
    check_every_proposal(rule, oracle_of(rule), lambda row: configuration.service_of(row).name, configuration)


FRONT = SameDomain({"web": "db"})


def test_placement_goes_to_the_domains_of_the_other_service():
    """Without a replica of that service there is no place, and the plan names the rule."""
    engine = engine_with(FRONT, db=(["n2"], 0), web=([], 2))
    engine.apply(engine.place(budget=300))
    assert racks_of(engine, "web/0") == ["b", "b"]
    engine = engine_with(FRONT, db=(["n2"], 0), web=([], 3))
    plan = engine.place(budget=300)
    assert len(plan.moves) == 2
    assert plan.unplaced[0].ruled_out == {"exclusion": 2, "same_domain": 3}
    assert plan.proposals.refused_by_rule["same_domain"] > 0


def test_repair_brings_replicas_to_the_other_service():
    engine = engine_with(FRONT, db=(["n2"], 0), web=(["n0", "n3"], 0))
    assert [str(one) for one in engine.violations()] == ["instance of web/0 on node n0 breaks same domain"]
    plan = engine.repair()
    assert [(move.source, move.target, move.reason.rule) for move in plan.moves] == [("n0", "n2", "same_domain")]
    engine.apply(plan)
    assert engine.violations() == ()


def test_service_that_does_not_exist_is_not_needed():
    """The rule begins when the service has replicas, placed or missing."""
    engine = engine_with(FRONT, web=(["n0"], 0))
    assert engine.violations() == ()
    engine.update_service(Service("db", stateful=False))
    engine.update_partition(Partition("db/0", service="db"))
    assert len(engine.violations()) == 1


def test_missing_replica_beside_a_mark_of_an_upgrade_counts():
    """It is placed while no other replica of its partition may move, and keeps the rule."""
    engine = engine_with(FRONT, db=(["n0"], 0))
    engine.update_service(Service("web", target_replicas=3))
    marked = [Replica(Role.PRIMARY, "n0", upgrade="swap_out"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("web/0", service="web", replicas=marked))
    plan = engine.place(budget=300)
    assert [move.kind for move in plan.moves] == [MoveKind.SWAP]
    assert plan.unplaced[0].ruled_out["same_domain"] == 3


def test_missing_replica_of_another_service_domain_counts():
    """What a service needs is searched apart from it, as both have no metric in common."""
    metrics = [Metric("cpu"), Metric("disk")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics), extension_constraints=[FRONT])
    engine.update_node(Node("n0"))
    for name, metric in (("web", "cpu"), ("db", "disk")):
        engine.update_service(Service(name, stateful=False, metrics={metric: 1.0}))
        engine.update_partition(Partition(f"{name}/0", service=name))
    plan = engine.place(budget=300)
    assert [(move.partition, move.target) for move in plan.moves] == [("db/0", "n0")]
    engine.apply(plan)
    assert len(engine.place().moves) == 1


@pytest.mark.parametrize(
    ("needs", "fields", "message"),
    [
        ("db", {}, "constraint same_domain: needs = 'db' is not allowed; expected a mapping"),
        ({"web": 1}, {}, r"needs\[web\] = 1"),
        ({"": "db"}, {}, "service in needs"),
        ({"web": "web"}, {}, r"needs\[web\] = 'web'"),
        ({"web": ["db", "web"]}, {}, r"needs\[web\] = 'web'"),
        ({"web": ["db", 1]}, {}, r"needs\[web\] = 1"),
        ({"web": "db"}, {"level": "room"}, "level = 'room'"),
        ({"web": "db"}, {"level": 1.0}, "level = 1.0"),
        ({"web": "db"}, {"name": " "}, "name = ' '"),
    ],
)
def test_invalid_arguments_are_refused(needs, fields, message):
    with pytest.raises(InvalidValueError, match=message):
        SameDomain(needs, **fields)
