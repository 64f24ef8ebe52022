"""Hypothesis strategies for demand histories and replicas, shared by the tests of `plb.risk`."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from plb.model import Role
from plb.risk import DemandHistory, ReplicaOutlook

METRICS = ("cpu", "disk")
CLASSES = ("bronze", "gold", "silver")
NO_DEADLINE = settings(deadline=None, max_examples=60)
"""The first example compiles kernels, so a deadline would measure the compiler."""


@st.composite
def columns(draw: st.DrawFn, *, max_traces: int = 12, classes: tuple[str, ...] = CLASSES) -> dict[str, Any]:
    """Columns of a small history: whole numbers, growth over powers of two, so that plain integers can check curves."""
    traces = draw(st.integers(1, max_traces))

    def matrix(values: st.SearchStrategy[int]) -> np.ndarray[Any, Any]:
        return np.array([[draw(values) for _ in METRICS] for _ in range(traces)], np.float64)

    level = matrix(st.integers(0, 8))
    return {
        "tenant_class": [draw(st.sampled_from(classes)) for _ in range(traces)],
        "role": [draw(st.sampled_from(list(Role))) for _ in range(traces)],
        "lifetime": [draw(st.integers(0, 12)) for _ in range(traces)],
        "level": level,
        "initial": np.floor(level * matrix(st.integers(0, 4)) / 4),
        "growth": matrix(st.sampled_from([0, 1, 2, 4, 8])),
        "maximum": level + matrix(st.integers(0, 2)),
    }


def histories(*, max_traces: int = 12, classes: tuple[str, ...] = CLASSES) -> st.SearchStrategy[DemandHistory]:
    """Small histories over `METRICS`."""
    made = columns(max_traces=max_traces, classes=classes)
    return made.map(lambda given: DemandHistory.from_columns(METRICS, **given))


def outlooks(*, now: int = 10) -> st.SearchStrategy[ReplicaOutlook]:
    """Replicas created up to `now`, of known and unknown classes."""
    return st.builds(
        ReplicaOutlook,
        tenant_class=st.sampled_from([*CLASSES, "unheard-of", None]),
        role=st.sampled_from(list(Role)),
        created=st.integers(0, now).map(float),
        largest_demand=st.fixed_dictionaries({name: st.integers(0, 9).map(float) for name in METRICS}),
        key=st.integers(0, 2**64 - 1),
    )


def random_history(
    traces: int, *, seed: int, classes: int = 1, metrics: tuple[str, ...] = ("cpu", "memory", "disk")
) -> DemandHistory:
    """Return a history of `traces` log-normal traces; lifetimes in days, no ties to speak of."""
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
