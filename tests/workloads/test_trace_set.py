"""Trace sets: lookup, selection, joining and splitting."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from tests.workloads.trace_strategies import assert_same, one_tenant, trace_sets
from workloads.trace import TraceSet, concatenate, split_tenants


@settings(deadline=None)
@given(trace_sets())
def test_series_index_finds_the_samples_of_a_replica(traces: TraceSet) -> None:
    """The index maps tenant and role to a series. Only tenants with several replicas have a series of secondaries."""
    for series, (tenant, role) in enumerate(zip(traces.series_tenant, traces.series_role, strict=True)):
        assert traces.series_index[tenant, role] == series
    assert ((traces.series_index[:, Role.SECONDARY] >= 0) == (traces.replicas > 1)).all()
    assert (traces.series_index[:, Role.INSTANCE] == -1).all()


@settings(deadline=None)
@given(trace_sets(), st.floats(0, 1), st.integers(0, 9))
def test_split_is_disjoint_complete_and_seeded(traces: TraceSet, share: float, seed: int) -> None:
    """Every tenant is in one part with all its series, and equal seeds give equal splits."""
    history, simulation = split_tenants(traces, share, seed)
    names = set(history.tenant_names()), set(simulation.tenant_names())
    assert not names[0] & names[1]
    assert names[0] | names[1] == set(traces.tenant_names())
    assert len(history.series_tenant) + len(simulation.series_tenant) == len(traces.series_tenant)
    assert history.tenants == round(share * traces.tenants)
    assert_same(history, split_tenants(traces, share, seed)[0])


@settings(deadline=None)
@given(trace_sets(), st.integers(0, 9))
def test_families_are_never_split(traces: TraceSet, seed: int) -> None:
    """Tenants of one family, such as the windows of one machine, are in one part."""
    traces = attrs.evolve(traces, family=np.arange(traces.tenants) // 2)
    history, simulation = split_tenants(traces, 0.5, seed)
    assert not set(history.family) & set(simulation.family)


@settings(deadline=None)
@given(trace_sets())
def test_joining_all_tenants_gives_the_whole(traces: TraceSet) -> None:
    """A trace set equals the join of its single tenants."""
    parts = [traces.select([tenant]) for tenant in range(traces.tenants)]
    assert_same(concatenate(parts), traces)


def test_joining_different_classes_is_refused() -> None:
    """Class codes of different lists are not comparable."""
    traces = one_tenant([1.0])
    with pytest.raises(ConflictError, match="classes"):
        concatenate([traces, attrs.evolve(traces, classes=("other",))])


def test_wrong_shapes_are_refused() -> None:
    """The message names an array of wrong shape, and a series whose length differs from the lifetime."""
    traces = one_tenant([1.0, 2.0])
    with pytest.raises(InvalidValueError, match="max_usage"):
        attrs.evolve(traces, max_usage=np.ones((1, 3), np.float32))
    with pytest.raises(ConflictError, match="lifetime steps"):
        attrs.evolve(traces, lifetime_steps=np.array([3], np.int32))


@pytest.mark.parametrize(("share", "seed"), [("0.5", 0), (True, 0), (1.5, 0), (float("nan"), 0), (0.5, -1), (0.5, 0.5)])
def test_arguments_of_splits_are_checked(share: Any, seed: Any) -> None:
    """The message names the argument and its range."""
    with pytest.raises(InvalidValueError, match=r"split: (history_share|seed) = .* is not allowed"):
        split_tenants(one_tenant([1.0, 2.0]), share, seed)
