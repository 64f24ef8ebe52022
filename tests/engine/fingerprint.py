"""The whole state of an engine as a comparable value, for tests that a call changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType
from typing import Any

import attrs
import numpy as np

from plb import PlacementAndLoadBalancing

MADE_WHEN_READ = ("_sampler", "_partition_names", "_merged", "_scratch")
"""What follows from the rest of the state and is made by the first query that reads it, and work arrays."""


def snapshot(engine: PlacementAndLoadBalancing) -> dict[str, Any]:
    """Return a deep copy of the state of the engine, arrays as bytes."""
    of_planner = ("demand_forecast", "seed", "searches", "scheduler", "batch", "now")
    return {"state": _frozen(engine._state)} | {name: _frozen(getattr(engine._planner, name)) for name in of_planner}


def _frozen(value: Any) -> Any:
    return _way_of(type(value))(value)


@cache
def _way_of(kind: type) -> Callable[[Any], Any]:
    """Return the function that copies values of a type."""
    if issubclass(kind, str | int | float | NoneType):
        return lambda value: value
    if issubclass(kind, np.ndarray):
        return lambda value: (value.dtype.str, value.shape, value.tobytes())
    if issubclass(kind, Mapping):
        return lambda value: {key: _frozen(item) for key, item in value.items()}
    if issubclass(kind, list | tuple):
        return lambda value: [_frozen(item) for item in value]
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
        return lambda value: {name: _frozen(getattr(value, name)) for name in names}
    if issubclass(kind, Callable):
        return lambda value: getattr(value, "__qualname__", value)
    if kind.__dictoffset__ and kind.__module__.startswith("plb"):
        return lambda value: {key: _frozen(item) for key, item in vars(value).items() if key not in MADE_WHEN_READ}
    return copy.copy
