"""Strategies for demand histories, and for replicas whose risk is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from plb.model import Role
from plb.risk.demand_history import DemandHistory
from plb.risk.risk_model import ReplicaForecast

CLASSES = ("gold", "silver")
"""Tenant classes of clusters and their histories."""


@lru_cache(maxsize=1000, typed=True)
def choice(*values: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of one of the values, the same one at each call, as making one takes longer than its draw."""
    return st.sampled_from(values)


@st.composite
def peak_columns(draw: st.DrawFn, metrics: int) -> dict[str, Any]:
    """Columns of a history of 2 to 20 traces that are at their peak from the start."""
    traces = draw(st.integers(2, 20))
    row = st.lists(st.integers(0, 16), min_size=metrics, max_size=metrics)
    level = [draw(row) for _ in range(traces)]
    return {
        "tenant_class": [draw(choice(*CLASSES)) for _ in range(traces)],
        "role": [draw(choice(*Role)) for _ in range(traces)],
        "lifetime": [draw(st.integers(0, 40)) for _ in range(traces)],
        "level": level,
        "initial": [[value // 2 for value in values] for values in level],
        "growth": [[0] * metrics] * traces,
        "maximum": level,
    }


@st.composite
def history_columns(
    draw: st.DrawFn, *, max_traces: int = 12, classes: Sequence[str] = CLASSES, metrics: int = 2
) -> dict[str, Any]:
    """Columns of a small history: whole numbers, and growth in powers of two, so that integers can check curves."""
    traces = draw(st.integers(1, max_traces))

    def matrix(values: st.SearchStrategy[int]) -> np.ndarray[Any, Any]:
        """Draw a value for each trace and metric, (traces, metrics)."""
        return np.array([[draw(values) for _ in range(metrics)] for _ in range(traces)], np.float64)

    level = matrix(st.integers(0, 8))
    return {
        "tenant_class": [draw(choice(*classes)) for _ in range(traces)],
        "role": [draw(choice(*Role)) for _ in range(traces)],
        "lifetime": [draw(st.integers(0, 12)) for _ in range(traces)],
        "level": level,
        "initial": np.floor(level * matrix(st.integers(0, 4)) / 4),
        "growth": matrix(choice(0, 1, 2, 4, 8)),
        "maximum": level + matrix(st.integers(0, 2)),
    }


def histories(
    metrics: Sequence[str], *, max_traces: int = 12, classes: Sequence[str] = CLASSES
) -> st.SearchStrategy[DemandHistory]:
    """Small histories over `metrics`."""
    columns = history_columns(max_traces=max_traces, classes=classes, metrics=len(metrics))
    return columns.map(lambda drawn: DemandHistory.from_columns(metrics, **drawn))


@st.composite
def replica_forecasts(
    draw: st.DrawFn, metrics: Sequence[str], *, classes: Sequence[str] = CLASSES, now: int = 10
) -> ReplicaForecast:
    """Replicas created up to `now`, of known and unknown classes, with a few samples and with limits or without."""
    loads = st.integers(0, 9).map(float)
    count = draw(st.integers(0, 4))
    samples = {name: draw(st.lists(loads, min_size=count, max_size=count)) for name in metrics}
    demanded = {name: draw(loads) for name in metrics}
    return ReplicaForecast(
        tenant_class=draw(choice(*classes, "unheard-of", None)),
        role=draw(choice(*Role)),
        created=float(draw(st.integers(0, now))),
        largest_demand={name: max([*samples[name], demanded[name]]) for name in metrics},
        key=draw(st.integers(0, 2**64 - 1)),
        samples=samples,
        limits=draw(st.dictionaries(st.sampled_from(list(metrics)), loads)),
    )
