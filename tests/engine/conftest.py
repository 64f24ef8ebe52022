"""Fixtures for the tests of the engine."""

from __future__ import annotations

import pytest

from plb import Metric, Node, Partition, Replica, Role, Service
from plb.testing import Cluster


@pytest.fixture
def small_cluster() -> Cluster:
    """Three nodes, a stateful partition of two replicas and two instances, with a history of four repetitions."""
    return Cluster(
        metrics=(Metric("cpu"), Metric("memory")),
        config={"repetitions": 4, "held_out_nodes": 1, "w_imbalance": 100.0, "chains": 2, "threads": 1},
        nodes=tuple(Node(f"n{i}", capacities={"cpu": 20, "memory": 40}) for i in range(3)),
        services=(
            Service("db", target_replicas=2, tenant_class="gold"),
            Service("web", stateful=False, tenant_class="silver"),
        ),
        partitions=(
            Partition("db/0", service="db", replicas=[Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]),
            Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n0")]),
            Partition("web/1", service="web", replicas=[Replica(Role.INSTANCE, "n0")]),
        ),
        loads={
            ("db/0", "n0"): {"cpu": 4, "memory": 10},
            ("db/0", "n1"): {"cpu": 1, "memory": 10},
            ("web/0", "n0"): {"cpu": 5, "memory": 2},
            ("web/1", "n0"): {"cpu": 6, "memory": 3},
        },
        history={
            "tenant_class": ["gold", "gold", "silver", "silver"],
            "role": [Role.PRIMARY, Role.SECONDARY, Role.INSTANCE, Role.INSTANCE],
            "lifetime": [100] * 4,
            "level": [[8, 12], [2, 12], [9, 4], [7, 6]],
            "initial": [[0, 0]] * 4,
            "growth": [[0, 0]] * 4,
            "maximum": [[8, 12], [2, 12], [9, 4], [7, 6]],
        },
        seed=1,
    )
