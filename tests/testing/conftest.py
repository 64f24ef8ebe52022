"""Fixtures and helpers of the tests of `plb.testing`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from plb import Node, Partition, Replica, Role, Service
from plb.state.arrays import Problem
from plb.testing import BrokenInvariantError, Cluster, Invariant, configuration_of, machine_of
from plb.testing.cluster_strategies import METRICS, Metric
from plb.testing.state_machines import REPEATABLE


def first_failure(subject: Any, **options: Any) -> Invariant:
    """Return the invariant that is broken first, without shrinking, which takes most of the time otherwise."""
    case: Any = machine_of(subject, **options)
    with pytest.raises(BrokenInvariantError) as caught:
        run_state_machine_as_test(case.machine, settings=settings(REPEATABLE, phases=[Phase.generate]))
    return caught.value.invariant


@pytest.fixture
def small_problem() -> Problem:
    """Return a problem of eleven nodes and seven replicas: no other axis has these lengths."""
    cluster = Cluster(
        metrics=tuple(Metric(name) for name in METRICS),
        config={},
        nodes=tuple(Node(f"n{i}", fault_domain="fd:/a", upgrade_domain="u") for i in range(11)),
        services=(Service("s", stateful=False),),
        partitions=tuple(Partition(f"p{i}", service="s", replicas=[Replica(Role.INSTANCE, "n0")]) for i in range(7)),
        loads={},
        history=None,
        seed=0,
    )
    return configuration_of(cluster.engine()).problem
