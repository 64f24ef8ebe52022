"""Hypothesis strategies for trace sets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from plb.model import Role
from workloads.trace import MetricInfo, TraceSet, bounds_of

METRICS = (MetricInfo("cpu", "vCores", trend=False), MetricInfo("disk", "GB"))


@st.composite
def trace_sets(draw: st.DrawFn, most_tenants: int = 5, most_steps: int = 12) -> TraceSet:
    """Return small trace sets with tenants of one or several replicas and frequent zeros and ties."""
    tenants = draw(st.integers(1, most_tenants))
    life = np.array(draw(st.lists(st.integers(1, most_steps), min_size=tenants, max_size=tenants)), np.int32)
    replicas = np.array(draw(st.lists(st.sampled_from([1, 4]), min_size=tenants, max_size=tenants)), np.int8)
    owner = np.repeat(np.arange(tenants, dtype=np.int32), 1 + (replicas > 1))
    role = np.where(np.diff(owner, prepend=-1) == 0, Role.SECONDARY, Role.PRIMARY).astype(np.int8)
    start = bounds_of(life[owner])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    coarse = draw(st.booleans())
    values = rng.random((start[-1], 2)).astype(np.float32) * 100
    return TraceSet(
        metrics=METRICS,
        classes=("BC_2", "GP_2"),
        tenant=np.array([f"t{i}" for i in range(tenants)]),
        class_code=(replicas == 1).astype(np.int16),
        replicas=replicas,
        lifetime_steps=life,
        censored=rng.random(tenants) < 0.3,
        max_usage=np.full((tenants, 2), 100, np.float32),
        series_tenant=owner,
        series_role=role,
        series_start=start,
        values=np.floor(values / 25) * 25 if coarse else values,
    )


def one_tenant(disk: list[float], cpu: list[float] | None = None, name: str = "t0") -> TraceSet:
    """Return the trace set of one tenant with one replica and this disk demand."""
    steps = len(disk)
    return TraceSet(
        metrics=METRICS,
        classes=("GP_2",),
        tenant=np.array([name]),
        class_code=np.zeros(1, np.int16),
        replicas=np.ones(1, np.int8),
        lifetime_steps=np.array([steps], np.int32),
        censored=np.zeros(1, np.bool_),
        max_usage=np.full((1, 2), 1000, np.float32),
        series_tenant=np.zeros(1, np.int32),
        series_role=np.zeros(1, np.int8),
        series_start=np.array([0, steps]),
        values=np.column_stack([cpu or [1.0] * steps, disk]).astype(np.float32),
    )


def assert_same(actual: TraceSet, expected: TraceSet) -> None:
    assert actual.metrics == expected.metrics
    assert actual.step_seconds == expected.step_seconds
    assert actual.tenant_names().tolist() == expected.tenant_names().tolist()
    assert actual.class_names().tolist() == expected.class_names().tolist()
    for name in ("family", "replicas", "lifetime_steps", "censored", "max_usage"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
    for name in ("series_tenant", "series_role", "series_start", "series_index", "values"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
