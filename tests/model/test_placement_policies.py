"""Placement policies by name restrict the fault domains of a service as their names say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Role, Service
from plb.model.expressions import PolicyName, ServicePlacementPolicy, constraint_of_policies, parse_expression

DOMAINS = ("fd:/dc0/r0", "fd:/dc0/r1", "fd:/dc1/r0", "fd:/dc10/r0")


def is_under(domain: str, path: str) -> bool:
    """Return whether a domain is this one or below it, name by name."""
    names = path.removeprefix("fd:/").split("/")
    return domain.removeprefix("fd:/").split("/")[: len(names)] == names


@given(
    st.sampled_from(["fd:/dc0", "fd:/dc1", "fd:/dc0/r1"]),
    st.sampled_from([PolicyName.INVALID_DOMAIN, PolicyName.REQUIRED_DOMAIN, PolicyName.PREFERRED_PRIMARY_DOMAIN]),
    st.booleans(),
)
def test_policies_of_domains_allow_the_nodes_that_their_names_say(path, name, primary):
    """None in an invalid domain, all in a required one, and a preferred one for the primary only."""
    expression = parse_expression(ServicePlacementPolicy(name, path).clause)
    for domain in DOMAINS:
        inside = is_under(domain, path)
        wanted = {
            PolicyName.INVALID_DOMAIN: not inside,
            PolicyName.REQUIRED_DOMAIN: inside,
            PolicyName.PREFERRED_PRIMARY_DOMAIN: inside or not primary,
        }[name]
        assert expression.holds({"FaultDomain": domain}, primary=primary) is wanted


def engine_with(
    *policies: ServicePlacementPolicy, constraint: str = "", replicas: int = 2
) -> PlacementAndLoadBalancing:
    """Return an engine with a node in each domain and a service with these policies."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=1)
    for number, domain in enumerate(DOMAINS):
        engine.update_node(Node(f"n{number}", fault_domain=domain, properties={"ssd": str(number % 2)}))
    combined = constraint_of_policies(policies, constraint)
    engine.update_service(Service("db", target_replicas=replicas, placement_constraint=combined))
    engine.update_partition(Partition("db/0", service="db"))
    return engine


@given(st.integers(0, 20))
@settings(max_examples=10, deadline=None)
def test_policies_and_a_constraint_hold_together(seed):
    """The primary is in dc1, no replica in dc10, and the constraint, an alternative, holds besides."""
    engine = engine_with(
        ServicePlacementPolicy("PreferredPrimaryDomain", "fd:/dc1"),
        ServicePlacementPolicy("InvalidDomain", "dc10"),
        constraint="ssd == 0 || ssd == 2",
    )
    engine.seed = seed
    assert {(move.role, move.target) for move in engine.place().moves} == {
        (Role.PRIMARY, "n2"),
        (Role.SECONDARY, "n0"),
    }


def test_replicas_of_a_domain_distribution_are_in_different_domains_of_the_top_level():
    """Three top domains take three replicas; the fourth has no place, and with all-or-nothing none has."""
    distribution = ServicePlacementPolicy(PolicyName.REQUIRED_DOMAIN_DISTRIBUTION)
    assert len(engine_with(distribution, replicas=4).place().moves) == 3
    whole = ServicePlacementPolicy(PolicyName.NON_PARTIALLY_PLACED)
    assert not engine_with(distribution, whole, replicas=4).place().moves


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("NoSuchPolicy",), "placement policy: name = 'NoSuchPolicy' is not allowed"),
        (("RequiredDomain",), "placement policy RequiredDomain: domain = None is not allowed"),
        (("RequiredDomain", "fd:/"), "placement policy RequiredDomain: domain = 'fd:/' is not allowed"),
        (("RequiredDomain", "a || b"), "placement policy RequiredDomain: domain = 'a || b' is not allowed"),
        (("NonPartiallyPlace", "fd:/a"), "placement policy NonPartiallyPlace: domain = 'fd:/a' is not allowed"),
    ],
)
def test_unknown_policies_and_wrong_domains_are_refused(arguments, message):
    with pytest.raises(InvalidValueError, match=message.replace("|", r"\|").replace("(", r"\(")):
        ServicePlacementPolicy(*arguments)


def test_without_policies_a_constraint_stays_as_it_is():
    """So does none."""
    assert constraint_of_policies([], "a == b") == "a == b"
    assert constraint_of_policies([]) == ""
