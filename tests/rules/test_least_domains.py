"""A least number of distinct domains: agreement with what is broken, facts, and the phases of an engine."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError, MoveKind, OnDownNode, Partition, Replica, Role, Service
from plb.ready_made import LeastDomains
from plb.testing import Cluster, configuration_of, small_clusters
from tests.machines import short_machine_of
from tests.rules.questions import RACKS, check_every_proposal, domain_of, engine_with, racks_of

pytestmark = pytest.mark.kernels

LEVELS = (1, 2, "upgrade_domain", "property:rack", "node")
NODES = st.fixed_dictionaries(
    {
        "fault_domain": st.sampled_from([None, "fd:/a/1", "fd:/a/2", "fd:/b"]),
        "upgrade_domain": st.sampled_from([None, "u0", "u1"]),
        "properties": st.sampled_from([{}, {"rack": "r0"}, {"rack": "r1"}]),
    }
)
CLUSTERS = small_clusters(nodes=NODES)


def drawn(cluster: Cluster) -> LeastDomains:
    """Return a rule whose numbers, level and groups follow from the cluster."""
    level = LEVELS[len(cluster.nodes) % len(LEVELS)]
    of = ("service", "partition")[len(cluster.partitions) % 2]
    numbers = {one.name: 1 + one.target_replicas for one in cluster.services[:1]} | {"s1": 2, "s2": 3, "absent": 2}
    return LeastDomains(numbers, level=level, of=of)


TestLeastDomainsOfEveryKind = short_machine_of(LeastDomains({}), clusters=CLUSTERS, made_for=drawn)


def oracle_of(rule: LeastDomains, group_of):

    def broken(configuration):
        found = set()
        rows = [row for row in configuration.rows.tolist() if configuration.service_of(row).name in rule.least]
        for group in {group_of(configuration, row) for row in rows}:
            members = [row for row in rows if group_of(configuration, row) == group]
            at = {row: configuration.node_of(row) for row in members}
            waiting = [row for row in members if at[row] < 0 and configuration.problem.origin[row] < 0]
            domains = {row: domain_of(configuration.node(at[row]), rule.level) for row in members if at[row] >= 0}
            least = rule.least[configuration.service_of(members[0]).name]
            most = len(set(domains.values())) + len(waiting)
            if most < min(least, len(domains) + len(waiting)):
                all_domains = list(domains.values())
                found |= {row for row, domain in domains.items() if all_domains.count(domain) > 1}
        return found

    return broken


@settings(max_examples=40, deadline=None)
@given(
    cluster=CLUSTERS,
    numbers=st.dictionaries(st.sampled_from(["s0", "s1", "s2"]), st.integers(1, 4), min_size=1),
    level=st.sampled_from(LEVELS),
    of=st.sampled_from(["service", "partition"]),
)
def test_exactly_the_proposals_that_break_it_are_refused(cluster, numbers, level, of):
    rule, configuration = LeastDomains(numbers, level=level, of=of), configuration_of(cluster.engine())

    def group_of(configuration, row):
        return configuration.service_of(row).name if of == "service" else configuration.partition_of(row)

    check_every_proposal(rule, oracle_of(rule, group_of), lambda row: group_of(configuration, row), configuration)


def test_placement_reaches_the_number_and_explains_what_it_refuses():
    """Three replicas find three racks; a fourth rack does not exist, and the fourth replica says so."""
    engine = engine_with(LeastDomains({"db": 3}), db=(["n0"], 2))
    engine.apply(engine.place(budget=300))
    assert racks_of(engine, "db/0") == ["a", "b", "c"]
    assert engine.violations() == ()
    engine = engine_with(LeastDomains({"db": 4}), db=(["n0"], 3))
    plan = engine.place(budget=300)
    assert len(plan.moves) == 2
    assert plan.unplaced[0].ruled_out["least_domains"] == 2
    assert plan.proposals.refused_by_rule["least_domains"] > 0
    assert "least domains" in plan.explain("db/0")


def test_repair_spreads_replicas_and_then_nothing_is_broken():
    """Violations name the replicas that share a rack; moves have the rule as their reason."""
    engine = engine_with(LeastDomains({"db": 3}), db=(["n0", "n1", "n2"], 0))
    assert [(one.rule, one.node) for one in engine.violations()] == [("least_domains", "n0"), ("least_domains", "n1")]
    plan = engine.repair()
    assert [(move.target, move.reason.rule) for move in plan.moves] == [("n4", "least_domains")]
    engine.apply(plan)
    assert engine.violations() == ()
    assert engine.repair().moves == ()


def test_surplus_replica_leaves_a_shared_domain():
    """The drop of the only replica of a rack is refused."""
    engine = engine_with(LeastDomains({"db": 2}), db=(["n0", "n1", "n2"], 0))
    engine.update_service(Service("db", stateful=False, target_replicas=2))
    engine.apply(engine.place(budget=300))
    assert racks_of(engine, "db/0") == ["a", "b"]


@pytest.mark.parametrize(("least", "kind"), [(2, MoveKind.PROMOTE), (3, MoveKind.VOID)])
def test_promotion_in_a_broken_group_is_refused_where_it_shares_a_domain(least, kind):
    """It is asked for as a new primary on the node of the secondary; another replica of the rack stays."""
    engine = engine_with(LeastDomains({"db": least}))
    engine.update_service(Service("db", target_replicas=3))
    returns = Replica(Role.SECONDARY, "n0", upgrade="primary_returns")
    others = [Replica(Role.SECONDARY, "n1"), Replica(Role.SECONDARY, "n2")]
    engine.update_partition(Partition("db/0", service="db", replicas=[returns, *others]))
    assert [move.kind for move in engine.place().moves] == [kind]


@pytest.mark.parametrize(
    ("state", "moves"),
    [
        ({"up": False}, False),
        ({"deactivation_intent": "pause", "deactivation_status": "safety_check_in_progress"}, False),
        ({"deactivation_intent": "restart"}, False),
        ({"deactivation_intent": "restart", "deactivation_status": "safety_check_in_progress"}, True),
    ],
)
def test_repair_moves_broken_replicas_off_nodes_that_are_evacuated(state, moves):
    """Off no other nodes that are out of service; what stands there counts in its domain."""
    engine = engine_with(LeastDomains({"db": 3}), db=(["n0", "n1", "n2"], 0))
    for node in RACKS[:2]:
        engine.update_node(attrs.evolve(node, **state))
    assert len([one for one in engine.violations() if not isinstance(one, OnDownNode)]) == 2
    plan = engine.repair()
    assert [move.target for move in plan.moves] == (["n4"] if moves else [])


def test_replica_that_makes_room_stays_where_its_group_needs_it():
    """The first rack has another node for it; without that, the new replica finds no place."""
    for rack, room in (("a", True), ("b", False)):
        engine = engine_with(LeastDomains({"db": 2}))
        for index, node in enumerate(RACKS):
            capacities = {"cpu": (10, 5, 5, 0, 0)[index]}
            domain = ("fd:/a", "fd:/b", f"fd:/{rack}", "fd:/c", "fd:/c")[index]
            engine.update_node(attrs.evolve(node, fault_domain=domain, capacities=capacities))
        for name, load in (("db", 4), ("big", 8)):
            load_of_role = {Role.INSTANCE: {"cpu": load}}
            engine.update_service(
                Service(name, stateful=False, target_replicas=2 if name == "db" else 1, default_load=load_of_role)
            )
        both = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1")]
        engine.update_partition(Partition("db/0", service="db", replicas=both))
        engine.update_partition(Partition("big/0", service="big"))
        moved = {(move.partition, move.source, move.target) for move in engine.place().moves}
        assert moved == ({("db/0", "n0", "n2"), ("big/0", None, "n0")} if room else set())


@pytest.mark.parametrize(
    ("arguments", "fields", "message"),
    [
        (["db"], {}, r"constraint least_domains: least = .* expected a mapping"),
        ({"db": 0}, {}, r"least\[db\] = 0 is not allowed; expected a whole number >= 1"),
        ({"db": 1.5}, {}, r"least\[db\] = 1.5"),
        ({"": 1}, {}, "service in least"),
        ({3: 1}, {}, "service in least = 3"),
        ({"db": 1}, {"level": 0}, "level = 0 is not allowed; expected a depth"),
        ({"db": 1}, {"level": True}, "level = True"),
        ({"db": 1}, {"level": "rack"}, "level = 'rack' .* 'upgrade_domain'"),
        ({"db": 1}, {"level": "property:"}, "level = 'property:'"),
        ({"db": 1}, {"of": "node"}, "of = 'node' is not allowed; expected 'service' or 'partition'"),
        ({"db": 1}, {"name": ""}, "name = ''"),
    ],
)
def test_invalid_arguments_are_refused(arguments, fields, message):
    with pytest.raises(InvalidValueError, match=message):
        LeastDomains(arguments, **fields)
