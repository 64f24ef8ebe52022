"""Placement constraints: their grammar, also for roles and with policies, compared with the standard library."""

from __future__ import annotations

import operator
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Service
from plb.model.expressions import FaultDomainPolicy, parse_expression
from tests.engine.strategies import examples

NAMES = ("zone", "ssd", "cores", "rack name")

SCHEMES = st.sampled_from(["fd:", "FD:", "http://Host", "http://host", "http://host:80"])
uris = st.builds(
    lambda scheme, names, end: scheme + "".join(f"/{name}" for name in names) + end,
    SCHEMES,
    st.lists(st.sampled_from(["dc0", "dc01", "DC0", "fd:", "7"]), min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
places = st.sampled_from(["8", "8.0", "16", "1_6", "z1", "Prod", "fd:", "rack:7", "rack 7", "nan"]) | uris
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


@examples(500)
@given(
    st.text(max_size=30) | st.text(alphabet="ab1 ()!&|=<>^P~", max_size=30),
    st.dictionaries(st.sampled_from(NAMES), places),
)
def test_any_text_is_parsed_or_refused(text, node):
    """The parser raises only InvalidValueError; every parsed text can be evaluated."""
    refused = None
    try:
        assert parse_expression(text, "service s").holds(node) in (True, False)
    except InvalidValueError as error:
        refused = str(error)
    assert refused is None or re.match(r"(?s)service s: placement_constraint = .* at character \d+$", refused)


HOLDS: dict[str, tuple[str, dict[str, str], bool]] = {
    "empty text allows every node": ("", {}, True),
    "blanks allow every node": ("   ", {}, True),
    "equal texts": ("a == b", {"a": "b"}, True),
    "numbers are compared as numbers": ("a == 1.0", {"a": "1"}, True),
    "a number and a text are compared as texts": ("a == 1x", {"a": "1"}, False),
    "caret means starts with": ("a ^ ra", {"a": "rack"}, True),
    "negated caret": ("a !^ ra", {"a": "rack"}, False),
    "order of numbers, not of texts": ("a > 9", {"a": "10"}, True),
    "order of texts has no meaning": ("a > b", {"a": "c"}, False),
    "its negation has no meaning": ("!(a > b)", {"a": "c"}, False),
    "!= is false for an undefined property": ("a != b", {}, False),
    "a negation is false for an undefined property": ("!(a == b)", {}, False),
    "one true side is enough for ||": ("a == b || c == d", {"c": "d"}, True),
    "&& binds tighter than ||": ("a == b && c == d || e == f", {"e": "f"}, True),
    "parentheses bind tightest": ("a == b && (c == d || e == f)", {"e": "f", "a": "x"}, False),
    "! applies to the comparison": ("! a == b && c == d", {"a": "x", "c": "d"}, True),
    "blanks inside names stay": ("first name == the value", {"first name": "the value"}, True),
    "a power of ten": ("a == 1000", {"a": "1e3"}, True),
    "a bare point": ("a == -.5", {"a": "-0.5"}, True),
    "digits with an underscore are a text": ("a == 16", {"a": "1_6"}, False),
    "nan is a text": ("a == nan", {"a": "nan"}, True),
    "inf is a text, which has no order": ("a < inf", {"a": "1"}, False),
    "caret compares the digits of numbers as texts": ("a ^ 1", {"a": "16"}, True),
    "a URI is under itself": ("FaultDomain ^ fd:/dc0", {"FaultDomain": "fd:/dc0"}, True),
    "a child is under its parent": ("FaultDomain ^ fd:/dc0", {"FaultDomain": "fd:/dc0/rack1"}, True),
    "segments are compared as a whole": ("FaultDomain ^ fd:/dc0", {"FaultDomain": "fd:/dc01"}, False),
    "a parent is not under its child": ("FaultDomain ^ fd:/dc0/rack1", {"FaultDomain": "fd:/dc0"}, False),
    "negated": ("FaultDomain !^ fd:/dc0", {"FaultDomain": "fd:/dc01"}, True),
    "all paths are under the root": ("FaultDomain ^ fd:/", {"FaultDomain": "fd:/dc0"}, True),
    "a trailing slash is no segment": ("FaultDomain ^ fd:/dc0/", {"FaultDomain": "fd:/dc0/rack1"}, True),
    "a trailing slash does not change a URI": ("FaultDomain == fd:/dc0/", {"FaultDomain": "fd:/dc0"}, True),
    "a child is not its parent": ("FaultDomain != fd:/dc0", {"FaultDomain": "fd:/dc0/rack1"}, True),
    "schemes ignore case": ("FaultDomain == FD:/dc0", {"FaultDomain": "fd:/dc0"}, True),
    "paths do not ignore case": ("FaultDomain == fd:/DC0", {"FaultDomain": "fd:/dc0"}, False),
    "authorities ignore case": ("FaultDomain == HTTP://Host/a", {"FaultDomain": "http://host/a"}, True),
    "schemes must be equal": ("FaultDomain ^ ud:/dc0", {"FaultDomain": "fd:/dc0"}, False),
    "a path may have a colon": ("FaultDomain ^ fd:/fd:/dc0", {"FaultDomain": "fd:/fd:/dc0/r0"}, True),
    "URIs have no order": ("FaultDomain > fd:/dc0", {"FaultDomain": "fd:/dc1"}, False),
    "a scheme without a path is a text": ("FaultDomain ^ fd:", {"FaultDomain": "fd:/dc0"}, True),
    "a colon without a slash makes no URI": ("FaultDomain ^ rack:7", {"FaultDomain": "rack:70"}, True),
    "a slash without a scheme makes no URI": ("FaultDomain ^ /dc0", {"FaultDomain": "/dc01"}, True),
}
"""Text, properties of a node, and whether it satisfies the text."""
BY_ROLE: dict[str, tuple[str, dict[str, str], bool, bool]] = {
    "a node under the domain fits all": ("FaultDomain ^P fd:/dc0", {"FaultDomain": "fd:/dc0/r1"}, True, True),
    "no other node fits the primary": ("FaultDomain ^P fd:/dc0", {"FaultDomain": "fd:/dc01"}, False, True),
    "the negated form forbids the primary": ("FaultDomain !^P fd:/dc0", {"FaultDomain": "fd:/dc0/r1"}, False, True),
    "an undefined property excludes only the primary": ("FaultDomain ^P fd:/dc0", {}, False, True),
    "! gives the negated form": ("!(a ^P b)", {"a": "b"}, False, True),
    "the negated form holds outside the domain": ("!(a ^P b)", {"a": "c"}, True, True),
    "other tests bind all roles: the first fails": ("a ^P b && c == d", {"a": "x", "c": "d"}, False, True),
    "other tests bind all roles: the second fails": ("a ^P b && c == d", {"a": "b", "c": "x"}, False, False),
    "negation by De Morgan": ("!(a ^P b || c == d)", {"a": "x", "c": "d"}, False, False),
    "a prefix limits any test to the primary": ("^P a == b", {"a": "c"}, False, True),
    "a negated prefix binds the primary to the negation": ("!^P a == b", {"a": "b"}, False, True),
    "a blank after ! does not matter": ("! ^P a == b", {"a": "c"}, True, True),
    "the prefix binds tighter than &&": ("^P a == b && c == d", {"a": "b", "c": "x"}, False, False),
    "parentheses extend the prefix": ("^P(a == b && c == d)", {"a": "b", "c": "x"}, False, True),
    "a value that begins with P": ("a ^Paris", {"a": "Paris 7"}, True, True),
    "^ before such a value is no primary-only test": ("a ^Paris", {"a": "aris"}, False, False),
    "a value P is no primary-only test": ("a ^ P", {"a": "Q"}, False, False),
}
"""Text, properties of a node, and whether it satisfies the text for a primary, and for another role."""
REFUSED = {
    "a": "a comparison among == != >= <= < > ^ !^ at character 2",
    "a ==": "a value at character 5",
    "== b": "a property name at character 1",
    "a == b &&": "a property name at character 10",
    "(a == b": "a closing parenthesis at character 8",
    "a == b)": "an operator or the end at character 7",
    "a = b": "an operator among == != >= <= < > ^ !^ && || ! at character 3",
    "a == b & c == d": "an operator among == != >= <= < > ^ !^ && || ! at character 8",
    "a == b == c": "an operator or the end at character 8",
    "!": "a property name at character 2",
    "()": "a property name at character 2",
    "FDPolicy ~ Spread": "Packing or Nonpacking or Ignore after FDPolicy ~ at character 12",
    "a == b && placepolicy ~ Partially": "NonPartially after PlacePolicy ~ at character 25",
    "Policy ~ Ignore": "FDPolicy or PlacePolicy before ~ at character 1",
    "FDPolicy ~": "a policy at character 11",
    "FDPolicy ~ Ignore || a == b": "a test (policies stand alone or joined by &&) at character 1",
    "a == b || c == d && FDPolicy ~ Ignore": "a test (policies stand alone or joined by &&) at character 21",
    "(a == b || (FDPolicy ~ Ignore)) && c == d": "a test (policies stand alone or joined by &&) at character 13",
    "!FDPolicy ~ Ignore": "a test (policies stand alone or joined by &&) at character 2",
    "!!(FDPolicy ~ Ignore)": "a test (policies stand alone or joined by &&) at character 4",
    "^P PlacePolicy ~ NonPartially": "a test (policies stand alone or joined by &&) at character 4",
    "FDPolicy ~ Ignore && FDPolicy ~ Packing": "only one FDPolicy at character 22",
    "a ^P": "a value at character 5",
    "a ^P && b == c": "a value at character 6",
    "a !^P": "a value at character 6",
    "^P": "a property name at character 3",
    "a ^P b == c": "an operator or the end at character 8",
    "a ^P ^P b": "a value at character 6",
    "a == ~b": "a value at character 6",
}
"""Texts, and what each refusal says that was expected at which character, counted from 1."""


@pytest.mark.parametrize(("text", "node", "holds"), HOLDS.values(), ids=HOLDS)
def test_expression_agrees_with_the_documentation(text, node, holds):
    """Other numbers of Python than decimals are texts, and FaultDomain is a property whose value is a URI."""
    assert parse_expression(text).holds(node) is holds


@pytest.mark.parametrize(("text", "node", "as_primary", "as_other"), BY_ROLE.values(), ids=BY_ROLE)
def test_primary_only_tests_bind_no_other_role(text, node, as_primary, as_other):
    """`^P` and `!^P` are between name and value, or before a test."""
    expression = parse_expression(text)
    assert (expression.holds(node), expression.holds(node, primary=False)) == (as_primary, as_other)


@pytest.mark.parametrize(("text", "expected"), REFUSED.items())
def test_refusal_names_the_place(text, expected):
    """So it does for policies that are unknown, misplaced or contradictory."""
    with pytest.raises(InvalidValueError) as refused:
        parse_expression(text, "service s")
    assert str(refused.value) == f"service s: placement_constraint = {text!r} is not allowed; expected {expected}"


def test_policy_may_be_repeated():
    expression = parse_expression("FDPolicy ~ Ignore && fdpolicy ~ ignore")
    assert expression.fault_domain_policy is FaultDomainPolicy.IGNORE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("!" * 101 + "(a == b)", "at most 100 nested operators"),
        ("(" * 101 + "a == b" + ")" * 101, "at most 100 nested operators"),
        ("a == " + "b" * 10_000, "at most 10000 characters"),
    ],
    ids=["negations", "parentheses", "length"],
)
def test_text_beyond_the_limits_is_refused(text, expected):
    """Depth and length have limits, so no input can exhaust the stack."""
    with pytest.raises(InvalidValueError, match=expected):
        parse_expression(text)


def test_long_flat_expression_is_accepted():
    text = " || ".join(f"zone == z{i}" for i in range(500))
    assert parse_expression(text).holds({"zone": "z499"})


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("FaultDomain ^ fd:/dc0", {"n0", "n1"}),
        ("FaultDomain == fd:/dc0/r1", {"n1"}),
        ("UpgradeDomain != ud0", {"n1", "n2"}),
        ("UpgradeDomain == special", {"n2"}),
        ("FaultDomain ^ fd:/", {"n0", "n1", "n2"}),
    ],
)
def test_domains_of_a_node_are_properties(text, fits):
    """Nodes with domains have these properties; a given property of that name takes precedence."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], fault_domain_constraint_priority=-1))
    engine.update_node(Node("n0", fault_domain="fd:/dc0/r0", upgrade_domain="ud0"))
    engine.update_node(Node("n1", fault_domain="dc0/r1/", upgrade_domain="ud1"))
    engine.update_node(
        Node("n2", fault_domain="fd:/dc1", upgrade_domain="ud0", properties={"UpgradeDomain": "special"})
    )
    engine.update_node(Node("n3"))
    engine.update_service(Service("s", stateful=False, target_replicas=4, placement_constraint=text))
    engine.update_partition(Partition("s/0", service="s"))
    assert {move.target for move in engine.place().moves} == fits
