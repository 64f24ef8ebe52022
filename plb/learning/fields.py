"""Fields of attrs classes that check what they are given; errors name item and field."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from plb.validation import check_count, check_number


def count_field(item: str, default: Any = attrs.NOTHING, *, low: int = 0, high: int | None = None) -> Any:
    """Return a field for a whole number, which is kept as plain `int`; see `plb.validation.check_count`."""
    return _field(partial(check_count, item, low=low, high=high), default)


def number_field(
    item: str, default: Any = attrs.NOTHING, *, low: float = 0.0, high: float = math.inf, low_open: bool = False
) -> Any:
    """Return a field for a finite number, which is kept as plain `float`; see `plb.validation.check_number`."""
    return _field(partial(check_number, item, low=low, high=high, low_open=low_open), default)


def _field(check: Callable[[str, Any], Any], default: Any) -> Any:
    """Return a field whose values are checked under its name."""

    def convert(value: Any, field: attrs.Attribute[Any]) -> Any:
        return check(field.name, value)

    return attrs.field(default=default, converter=attrs.Converter(convert, takes_field=True))
