"""The placement strategy of a metric: balance, empty nodes, or load packed on few nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plb.array_types import Bool, Int
from plb.model import Metric
from plb.model.metric import PlacementStrategy
from plb.model.quanta import UNLIMITED
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology, domain_paths

PACKING = (PlacementStrategy.RESERVATION_AND_PACK, PlacementStrategy.DEFRAGMENTATION)
RESERVING = (
    PlacementStrategy.RESERVATION_AND_BALANCE,
    PlacementStrategy.RESERVATION,
    PlacementStrategy.RESERVATION_AND_PACK,
)
ALMOST_ALL = 0.999
"""Weight of empty nodes if the balance of the others decides between equal configurations."""


def strategy_of(metric: Metric) -> PlacementStrategy:
    """Return the strategy of a metric: its own, or that of its switches of defragmentation."""
    if metric.placement_strategy is not None:
        return metric.placement_strategy
    if not metric.defragmentation:
        return PlacementStrategy.BALANCING
    scoped = metric.scoped_defragmentation
    return PlacementStrategy.RESERVATION_AND_BALANCE if scoped else PlacementStrategy.DEFRAGMENTATION


def packs(metric: Metric) -> bool:
    """Return whether load is to be packed on few nodes."""
    return strategy_of(metric) in PACKING


def reserves(metric: Metric) -> bool:
    """Return whether nodes are to be kept empty, up to the capacity reserved on them (scoped defragmentation)."""
    return strategy_of(metric) in RESERVING


def is_packed(metric: Metric) -> bool:
    """Return whether the metric has a strategy besides balance."""
    return packs(metric) or reserves(metric)


def emptiness_weights(metric: Metric) -> tuple[float, float]:
    """Return the weights of the empty nodes and of the balance of the others in the score."""
    strategy = strategy_of(metric)
    usual = 1.0 if strategy is PlacementStrategy.RESERVATION else ALMOST_ALL
    empty = usual if metric.empty_node_weight is None else metric.empty_node_weight
    other = max(0.0, 1.0 - empty) if metric.non_empty_node_weight is None else metric.non_empty_node_weight
    return empty, 0.0 if strategy is PlacementStrategy.RESERVATION else other


def target_empty_nodes(metric: Metric, nodes: int) -> int:
    """Return the number of nodes to be empty."""
    requested = metric.empty_nodes or 0.0
    return math.floor(requested * nodes) if requested < 1 else int(requested)


def empty_limits(state: ClusterState) -> Int:
    """Return the load in quanta up to which a node counts as empty, (N, R); below 0: never.

    With reserved capacity, that is the capacity minus the reserved load; a node without a capacity is never full.
    Without reserved nodes it is the activity threshold (docs/service-fabric.md, Balancing thresholds).
    """
    limits = np.zeros_like(state.capacity)
    for index, metric in enumerate(state.config.metrics):
        quantum = float(state.quanta.quanta[index])
        if not reserves(metric):
            limits[:, index] = math.floor(_in_quanta(metric.activity_threshold, quantum))
        elif metric.reserved_load is None:
            limits[:, index] = math.floor(_in_quanta(metric.empty_node_load, quantum))
        else:
            bounded = state.capacity[:, index] < UNLIMITED
            left = state.capacity[:, index] - math.ceil(_in_quanta(metric.reserved_load, quantum))
            limits[:, index] = np.where(bounded, np.maximum(left, -1), UNLIMITED)
    return limits


def _in_quanta(load: float, quantum: float) -> float:
    """Return a load of a setting in quanta, at most `UNLIMITED`, which no load of a node reaches."""
    return min(load / quantum, float(UNLIMITED))


def packing_tables(state: ClusterState, counted_for: Bool) -> dict[str, Any]:
    """Return the fields of `Problem` on strategies."""
    metrics = state.config.metrics
    weights = np.array([emptiness_weights(metric) for metric in metrics])
    requested = [target_empty_nodes(metric, int(counted_for[:, index].sum())) for index, metric in enumerate(metrics)]
    return {
        "defragmented": np.array([packs(metric) for metric in metrics], np.bool_),
        "reserving": np.array([reserves(metric) for metric in metrics], np.bool_),
        "empty_weight": weights[:, 0].copy(),
        "other_weight": weights[:, 1].copy(),
        "target_empty": np.array(requested, np.int64),
        "empty_limit": empty_limits(state),
        "empty_across_domains": np.array([metric.empty_nodes_across_domains for metric in metrics], np.bool_),
        "empty_overlap": state.config.nodes_with_reserved_load_overlap,
    }


def node_groups(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the leaf fault domains and upgrade domains that have a counted node; none without packed metrics."""
    config = state.config
    group = np.zeros((2, len(state.nodes)), np.int64)
    groups = np.zeros(2, np.int64)
    packed = any(is_packed(metric) for metric in config.metrics)
    for kind, paths in enumerate(domain_paths(state) if packed else ()):
        of_kind = ["/".join(path) for path in paths]
        known = {name: index for index, name in enumerate(dict.fromkeys(np.array(of_kind)[topology.counted].tolist()))}
        group[kind] = [known.get(name, 0) for name in of_kind]
        groups[kind] = len(known)
    factors = (
        config.defragmentation_nodes_std_dev_factor,
        config.defragmentation_fds_std_dev_factor,
        config.defragmentation_uds_std_dev_factor,
    )
    return {"deviation_factor": np.array(factors), "group": group, "groups": groups}
