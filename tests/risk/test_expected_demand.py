"""Expected demand: the mean course of a class and role, compared with one computed tenant by tenant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.model import Role
from plb.risk import DemandHistory
from plb.risk.demand_history import ExpectedDemand
from tests.risk.strategies import CLASSES, NO_DEADLINE, histories


def survivors(history: DemandHistory, tenant_class: str, role: Role, age: float) -> list[int]:
    """Return the past tenants of a class and role with a longer lifetime; at age 0, all of them."""
    code = history.class_code(tenant_class)
    return [
        row
        for row in range(len(history))
        if history.tenant_class[row] == code and history.role[row] == role and (history.lifetime[row] > age or age == 0)
    ]


def mean_demand(history: DemandHistory, rows: list[int], age: float) -> np.ndarray:
    return np.mean([history.demand(age, row) for row in rows], axis=0)


@NO_DEADLINE
@given(histories(), st.sampled_from(CLASSES), st.sampled_from(Role), st.integers(0, 4), st.floats(0.0, 8.0))
def test_expected_demand_equals_that_of_tenants_of_this_age(history, tenant_class, role, age, load) -> None:
    """It is the present load plus the growth of the mean, times the surviving share; without survivors it is 0."""
    step, horizon = 3.0, 4
    expected = ExpectedDemand(history, step)
    group = np.array([expected.group_of(tenant_class, role)])
    found = expected.expected_demand(group, np.array([age * step]), np.full((1, 2), load), horizon)[0]
    present = survivors(history, tenant_class, role, age * step)
    if not present:
        return
    for coming in range(horizon):
        later = (age + coming) * step
        left = survivors(history, tenant_class, role, later)
        if left:
            grown = mean_demand(history, left, later) - mean_demand(history, present, age * step)
            requested = np.maximum(0.0, load + grown) * len(left) / len(present)
        else:
            requested = np.zeros(2)
        np.testing.assert_allclose(found[coming], requested, rtol=1e-6, atol=1e-6)


@given(histories(classes=("gold",)))
def test_unknown_class_has_constant_demand(history: DemandHistory):
    expected = ExpectedDemand(history, 10.0)
    group = np.array([expected.group_of("unknown", Role.PRIMARY), expected.group_of(None, Role.SECONDARY)])
    found = expected.expected_demand(group, np.array([0.0, 1e9]), np.array([[1.0, 2.0], [3.0, 4.0]]), 3)
    np.testing.assert_array_equal(found, np.repeat([[[1.0, 2.0]], [[3.0, 4.0]]], 3, axis=1))


@pytest.mark.parametrize(
    ("lifetime", "step", "age", "load", "requested"),
    [
        (0.0, 60.0, 0.0, 1.0, [1.0, 0.0, 0.0]),  # counts in the first step only
        (120.0, 60.0, 9 * 60.0, 3.0, [3.0, 3.0, 3.0]),  # older than all
        (1e30, 1e-300, 1.0, 3.0, [3.0]),  # more steps than a float can count
    ],
)
def test_demand_at_the_ends_of_a_lifetime(lifetime, step, age, load, requested):
    """Without growth, the load stays until the last past tenant has ended."""
    level, none = [[4.0]], [[0.0]]
    of_tenant = {"tenant_class": ["gold"], "role": [Role.PRIMARY], "lifetime": [lifetime], "growth": none}
    history = DemandHistory.from_columns(["cpu"], **of_tenant, level=level, initial=level, maximum=level)
    expected = ExpectedDemand(history, step)
    group = np.array([expected.group_of("gold", Role.PRIMARY)])
    found = expected.expected_demand(group, np.array([age]), np.array([[load]]), 3)
    assert found[0, : len(requested), 0].tolist() == requested
