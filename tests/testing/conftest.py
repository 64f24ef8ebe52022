"""Fixtures for the tests of `plb.testing`."""

from __future__ import annotations

import pytest

from plb import Node, Partition, Replica, Role, Service
from plb.arrays import Problem
from plb.testing import Cluster, configuration_of
from plb.testing.clusters import METRICS, Metric


@pytest.fixture
def small_problem() -> Problem:
    """Eleven nodes and seven replicas: numbers that no other axis has."""
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
