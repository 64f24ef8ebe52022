"""Repairs and drops where domains have too many replicas: of a quorum rule, or of several levels of an even spread."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import MoveKind, Node, PlacementAndLoadBalancing, Replica, Role, Service
from plb.constraints.domains import SPREADING, broken_rules, exceeds_share, excess_in_domain
from plb.model.rules import Rule
from plb.testing import configuration_of
from tests.engine.stories import add_partition, engine_on
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

QUORUM = {"quorum_based_replica_distribution_per_fault_domains": True, "allow_chained_moves": True}


def engine_of(domains: str, *, target: int, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with a service and nodes n0, n1 and so on, each in the fault domain of a letter."""
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{letter}") for index, letter in enumerate(domains)]
    engine = engine_on(*nodes, **{**QUORUM, **settings})
    engine.update_service(Service("db", target_replicas=target))
    return engine


def replicas_on(*nodes: int, **fields) -> list[Replica]:
    """Return a primary on the first node, and secondaries on the others."""
    roles = [Role.PRIMARY, *[Role.SECONDARY] * (len(nodes) - 1)]
    return [Replica(role, f"n{node}", **fields) for role, node in zip(roles, nodes, strict=True)]


@pytest.mark.parametrize("seed", range(8))
def test_repair_moves_exactly_what_exceeds_the_quorum(seed):
    """Of three replicas in a domain that may hold two, one moves; no other one moves within the domain."""
    engine = engine_of("aaaabbb", target=3)
    engine.seed = seed
    add_partition(engine, "db/0", *replicas_on(0, 1, 2), missing=0)
    (move,) = engine.repair().moves
    assert move.source in ("n0", "n1", "n2")
    assert move.target in ("n4", "n5", "n6")


@pytest.mark.parametrize("seed", range(4))
def test_replica_on_an_excluded_node_moves_within_a_crowded_domain(seed):
    """No node of the other domain is free, so that the domain stays crowded."""
    engine = engine_of("aaaab", target=4)
    engine.seed = seed
    add_partition(engine, "db/0", *replicas_on(0, 1, 2, 4), missing=0)
    assert not engine.repair().moves, "a move within the domain would not help"
    engine.update_service(Service("db", target_replicas=4, placement_constraint="FaultDomain != x && ok != no"))
    for index, ok in enumerate(("no", "yes", "yes", "yes", "yes")):
        domain = f"fd:/{'aaaab'[index]}"
        engine.update_node(Node(f"n{index}", fault_domain=domain, properties={"ok": ok}))
    assert [(move.source, move.target) for move in engine.repair().moves] == [("n0", "n3")]


def test_surplus_goes_from_the_domain_that_exceeds_the_quorum():
    """The other domains have as many replicas as they may have, or fewer."""
    engine = engine_of("aaabbcd", target=5)
    add_partition(engine, "db/0", *replicas_on(0, 1, 2, 3, 4, 5), missing=-1)
    (move,) = engine.place().moves
    assert (move.kind, move.source in ("n1", "n2")) == (MoveKind.DROP, True)


@pytest.mark.parametrize("seed", range(8))
def test_one_move_mends_two_levels_of_an_even_spread(seed):
    """Both replicas are in one rack of one hall; a move within the hall would mend the racks only."""
    paths = ("left/r0", "left/r1", "left/r2", "right/r3", "right/r4", "right/r4")
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{path}") for index, path in enumerate(paths)]
    engine = engine_on(*nodes)
    engine.seed = seed
    engine.update_service(Service("db", target_replicas=2))
    add_partition(engine, "db/0", *replicas_on(4, 5), missing=0)
    (move,) = engine.repair().moves
    assert move.target in ("n0", "n1", "n2")


@pytest.mark.parametrize(("excludes", "crowded"), [(False, True), (True, False)])
def test_quorum_counts_replicas_on_nodes_out_of_service_unless_the_service_excludes_them(excludes, crowded):
    """Four replicas of five in a domain that is down exceed the three allowed; they cannot be moved."""
    engine = engine_of("aaaabbbccc", target=5)
    for index in range(4):
        engine.update_node(Node(f"n{index}", fault_domain="fd:/a", properties={"ok": "no"}, up=False))
    if excludes:
        engine.update_service(Service("db", target_replicas=5, placement_constraint="ok != no"))
    add_partition(engine, "db/0", *replicas_on(0, 1, 2, 3, 4), missing=0)
    rules = [violation.rule for violation in engine.violations() if violation.rule == "fault_domain"]
    assert bool(rules) is crowded
    assert {move.source for move in engine.repair().moves} <= {"n4"}


@examples(100)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(sum))
def test_replicas_are_even_with_their_mean_in_every_domain_rounded_down_or_up(counts):
    """A replica above the mean in its domain breaks the rule if it exceeds the mean rounded up or another lacks one."""
    domains = "abcd"[: len(counts)]
    engine = engine_of("".join(domain * 5 for domain in domains), target=sum(counts), **dict.fromkeys(QUORUM, False))
    nodes = [5 * number + index for number, count in enumerate(counts) for index in range(count)]
    add_partition(engine, "db/0", *replicas_on(*nodes), missing=0)
    mean = sum(counts) / len(counts)
    most, least = math.ceil(mean), math.floor(mean)
    listed = {one.domain: (one.replicas, one.least, one.most) for one in engine.violations()}
    assert listed == {
        f"fd:/{domain}": (count, least, most)
        for domain, count in zip(domains, counts, strict=True)
        if not least <= count <= most
    }
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    for replica in engine.replicas("db/0"):
        inside = counts[configuration.node_of(replica.index) // 5]
        breaks = inside > most or (min(counts) < least < inside)
        assert broken_rules(problem, solution, SPREADING, replica.index) == (breaks and 1 << Rule.FAULT_DOMAIN)
        assert excess_in_domain(problem, solution, 0, replica.index) == max(0, inside - most)
        assert exceeds_share(problem, solution, 0, replica.index) == (
            inside - 1 >= math.floor((sum(counts) - 1) / len(counts))
        )
