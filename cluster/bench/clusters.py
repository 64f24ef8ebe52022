"""The clusters that `plb bench engine` measures on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plb.array_types import Float
from plb.engine import PlacementAndLoadBalancing
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.risk.demand_history import DemandHistory
from plb.settings.config import PlbConfig

METRICS = ("cpu", "memory", "disk")
CAPACITY = np.array([80.0, 408.0, 5000.0])
REPLICAS_A_NODE = 30
ROLES = (Role.PRIMARY, Role.SECONDARY, Role.SECONDARY, Role.SECONDARY)
"""Roles of the replicas of a partition."""
TRACES = 2000
DAY = 86_400.0


def bench_cluster(
    nodes: int, seed: int, *, metrics: Sequence[str] = METRICS, repetitions: int = 100
) -> PlacementAndLoadBalancing:
    """Return an engine with partitions of four replicas each, and so much load that some nodes are at risk.

    The nodes are in five racks, their fault domains, and ten upgrade domains.

    Parameters
    ----------
    nodes
        Number of nodes, with 30 replicas each.
    seed
        Seed of placement, loads and past tenants.
    metrics
        Names of the metrics. Those after the third have the capacity of the third.
    repetitions
        K, number of repetitions.
    """
    rng = np.random.default_rng(seed)
    capacity = _capacities(metrics)
    config = PlbConfig(
        metrics=[Metric(name, trend=name != "cpu") for name in metrics],
        w_imbalance=1.0,
        w_overload=0.0,
        max_percentage_to_move=1.0,
        repetitions=repetitions,
    )
    engine = PlacementAndLoadBalancing(config, seed=seed, history=_history(rng, metrics))
    for index in range(nodes):
        engine.update_node(bench_node(index, metrics))
    engine.update_service(Service("tenants", tenant_class="class", target_replicas=len(ROLES)))
    names = [f"p{index}" for index in range(nodes * REPLICAS_A_NODE // len(ROLES))]
    stride = 11 if nodes > 11 * (len(ROLES) - 1) else 1  # with fewer nodes, a stride of 11 may return to the first
    for name in names:
        first = int(rng.integers(nodes))
        places = [(first + stride * step) % nodes for step in range(len(ROLES))]  # four fault and upgrade domains
        copies = tuple(Replica(role, f"n{place}") for role, place in zip(ROLES, places, strict=True))
        engine.update_partition(Partition(name, service="tenants", replicas=copies))
    rows = np.array([replica.index for name in names for replica in engine.replicas(name)])
    engine.report_loads(rows, 0.55 * capacity / REPLICAS_A_NODE * rng.uniform(0.2, 1.8, (len(rows), len(metrics))))
    return engine


def bench_node(index: int, metrics: Sequence[str] = METRICS) -> Node:
    """Return a node, in one of five racks and one of ten upgrade domains."""
    capacities = dict(zip(metrics, _capacities(metrics).tolist(), strict=True))
    rack, upgrade_domain = f"fd:/rack{index % 5}", f"ud{index % 10}"
    return Node(f"n{index}", capacities=capacities, fault_domain=rack, upgrade_domain=upgrade_domain)


def _capacities(metrics: Sequence[str]) -> Float:
    """Return the capacity of a node by metric, (R,)."""
    return np.asarray(CAPACITY[np.minimum(np.arange(len(metrics)), len(CAPACITY) - 1)])


def _history(rng: np.random.Generator, metrics: Sequence[str]) -> DemandHistory:
    count = len(metrics)
    level = 0.8 * _capacities(metrics) / REPLICAS_A_NODE * rng.gamma(2.0, 0.5, (TRACES, count))
    return DemandHistory.from_columns(
        metrics,
        tenant_class=["class"] * TRACES,
        role=np.repeat(np.array([0, 1], np.int8), TRACES // 2),
        lifetime=rng.uniform(DAY, 200 * DAY, TRACES),
        level=level,
        initial=0.5 * level,
        growth=rng.uniform(0.1 * DAY, DAY, (TRACES, count)),
        maximum=1e6 * np.ones((TRACES, count)),
    )
