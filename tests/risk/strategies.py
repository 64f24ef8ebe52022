"""The strategies of `plb.testing` for the metrics and classes of these tests, and large random histories."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from plb import testing
from plb.risk import DemandHistory, ReplicaForecast
from tests.engine.strategies import examples

METRICS = ("cpu", "disk")
CLASSES = ("bronze", "gold", "silver")
NO_DEADLINE = examples(60)
"""The first example compiles kernels, so a deadline would measure the compiler."""


def columns(*, max_traces: int = 12, classes: tuple[str, ...] = CLASSES) -> st.SearchStrategy[dict[str, Any]]:
    return testing.history_columns(max_traces=max_traces, classes=classes, metrics=len(METRICS))


def histories(*, max_traces: int = 12, classes: tuple[str, ...] = CLASSES) -> st.SearchStrategy[DemandHistory]:
    return testing.histories(METRICS, max_traces=max_traces, classes=classes)


def replica_forecasts(*, now: int = 10) -> st.SearchStrategy[ReplicaForecast]:
    """Draw replicas created up to `now`, of known and unknown classes."""
    return testing.replica_forecasts(METRICS, classes=CLASSES, now=now)


def random_history(
    traces: int, *, seed: int, classes: int = 1, metrics: tuple[str, ...] = ("cpu", "memory", "disk")
) -> DemandHistory:
    """Return a history of `traces` log-normal traces with lifetimes in days and almost no ties."""
    rng = np.random.default_rng(seed)
    level = rng.lognormal(1.0, 1.0, (traces, len(metrics)))
    return DemandHistory.from_columns(
        metrics,
        tenant_class=[f"class{code}" for code in rng.integers(0, classes, traces)],
        role=rng.integers(0, 2, traces),
        lifetime=rng.exponential(10 * 86400.0, traces),
        level=level,
        initial=level * rng.random(level.shape),
        growth=rng.exponential(86400.0, level.shape),
        maximum=level,
    )
