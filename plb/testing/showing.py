"""The text of a counterexample, without defaults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs


def brief(value: Any) -> str:
    """Return a value as code, attrs objects without fields that have their defaults or are empty."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if attrs.has(type(value)):
        fields = [field for field in attrs.fields(type(value)) if not _goes_without_saying(field, value)]
        said = (f"{field.name}={brief(getattr(value, field.name))}" for field in fields)
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{brief(key)}: {brief(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(brief, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(brief, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def _goes_without_saying(field: attrs.Attribute[Any], item: Any) -> bool:
    value, default = getattr(item, field.name), field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # declared as a function
        return not value
    return value == default or (default is attrs.NOTHING and value in (None, (), {}, 0))
