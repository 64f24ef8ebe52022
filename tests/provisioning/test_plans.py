"""The faults of a plan are found and named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.provisioning import Instance, NodeType, ProvisioningPlan, provision
from tests.provisioning import naive
from tests.provisioning.strategies import instances, make_instance

INSTANCE = attrs.evolve(
    make_instance([4, 3], [2, 2], [(0, 1, 1), (1, 1, 2)], capacity=12),
    nodes=(NodeType("small", np.array([8]), 1), NodeType("large", np.array([12]))),
)


def plan_of(rows: Mapping[tuple[str, int], int], kinds: list[int]) -> ProvisioningPlan:
    application = ["ab".index(name) for name, _ in rows]
    return ProvisioningPlan(
        instance=INSTANCE,
        kind=np.array(kinds, np.int32),
        application=np.array(application, np.int32),
        node=np.array([node for _, node in rows], np.int32),
        count=np.array(list(rows.values()), np.int32),
        algorithm="by hand",
        seconds=0.0,
        lower_bound=2,
    )


def test_valid_plan_has_no_faults() -> None:
    plan = plan_of({("a", 1): 2, ("b", 1): 1, ("b", 0): 1}, [0, 1])
    assert plan.faults() == ()
    assert plan.valid
    assert plan.node_names() == ("small-0", "large-0")
    assert plan.deviation_percent == 0.0


@pytest.mark.parametrize(
    ("rows", "kinds", "fault"),
    [
        ({("a", 0): 2, ("b", 1): 1}, [0, 1], "application b: 1 of 2 replicas are placed"),
        ({("a", 0): 3, ("b", 1): 2}, [1, 1], "application a: 3 of 2 replicas are placed"),
        ({("a", 0): 2, ("b", 1): 2, ("b", 0): 0}, [0, 1], "row 2: 0 replicas"),
        ({("a", 0): 1, ("a", 1): 1, ("b", 2): 2}, [0, 0, 1], "node type small: 2 nodes are in use, there are 1"),
        (
            {("a", 0): 2, ("b", 0): 1, ("b", 1): 1},
            [0, 1],
            "node small-0: 11 cpu are asked for at time point 0, it has 8",
        ),
        (
            {("a", 0): 1, ("b", 0): 2, ("a", 1): 1},
            [1, 1],
            "node large-0: 2 replicas of application b stand beside a, which allows 1",
        ),
    ],
)
def test_each_fault_is_named(rows: dict[tuple[str, int], int], kinds: list[int], fault: str) -> None:
    plan = plan_of(rows, kinds)
    assert plan.faults() == (fault,)
    assert not plan.valid


def test_pair_that_is_named_twice_is_a_fault() -> None:
    plan = plan_of({("a", 1): 1, ("b", 0): 2}, [0, 1])
    again = [np.append(column, column[:1]) for column in (plan.application, plan.node, plan.count)]
    twice = attrs.evolve(plan, application=again[0], node=again[1], count=again[2])
    assert twice.faults() == ("application a: node large-0 is named twice",)


@given(instance=instances(counted=True, kinds=2), data=st.data())
def test_validator_agrees_with_an_independent_one(instance: Instance, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.integers(0, len(instance.nodes) - 1), min_size=1, max_size=4))
    pairs: dict[tuple[int, int], int] = {}
    for application, replicas in enumerate(instance.replicas.tolist()):
        for _ in range(replicas):
            pair = (application, data.draw(st.integers(0, len(kinds) - 1)))
            pairs[pair] = pairs.get(pair, 0) + 1
    plan = ProvisioningPlan(
        instance=instance,
        kind=np.array(kinds, np.int32),
        application=np.array([application for application, _ in pairs], np.int32),
        node=np.array([node for _, node in pairs], np.int32),
        count=np.array(list(pairs.values()), np.int32),
        algorithm="drawn",
        seconds=0.0,
        lower_bound=1,
    )
    assert plan.valid == naive.allowed(plan)


def test_many_faults_of_a_kind_are_counted() -> None:
    instance = make_instance([1], [30], [])
    plan = provision(instance, "FF")
    empty_rows = attrs.evolve(
        plan,
        kind=np.zeros(30, np.int32),
        application=np.zeros(30, np.int32),
        node=np.arange(30, dtype=np.int32),
        count=np.zeros(30, np.int32),
    )
    faults = empty_rows.faults()
    assert len(faults) == 22
    assert faults[20] == "10 more rows without replicas"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"node": np.array([0, -1])}, "row 1: node -1 is none of the 2 there are"),
        ({"node": np.array([0, 2])}, "row 1: node 2 is none of the 2 there are"),
        ({"application": np.array([0, 2])}, "row 1: application 2 is none of the 2 there are"),
        ({"kind": np.array([0, 5])}, "row 1: kind 5 is none of the 2 there are"),
        ({"names": ("x", "x")}, "2 nodes have 1 names; expected a different one for each"),
        ({"names": ("x",)}, "2 nodes have 1 names; expected a different one for each"),
        ({"count": np.array([1])}, "application, node and count have [1, 2] rows; expected equally many"),
    ],
)
def test_invalid_numbers_and_names_are_faults(changes: dict[str, Any], fault: str) -> None:
    plan = plan_of({("a", 1): 2, ("b", 0): 2}, [0, 1])
    assert attrs.evolve(plan, **changes).faults() == (fault,)
