"""Descriptions of hosts as plain values of JSON, and back through their own checks.

All fields are written, also those at their default, so that another default later changes no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

import attrs

from plb.errors import InvalidValueError
from plb.model.role import Role
from plb.model.snapshot import ITEM, Part

Description = TypeVar("Description")

SEQUENCE = "tuple"
"""Key of a tuple among options, which would otherwise come back as a list."""


def fields_of(kind: type[Any]) -> list[str]:
    """Return the names of the fields of a description."""
    return [field.name for field in attrs.fields(kind)]


def table_of(kind: type[Any], items: Iterable[Any]) -> dict[str, Any]:
    """Return descriptions as the names of their fields, and a list of values for each."""
    fields = fields_of(kind)
    return {"fields": fields, "items": [[plain(getattr(one, field)) for field in fields] for one in items]}


def items_of(kind: type[Description], part: Part) -> list[Description]:
    """Return the descriptions of a table.

    Raises
    ------
    InvalidValueError
        If its fields are not those of `kind`, or a description refuses a value.
    """
    fields = fields_of(kind)
    if part.value("fields", list) != fields:
        part.refuse("fields", part.values["fields"], f"the fields of {kind.__name__}: {', '.join(fields)}")
    items = part.value("items", list)
    for item in items:
        if not isinstance(item, list) or len(item) != len(fields):
            part.refuse("items", item, f"lists of {len(fields)} values")
    return [kind(**dict(zip(fields, item, strict=True))) for item in items]


def plain(value: Any) -> Any:
    """Return the value of a field of a description as one of JSON, which the field accepts again."""
    if isinstance(value, Role):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value


def plain_option(field: str, value: Any) -> Any:
    """Return an option of a policy as a value of JSON; one that has no such form raises `InvalidValueError`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return {SEQUENCE: [plain_option(field, one) for one in value]}
    if type(value) is list:
        return [plain_option(field, one) for one in value]
    allowed = "a number, a text, a switch, None, or a list or tuple of these"
    raise InvalidValueError(ITEM, field, value, allowed)


def option_of(value: Any) -> Any:
    """Return the option that `plain_option` has written."""
    if isinstance(value, dict):
        return tuple(map(option_of, value.get(SEQUENCE, ())))
    return [option_of(one) for one in value] if isinstance(value, list) else value
