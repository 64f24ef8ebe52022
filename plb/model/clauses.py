"""Which parts of a placement constraint a node does not satisfy, and what its properties are instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from plb.model.expressions import parse_expression


@attrs.frozen
class UnmetClause:
    """A part of a placement constraint that does not hold on a node.

    Parameters
    ----------
    clause
        Its text: one of the parts that a top-level ``&&`` joins, or the whole constraint.
    properties
        What the node has of the properties that it asks for; None: nothing.
    """

    clause: str
    properties: Mapping[str, str | None]

    def __str__(self) -> str:
        return f"{self.clause!r} must hold there ({', '.join(self._found())})"

    def _found(self) -> Iterator[str]:
        for name, value in self.properties.items():
            yield f"the node has no {name}" if value is None else f"{name} is {value!r}"


def unmet_clauses(constraint: str, properties: Mapping[str, str], *, primary: bool) -> tuple[UnmetClause, ...]:
    """Return the clauses of a constraint that do not hold on a node with these properties, for a role."""
    return tuple(
        UnmetClause(expression.text, {name: properties.get(name) for name in expression.properties})
        for expression in map(parse_expression, _clauses(constraint))
        if not expression.holds(properties, primary=primary)
    )


def _clauses(constraint: str) -> list[str]:
    """Return what a top-level ``&&`` joins; where a top-level ``||`` does, the whole constraint."""
    depth, begin, found = 0, 0, []
    for at, sign in enumerate(constraint):
        depth += (sign == "(") - (sign == ")")
        if depth:
            continue
        if constraint.startswith("||", at):
            return [constraint.strip()]
        if constraint.startswith("&&", at):
            found.append(constraint[begin:at].strip())
            begin = at + 2
    return [*found, constraint[begin:].strip()]
