"""Placement constraints: expressions over node properties (docs/constraints/placement.md).

From loosest to tightest: ``||``, ``&&``, then ``!`` before a comparison, parentheses. Comparisons are
``== != >= <= < > ^ !^ ^P !^P ~``, with a property name on the left and a value on the right. There are no quotes;
blanks around names are trimmed.

Two numbers (decimals such as ``8``, ``-1.5``, ``2e3``) compare as numbers, two URIs as URIs, everything else as text.
The order operators need numbers. ``^`` is "equal to or under" for URIs, else "starts with". A URI is a scheme, a colon
and a path that begins with ``/``, without blanks (``fd:/dc0/r1``). Case matters in the path, not in scheme and
authority; a trailing slash is ignored. An undefined property, or an order of texts, makes the node infeasible, also
under ``!``, unless the other side alone decides an ``&&`` or ``||``.

``FaultDomain ^P fd:/dc0`` is ``^`` for the primary only, ``!^P`` is ``!^`` for the primary only. Other roles satisfy
both, also under ``!``. As prefixes they limit any test: ``^P zone == a`` applies to the primary only,
``!^P zone == a`` is its negation. ``^P`` ends at a blank: ``zone ^Paris`` is ``zone ^ Paris``.

``FDPolicy ~ Packing|Nonpacking|Ignore`` and ``PlacePolicy ~ NonPartially`` are policies of the service, not tests.
They hold on every node. They stand alone or are joined by ``&&``; they are errors within ``||``, ``!`` or ``^P``.

`unmet_clauses` and its helpers return the parts of a constraint that a node does not satisfy.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from plb.errors import InvalidValueError

_TOKEN = re.compile(r"\|\||&&|==|!=|>=|<=|!?\^P(?=[\s(]|$)|!\^|[<>^!()~]|[^|&=!<>^()~]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_URI = re.compile(r"([a-z][a-z0-9+.-]*:(?=/)(?://[^/\s]*)?)(\S*)", re.ASCII | re.IGNORECASE)
_NumberComparison = Callable[[float, float], bool]
_ORDER: dict[str, _NumberComparison] = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}
_NUMERIC: dict[str, _NumberComparison] = {"==": operator.eq, **_ORDER}
_PREFIXES = {"!", "(", "^P", "!^P"}
_COMPARISONS = {"==", "!=", "^", "!^", "^P", "!^P", "~", *_ORDER}
_SIGNS = _COMPARISONS | _PREFIXES | {"||", "&&", ")"}
_LONGEST_TEXT = 10_000
_DEEPEST_NESTING = 100

Test = Callable[[Mapping[str, str], bool], bool | None]
"""Function of properties and of whether the replica is primary: true, false, or None if a comparison has no meaning."""


class FaultDomainPolicy(enum.Enum):
    """Spread of a service over fault domains: ``FDPolicy ~ …`` (docs/constraints/placement.md)."""

    PACKING = "Packing"
    NONPACKING = "Nonpacking"
    IGNORE = "Ignore"


_POLICIES = {"FDPolicy": [policy.value for policy in FaultDomainPolicy], "PlacePolicy": ["NonPartially"]}


@attrs.frozen(eq=False)
class Expression:
    """A parsed placement constraint (docs/constraints/placement.md)."""

    text: str
    """The text from which it was parsed."""
    _test: Test
    fault_domain_policy: FaultDomainPolicy = FaultDomainPolicy.PACKING
    """The policy of ``FDPolicy ~ …``."""
    places_all_or_nothing: bool = False
    """Whether the text has ``PlacePolicy ~ NonPartially``: the placement of a partition is all-or-nothing."""
    binds_primary_only: bool = False
    """Whether the text has ``^P`` or ``!^P``, so that `holds` may differ by role."""
    properties: tuple[str, ...] = ()
    """Names of the properties in its comparisons, once each, from left to right."""

    def holds(self, properties: Mapping[str, str], *, primary: bool = True) -> bool:
        """Return whether a node with these properties, implicit ones included, satisfies the constraint."""
        return self._test(properties, primary) is True

    def __reduce__(self) -> tuple[Callable[[str], Expression], tuple[str]]:
        """Copy and pickle the text, because its tests are functions."""
        return parse_expression, (self.text,)


def parse_expression(text: str, item: str = "placement constraint") -> Expression:
    """Parse a placement constraint; empty text allows every node.

    Raise `InvalidValueError` if the text is not valid; the message has `item` and the position.
    """
    if not text.strip():
        return Expression(text, lambda _properties, _primary: True)
    if len(text) > _LONGEST_TEXT:
        raise InvalidValueError(item, "placement_constraint", text[:40] + "…", f"at most {_LONGEST_TEXT} characters")
    return _Parser(text, item).parse()


@attrs.frozen
class _Scope:
    """The prefixes around a part of an expression."""

    depth: int = 0
    """Number of prefixes: parentheses, ``!``, ``^P`` and ``!^P``."""
    negated: bool = False
    """Whether an odd number of them negates."""
    primary_only: bool = False
    """Whether the part only binds the primary."""
    plain: bool = True
    """Whether all prefixes are parentheses."""

    def under(self, prefix: str) -> _Scope:
        """Return the scope of the part after a further prefix."""
        return _Scope(
            depth=self.depth + 1,
            negated=self.negated != prefix.startswith("!"),
            primary_only=self.primary_only or prefix.endswith("^P"),
            plain=self.plain and prefix == "(",
        )


class _Parser:
    """Recursive descent parser of one expression. Negations are applied to the comparisons.

    `item` is for messages; `tokens[next]` is the token that is read next, with its position in the text.
    """

    def __init__(self, text: str, item: str) -> None:
        self.text, self.item = text, item
        self.tokens = self._split()
        self.next = 0
        self.policies: dict[str, str] = {}
        self.policy_positions: list[int] = []
        self.binds_primary_only = False
        self.properties: dict[str, None] = {}

    def parse(self) -> Expression:
        """Return the expression of the whole text; raise `InvalidValueError` at an error."""
        test = self._any(_Scope())
        if self.next < len(self.tokens):
            raise self._error(self._position(), "an operator or the end")
        return Expression(
            self.text,
            test,
            FaultDomainPolicy(self.policies.get("FDPolicy", "Packing")),
            "PlacePolicy" in self.policies,
            self.binds_primary_only,
            tuple(self.properties),
        )

    def _split(self) -> list[tuple[str, int]]:
        """Return the tokens of the text, trimmed, each with its position."""
        tokens, position = [], 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._error(position, "an operator among == != >= <= < > ^ !^ && || !")
            token = match.group()
            if token.strip():
                tokens.append((token.strip(), position + len(token) - len(token.lstrip())))
            position = match.end()
        return tokens

    def _any(self, scope: _Scope) -> Test:
        """Read parts joined by ``||``, none of which may be a policy; return the test of all of them."""
        policies_before = len(self.policy_positions)
        tests = [self._all(scope)]
        while self._read_if("||"):
            tests.append(self._all(scope))
        if len(tests) > 1 and len(self.policy_positions) > policies_before:
            raise self._policy_error(self.policy_positions[policies_before])
        # below a negation, tests are negated one by one, so "or" becomes "and" (De Morgan)
        return _join(tests, decisive=not scope.negated)

    def _all(self, scope: _Scope) -> Test:
        """Read operands joined by ``&&``; return the test of all of them."""
        tests = [self._operand(scope)]
        while self._read_if("&&"):
            tests.append(self._operand(scope))
        return _join(tests, decisive=scope.negated)

    def _operand(self, scope: _Scope) -> Test:
        """Read a comparison with the prefixes before it, or a part in parentheses; return its test."""
        prefix = self._next_token()
        if prefix not in _PREFIXES:
            return self._comparison(scope)
        if scope.depth >= _DEEPEST_NESTING:
            raise self._error(self._position(), f"at most {_DEEPEST_NESTING} nested operators")
        self.next += 1
        if prefix != "(":
            return self._operand(scope.under(prefix))
        inner = self._any(scope.under(prefix))
        if not self._read_if(")"):
            raise self._error(self._position(), "a closing parenthesis")
        return inner

    def _comparison(self, scope: _Scope) -> Test:
        """Read a comparison or a policy; return its test."""
        position = self._position()
        name = self._word("a property name")
        sign = self._next_token()
        if sign not in _COMPARISONS:
            raise self._error(self._position(), "a comparison among == != >= <= < > ^ !^")
        self.next += 1
        if sign == "~":
            return self._policy(scope, name, position)
        value = self._word("a value")
        self.properties[name] = None
        primary_only = scope.primary_only or sign.endswith("P")
        self.binds_primary_only |= primary_only
        expected = sign.startswith("!") == scope.negated  # two negations cancel out
        sign = "==" if sign == "!=" else sign.strip("!P")
        return _comparison(name, sign, value, expected=expected, primary_only=primary_only)

    def _policy(self, scope: _Scope, name: str, position: int) -> Test:
        """Read the value of a policy, whose `name`, at `position` in the text, and sign are read, and record it.

        As a test it is true.
        """
        policy = _equal_but_for_case(name, _POLICIES)
        if policy is None:
            raise self._error(position, f"{' or '.join(_POLICIES)} before ~")
        if not scope.plain:
            raise self._policy_error(position)
        value_at = self._position()
        value = _equal_but_for_case(self._word("a policy"), _POLICIES[policy])
        if value is None:
            raise self._error(value_at, f"{' or '.join(_POLICIES[policy])} after {policy} ~")
        if self.policies.setdefault(policy, value) != value:
            raise self._error(position, f"only one {policy}")
        self.policy_positions.append(position)
        return lambda _properties, _primary: True

    def _next_token(self) -> str:
        """Return the next token without reading it; empty at the end."""
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def _position(self) -> int:
        """Return the position of the next token in the text."""
        return self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)

    def _read_if(self, token: str) -> bool:
        """Read the next token if it is `token`; return whether it is."""
        if self._next_token() != token:
            return False
        self.next += 1
        return True

    def _word(self, expected: str) -> str:
        """Read a token that is no sign and return it; `expected` describes it in the error if there is none."""
        token = self._next_token()
        if not token or token in _SIGNS:
            raise self._error(self._position(), expected)
        self.next += 1
        return token

    def _policy_error(self, position: int) -> InvalidValueError:
        """Return the error for a policy, at `position` in the text, where only comparisons may be."""
        return self._error(position, "a test (policies stand alone or joined by &&)")

    def _error(self, position: int, expected: str) -> InvalidValueError:
        """Return the error that `expected`, in words, is missing at a position of the text."""
        return InvalidValueError(
            self.item, "placement_constraint", self.text, f"{expected} at character {position + 1}"
        )


def _equal_but_for_case(name: str, names: Iterable[str]) -> str | None:
    """Return which of `names` equals a name except for case, or None."""
    return next((candidate for candidate in names if candidate.lower() == name.lower()), None)


def _join(tests: list[Test], *, decisive: bool) -> Test:
    """Return the test that joins tests by "or" (`decisive` true) or "and" (false).

    Its result is None if none decides.
    """
    if len(tests) == 1:
        return tests[0]

    def joined(properties: Mapping[str, str], primary: bool) -> bool | None:
        """Return the joint result of all tests for a node with these properties and a `primary` or other role."""
        values = [test(properties, primary) for test in tests]
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return joined


def _comparison(name: str, sign: str, value: str, *, expected: bool, primary_only: bool) -> Test:
    """Return the test that holds if the comparison of a property with a value by `sign` gives `expected`.

    With `primary_only`, it holds for every other role.
    """

    def test(properties: Mapping[str, str], primary: bool) -> bool | None:
        """Return whether a node with these `properties` may have a primary or other replica; None: not comparable."""
        if primary_only and not primary:
            return True
        result = _compare(properties.get(name), sign, value)
        return None if result is None else result is expected

    return test


def _compare(left: str | None, sign: str, right: str) -> bool | None:
    """Return whether ``left sign right`` holds for texts; `sign` is ==, ^ or an order, such as >=.

    The result is None if the comparison has no meaning: `left` is None, an undefined property, or texts have no order.
    """
    if left is None:
        return None
    left_number, right_number = _number(left), _number(right)
    if left_number is not None and right_number is not None and sign in _NUMERIC:
        return _NUMERIC[sign](left_number, right_number)
    if sign in _ORDER:
        return None
    left_uri, right_uri = _uri(left), _uri(right)
    if left_uri is not None and right_uri is not None:
        return left_uri == right_uri if sign == "==" else left_uri[: len(right_uri)] == right_uri
    return left == right if sign == "==" else left.startswith(right)


def _number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _uri(text: str) -> list[str] | None:
    """Return scheme with authority, then the path segments; None if the text is not a URI."""
    match = _URI.fullmatch(text)
    return [match[1].lower(), *match[2].rstrip("/").split("/")] if match else None


@attrs.frozen
class UnmetClause:
    """A part of a placement constraint that does not hold on a node."""

    clause: str
    """Text of the part: one of those joined by a top-level ``&&``, or the whole constraint."""
    properties: Mapping[str, str | None]
    """The values of its properties on the node; None: the property is not defined."""

    def __str__(self) -> str:
        return f"{self.clause!r} must hold there ({', '.join(self._values_in_words())})"

    def _values_in_words(self) -> Iterator[str]:
        """Yield the value of each property in words."""
        for name, value in self.properties.items():
            yield f"the node has no {name}" if value is None else f"{name} is {value!r}"


def unmet_clauses(constraint: str, properties: Mapping[str, str], *, primary: bool) -> tuple[UnmetClause, ...]:
    """Return the clauses that do not hold on a node with these properties, for a primary or another replica."""
    return tuple(
        UnmetClause(expression.text, {name: properties.get(name) for name in expression.properties})
        for expression in map(parse_expression, _clauses(constraint))
        if not expression.holds(properties, primary=primary)
    )


def _clauses(constraint: str) -> list[str]:
    """Return the parts joined by a top-level ``&&``; with a top-level ``||``, the whole constraint."""
    depth, begin, clauses = 0, 0, []
    for position, sign in enumerate(constraint):
        depth += (sign == "(") - (sign == ")")
        if depth:
            continue
        if constraint.startswith("||", position):
            return [constraint.strip()]
        if constraint.startswith("&&", position):
            clauses.append(constraint[begin:position].strip())
            begin = position + 2
    return [*clauses, constraint[begin:].strip()]
