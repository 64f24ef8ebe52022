"""What the sections of a scenario are made of: fields with a range, checked when a section is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from plb.errors import InvalidValueError, PlbError
from plb.validation import check_count, check_number

LONGEST = 1e6
"""The longest time that a scenario can speak of, in hours or minutes."""


@attrs.frozen
class Range:
    """The range of a number in a scenario; ends belong to it unless they are open."""

    low: float = 0.0
    high: float = math.inf
    low_open: bool = False
    whole: bool = False

    def check(self, item: str, field: str, value: float) -> None:
        """Raise `InvalidValueError` if `value` lies outside."""
        if self.whole:
            check_count(item, field, value, low=int(self.low))  # type: ignore[arg-type]
            check_number(item, field, value, low=self.low, high=self.high)
        else:
            check_number(item, field, value, low=self.low, high=self.high, low_open=self.low_open)


def number(default: Any, *, low: float = 0.0, high: float = math.inf, low_open: bool = False) -> Any:
    """Return a field for a number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, low_open)})


def span(default: Any, *, low: float = 0.0, low_open: bool = False) -> Any:
    """Return a field for a time, or a tuple of times, in hours or minutes: up to a century or so."""
    return number(default, low=low, high=LONGEST, low_open=low_open)


def count(default: Any, *, low: int = 0, high: float = math.inf) -> Any:
    """Return a field for a whole number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, whole=True)})


def check_directory_name(item: str, name: str) -> None:
    """Raise `InvalidValueError` if no directory can have this name: results go to one."""
    if directory_name(name) != name:
        raise InvalidValueError(item, "name", name, "a name that a directory can have, without / or \\")


def directory_name(name: str) -> str:
    """Return a name as a directory can have it: _ stands for every letter that is not allowed, or for all of it."""
    found = "".join("_" if letter in "/\\" or not letter.isprintable() else letter for letter in name)
    return "_" if not found.strip() or found in (".", "..") else found


def check_is_file(item: str, field: str, path: str) -> None:
    """Raise `InvalidValueError` if there is no file at this place."""
    if not Path(path).is_file():
        raise InvalidValueError(item, field, path, "the name of a file that is there")


def check_field(item: str, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise `InvalidValueError` if `value` lies outside the range of a section's field."""
    allowed: Range | None = field.metadata.get("range")
    if allowed is None or value is None:
        return
    if not isinstance(value, tuple):
        allowed.check(item, field.name, value)
        return
    for place, one in enumerate(value):
        allowed.check(item, f"{field.name}[{place}]", one)


@attrs.frozen(kw_only=True)
class Section:
    """A section whose fields are checked when it is made."""

    def __attrs_post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        for field in attrs.fields(type(self)):
            check_field(type(self).__name__.lower(), field, values[field.name])
        for _, error in self.conflicts(values):
            raise error

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:  # noqa: ARG003
        """Yield what is wrong with values that are each within its range, with the name of the field.

        Parameters
        ----------
        values
            By field; those that are left out have their defaults.
        """
        yield from ()
