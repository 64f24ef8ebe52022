"""Checks at the door: a value is returned as the engine wants it, or refused with item, field, value and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from numbers import Real
from types import MappingProxyType
from typing import TypeVar

from plb.errors import InvalidValueError

Member = TypeVar("Member", bound=Enum)


def check_number(
    item: str,
    field: str,
    value: float,
    *,
    low: float = 0.0,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a float if it is finite and within the bounds, else raise `InvalidValueError`."""
    allowed = f"a finite number {'>' if low_open else '>='} {low:g}" if math.isfinite(low) else "a finite number"
    if math.isfinite(high):
        allowed += f" and {'<' if high_open else '<='} {high:g}"
    given: object = value
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InvalidValueError(item, field, value, allowed)
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond every float
        raise InvalidValueError(item, field, value, allowed) from None
    inside = math.isfinite(number) and (value > low if low_open else value >= low)
    inside = inside and (value < high if high_open else value <= high)
    if not inside:
        raise InvalidValueError(item, field, value, allowed)
    return number


def check_count(item: str, field: str, value: int, *, low: int = 0) -> int:
    """Return `value` if it is a whole number of at least `low`, else raise `InvalidValueError`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < low:
        raise InvalidValueError(item, field, value, f"a whole number >= {low}")
    return int(value)


def check_text(item: str, field: str, value: object) -> str:
    """Return `value` if it is a string, else raise `InvalidValueError`."""
    if not isinstance(value, str):
        raise InvalidValueError(item, field, value, "a string")
    return value


def check_switch(item: str, field: str, value: object) -> bool:
    """Return `value` if it is True or False, else raise `InvalidValueError`."""
    if not isinstance(value, bool):
        raise InvalidValueError(item, field, value, "True or False")
    return value


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is a string with something in it, else raise `InvalidValueError`."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidValueError(kind, "name", name, "a string that is not empty")
    return name


def check_loads(item: str, field: str, loads: Mapping[str, float]) -> Mapping[str, float]:
    """Return a read-only copy of `loads` by metric if all are finite and at least 0."""
    return MappingProxyType({metric: check_number(item, f"{field}[{metric}]", load) for metric, load in loads.items()})


def check_member(item: str, field: str, value: object, kind: type[Member]) -> Member:
    """Return the member of an enumeration that `value` is or names, or refuse it."""
    try:
        return kind(value)
    except ValueError:
        allowed = "one of " + ", ".join(str(member.value) for member in kind)
        raise InvalidValueError(item, field, value, allowed) from None
