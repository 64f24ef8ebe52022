"""Trace sets: lookup, selection, joining and splitting."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from tests.workloads.trace_strategies import assert_same, one_tenant, trace_sets
from workloads.trace import TraceSet, concatenate, split_tenants


@given(trace_sets())
def test_series_index_finds_the_samples_of_a_replica(traces: TraceSet) -> None:
    for series, (tenant, role) in enumerate(zip(traces.series_tenant, traces.series_role, strict=True)):
        assert traces.series_index[tenant, role] == series
    assert ((traces.series_index[:, Role.SECONDARY] >= 0) == (traces.replicas > 1)).all()
    assert (traces.series_index[:, Role.INSTANCE] == -1).all()


@given(trace_sets())
def test_joining_all_tenants_gives_the_whole(traces: TraceSet) -> None:
    parts = [traces.select([tenant]) for tenant in range(traces.tenants)]
    assert_same(concatenate(parts), traces)


@given(trace_sets(), st.floats(0, 1), st.integers(0, 9))
def test_split_is_by_family_disjoint_complete_and_seeded(traces: TraceSet, share: float, seed: int) -> None:
    """A family is, for example, the windows of one machine. Tenants keep all their series."""
    traces = attrs.evolve(traces, family=np.arange(traces.tenants) // 2)
    history, simulation = split_tenants(traces, share, seed)
    assert not set(history.family) & set(simulation.family)
    assert len(set(history.family)) == round(share * len(set(traces.family)))
    assert {*history.tenant_names(), *simulation.tenant_names()} == set(traces.tenant_names())
    assert len(history.series_tenant) + len(simulation.series_tenant) == len(traces.series_tenant)
    assert_same(history, split_tenants(traces, share, seed)[0])


def test_joining_different_classes_is_refused() -> None:
    traces = one_tenant([1.0])
    with pytest.raises(ConflictError, match="classes"):
        concatenate([traces, attrs.evolve(traces, classes=("other",))])


def test_wrong_shapes_are_refused() -> None:
    traces = one_tenant([1.0, 2.0])
    with pytest.raises(InvalidValueError, match="max_usage"):
        attrs.evolve(traces, max_usage=np.ones((1, 3), np.float32))
    with pytest.raises(ConflictError, match="lifetime steps"):
        attrs.evolve(traces, lifetime_steps=np.array([3], np.int32))


@pytest.mark.parametrize(("share", "seed"), [("0.5", 0), (True, 0), (1.5, 0), (float("nan"), 0), (0.5, -1), (0.5, 0.5)])
def test_arguments_of_splits_are_checked(share: Any, seed: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"split: (history_share|seed) = .* is not allowed"):
        split_tenants(one_tenant([1.0, 2.0]), share, seed)
