"""The whole state of an engine as a comparable value, for tests that a call changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from plb import PlacementAndLoadBalancing

MADE_WHEN_READ = ("_sampler", "_partition_names", "_merged", "_scratch")
"""What follows from the rest of the state and is made by the first query that reads it, and work arrays."""


def snapshot(engine: PlacementAndLoadBalancing) -> dict[str, Any]:
    """Return a deep copy of the state of the engine, arrays as bytes."""

    def frozen(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, Mapping):
            return {key: frozen(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [frozen(item) for item in value]
        if attrs.has(type(value)) and not isinstance(value, type):
            return {field.name: frozen(getattr(value, field.name)) for field in attrs.fields(type(value))}
        if hasattr(value, "__dict__") and type(value).__module__.startswith("plb") and not callable(value):
            return {key: frozen(item) for key, item in vars(value).items() if key not in MADE_WHEN_READ}
        return getattr(value, "__qualname__", value) if callable(value) else copy.copy(value)

    of_planner = ("demand_forecast", "seed", "searches", "scheduler", "batch", "now")
    return {"state": frozen(engine._state)} | {name: frozen(getattr(engine._planner, name)) for name in of_planner}
