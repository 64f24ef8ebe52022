"""Arrays that are read-only stay so in copies and in other processes."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy
from typing import Any

import attrs
import numpy as np
import pytest

from cluster.learning.jobs import Job
from plb import Move, MoveKind, PartitionColumns, Phase, Reason, Role
from plb.model.plan import PlanMoves
from plb.risk import DemandHistory

HISTORY = DemandHistory.from_columns(
    ("cpu", "disk"),
    tenant_class=["b", "a"],
    role=[0, 1],
    lifetime=[1.0, 2.0],
    level=[[1.0, 2.0], [3.0, 4.0]],
    initial=[[1.0, 1.0], [1.0, 1.0]],
    growth=[[0.0, 5.0], [0.0, 6.0]],
    maximum=[[2.0, 2.0], [4.0, 4.0]],
)
OBJECTS = [
    HISTORY,
    PlanMoves.of([Move(MoveKind.MOVE, "p", Role.PRIMARY, "n0", "n1", Reason(Phase.BALANCING, "energy", None), 1.0)]),
    PartitionColumns(["p", "q"], service="s", nodes=[["n0", "n1"], ["n1", None]], roles=[Role.PRIMARY, Role.SECONDARY]),
    Job(3, np.ones((2, 1))),
]


def arrays(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return {name: array for name, array in fields.items() if isinstance(array, np.ndarray)}


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "again", [lambda value: value, copy, deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_copies_have_equal_arrays_that_are_read_only(value: Any, again: Any):
    """Otherwise a worker process compiles kernels again, for arrays that can be written."""
    before, after = arrays(value), arrays(again(value))
    assert before.keys() == after.keys()
    for name, array in after.items():
        np.testing.assert_array_equal(array, before[name])
        assert array.dtype == before[name].dtype
        assert not array.flags.writeable
        assert array.flags.c_contiguous >= before[name].flags.c_contiguous
