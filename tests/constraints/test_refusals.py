"""Every rule refuses exactly what its definition refuses: kernels compared with plain Python, under many rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.constraints.affinity import breaks_pair
from plb.constraints.domains import SPREADING
from plb.constraints.move_budgets import budget_that_holds, refusal_of_budget
from plb.constraints.range import check_range
from plb.energy.from_scratch import solution_from_scratch
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import ALL_RULES, NO_REFUSAL, Rule
from plb.search.repair.breaches import breaking_rows, broken_rules
from plb.state.arrays import TENTHS
from plb.testing import configuration_of
from tests.engine.applications_by_hand import kept_free, load_of, members, nodes_in_use, standing, without_replaced
from tests.engine.breaches_by_pass import is_misplaced_by_hand
from tests.engine.refusals_by_hand import arrivals, by_hand, departed
from tests.engine.ruled_clusters import enforced_rules, exchanges, visited_configurations
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

OF_APPLICATIONS = (Rule.SCALE_OUT, Rule.APPLICATION_CAPACITY)
SPREAD_RULES = {Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN}
LARGEST_SUM = np.iinfo(np.int32).max - 1
"""Largest sum of peaks: the number above it is the threshold that is never reached."""

pytestmark = pytest.mark.kernels


@examples(150)
@given(visited_configurations(), enforced_rules)
def test_first_rule_that_refuses_a_move_equals_the_definition(configuration, enforced):
    """Earlier moves of a search and the choice of enforced rules do not matter."""
    right = by_hand(configuration, enforced)
    for row in configuration.rows.tolist():
        found = configuration.refusals(row, enforced).tolist()
        assert found == [right.refusal(Proposal(row, node)) for node in range(configuration.nodes)]


@examples(150)
@given(visited_configurations(), enforced_rules)
def test_first_rule_that_refuses_an_exchange_equals_the_definition(configuration, enforced):
    right = by_hand(configuration, enforced)
    for proposal in exchanges(configuration):
        refused = configuration.refusal(proposal, enforced)
        assert (NO_REFUSAL if refused is None else refused) == right.refusal(proposal), proposal


@examples(40)
@given(visited_configurations())
def test_replica_without_a_node_cannot_be_exchanged(configuration):
    waiting = [row for row in configuration.rows.tolist() if configuration.node_of(row) == NOWHERE]
    for row in waiting:
        for other in configuration.rows.tolist():
            if other != row:
                assert configuration.refusal(Proposal(row, configuration.node_of(other), other), 0) is Rule.NODE
                assert configuration.refusal(Proposal(other, NOWHERE, row), 0) is Rule.NODE


@examples(100)
@given(visited_configurations(), st.integers(0, 1), st.integers(0, 2), st.booleans(), st.integers(0, 1))
def test_overdrawn_budgets_refuse_only_proposals_that_overdraw_them_further(
    configuration, most_of_node, most_of_service, throttled, most_of_cluster
):
    """Moves back, moves of other nodes and services, and proposals that end builds and swaps are allowed."""
    problem = configuration.problem._replace(
        bounded=True,
        max_moves=2**31,
        max_node_moves=np.full_like(configuration.problem.max_node_moves, most_of_node),
        max_service_moves=np.full_like(configuration.problem.max_service_moves, most_of_service),
        throttled=throttled,
        max_builds=most_of_cluster,
        max_swaps=most_of_cluster,
    )
    configuration = Configuration(problem, solution_from_scratch(problem, configuration.solution.node.copy()))
    right = by_hand(configuration, 0)
    for row in configuration.rows.tolist():
        found = configuration.refusals(row, 0).tolist()
        assert found == [right.refusal(Proposal(row, node)) for node in range(configuration.nodes)]
    for proposal in exchanges(configuration):
        refused = configuration.refusal(proposal, 0)
        assert (NO_REFUSAL if refused is None else refused) == right.refusal(proposal), proposal


@examples(100)
@given(visited_configurations(), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
def test_budget_that_holds_a_row_refuses_its_move_to_any_node_with_moves_left(configuration, most, of_node, of_service):
    problem = configuration.problem._replace(
        bounded=True,
        max_moves=most,
        max_node_moves=np.full_like(configuration.problem.max_node_moves, of_node),
        max_service_moves=np.full_like(configuration.problem.max_service_moves, of_service),
    )
    solution = solution_from_scratch(problem, configuration.solution.node.copy())
    moves, left = solution.totals.moves + TENTHS, np.flatnonzero(solution.node_moves < of_node).tolist()
    for row in np.flatnonzero((solution.node != NOWHERE) & (solution.node == problem.origin)).tolist():
        source, held = int(solution.node[row]), budget_that_holds(problem, solution, row)
        for target in set(left) - {source}:
            proposal = Proposal(row, target, NOWHERE, source)
            assert refusal_of_budget(problem, solution, moves, proposal) == held


@examples(150)
@given(visited_configurations(), enforced_rules)
def test_breaches_equal_those_of_the_definitions(configuration, enforced):
    """Replicas are in crowded domains, on overloaded or excluded nodes, or apart from a parent."""
    problem, solution = configuration.problem, configuration.solution
    right, places = by_hand(configuration, enforced), solution.node.tolist()
    all_rows = np.arange(len(places))
    found = breaking_rows(problem, solution, enforced, all_rows).tolist()
    for row in all_rows.tolist():
        placed = places[row] != NOWHERE
        crowded = {rule for level, rule in enumerate(problem.domain_rule.tolist()) if right.is_crowded(level, row)}
        assert broken_rules(problem, solution, SPREADING, row) == sum(1 << rule for rule in crowded)
        broken = {rule for rule in crowded if right.holds(rule)}
        for rule in (Rule.NODE, Rule.PLACEMENT, Rule.AFFINITY):
            if placed and is_misplaced_by_hand(configuration, enforced & 1 << rule, row):
                broken.add(rule)
        assert (row in found) == (bool(broken) if problem.movable[row] else not broken.isdisjoint(SPREAD_RULES))
        there = without_replaced(problem, places, standing(problem, places, places[row]))
        over = load_of(problem, there) + kept_free(problem, there) > problem.repair_limit[places[row]]
        broken |= {
            rule for rule in OF_APPLICATIONS if placed and right.holds(rule) and _breaks(configuration, rule, row)
        }
        if placed and right.holds(Rule.CAPACITY) and problem.watched[places[row]] and over.any():
            broken.add(Rule.CAPACITY)
        assert broken_rules(problem, solution, enforced, row) == sum(1 << rule for rule in broken)


def _breaks(configuration: Configuration, rule: Rule, row: int) -> bool:
    """Return whether the application of a placed row breaks a rule, on the node of the row or everywhere."""
    problem, places = configuration.problem, configuration.solution.node.tolist()
    application = int(problem.application[row])
    if application == NOWHERE:
        return False
    if rule is Rule.SCALE_OUT:
        return len(nodes_in_use(problem, places, application)) > int(problem.most_nodes[application])
    present = without_replaced(problem, places, members(problem, places, application, places[row]))
    load = load_of(problem, present)
    return bool((load > problem.application_node_limit[application]).any())


@examples(100)
@given(visited_configurations())
def test_departures_and_arrivals_equal_the_definitions(configuration):
    """A swap of roles builds nothing; freed capacity that the replacing replica needs is not free."""
    problem, solution = configuration.problem, configuration.solution
    places = solution.node.tolist()
    if problem.keeps_departed:
        assert solution.departed.tolist() == departed(problem, places).tolist()
    if problem.throttles:
        assert solution.arrivals.tolist() == arrivals(problem, places)


@examples(100)
@given(visited_configurations())
def test_pairs_that_a_lost_replica_would_break_equal_the_definition(configuration):
    """A pair is a parent and a child that has to be on its node; either of the two may be lost."""
    right = by_hand(configuration, ALL_RULES)
    for row in configuration.rows.tolist():
        if configuration.node_of(row) != NOWHERE:
            assert breaks_pair(configuration.problem, configuration.solution, row) == right.pair_would_break(row)


@pytest.mark.parametrize(
    ("needs", "refused"),
    [
        ({}, None),
        ({"cpu": 3}, None),
        ({"memory": 3}, Rule.CAPACITY),
        ({"cpu": 3, "memory": 3}, Rule.CAPACITY),
        ({"disk": 3}, Rule.CAPACITY),
        ({"cpu": 3, "disk": 3}, Rule.CAPACITY),
        ({"memory": 2, "disk": 2}, None),
    ],
)
def test_departed_load_counts_for_each_metric_for_which_that_is_set(needs, refused):
    """Of 12 units, 2 are departing and 8 leave in the same plan; only those of cpu are free at once."""
    metrics = [Metric(name, quantum=1.0, transient=name != "cpu") for name in ("cpu", "memory", "disk")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, capacity_limit="capacity"))
    names = [metric.name for metric in metrics]
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities=dict.fromkeys(names, 12)))
    engine.update_service(Service("old", stateful=False, default_load={Role.INSTANCE: dict.fromkeys(names, 8)}))
    engine.update_service(
        Service("new", stateful=False, default_load={Role.INSTANCE: {**dict.fromkeys(names, 0), **needs}})
    )
    engine.update_partition(Partition("moved", service="old", replicas=[Replica(Role.INSTANCE, "n1")]))
    engine.update_partition(Partition("new", service="new"))
    ends = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1", leaving=True)]
    engine.update_partition(Partition("departing", service="old", replicas=ends))
    engine.report_load("departing", "n0", dict.fromkeys(names, 0))
    engine.report_load("departing", "n1", dict.fromkeys(names, 2))
    configuration = configuration_of(engine)
    moved, new = (engine.replicas(name)[0].index for name in ("moved", "new"))
    configuration.apply(Proposal(moved, 0))
    assert configuration.refusal(Proposal(new, 1), 1 << Rule.CAPACITY) is refused


@pytest.mark.parametrize("capacity", [0, 1, 5])
@pytest.mark.parametrize("partner", [NOWHERE, 1])
@examples(20)
@given(peak=st.integers(1, 5))
def test_sums_of_peaks_may_reach_the_end_of_their_range(capacity, partner, peak):
    """A replica comes, alone or in exchange, if all largest peaks and its own fit into 32 bits; otherwise not."""
    configuration = _two_instances()
    configuration.problem.peak_ceiling[0] = peak
    configuration.solution.ceiling[1] = LARGEST_SUM - capacity
    expected = Rule.RANGE if peak > capacity else None
    assert configuration.refusal(Proposal(0, 1, partner), 0) is expected
    if partner != NOWHERE:
        assert configuration.refusal(Proposal(partner, 0, 0), 0) is expected


def test_peaks_beyond_their_range_are_an_error():
    """The largest sum itself is allowed; the error names the next one."""
    configuration = _two_instances()
    configuration.solution.ceiling[1] = LARGEST_SUM
    check_range(configuration.solution)
    configuration.solution.ceiling[1] += 1
    with pytest.raises(
        InvalidValueError, match=rf"{LARGEST_SUM + 1} is not allowed; expected at most {LARGEST_SUM}: give a"
    ):
        check_range(configuration.solution)


def _two_instances() -> Configuration:
    """Return a configuration of two nodes with one instance each, on arrays that may change."""
    configuration = configuration_of(engine_with({"n0": None, "n1": None}, {"a": ("n0", 1), "b": ("n1", 1)}))
    problem = configuration.problem._replace(peak_ceiling=np.zeros_like(configuration.problem.peak_ceiling))
    return Configuration(problem, configuration.solution.copy())
