from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError
from plb.model import Role
from plb.risk import DemandHistory, ReplicaForecast, TraceSampler, Widening, eligible_traces
from tests.engine.strategies import examples

from .strategies import METRICS, NO_DEADLINE, histories, replica_forecasts

pytestmark = pytest.mark.kernels

# One class of two primaries and a secondary, and another class with a long-lived, large instance.
#          class     role            lifetime  maxima
TRACES = [("gold", Role.PRIMARY, 10.0, (2.0, 20.0)),
          ("gold", Role.PRIMARY, 40.0, (4.0, 10.0)),
          ("gold", Role.SECONDARY, 60.0, (1.0, 30.0)),
          ("iron", Role.INSTANCE, 90.0, (9.0, 90.0))]  # fmt: skip
HISTORY = DemandHistory.from_columns(
    METRICS,
    tenant_class=[row[0] for row in TRACES],
    role=[row[1] for row in TRACES],
    lifetime=[row[2] for row in TRACES],
    level=[row[3] for row in TRACES],
    initial=[row[3] for row in TRACES],
    growth=[(0.0, 0.0)] * 4,
    maximum=[row[3] for row in TRACES],
)
P, S, I = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE  # noqa: E741

WIDENING = {
    "a new replica: every trace of its class and role": (("gold", P, 0, (0, 0)), 0, [0, 1]),
    "a trace may end exactly at the replica's age": (("gold", P, 10, (0, 0)), 0, [0, 1]),
    "a trace with a shorter lifetime is not eligible": (("gold", P, 10.5, (0, 0)), 0, [1]),
    "a maximum may equal the largest demand": (("gold", P, 0, (4, 10)), 0, [1]),
    "a trace with a smaller maximum is not eligible": (("gold", P, 0, (0, 15)), 0, [0]),
    "every metric must have been as large, so neither of these two": (("gold", P, 0, (3, 15)), 3, [0, 1, 2]),
    "older than all of its role: other roles of the class": (("gold", P, 50, (0, 0)), 1, [2]),
    "a role without traces: other roles of the class": (("gold", I, 0, (0, 0)), 1, [0, 1, 2]),
    "older than the class: its traces with maxima as large": (("gold", P, 70, (0, 25)), 2, [2]),
    "larger than the class: its traces with lifetimes as long": (("gold", P, 20, (5, 0)), 3, [1, 2]),
    "older and larger than the class: all of the class": (("gold", P, 70, (5, 0)), 4, [0, 1, 2]),
    "a known class never widens to another": (("gold", S, 85, (8, 80)), 4, [0, 1, 2]),
    "an unknown class: the whole history by lifetime and maxima": (("lead", P, 50, (0, 20)), 5, [2, 3]),
    "the second class, a role without traces: other roles of the class": (("iron", P, 0, (0, 0)), 1, [3]),
    "the second class, older than all of it: its traces with maxima as large": (("iron", I, 95, (9, 0)), 2, [3]),
    "the second class, older and larger than it: all of the class": (("iron", I, 95, (9.5, 0)), 4, [3]),
    "no class at all: the same": ((None, P, 50, (0, 20)), 5, [2, 3]),
    "an unknown class, older than all: the whole history": ((None, P, 99, (0, 0)), 6, [0, 1, 2, 3]),
    "an unknown class, larger than all: the whole history": ((None, P, 0, (9.5, 0)), 6, [0, 1, 2, 3]),
}


@pytest.mark.parametrize(("replica", "level", "rows"), WIDENING.values(), ids=WIDENING.keys())
def test_criteria_widen_in_the_documented_order(
    replica: tuple[str | None, Role, float, tuple[float, float]], level: int, rows: list[int]
) -> None:
    """The list of eligible traces and the sampler use the first level with any trace."""
    name, role, age, demand = replica
    found, eligible = eligible_traces(HISTORY, tenant_class=name, role=role, age=age, largest_demand=demand)
    assert (found, eligible.tolist()) == (level, rows)
    draws = TraceSampler(HISTORY, repetitions=60).draw([1], [HISTORY.class_code(name)], [role], [age], [demand])
    assert draws.widening[0] == level
    assert set(draws.trace[0].tolist()) == set(rows)


def plain_eligible(history: DemandHistory, replica: ReplicaForecast, age: float) -> tuple[int, list[int]]:
    """Return eligibility by an independent implementation, criterion by criterion, over all rows."""
    code, demand = history.class_code(replica.tenant_class), [replica.largest_demand.get(name, 0.0) for name in METRICS]
    rows = range(len(history))
    same_class = {row for row in rows if history.tenant_class[row] == code}
    same_role = {row for row in same_class if history.role[row] == replica.role}
    old = {row for row in rows if history.lifetime[row] >= age}
    large = {row for row in rows if all(history.maximum[row, r] >= demand[r] for r in range(len(demand)))}
    sets = [same_role & old & large, same_class & old & large, same_class & large, same_class & old, same_class]
    sets = (sets if code >= 0 else [set()] * 5) + [old & large, set(rows)]
    return next((level, sorted(found)) for level, found in enumerate(sets) if found)


@examples(200)
@given(histories(), replica_forecasts())
def test_eligible_traces_equal_the_definition_and_are_never_empty(
    history: DemandHistory, replica: ReplicaForecast
) -> None:
    """The rows equal those of an independent implementation for any replica, and there is at least one."""
    age = 10.0 - replica.created
    demand = [replica.largest_demand[name] for name in METRICS]
    level, rows = eligible_traces(
        history, tenant_class=replica.tenant_class, role=replica.role, age=age, largest_demand=demand
    )
    assert (level, rows.tolist()) == plain_eligible(history, replica, age)
    assert len(rows) > 0


@NO_DEADLINE
@given(histories(max_traces=6), st.floats(0, 50), st.integers(0, 2**64 - 1))
def test_comparisons_are_made_in_double_precision_on_the_stored_values(
    history: DemandHistory, age: float, key: int
) -> None:
    """An age between two float32 values is rounded neither in the kernel nor outside."""
    stored = float(np.float32(history.lifetime[0]))
    just_above = math.nextafter(stored, math.inf)
    for level_age in (stored, just_above, age):
        draws = TraceSampler(history, repetitions=5).draw([key], [-1], [0], [level_age], [[0.0, 0.0]])
        level, rows = eligible_traces(history, tenant_class=None, role=P, age=level_age, largest_demand=[0, 0])
        assert draws.widening[0] == level
        assert set(draws.trace[0].tolist()) <= set(rows.tolist())
    assert Widening(level) in (Widening.ALL_AGE_DEMAND, Widening.ALL)


def test_demand_of_another_shape_is_refused() -> None:
    """Each metric of the history has its own largest demand."""
    for demand in (1.0, [1.0], [1.0] * 3, [[1.0, 1.0]]):
        with pytest.raises(ConflictError, match="eligible traces: largest_demand has shape"):
            eligible_traces(HISTORY, tenant_class="gold", role=Role.PRIMARY, age=0.0, largest_demand=demand)
