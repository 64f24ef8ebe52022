"""Placement constraints on URIs, for the primary only, and with policies, compared with the standard library."""

from __future__ import annotations

import operator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError
from plb.model.expressions import FaultDomainPolicy, parse_expression
from tests.engine.strategies import examples

NAMES = ("zone", "ssd", "cores")

SCHEMES = st.sampled_from(["fd:", "FD:", "http://Host", "http://host", "http://host:80"])
uris = st.builds(
    lambda scheme, names, end: scheme + "".join(f"/{name}" for name in names) + end,
    SCHEMES,
    st.lists(st.sampled_from(["dc0", "dc01", "DC0", "fd:", "7"]), min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
places = st.sampled_from(["8", "8.0", "16", "1_6", "z1", "Prod", "fd:", "rack:7", "nan"]) | uris
role_comparisons = st.tuples(
    st.sampled_from(["==", "!=", ">=", "<=", "<", ">", "^", "!^", "^P", "!^P"]), st.sampled_from(NAMES), places
)
role_trees = st.recursive(
    role_comparisons,
    lambda inner: (
        st.tuples(st.sampled_from(["!", "^P ", "!^P "]), inner) | st.tuples(st.sampled_from(["&&", "||"]), inner, inner)
    ),
    max_leaves=8,
)
place_properties = st.dictionaries(st.sampled_from(NAMES), places, min_size=1)
blanks = st.sampled_from(["", " ", "\t ", "\n"])
STRENGTH = {"||": 1, "&&": 2}


def tersely(tree, draw) -> str:
    """Return a tree in the grammar with random blanks and without unnecessary parentheses."""
    sign, *operands = tree
    if sign in STRENGTH:
        parts = [tersely(operand, draw) for operand in operands]
        weaker = [STRENGTH.get(operand[0], 3) < STRENGTH[sign] for operand in operands]
        parts = [f"({part})" if weak else part for part, weak in zip(parts, weaker, strict=True)]
        return f"{draw(blanks)}{sign}{draw(blanks)}".join(parts)
    if len(operands) == 1:
        inner = tersely(operands[0], draw)
        return f"{sign}{draw(blanks)}({inner})" if operands[0][0] in STRENGTH else f"{sign}{draw(blanks)}{inner}"
    end = " " if sign.endswith("P") else ""
    return f"{draw(blanks)}{operands[0]}{draw(blanks)}{sign}{end}{draw(blanks)}{operands[1]}{draw(blanks)}"


def number(text: str) -> float | None:
    """Return the number that the standard library reads, except for "nan" and "1_6"."""
    try:
        return float(text) if set(text) <= set("0123456789.") else None
    except ValueError:
        return None


def uri(text: str) -> tuple[str, str, PurePosixPath] | None:
    """Return scheme, authority and path as the standard library splits them."""
    parts = urlsplit(text)
    known = parts.scheme and parts.path.startswith("/")
    return (parts.scheme, parts.netloc.lower(), PurePosixPath(parts.path)) if known else None


def compared(left: str, sign: str, right: str) -> bool | None:
    """Evaluate ==, ^ or an order of two texts; None if it is undefined."""
    numbers = (number(left), number(right))
    if sign not in ("==", "^"):
        compare = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}[sign]
        return None if None in numbers else compare(*numbers)
    uris_ = (uri(left), uri(right))
    if None not in uris_:
        (*origin, path), (*other_origin, other) = uris_
        return origin == other_origin and (path == other if sign == "==" else path.is_relative_to(other))
    if sign == "==" and None not in numbers:
        return numbers[0] == numbers[1]
    return left == right if sign == "==" else left[: len(right)] == right


def role_meaning(tree, node, primary: bool, passes: bool = True) -> bool | None:
    """Evaluate a tree for a role; `passes` is the value of a skipped test that makes its context true."""
    sign, *operands = tree
    if sign in STRENGTH:
        values = {role_meaning(operand, node, primary, passes) for operand in operands}
        decisive = sign == "||"
        return decisive if decisive in values else None if None in values else not decisive
    if "P" in sign and not primary:
        return passes
    if len(operands) == 1:
        negated = sign[0] == "!"
        value = role_meaning(operands[0], node, primary, passes is not negated)
        return None if value is None else value is not negated
    base = {"!=": "==", "!^": "^", "^P": "^", "!^P": "^"}.get(sign, sign)
    value = compared(node[operands[0]], base, operands[1]) if operands[0] in node else None
    return None if value is None else value is not (sign[0] == "!")


def binding(tree) -> bool:
    """Return whether a tree has a test of the primary only."""
    return "P" in tree[0] or any(binding(operand) for operand in tree[1:] if isinstance(operand, tuple))


@examples(600)
@given(
    st.sampled_from(["==", "!=", "^", "!^", "<", ">="]), st.lists(places | uris, min_size=2, max_size=2), st.booleans()
)
def test_one_comparison_agrees_with_the_standard_library(sign, pair, equal_uris):
    """The two places differ, or are one place with capitals before its path."""
    left, right = (pair[0], pair[0].replace("ost", "OST").replace("fd:/", "FD:/", 1)) if equal_uris else pair
    base = {"!=": "==", "!^": "^"}.get(sign, sign)
    expected = compared(left, base, right)
    holds = expected is not None and expected is not (sign[0] == "!")
    assert parse_expression(f"x {sign} {right}").holds({"x": left}) is holds


@examples(600)
@given(role_trees, place_properties, st.data())
def test_terse_text_equals_its_tree_for_each_role(tree, node, data):
    """The tree has URIs, texts, numbers and primary-only tests, with blanks at any place."""
    expression = parse_expression(tersely(tree, data.draw))
    assert expression.holds(node, primary=True) is (role_meaning(tree, node, True) is True)
    assert expression.holds(node, primary=False) is (role_meaning(tree, node, False) is True)
    assert expression.binds_primary_only is binding(tree)


@examples(100)
@given(uris, st.sampled_from(["r0", "7", "fd:"]))
def test_path_below_a_uri_is_a_longer_path_not_a_longer_name(parent, name):
    """A URI is under itself and above its continuation by a slash, but not above a longer name."""
    under = parse_expression(f"x ^ {parent}")
    assert under.holds({"x": parent})
    assert under.holds({"x": f"{parent.rstrip('/')}/{name}"})
    assert not under.holds({"x": f"{parent.rstrip('/')}{name}"})


@examples(200)
@given(st.lists(role_trees, max_size=3), place_properties, st.booleans(), st.data())
def test_policies_do_not_change_the_result_of_tests(trees, node, primary, data):
    """Any policies among tests joined by && hold on every node and are reported, in any case and order."""
    domain = data.draw(st.none() | st.sampled_from(FaultDomainPolicy))
    all_or_nothing = data.draw(st.booleans())
    tests = [f"({tersely(tree, data.draw)})" for tree in trees]
    policies = [f"FDPolicy ~ {data.draw(st.sampled_from([domain.value, domain.name]))}"] if domain else []
    policies += ["(PlacePolicy~nonpartially)"] if all_or_nothing else []
    both = parse_expression(" && ".join(data.draw(st.permutations(tests + policies))))
    assert both.holds(node, primary=primary) is parse_expression("&&".join(tests)).holds(node, primary=primary)
    assert both.fault_domain_policy is (domain or FaultDomainPolicy.PACKING)
    assert both.places_all_or_nothing is all_or_nothing


@pytest.mark.parametrize(
    ("text", "place", "holds"),
    [
        ("FaultDomain ^ fd:/dc0", "fd:/dc0", True),
        ("FaultDomain ^ fd:/dc0", "fd:/dc0/rack1", True),
        ("FaultDomain ^ fd:/dc0", "fd:/dc01", False),
        ("FaultDomain ^ fd:/dc0/rack1", "fd:/dc0", False),
        ("FaultDomain !^ fd:/dc0", "fd:/dc01", True),
        ("FaultDomain ^ fd:/", "fd:/dc0", True),
        ("FaultDomain ^ fd:/dc0/", "fd:/dc0/rack1", True),
        ("FaultDomain == fd:/dc0/", "fd:/dc0", True),
        ("FaultDomain != fd:/dc0", "fd:/dc0/rack1", True),
        ("FaultDomain == FD:/dc0", "fd:/dc0", True),
        ("FaultDomain == fd:/DC0", "fd:/dc0", False),
        ("FaultDomain == HTTP://Host/a", "http://host/a", True),
        ("FaultDomain ^ ud:/dc0", "fd:/dc0", False),
        ("FaultDomain ^ fd:/fd:/dc0", "fd:/fd:/dc0/r0", True),
        ("FaultDomain > fd:/dc0", "fd:/dc1", False),
        ("FaultDomain ^ fd:", "fd:/dc0", True),
        ("FaultDomain ^ rack:7", "rack:70", True),
        ("FaultDomain ^ /dc0", "/dc01", True),
    ],
    ids=[
        "a URI is under itself",
        "a child is under its parent",
        "segments are compared as a whole",
        "a parent is not under its child",
        "negated",
        "all paths are under the root",
        "a trailing slash is no segment",
        "a trailing slash does not change a URI",
        "a child is not its parent",
        "schemes ignore case",
        "paths do not ignore case",
        "authorities ignore case",
        "schemes must be equal",
        "a path may have a colon",
        "URIs have no order",
        "a scheme without a path is a text",
        "a colon without a slash makes no URI",
        "a slash without a scheme makes no URI",
    ],
)
def test_uris_are_compared_as_uris(text, place, holds):
    """FaultDomain is a property whose value is a URI."""
    assert parse_expression(text).holds({"FaultDomain": place}) is holds


@pytest.mark.parametrize(
    ("text", "node", "as_primary", "as_other"),
    [
        ("FaultDomain ^P fd:/dc0", {"FaultDomain": "fd:/dc0/r1"}, True, True),
        ("FaultDomain ^P fd:/dc0", {"FaultDomain": "fd:/dc01"}, False, True),
        ("FaultDomain !^P fd:/dc0", {"FaultDomain": "fd:/dc0/r1"}, False, True),
        ("FaultDomain ^P fd:/dc0", {}, False, True),
        ("!(a ^P b)", {"a": "b"}, False, True),
        ("!(a ^P b)", {"a": "c"}, True, True),
        ("a ^P b && c == d", {"a": "x", "c": "d"}, False, True),
        ("a ^P b && c == d", {"a": "b", "c": "x"}, False, False),
        ("!(a ^P b || c == d)", {"a": "x", "c": "d"}, False, False),
        ("^P a == b", {"a": "c"}, False, True),
        ("!^P a == b", {"a": "b"}, False, True),
        ("! ^P a == b", {"a": "c"}, True, True),
        ("^P a == b && c == d", {"a": "b", "c": "x"}, False, False),
        ("^P(a == b && c == d)", {"a": "b", "c": "x"}, False, True),
        ("a ^Paris", {"a": "Paris 7"}, True, True),
        ("a ^Paris", {"a": "aris"}, False, False),
        ("a ^ P", {"a": "Q"}, False, False),
    ],
    ids=[
        "a node under the domain is feasible for all",
        "another node is infeasible only for the primary",
        "the negated form forbids the primary",
        "an undefined property excludes only the primary",
        "! gives the negated form",
        "the negated form holds outside the domain",
        "other tests bind all roles: the first fails",
        "other tests bind all roles: the second fails",
        "negation by De Morgan",
        "a prefix limits any test to the primary",
        "a negated prefix binds the primary to the negation",
        "a blank after ! does not matter",
        "the prefix binds tighter than &&",
        "parentheses extend the prefix",
        "a value that begins with P",
        "^ before such a value is no primary-only test",
        "a value P is no primary-only test",
    ],
)
def test_primary_only_tests_bind_no_other_role(text, node, as_primary, as_other):
    """`^P` and `!^P` are between name and value, or before a test."""
    expression = parse_expression(text)
    assert (expression.holds(node), expression.holds(node, primary=False)) == (as_primary, as_other)
    assert expression.holds(node, primary=True) is as_primary


def test_expressions_without_policies_have_the_defaults():
    """The defaults are packing, partial placement, and tests for every role."""
    for text in ("", "a == b", "FDPolicy == Ignore"):
        expression = parse_expression(text)
        assert expression.fault_domain_policy is FaultDomainPolicy.PACKING
        assert not expression.places_all_or_nothing
        assert not expression.binds_primary_only


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FDPolicy ~ Spread", "Packing or Nonpacking or Ignore after FDPolicy ~ at character 12"),
        ("a == b && placepolicy ~ Partially", "NonPartially after PlacePolicy ~ at character 25"),
        ("Policy ~ Ignore", "FDPolicy or PlacePolicy before ~ at character 1"),
        ("FDPolicy ~", "a policy at character 11"),
        ("FDPolicy ~ Ignore || a == b", "a test (policies stand alone or joined by &&) at character 1"),
        ("a == b || c == d && FDPolicy ~ Ignore", "a test (policies stand alone or joined by &&) at character 21"),
        ("(a == b || (FDPolicy ~ Ignore)) && c == d", "a test (policies stand alone or joined by &&) at character 13"),
        ("!FDPolicy ~ Ignore", "a test (policies stand alone or joined by &&) at character 2"),
        ("!!(FDPolicy ~ Ignore)", "a test (policies stand alone or joined by &&) at character 4"),
        ("^P PlacePolicy ~ NonPartially", "a test (policies stand alone or joined by &&) at character 4"),
        ("FDPolicy ~ Ignore && FDPolicy ~ Packing", "only one FDPolicy at character 22"),
        ("a ^P", "a value at character 5"),
        ("a ^P && b == c", "a value at character 6"),
        ("a !^P", "a value at character 6"),
        ("^P", "a property name at character 3"),
        ("a ^P b == c", "an operator or the end at character 8"),
        ("a ^P ^P b", "a value at character 6"),
        ("a == ~b", "a value at character 6"),
    ],
)
def test_refusal_of_a_policy_or_a_role_names_the_place(text, expected):
    """The policies are unknown, misplaced or contradictory, or tests of the primary are incomplete."""
    with pytest.raises(InvalidValueError) as refused:
        parse_expression(text, "service s")
    assert str(refused.value) == f"service s: placement_constraint = {text!r} is not allowed; expected {expected}"


def test_policy_may_be_repeated():
    """Joined constraints may repeat each other."""
    expression = parse_expression("FDPolicy ~ Ignore && fdpolicy ~ ignore")
    assert expression.fault_domain_policy is FaultDomainPolicy.IGNORE
