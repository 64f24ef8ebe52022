"""Instances from numbers in user units: validation."""

from __future__ import annotations

import numpy as np
import pytest

from plb.errors import InvalidValueError
from plb.provisioning import Affinity
from workloads.provisioning import PAPER_NODES, build_instance
from workloads.provisioning.user_units import MOST_DEMAND


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 2 * MOST_DEMAND])
def test_demand_out_of_range_is_named(value: float) -> None:
    demand = np.ones((2, 2, 3))
    demand[1, 0, 2] = value
    with pytest.raises(InvalidValueError, match=r"application b: demand\[core\] = .*a number from 0 to 1e\+09"):
        build_instance(
            name="tiny",
            resources=("core", "memory"),
            applications=("a", "b"),
            replicas=np.ones(2, np.int32),
            demand=demand,
            affinity=Affinity.none(),
            nodes=PAPER_NODES,
        )
