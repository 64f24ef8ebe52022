"""Base of the sections of a scenario: fields with a range, checked when a section is created."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from plb.errors import InvalidValueError, PlbError
from plb.validation import check_count, check_number

LONGEST = 1e6
"""The longest time in a scenario, in hours or minutes."""


@attrs.frozen
class Range:
    """The range of a number in a scenario; its ends are included unless they are open."""

    low: float = 0.0
    high: float = math.inf
    low_open: bool = False
    whole: bool = False

    def check(self, item: str, field: str, value: float) -> None:
        """Raise `InvalidValueError` if `value` is outside the range."""
        if self.whole:
            check_count(item, field, value, low=int(self.low))  # type: ignore[arg-type]
            check_number(item, field, value, low=self.low, high=self.high)
        else:
            check_number(item, field, value, low=self.low, high=self.high, low_open=self.low_open)


def number(default: Any, *, low: float = 0.0, high: float = math.inf, low_open: bool = False) -> Any:
    """Return a field for a number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, low_open)})


def span(default: Any, *, low: float = 0.0, low_open: bool = False) -> Any:
    """Return a field for a time, or a tuple of times, in hours or minutes, of at most `LONGEST`."""
    return number(default, low=low, high=LONGEST, low_open=low_open)


def count(default: Any, *, low: int = 0, high: float = math.inf) -> Any:
    """Return a field for a whole number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, whole=True)})


def check_directory_name(item: str, name: str) -> None:
    """Raise `InvalidValueError` if the name is not valid for a directory, which results need."""
    if directory_name(name) != name:
        raise InvalidValueError(item, "name", name, "a valid name of a directory, without / or \\")


def directory_name(name: str) -> str:
    """Return a name with _ in place of each character that is invalid in names of directories, or of the whole name."""
    valid = "".join("_" if letter in "/\\" or not letter.isprintable() else letter for letter in name)
    return "_" if not valid.strip() or valid in (".", "..") else valid


def check_is_file(item: str, field: str, path: str) -> None:
    """Raise `InvalidValueError` if the path names no file."""
    if not Path(path).is_file():
        raise InvalidValueError(item, field, path, "the name of an existing file")


def check_field(item: str, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise `InvalidValueError` if `value` is outside the range of a section's field."""
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
    """A section whose fields are checked when it is created."""

    def __attrs_post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        for field in attrs.fields(type(self)):
            check_field(self.label(), field, values[field.name])
        for _, error in self.conflicts(values):
            raise error

    @classmethod
    def label(cls) -> str:
        """Return the name of the section in messages, as in a file."""
        return cls.__name__.removesuffix("Section").removeprefix("Node").lower()

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:  # noqa: ARG003
        """Yield the conflicts among values that are each within range, with the name of the field.

        `values`: by field; omitted fields have their defaults.
        """
        yield from ()
