"""The lists of what is broken, and the reasons of moves, equal the definitions, wherever the replicas are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    Metric,
    Node,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    ReplicaState,
    Role,
    Service,
)
from plb.array_types import NOWHERE
from plb.constraints.application_capacity import overfull
from plb.constraints.application_sums import gains_too_much, growth_with_reservations
from plb.constraints.capacity import excess_of, is_overloaded, overloads
from plb.constraints.domains import excess_in_domain, others_leave_first
from plb.constraints.rules import REASONS_IN_ORDER, description_of
from plb.constraints.scale_out import broken_applications
from plb.extensions.configuration import Proposal
from plb.model.rules import ALL_RULES, Rule
from plb.search.repair.breaches import broken_rules
from plb.testing import configuration_of
from tests.engine.applications_by_hand import (
    kept_free,
    leaving_load,
    load_of,
    members,
    nodes_in_use,
    standing,
    without_replaced,
)
from tests.engine.listings_by_hand import (
    Situation,
    apart_of,
    children_apart,
    domain_name,
    full_nodes,
    levels_of,
    loads_of_nodes,
    overfull_applications,
    shared_nodes,
    uneven_domains,
    uneven_spreads,
    wide_applications,
)
from tests.engine.oracle import ring
from tests.engine.refusals_by_hand import by_hand
from tests.engine.ruled_clusters import scattered_engines
from tests.engine.rules import is_drained
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

situations = scattered_engines().map(lambda drawn: Situation(*drawn))

BREACHES = {
    Rule.EXCLUSION: shared_nodes,
    Rule.FAULT_DOMAIN: lambda situation: uneven_spreads(situation, Rule.FAULT_DOMAIN),
    Rule.UPGRADE_DOMAIN: lambda situation: uneven_spreads(situation, Rule.UPGRADE_DOMAIN),
    Rule.SCALE_OUT: wide_applications,
    Rule.APPLICATION_CAPACITY: overfull_applications,
    Rule.AFFINITY: children_apart,
}
"""What each rule lists, in plain Python."""


@examples(150)
@given(situations)
def test_breaches_of_each_rule_are_those_of_its_definition(situation):
    for rule, by_definition in BREACHES.items():
        found = description_of(rule).breaches(situation.named)
        assert Counter(found) == Counter(by_definition(situation)), rule


@examples(150)
@given(situations)
def test_violations_of_nodes_are_those_of_the_definition(situation):
    """Nodes at their threshold come first, then those that only reservations lift above the limit."""
    assert description_of(Rule.CAPACITY).node_violations(situation.named) == full_nodes(situation)


def test_node_without_capacity_has_no_violation_whatever_its_load():
    """Its load is above the largest threshold of peaks, which stands for none."""
    engine = engine_with({"n0": None, "n1": 1.0}, {"a": ("n0", 2.0**31), "b": ("n1", 2.0)})
    assert [violation.node for violation in engine.violations()] == ["n1"]


@examples(150)
@given(situations)
def test_reason_of_a_move_is_a_breach_at_its_replica(situation):
    """It is that of the partition, application or node of the replica, with its numbers."""
    problem, named, places = situation.problem, situation.named, situation.places
    for row in np.flatnonzero(situation.configuration.solution.node != NOWHERE).tolist():
        broken = broken_rules(problem, situation.configuration.solution, ALL_RULES, row)
        for description in REASONS_IN_ORDER:
            if not broken >> description.rule & 1 or description.rule is Rule.PLACEMENT:
                continue
            reason = description.reason(named, Phase.REPAIR, row)
            at = situation.node(places[row])
            assert (reason.phase, reason.rule, reason.node) == (Phase.REPAIR, description.rule.name.lower(), at)
            check_reason(situation, description.rule, row, reason)


@st.composite
def nodes_with_replaced_standbys(draw: st.DrawFn) -> Situation:
    """Draw a full node with standbys, to which their primaries came; a reservation may hold their load."""
    amounts = st.integers(0, 9)
    metrics = [Metric(name, quantum=1.0) for name in ("cpu", "memory")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, capacity_limit="capacity"))
    engine.update_node(Node("full", capacities={"cpu": draw(amounts), "memory": draw(amounts)}))
    engine.update_node(Node("free"))
    reserved = {"cpu": draw(amounts), "memory": draw(amounts)}
    engine.update_application(Application("app", node_reservation=draw(st.sampled_from([reserved, reserved, {}]))))
    count = draw(st.integers(1, 3))
    for index in range(count):
        loads = {role: {"cpu": draw(amounts), "memory": draw(amounts)} for role in (Role.PRIMARY, Role.SECONDARY)}
        application = draw(st.sampled_from(["app", "app", None]))
        engine.update_service(Service(f"s{index}", default_load=loads, application=application))
        standby = Replica(Role.SECONDARY, "full", state=ReplicaState.STANDBY)
        replicas = [Replica(Role.PRIMARY, "free"), standby]
        engine.update_partition(Partition(f"s{index}/0", service=f"s{index}", replicas=replicas))
    configuration = configuration_of(engine)
    for row in np.flatnonzero(configuration.problem.role == Role.PRIMARY).tolist():
        if configuration.node_of(row) == 1 and draw(st.booleans()):
            configuration.apply(Proposal(row, 0))
    return Situation(engine, configuration)


def check_reason(situation, rule, row, reason):
    problem, partition = situation.problem, situation.configuration.partition_of(row)
    at, application = situation.node(situation.places[row]), int(problem.application[row])
    if rule is Rule.CAPACITY:
        check_reason_of_capacity(situation, row, reason)
        return
    assert dict(reason.numbers) == dict(reason.breach.numbers)
    if rule is Rule.NODE:
        assert (reason.breach.partition, reason.breach.node) == (partition, at)
        assert is_drained(situation.engine._state.nodes[situation.places[row]])
    elif rule is Rule.EXCLUSION:
        assert reason.breach in [one for one in shared_nodes(situation) if (one.partition, one.node) == (partition, at)]
    elif rule is Rule.AFFINITY:
        assert reason.breach == apart_of(situation, row)
    elif rule is Rule.SCALE_OUT:
        (right,) = (
            one for one in wide_applications(situation) if one.application == situation.application(application)
        )
        assert reason.breach == right
    elif rule is Rule.APPLICATION_CAPACITY:
        key = situation.application(application), at
        assert reason.breach == next(o for o in overfull_applications(situation) if (o.application, o.node) == key)
    else:
        check_reason_of_domain(situation, rule, row, reason)


def check_reason_of_capacity(situation, row, reason):
    """Assert that a reason names the first metric of which the node of a row exceeds its limit."""
    node = situation.places[row]
    limits = situation.problem.repair_limit[node].tolist()
    over = [one for one in loads_of_nodes(situation) if one[0] == node and one[2] + one[3] > limits[one[1]]]
    _, metric, load, kept = over[0]
    expected = {"load": load, "limit": limits[metric]} | ({"reserved": kept} if kept else {})
    assert (reason.metric, dict(reason.numbers), reason.breach) == (situation.metrics[metric], expected, None)


def check_reason_of_domain(situation, rule, row, reason):
    """Assert that a reason names the domain of a row at the first level that it breaks, or one beside it."""
    right, name = by_hand(situation.configuration, ALL_RULES), situation.configuration.partition_of(row)
    level = next(one for one in levels_of(situation.problem, rule) if right.is_crowded(one, row))
    rows = [row, *ring(situation.problem, row)]
    listed = {one.domain: one for one in uneven_domains(situation, name, rows, level, rule)}
    own = domain_name(situation, level, situation.places[row])
    assert reason.breach == listed.get(own, reason.breach)
    assert reason.breach in listed.values()


@examples(150)
@given(situations, st.integers(0, ALL_RULES))
def test_masks_of_overloads_and_of_applications_equal_the_definitions(situation, enforced):
    """A rule that is not enforced marks nothing."""
    problem, solution, places = situation.problem, situation.configuration.solution, situation.places
    nodes, applications = range(len(problem.limit)), range(len(problem.most_nodes))
    holds = {rule: bool(enforced >> rule & 1) for rule in Rule}
    over = np.zeros(problem.limit.shape, np.bool_)
    for node, metric, load, kept in loads_of_nodes(situation):
        is_over = problem.watched[node] and load + kept > problem.repair_limit[node, metric]
        over[node, metric] = is_over and holds[Rule.CAPACITY]
    assert overloads(problem, solution, enforced).tolist() == over.tolist()
    loads = [[load_of(problem, members(problem, places, one, node)) for node in nodes] for one in applications]
    full = [
        [((of > problem.application_node_limit[one]) & holds[Rule.APPLICATION_CAPACITY]).tolist() for of in loads[one]]
        for one in applications
    ]
    assert overfull(problem, solution, enforced).tolist() == full
    wide = [one for one in applications if len(nodes_in_use(problem, places, one)) > problem.most_nodes[one]]
    assert broken_applications(problem, solution, enforced).tolist() == (wide if holds[Rule.SCALE_OUT] else [])


@examples(150)
@given(st.one_of(situations, nodes_with_replaced_standbys()))
def test_excess_of_a_node_is_without_the_standbys_that_others_replace(situation):
    """Neither their load counts, nor what they hold of a reservation."""
    problem, solution, places = situation.problem, situation.configuration.solution, situation.places
    for node in range(len(problem.limit)):
        rows = without_replaced(problem, places, standing(problem, places, node))
        right = np.maximum(0, load_of(problem, rows) + kept_free(problem, rows) - problem.repair_limit[node]).tolist()
        assert [excess_of(problem, solution, node, metric) for metric in range(len(right))] == right
        assert is_overloaded(problem, solution, node) == (bool(problem.watched[node]) and any(right))


@examples(150)
@given(situations)
def test_growth_of_a_node_is_that_of_loads_and_reservations_together(situation):
    """A replica comes, and another one, of any application or none, leaves in exchange or gives way."""
    problem, solution, places = situation.problem, situation.configuration.solution, situation.places
    for node in range(len(problem.limit)):
        before = standing(problem, places, node)
        for row in set(situation.configuration.rows.tolist()) - set(before):
            for outgoing in (NOWHERE, *before):
                after = [one for one in before if one != outgoing] + [row]
                growth = load_of(problem, after) + kept_free(problem, after)
                growth = growth - load_of(problem, before) - kept_free(problem, before)
                found = [
                    growth_with_reservations(problem, solution, row, outgoing, node, m) for m in range(len(growth))
                ]
                assert found == growth.tolist()


@examples(100)
@given(situations, st.lists(st.integers(0, 6), min_size=2, max_size=2))
def test_growth_of_a_replica_is_too_much_beyond_the_limit_of_its_node_or_application(situation, growth):
    """What a node keeps free for the application is used first; where neither load grows, no limit matters."""
    problem, solution, places = situation.problem, situation.configuration.solution, situation.places
    for row in (row for node in range(len(problem.limit)) for row in standing(problem, places, node)):
        node, more = places[row], np.array(growth[: len(situation.metrics)])
        grown = problem._replace(load=problem.load + more * (np.arange(len(problem.load)) == row)[:, None])
        rows, application = standing(problem, places, node), int(problem.application[row])
        before, after = (load_of(of, rows) + kept_free(of, rows) for of in (problem, grown))
        over = (after > before) & (after + problem.leaving_load[node] > problem.limit[node])
        if application != NOWHERE:
            own = load_of(grown, members(problem, places, application, node))
            own = own + leaving_load(problem, application, node)
            over |= (more > 0) & (own > problem.application_node_limit[application])
        assert gains_too_much(problem, solution, row, more) == over.any()


@examples(150)
@given(situations)
def test_replica_waits_for_siblings_in_unusable_domains_below(situation):
    """It stays in a crowded domain while enough of them have to leave it, and is not in an unusable one itself."""
    problem, solution, places = situation.problem, situation.configuration.solution, situation.places

    def is_in_unusable(level: int, row: int) -> bool:
        rule, of_class = problem.domain_rule[level], problem.feasibility_class[row]
        below = [one for one in levels_of(problem, Rule(int(rule))) if one > level]
        return any(problem.siblings[of_class, places[row], one] == 0 for one in below)

    for name, rows in situation.partitions():
        for level in range(problem.domain.shape[1]):
            domain, even = problem.domain[:, level], problem.most_in_domain[problem.service[rows[0]], level] == 0
            for row in situation.counting(rows):
                beside = [one for one in situation.counting(rows) if domain[places[one]] == domain[places[row]]]
                first = sum(is_in_unusable(level, one) for one in beside if one != row)
                waits = even and not is_in_unusable(level, row)
                waits = waits and first > 0 and first >= excess_in_domain(problem, solution, level, row)
                assert others_leave_first(problem, solution, level, row) == waits, (name, level)
