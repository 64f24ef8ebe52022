from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.model import Role
from plb.risk import DemandHistory, ReplicaForecast
from plb.risk.trace_sampling import Widening

from .oracles import draw, draw_forecast, plain_eligible
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
    "a trace with a shorter lifetime is not eligible": (("gold", P, 10.5, (0, 0)), 0, [1]),
    "a maximum may equal the largest demand": (("gold", P, 0, (4, 10)), 0, [1]),
    "every metric must have been as large, so neither of these two": (("gold", P, 0, (3, 15)), 3, [0, 1, 2]),
    "older than all of its role: other roles of the class": (("gold", P, 50, (0, 0)), 1, [2]),
    "a role without traces: other roles of the class": (("gold", I, 0, (0, 0)), 1, [0, 1, 2]),
    "older than the class: its traces with maxima as large": (("gold", P, 70, (0, 25)), 2, [2]),
    "larger than the class: its traces with lifetimes as long": (("gold", P, 20, (5, 0)), 3, [1, 2]),
    "older and larger than the class: all of the class": (("gold", P, 70, (5, 0)), 4, [0, 1, 2]),
    "an unknown class: the whole history by lifetime and maxima": (("lead", P, 50, (0, 20)), 5, [2, 3]),
    "an unknown class, older than all: the whole history": ((None, P, 99, (0, 0)), 6, [0, 1, 2, 3]),
}


@pytest.mark.parametrize(("replica", "level", "rows"), WIDENING.values(), ids=WIDENING.keys())
def test_criteria_widen_in_the_documented_order(replica, level, rows) -> None:
    drawn = draw(HISTORY, replica, key=1, k=60)
    assert (drawn.widening, sorted(set(drawn.trace.tolist()))) == (level, rows)
    assert plain_eligible(HISTORY, *replica) == (level, rows)
    assert {each for _, each, _ in WIDENING.values()} == set(Widening), "every level has an example"


@NO_DEADLINE
@given(histories(), replica_forecasts())
def test_every_drawn_trace_is_eligible_by_the_definition(history: DemandHistory, replica: ReplicaForecast) -> None:
    demand = [replica.largest_demand[name] for name in METRICS]
    level, rows = plain_eligible(history, replica.tenant_class, replica.role, 10.0 - replica.created, demand)
    drawn = draw_forecast(history, replica, 10.0)
    assert drawn.widening == level
    assert set(drawn.trace.tolist()) <= set(rows)


@NO_DEADLINE
@given(histories(max_traces=6), st.floats(0, 50), st.integers(0, 2**64 - 1))
def test_comparisons_are_made_in_double_precision_on_the_stored_values(history, age, key) -> None:
    """An age between two float32 values is rounded neither in the kernel nor outside."""
    stored = float(np.float32(history.lifetime[0]))
    just_above = math.nextafter(stored, math.inf)
    for level_age in (stored, just_above, age):
        drawn = draw(history, (None, P, level_age, [0, 0]), key=key, k=5)
        level, rows = plain_eligible(history, None, P, level_age, [0, 0])
        assert drawn.widening == level
        assert set(drawn.trace.tolist()) <= set(rows)
    assert Widening(level) in (Widening.ALL_AGE_DEMAND, Widening.ALL)
