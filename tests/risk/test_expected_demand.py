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
    """Return the mean demand of tenants at an age."""
    return np.mean([history.demand(age, row) for row in rows], axis=0)


@NO_DEADLINE
@given(histories(), st.sampled_from(CLASSES), st.sampled_from(Role), st.integers(0, 4), st.floats(0.0, 8.0))
def test_expected_demand_equals_that_of_tenants_of_this_age(
    history: DemandHistory, tenant_class: str, role: Role, age: int, load: float
):
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
    """Replicas of an unknown class keep their load."""
    expected = ExpectedDemand(history, 10.0)
    group = np.array([expected.group_of("unknown", Role.PRIMARY), expected.group_of(None, Role.SECONDARY)])
    found = expected.expected_demand(group, np.array([0.0, 1e9]), np.array([[1.0, 2.0], [3.0, 4.0]]), 3)
    np.testing.assert_array_equal(found, np.repeat([[[1.0, 2.0]], [[3.0, 4.0]]], 3, axis=1))


def test_tenants_of_lifetime_zero_have_no_later_demand():
    """They count in the first step only."""
    nothing = [[0.0]]
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"],
        role=[Role.PRIMARY],
        lifetime=[0.0],
        level=nothing,
        initial=nothing,
        growth=nothing,
        maximum=nothing,
    )
    expected = ExpectedDemand(history, 60.0)
    group = np.array([expected.group_of("gold", Role.PRIMARY)])
    assert expected.expected_demand(group, np.zeros(1), np.ones((1, 1)), 3)[0, :, 0].tolist() == [1.0, 0.0, 0.0]


def test_expected_demand_of_an_example():
    """Two tenants grow from 2 to 6 within two hours; one lives for two hours, the other for four."""
    hour = 3600.0
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold", "gold"],
        role=[Role.PRIMARY, Role.PRIMARY],
        lifetime=[2 * hour, 4 * hour],
        level=[[6.0], [6.0]],
        initial=[[2.0], [2.0]],
        growth=[[2 * hour], [2 * hour]],
        maximum=[[6.0], [6.0]],
    )
    expected = ExpectedDemand(history, hour)
    group = np.array([expected.group_of("gold", Role.PRIMARY)])
    found = expected.expected_demand(group, np.array([0.0]), np.array([[3.0]]), 5)
    assert found[0, :, 0].tolist() == pytest.approx([3.0, 5.0, 3.5, 3.5, 0.0])
    old = expected.expected_demand(group, np.array([9 * hour]), np.array([[3.0]]), 2)
    assert old[0, :, 0].tolist() == [3.0, 3.0]


def test_steps_may_be_of_any_length() -> None:
    """A lifetime may have more steps than a float can count."""
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"],
        role=[Role.PRIMARY],
        lifetime=[1e30],
        level=[[4.0]],
        initial=[[4.0]],
        growth=[[0.0]],
        maximum=[[4.0]],
    )
    expected = ExpectedDemand(history, 1e-300)
    group = np.array([expected.group_of("gold", Role.PRIMARY)])
    assert expected.expected_demand(group, np.array([1.0]), np.array([[3.0]]), 2)[0, 0].tolist() == [3.0]
