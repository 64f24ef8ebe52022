"""Fields of attrs classes that check what they are given; errors name item and field."""

from __future__ import annotations

import math
from typing import Any

import attrs

from plb.validation import check_count, check_number


def count_field(item: str, default: Any = attrs.NOTHING, *, low: int = 0, high: int | None = None) -> Any:
    """Return a field for a whole number, which is kept as plain `int`; see `plb.validation.check_count`."""

    def check(value: int, field: attrs.Attribute[int]) -> int:
        return check_count(item, field.name, value, low=low, high=high)

    return attrs.field(default=default, converter=attrs.Converter(check, takes_field=True))


def number_field(
    item: str, default: Any = attrs.NOTHING, *, low: float = 0.0, high: float = math.inf, low_open: bool = False
) -> Any:
    """Return a field for a finite number, which is kept as plain `float`; see `plb.validation.check_number`."""

    def check(value: float, field: attrs.Attribute[float]) -> float:
        return check_number(item, field.name, value, low=low, high=high, low_open=low_open)

    return attrs.field(default=default, converter=attrs.Converter(check, takes_field=True))
