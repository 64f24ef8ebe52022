"""Placement constraints: expressions over node properties, with a grammar of their own (semantics.md section 4).

From loosest to tightest: ``||``, ``&&``, comparisons ``== != >= <= < > ^ !^``, ``!``, parentheses. There are no quotes;
blanks around names are trimmed. Both sides numeric: compared as numbers; else as text, where ``^`` means "starts with"
and the order operators have no meaning. An undefined property, or an order of texts, makes the node unfit.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

import attrs

from plb.errors import InvalidValueError

_TOKEN = re.compile(r"\|\||&&|==|!=|>=|<=|!\^|[<>^!()]|[^|&=!<>^()]+")
_ORDER: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISONS = {"==", "!=", "^", "!^", *_ORDER}
_LONGEST = 10_000
_DEEPEST = 100

Test = Callable[[Mapping[str, str]], bool | None]
"""True or False, or None where a property is undefined or a comparison has no meaning."""


@attrs.frozen(eq=False)
class Expression:
    """A parsed placement constraint."""

    text: str
    _test: Test

    def holds(self, properties: Mapping[str, str]) -> bool:
        """Tell whether a node with these properties satisfies the constraint."""
        return self._test(properties) is True


def parse_expression(text: str, item: str = "placement constraint") -> Expression:
    """Parse a placement constraint; empty text allows every node.

    Raises
    ------
    InvalidValueError
        If the text does not parse; the message names `item` and the place.
    """
    if not text.strip():
        return Expression(text, lambda _properties: True)
    if len(text) > _LONGEST:
        raise InvalidValueError(item, "placement_constraint", text[:40] + "…", f"at most {_LONGEST} characters")
    return Expression(text, _Parser(text, item).parse())


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, item: str) -> None:
        self.text, self.item = text, item
        self.tokens: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error(at, "an operator among == != >= <= < > ^ !^ && || !")
            if match.group().strip():
                self.tokens.append((match.group().strip(), at))
            at = match.end()
        self.next = 0
        self.depth = 0

    def parse(self) -> Test:
        test = self._any()
        if self.next < len(self.tokens):
            raise self._error(self.tokens[self.next][1], "an operator or the end")
        return test

    def _any(self) -> Test:
        tests = [self._all()]
        while self._accept("||"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda p: _either([test(p) for test in tests])

    def _all(self) -> Test:
        tests = [self._not()]
        while self._accept("&&"):
            tests.append(self._not())
        return tests[0] if len(tests) == 1 else lambda p: _both([test(p) for test in tests])

    def _not(self) -> Test:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error(self._place(), f"at most {_DEEPEST} nested operators")
        try:
            if self._accept("!"):
                inner = self._not()
                return lambda p: None if (value := inner(p)) is None else not value
            if self._accept("("):
                inner = self._any()
                if not self._accept(")"):
                    raise self._error(self._place(), "a closing parenthesis")
                return inner
            return self._comparison()
        finally:
            self.depth -= 1

    def _comparison(self) -> Test:
        name = self._word("a property name")
        sign = self._peek()
        if sign not in _COMPARISONS:
            raise self._error(self._place(), "a comparison among == != >= <= < > ^ !^")
        self.next += 1
        value = self._word("a value")
        return lambda p: _compare(p.get(name), sign, value)

    def _peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def _place(self) -> int:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.next += 1
        return True

    def _word(self, expected: str) -> str:
        token = self._peek()
        if not token or token in _COMPARISONS or token in {"||", "&&", "!", "(", ")"}:
            raise self._error(self._place(), expected)
        self.next += 1
        return token

    def _error(self, at: int, expected: str) -> InvalidValueError:
        return InvalidValueError(self.item, "placement_constraint", self.text, f"{expected} at character {at + 1}")


def _either(values: list[bool | None]) -> bool | None:
    return None if None in values and True not in values else True in values


def _both(values: list[bool | None]) -> bool | None:
    return False if False in values else (None if None in values else True)


def _compare(left: str | None, sign: str, right: str) -> bool | None:
    """Compare a property with a value; None where that has no meaning."""
    if left is None:
        return None
    numbers = _number(left), _number(right)
    if sign in _ORDER:
        if numbers[0] is None or numbers[1] is None:
            return None
        return _ORDER[sign](numbers[0], numbers[1])
    if sign in ("^", "!^"):
        return left.startswith(right) == (sign == "^")
    same = numbers[0] == numbers[1] if None not in numbers else left == right
    return same == (sign == "==")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
