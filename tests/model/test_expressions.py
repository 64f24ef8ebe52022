"""Placement constraints: their grammar, compared with an independent evaluator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Service
from plb.model.expressions import parse_expression
from tests.engine.strategies import examples

NAMES = ("zone", "ssd", "cores", "rack name")
VALUES = ("z1", "true", "8", "8.0", "16", "rack 7", "z")

comparisons = st.tuples(
    st.sampled_from(["==", "!=", ">=", "<=", "<", ">", "^", "!^"]), st.sampled_from(NAMES), st.sampled_from(VALUES)
)
trees = st.recursive(
    comparisons,
    lambda inner: st.tuples(st.just("!"), inner) | st.tuples(st.sampled_from(["&&", "||"]), inner, inner),
    max_leaves=8,
)
properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))


def written(tree, blank: str) -> str:
    """Return a tree in the grammar, fully parenthesised."""
    sign, *operands = tree
    if sign == "!":
        return f"!{blank}({written(operands[0], blank)})"
    if sign in ("&&", "||"):
        left, right = (written(operand, blank) for operand in operands)
        return f"({left}){blank}{sign}{blank}({right})"
    return f"{blank}{operands[0]}{blank}{sign}{blank}{operands[1]}{blank}"


def meaning(tree, node) -> bool | None:
    """Evaluate a tree in three values: true, false, or None for undefined."""
    sign, *operands = tree
    if sign == "!":
        value = meaning(operands[0], node)
        return None if value is None else not value
    if sign in ("&&", "||"):
        values = {meaning(operand, node) for operand in operands}
        decisive = sign == "||"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if operands[0] not in node:
        return None
    left, right = node[operands[0]], operands[1]
    if sign in ("^", "!^"):
        return (left[: len(right)] == right) is (sign == "^")
    try:
        pair = (float(left), float(right))
    except ValueError:
        pair = None
    if sign in ("==", "!="):
        equal = left == right if pair is None else pair[0] == pair[1]
        return equal is (sign == "==")
    if pair is None:
        return None
    below, above = pair[0] < pair[1], pair[0] > pair[1]
    return {"<": below, ">": above, "<=": not above, ">=": not below}[sign]


@examples(400)
@given(trees, properties, st.sampled_from(["", " ", "  "]))
def test_parsed_tree_agrees_with_an_independent_evaluator(tree, node, blank):
    """The trees nest !, && and || over comparisons, with or without blanks."""
    assert parse_expression(written(tree, blank)).holds(node) is (meaning(tree, node) is True)


@examples(500)
@given(st.text(max_size=30) | st.text(alphabet="ab1 ()!&|=<>^P~", max_size=30), properties)
def test_any_text_is_parsed_or_refused(text, node):
    """The parser raises only InvalidValueError; every parsed text can be evaluated."""
    try:
        expression = parse_expression(text, "service s")
    except InvalidValueError:
        with pytest.raises(InvalidValueError, match=r"(?s)^service s: placement_constraint = .* at character \d+$"):
            parse_expression(text, "service s")
    else:
        assert expression.holds(node) in (True, False)


@pytest.mark.parametrize(
    ("text", "node", "holds"),
    [
        ("", {}, True),
        ("   ", {}, True),
        ("a == b", {"a": "b"}, True),
        ("a == 1.0", {"a": "1"}, True),
        ("a == 1x", {"a": "1"}, False),
        ("a ^ ra", {"a": "rack"}, True),
        ("a !^ ra", {"a": "rack"}, False),
        ("a > 9", {"a": "10"}, True),
        ("a > b", {"a": "c"}, False),
        ("!(a > b)", {"a": "c"}, False),
        ("a != b", {}, False),
        ("!(a == b)", {}, False),
        ("a == b || c == d", {"c": "d"}, True),
        ("a == b && c == d || e == f", {"e": "f"}, True),
        ("a == b && (c == d || e == f)", {"e": "f", "a": "x"}, False),
        ("! a == b && c == d", {"a": "x", "c": "d"}, True),
        ("first name == the value", {"first name": "the value"}, True),
    ],
    ids=[
        "empty text allows every node",
        "blanks allow every node",
        "equal texts",
        "numbers are compared as numbers",
        "a number and a text are compared as texts",
        "caret means starts with",
        "negated caret",
        "order of numbers, not of texts",
        "order of texts has no meaning",
        "its negation has no meaning",
        "!= is false for an undefined property",
        "a negation is false for an undefined property",
        "one true side is enough for ||",
        "&& binds tighter than ||",
        "parentheses bind tightest",
        "! applies to the comparison",
        "blanks inside names stay",
    ],
)
def test_expression_agrees_with_the_documentation(text, node, holds):
    """Each row is one row of the table in the documentation."""
    assert parse_expression(text).holds(node) is holds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a comparison among == != >= <= < > ^ !^ at character 2"),
        ("a ==", "a value at character 5"),
        ("== b", "a property name at character 1"),
        ("a == b &&", "a property name at character 10"),
        ("(a == b", "a closing parenthesis at character 8"),
        ("a == b)", "an operator or the end at character 7"),
        ("a = b", "an operator among == != >= <= < > ^ !^ && || ! at character 3"),
        ("a == b & c == d", "an operator among == != >= <= < > ^ !^ && || ! at character 8"),
        ("a == b == c", "an operator or the end at character 8"),
        ("!", "a property name at character 2"),
        ("()", "a property name at character 2"),
    ],
)
def test_refusal_names_the_place(text, expected):
    """The message has the expected text and the character, counted from 1."""
    with pytest.raises(InvalidValueError) as refused:
        parse_expression(text, "service s")
    assert str(refused.value) == f"service s: placement_constraint = {text!r} is not allowed; expected {expected}"


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
    """A long expression without depth is accepted."""
    text = " || ".join(f"zone == z{i}" for i in range(500))
    assert parse_expression(text).holds({"zone": "z499"})


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("a == 1000", "1e3", True),
        ("a == -.5", "-0.5", True),
        ("a == 16", "1_6", False),
        ("a == nan", "nan", True),
        ("a < inf", "1", False),
        ("a ^ 1", "16", True),
    ],
    ids=[
        "a power of ten",
        "a bare point",
        "digits with an underscore are a text",
        "nan is a text",
        "inf is a text, which has no order",
        "caret compares the digits of numbers as texts",
    ],
)
def test_numbers_are_plain_decimals(text, value, holds):
    """Other notations that Python reads as numbers stay texts."""
    assert parse_expression(text).holds({"a": value}) is holds


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
