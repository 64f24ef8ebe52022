"""Metrics: resources that replicas use and nodes have.

`MetricSettings` has the settings that Service Fabric keeps in one map for each setting, by the metric's name.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs

from plb.errors import InvalidValueError
from plb.model.setting_fields import SETTING, Checked, Setting, number, share, switch
from plb.validation import check_name, check_number, check_quantum, check_switch


class PlacementStrategy(Enum):
    """What the engine does with a metric; values as in Service Fabric's PlacementStrategy."""

    BALANCING = 0
    RESERVATION_AND_BALANCE = 1
    RESERVATION = 2
    RESERVATION_AND_PACK = 3
    DEFRAGMENTATION = 4


def _strategy(item: str, field: str, value: Any) -> PlacementStrategy | None:
    """Return the `PlacementStrategy` that `value` is or stands for, or None, or refuse it."""
    try:
        return None if value is None else PlacementStrategy(value)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name.lower()})" for member in PlacementStrategy)
        raise InvalidValueError(item, field, value, f"None or one of {allowed}") from None


def _across_domains(policy: Any) -> Any:
    """Return what Service Fabric's 0 (spread over domains) or 1 (not) means; anything else as it is."""
    return policy == 0 if type(policy) is int and policy in (0, 1) else policy


STRATEGY = Setting("PlacementStrategy", {}, "name", _strategy)
POLICY = Setting("DefragmentationEmptyNodeDistributionPolicy", {}, "switch", check_switch, _across_domains)


@attrs.frozen(kw_only=True)
class MetricSettings(Checked):
    """What Service Fabric's maps by metric say of one metric; the default is what a missing entry means.

    Parameters
    ----------
    balancing_threshold : ratio, default 1.0
        Balancing looks at the metric when max/min of node load exceeds this; 0: never, and at most 1: at any difference
        of 2 or more. A defragmentation metric is looked at when max/min in a domain does not exceed it.
    activity_threshold : load, default 0.0
        ... and when the fullest node carries more than this. For an unscoped defragmentation metric: the load up to
        which a node counts as empty.
    global_weight : weight, default None
        Weight of the metric in the score; None: the mean of the weights that services give it.
    balancing_by_percentage : switch, default False
        Whether balance is that of load/capacity, if every node has a capacity.
    node_buffer_percentage : share, default 0.0
        Share of each capacity that moves leave free; new replicas may use it.
    defragmentation : switch, default False
        Whether load is to be gathered on few nodes, not spread.
    empty_nodes : share below 1, nodes from 1, default None
        Nodes that are to be empty; None: no such target, the balancing threshold decides.
    empty_nodes_across_domains : switch, default True
        Whether the empty nodes are to be spread over fault and upgrade domains (policy 0 of Service Fabric) or not (1).
    empty_node_weight : weight, default None
        Weight of empty nodes in the score; None: 1 for the strategy reservation, 0.999 for the others that empty nodes.
    non_empty_node_weight : weight, default None
        Weight of the balance of the other nodes; None: what the empty ones leave to 1.
    scoped_defragmentation : switch, default False
        Whether the strategies that reserve room are used for a defragmentation metric.
    placement_strategy : name, default None
        What to do with the metric; None: as `defragmentation` and `scoped_defragmentation` say.
    reserved_load : load, default None
        Room to keep on a node that counts as empty, when scoped; None: the capacity less `empty_node_load`.
    empty_node_load : load, default 0.0
        Load up to which a node counts as empty, when scoped.
    placement_heuristic_incoming_load_factor : factor, default 0.0
        New replicas go to the fullest nodes that together have this many times their load free; 0: to any.
    placement_heuristic_empty_space_percent : share, default 0.0
        ... or to those that have this share of all free room, whichever are more.
    """

    balancing_threshold: float = number(1.0, "MetricBalancingThresholds", {}, unit="ratio")
    activity_threshold: float = number(0.0, "MetricActivityThresholds", {}, unit="load")
    global_weight: float | None = number(None, "GlobalMetricWeights", {}, unit="weight", none=True)
    balancing_by_percentage: bool = switch(False, "BalancingByPercentage", {})
    node_buffer_percentage: float = share(0.0, "NodeBufferPercentage", {})
    defragmentation: bool = switch(False, "DefragmentationMetrics", {})
    empty_nodes: float | None = number(
        None,
        "DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold",
        {},
        unit="share below 1, nodes from 1",
        none=True,
    )
    empty_nodes_across_domains: bool = attrs.field(default=True, metadata={SETTING: POLICY})
    empty_node_weight: float | None = number(None, "DefragmentationEmptyNodeWeight", {}, unit="weight", none=True)
    non_empty_node_weight: float | None = number(
        None, "DefragmentationNonEmptyNodeWeight", {}, unit="weight", none=True
    )
    scoped_defragmentation: bool = switch(False, "DefragmentationScopedAlgorithmEnabled", {})
    placement_strategy: PlacementStrategy | None = attrs.field(default=None, metadata={SETTING: STRATEGY})
    reserved_load: float | None = number(None, "ReservedLoadPerNode", {}, unit="load", none=True)
    empty_node_load: float = number(0.0, "MetricEmptyNodeThresholds", {}, unit="load")
    placement_heuristic_incoming_load_factor: float = number(
        0.0, "PlacementHeuristicIncomingLoadFactor", {}, unit="factor"
    )
    placement_heuristic_empty_space_percent: float = share(0.0, "PlacementHeuristicEmptySpacePercent", {})


@attrs.frozen
class Metric(MetricSettings):
    """A resource that replicas use and nodes have, in a unit of the user's choice.

    The settings under Service Fabric's names come from `plb.model.metric.MetricSettings`.

    Parameters
    ----------
    name
        Name of the metric, such as ``"cpu"``.
    weight
        Weight of this metric's imbalance in the energy; at least 0.
    violation_threshold
        A node is in violation when its load is at least this share of its capacity ([1] section 3.2, f_r); in (0, 1].
    quantum
        The unit in which loads are counted exactly: a power of two, at most 1 user unit. None: the finest for which
        the first capacity (or load, where no node has a capacity) is at most 2^20 quanta. Finer loads round up.
    trend
        True when demand grows from an initial value to a maximum and stays (disk, memory); False when it has no trend
        and a high percentile stands for it (CPU); [1] section 5.3.
    """

    name: str
    weight: float = attrs.field(default=1.0, kw_only=True)
    violation_threshold: float = attrs.field(default=0.95, kw_only=True)
    quantum: float | None = attrs.field(default=None, kw_only=True)
    trend: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("metric", self.name)
        super().__attrs_post_init__()
        item = self._item()
        check_number(item, "weight", self.weight)
        check_number(item, "violation_threshold", self.violation_threshold, high=1.0, low_open=True)
        check_switch(item, "trend", self.trend)
        if self.quantum is not None:
            check_quantum(item, "quantum", self.quantum, high=1.0)

    def _item(self) -> str:
        return f"metric {self.name}"
