"""Checks of arguments: a value is returned in the form that the engine uses, or refused with its range.

In all checks, `item` and `field` are for the message of the error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from itertools import filterfalse
from numbers import Real
from operator import index
from types import NoneType
from typing import Any, TypeVar

import attrs
import numpy as np

from plb.errors import ConflictError, InvalidValueError, UnknownNameError

Key = TypeVar("Key")
Value = TypeVar("Value", covariant=True)


class ReadOnlyMapping(Mapping[Key, Value]):
    """A read-only copy of a mapping, in its order."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Key, Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: Key) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


LARGEST_COUNT = 2**31
"""Largest whole number of settings and descriptions: sums and tenths of it fit into 64 bits."""
LARGEST_WEIGHT = 1e100
"""Largest weight in an energy, which stays finite."""
MOST_REPLICAS = 2**20
"""Most replicas of a partition, each on a node of its own."""

Member = TypeVar("Member", bound=Enum)
Item = TypeVar("Item")


SCALARS: frozenset[type] = frozenset({bool, float, int, str, NoneType})
"""The types of a single value that has a form in JSON."""


def plain_scalar(value: Any) -> Any:
    """Return a number, switch or text of another type, such as of NumPy, as the type of Python.

    Else `value` unchanged.
    """
    if type(value) in SCALARS:
        return value
    if isinstance(value, np.bool_ | np.str_):
        return value.item()
    integer = _whole(value)
    number = _finite(value) if integer is None else integer
    return value if number is None else number


def with_plain_scalars(_kind: type[Any], fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Return fields of an attrs class with `plain_scalar` as converter of numbers, switches and texts.

    It is a `field_transformer` of attrs.
    """
    types = {kind.__name__ for kind in SCALARS}
    return [
        field.evolve(converter=plain_scalar)
        if field.converter is None and not types.isdisjoint(str(field.type).split(" | "))
        else field
        for field in fields
    ]


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
    """Return `value` as a float if it is finite and from `low` to `high`, else raise `InvalidValueError`.

    With `low_open` or `high_open`, that bound itself is refused.
    """
    number = _finite(value)
    inside = number is not None and (number > low if low_open else number >= low)
    if number is None or not (inside and (number < high if high_open else number <= high)):
        allowed = f"a finite number {'>' if low_open else '>='} {low:g}" if math.isfinite(low) else "a finite number"
        if math.isfinite(high):
            allowed += f" and {'<' if high_open else '<='} {high:g}"
        raise InvalidValueError(item, field, value, allowed)
    return number


def _finite(value: object) -> float | None:
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):  # NumPy counts durations as numbers
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond every float
        return None
    return number if math.isfinite(number) else None


def check_count(item: str, field: str, value: int, *, low: int = 0, high: int | None = None) -> int:
    """Return `value` if it is a whole number of at least `low`, at most `high`, else raise `InvalidValueError`."""
    count = _whole(value)
    if count is None or count < low or (high is not None and count > high):
        allowed = f"a whole number >= {low}" + ("" if high is None else f" and <= {high}")
        raise InvalidValueError(item, field, value, allowed)
    return count


def check_whole(item: str, field: str, value: int) -> int:
    """Return `value` if it is a whole number of either sign, else raise `InvalidValueError`."""
    number = _whole(value)
    if number is None:
        raise InvalidValueError(item, field, value, "a whole number")
    return number


def _whole(value: object) -> int | None:
    """Return a whole number as an `int`; None for anything else."""
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def check_text(item: str, field: str, value: object) -> str:
    """Return `value` if it is a string without lone surrogates, else raise `InvalidValueError`."""
    if not isinstance(value, str):
        raise InvalidValueError(item, field, value, "a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidValueError(item, field, value, "a string without lone surrogates") from None
    return value


def check_switch(item: str, field: str, value: object) -> bool:
    """Return `value` as a `bool` if it is True or False, else raise `InvalidValueError`."""
    switch = plain_scalar(value)
    if not isinstance(switch, bool):
        raise InvalidValueError(item, field, value, "True or False")
    return switch


def check_name(item: str, name: str, *, field: str = "name") -> str:
    """Return `name` if it is a string with something in it and no lone surrogates, else raise `InvalidValueError`."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidValueError(item, field, name, "a string that is not empty")
    return check_text(item, field, name)


def check_kind(item: str, field: str, value: object, kind: type[Item]) -> Item:
    """Return `value` if it is of the class `kind`, else raise `InvalidValueError`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidValueError(item, field, value, f"{article} {kind.__name__}")
    return value


def check_mapping(item: str, field: str, value: object, allowed: str) -> Mapping[Any, Any]:
    """Return `value` if it is a mapping, else raise `InvalidValueError`; `allowed` says in words what is expected."""
    if not isinstance(value, Mapping):
        raise InvalidValueError(item, field, value, allowed)
    return value


def check_items(item: str, field: str, values: object, kind: type[Item]) -> tuple[Item, ...]:
    """Return the items of a list or the like if all are of the class `kind`, else raise `InvalidValueError`."""
    items = check_collection(item, field, values, f"a list of {kind.__name__}")
    if not {*map(type, items)} <= {kind}:
        for member in items:
            check_kind(item, field, member, kind)
    return items


def check_names(item: str, field: str, values: object) -> tuple[str, ...]:
    """Return a collection of texts as a tuple, else raise `InvalidValueError`, also for a single text."""
    allowed = "a collection of names"
    names = check_collection(item, field, values, allowed)
    if not all(isinstance(name, str) for name in names):
        raise InvalidValueError(item, field, values, allowed)
    for name in filterfalse(str.isascii, names):
        check_text(item, field, name)
    return names


def check_distinct(kind: str, names: Collection[str]) -> None:
    """Raise `ConflictError` at the first name that occurs twice; `kind`, such as "node", begins the message."""
    if len(set(names)) < len(names):
        name = next(name for name, times in Counter(names).items() if times > 1)
        raise ConflictError(f"{kind} {name}: is described twice")


def check_collection(item: str, field: str, values: object, allowed: str) -> tuple[Any, ...]:
    """Return a collection, no text and no mapping, as a tuple, else raise `InvalidValueError` with `allowed`."""
    try:
        if not isinstance(values, str | bytes | Mapping):
            return tuple(values)  # type: ignore[arg-type]
    except TypeError:  # no collection at all
        pass
    raise InvalidValueError(item, field, values, allowed)


def check_loads(item: str, field: str, loads: Mapping[str, float]) -> Mapping[str, float]:
    """Return a read-only copy of `loads` by metric if all are finite and at least 0, else raise `InvalidValueError`."""
    by_metric = check_mapping(item, field, loads, "a mapping of metrics to numbers")
    return ReadOnlyMapping(
        {metric: check_number(item, f"{field}[{metric}]", load) for metric, load in by_metric.items()}
    )


def check_quantum(item: str, field: str, value: float, *, high: float = math.inf) -> float:
    """Return a quantum of a metric as a float if it is a power of two, else raise `InvalidValueError`."""
    allowed = "a power of two" + (f", at most {high:g}" if math.isfinite(high) else "")
    try:
        number = check_number(item, field, value, high=high, low_open=True)
    except InvalidValueError:
        raise InvalidValueError(item, field, value, allowed) from None
    if math.frexp(number)[0] != 0.5:
        raise InvalidValueError(item, field, value, allowed)
    return number


def check_known(kind: str, name: str, known: Collection[str], context: str = "") -> None:
    """Raise `UnknownNameError`, whose arguments these are, if a name is not among the known ones."""
    if name not in known:
        raise UnknownNameError(kind, name, known, context)


def check_metrics(item: str, field: str, names: Iterable[str], metrics: Collection[str]) -> None:
    """Raise `UnknownNameError`, about `field` of `item`, at the first of `names` that is not among `metrics`."""
    for name in names:
        check_known("metric", name, metrics, f"{item}: {field}")


def check_member(item: str, field: str, value: object, kind: type[Member]) -> Member:
    """Return the member of `kind` that is `value` or whose value it is, else raise `InvalidValueError`."""
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        allowed = "one of " + ", ".join(str(member.value) for member in kind)
        raise InvalidValueError(item, field, value, allowed) from None
