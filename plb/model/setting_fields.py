"""Declaration of settings: default here, name and default of Service Fabric, unit, and check of the values.

`PlbConfig` and `Metric` inherit their settings from classes with these fields. With the defaults here the engine is
simple. `PlbConfig.from_service_fabric` starts from the defaults of Service Fabric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import attrs

from plb.errors import InvalidValueError
from plb.model.documents import Described
from plb.validation import (
    LARGEST_COUNT,
    ReadOnlyMapping,
    check_count,
    check_mapping,
    check_member,
    check_number,
    check_switch,
    check_text,
    plain_scalar,
)

SETTING = "setting"
"""Key of the `Setting` in the metadata of a field."""
NEVER = "max"
"""The value of a time that never comes in the files of Service Fabric."""
PRIORITIES = ("-1 (off)", "0 (hard)", "1 (soft)", "2 (optimisation)")

Check = Callable[[str, str, Any], Any]
"""Function of item, field and value; returns the value to keep, or raises an error."""
Translate = Callable[[Any], Any]
"""Function of a value of Service Fabric; returns the value here."""


@attrs.frozen
class Setting:
    """Properties of a setting besides its default here."""

    name: str
    """Name in Service Fabric; empty if it has no such setting."""
    original: Any
    """Default of Service Fabric, as in its files; None if it has no such setting."""
    unit: str
    """Unit in words."""
    check: Check
    """Checks a value here."""
    translate: Translate = lambda value: value
    """Converts a value of Service Fabric."""


class Checked(Described):
    """Base of attrs classes with settings as fields; checks each when the object is created."""

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        kind: Any = type(self)
        for field, setting in settings_of(kind).items():
            value = plain_scalar(getattr(self, field))
            object.__setattr__(self, field, setting.check(self._item(), field, value))

    def _item(self) -> str:
        """Return the name of this object in messages."""
        return type(self).__name__


@cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings among the fields of an attrs class, by field name.

    A setting of Service Fabric that is declared without a name has the name of its field, in capitals:
    ``swap_cost`` is ``SwapCost``.
    """
    settings = {field.name: field.metadata[SETTING] for field in attrs.fields(kind) if SETTING in field.metadata}
    for field, setting in settings.items():
        if setting.original is not None and not setting.name:
            settings[field] = attrs.evolve(setting, name="".join(word.capitalize() for word in field.split("_")))
    return MappingProxyType(settings)


def declared(default: Any, setting: Setting) -> Any:
    """Return an attrs field with a default, which may be an empty dictionary, and a setting."""
    metadata = {SETTING: setting}
    if isinstance(default, dict):
        return attrs.field(factory=dict, hash=False, metadata=metadata)
    return attrs.field(default=default, metadata=metadata)


def number(
    default: float | None,
    *,
    original: Any = None,
    name: str = "",
    unit: str = "number",
    low: float = 0.0,
    high: float = math.inf,
    low_open: bool = False,
    none: bool = False,
    unlimited: Any = None,
) -> Any:
    """Return a field with a default for a number from `low` to `high` (above `low` if `low_open`), or None if `none`.

    `original`, `name` and `unit` are as in `Setting`, also in the functions below; a value `unlimited` of Service
    Fabric is None here.
    """
    check = _optional(partial(check_number, low=low, high=high, low_open=low_open), none=none)
    return declared(default, Setting(name, original, unit, check, _with_none_for(unlimited)))


def share(default: float | None, *, original: Any = None, high: float = 1.0, none: bool = False) -> Any:
    """Return a field for a share of a whole, from 0 to `high`, or None if `none`."""
    return number(default, original=original, unit="share", high=high, none=none)


def seconds(default: float | None, *, original: Any) -> Any:
    """Return a field for a time of at least 0 seconds; None: unlimited, or never."""
    return number(default, original=original, unit="seconds", none=True, unlimited=NEVER)


def count(
    default: int | None,
    *,
    original: Any = None,
    name: str = "",
    unit: str = "count",
    low: int = 0,
    none: bool = False,
    unlimited: int | None = None,
) -> Any:
    """Return a field for a whole number of at least `low`, or None if `none`; other arguments are as in `number`."""
    check = _optional(partial(check_count, low=low, high=LARGEST_COUNT), none=none)
    return declared(default, Setting(name, original, unit, check, _with_none_for(unlimited)))


def _optional(check: Check, *, none: bool) -> Check:
    """Return a check that also accepts None, if `none`; else the check itself."""
    return (lambda item, field, value: None if value is None else check(item, field, value)) if none else check


def _with_none_for(unlimited: Any) -> Translate:
    """Return the translation that turns the value `unlimited` of Service Fabric into None and keeps others."""
    return lambda value: None if value == unlimited else value


def switch(default: bool | None, *, original: Any = None, name: str = "", none: bool = False) -> Any:
    """Return a field that is on or off, or None if `none`."""
    return declared(default, Setting(name, original, "switch", _optional(check_switch, none=none)))


def member_of(kind: type[Enum], *, none: bool = False) -> dict[str, Setting]:
    """Return the metadata of a field that holds a member of an enumeration, given as such or by value, or None."""
    return {SETTING: Setting("", None, "name", _optional(partial(check_member, kind=kind), none=none))}


def priority(default: int, *, original: int) -> Any:
    """Return a field for the priority of a constraint: -1 off, 0 hard, 1 soft, 2 optimisation."""

    def check(item: str, field: str, value: Any) -> int:
        """Return `value` as a whole number if it is a priority, else raise `InvalidValueError`."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(-1, len(PRIORITIES) - 1):
            raise InvalidValueError(item, field, value, f"{', '.join(PRIORITIES[:-1])} or {PRIORITIES[-1]}")
        return int(value)

    return declared(default, Setting("", original, "priority", check))


def by_name(check: Check, allowed: str, unit: str, *, original: Any = None) -> Any:
    """Return a field for values by name, by default none.

    `check` is for each, `allowed` says in errors what is expected.
    """

    def check_all(item: str, field: str, value: Any) -> Mapping[str, Any]:
        """Return `value`, a mapping, with all entries checked, read-only, or raise `InvalidValueError`."""
        entries = check_mapping(item, field, value, allowed).items()
        return ReadOnlyMapping(
            {check_text(item, field, key): check(item, f"{field}[{key}]", entry) for key, entry in entries}
        )

    return declared({}, Setting("", original, unit, check_all))


def counts() -> Any:
    """Return a field for whole numbers by name, by default none."""
    check = partial(check_count, high=LARGEST_COUNT)
    return by_name(check, "a mapping of names to whole numbers", "count by name", original={})
