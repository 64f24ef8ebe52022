"""What is known of a replica is checked when its forecast is made."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest

from plb import ConflictError, InvalidValueError, Role
from plb.risk import ReplicaForecast

GOLD = ReplicaForecast("gold", Role.PRIMARY, 0.0, {}, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": -1}, "key = -1"),
        ({"key": 2**64}, r"key.*< 2\^64"),
        ({"created": math.inf}, "created = inf"),
        ({"largest_demand": {"cpu": -1.0}}, r"largest_demand\[cpu\] = -1.0"),
        ({"role": 5}, "role = 5.*primary"),
        ({"samples": {"cpu": [1.0, -1.0]}}, r"samples\[cpu\]\[1\] = -1"),
        ({"samples": {"cpu": np.array([math.nan])}}, r"samples\[cpu\]\[0\] = .*nan"),
        ({"samples": {"cpu": [1.0, 2.0]}, "seen": 1}, "seen = 1 .*>= 2"),
    ],
)
def test_forecasts_are_checked_when_they_are_created(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidValueError, match=f"replica of class gold: {message}"):
        attrs.evolve(GOLD, **changes)


def test_each_metric_has_the_same_number_of_samples() -> None:
    """The newest ones count as simultaneous, the ones before as well, and so on."""
    with pytest.raises(ConflictError, match="2 of cpu, 1 of disk"):
        attrs.evolve(GOLD, samples={"cpu": [1.0, 2.0], "disk": [1.0]})
    assert attrs.evolve(GOLD, samples={"cpu": [1.0, 2.0], "disk": [1.0, 3.0]}, seen=None).seen == 2
