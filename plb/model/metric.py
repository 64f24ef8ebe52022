"""Metrics: resources that replicas use and nodes have.

`MetricSettings` has the settings that Service Fabric keeps as maps by the name of the metric.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.model.documents import naming_fields
from plb.model.setting_fields import SETTING, Checked, Setting, number, share, switch
from plb.validation import (
    LARGEST_COUNT,
    LARGEST_WEIGHT,
    check_name,
    check_number,
    check_quantum,
    check_switch,
    with_plain_scalars,
)


class PlacementStrategy(Enum):
    """Strategy for the load of a metric; values as in Service Fabric's PlacementStrategy."""

    BALANCING = 0
    RESERVATION_AND_BALANCE = 1
    RESERVATION = 2
    RESERVATION_AND_PACK = 3
    DEFRAGMENTATION = 4


def _strategy(item: str, field: str, value: Any) -> PlacementStrategy | None:
    """Return None or the `PlacementStrategy` with the number `value`; raise `InvalidValueError` for any other value."""
    try:
        return None if value is None else PlacementStrategy(value)
    except ValueError:
        allowed = ", ".join(f"{member.value} ({member.name.lower()})" for member in PlacementStrategy)
        raise InvalidValueError(item, field, value, f"None or one of {allowed}") from None


def _across_domains(policy: Any) -> Any:
    """Return a policy of Service Fabric as whether balancing spreads loads over domains: True for 0, False for 1.

    Any other value unchanged, to be refused.
    """
    return policy == 0 if type(policy) is int and policy in (0, 1) else policy


STRATEGY = Setting("", {}, "name", _strategy)
POLICY = Setting("DefragmentationEmptyNodeDistributionPolicy", {}, "switch", check_switch, _across_domains)


@attrs.frozen(kw_only=True)
class MetricSettings(Checked):
    """The settings of one metric in the maps of Service Fabric; the defaults of a missing entry."""

    balancing_threshold: float = number(1.0, original={}, name="MetricBalancingThresholds", unit="ratio")
    """Balancing includes the metric if max/min of node load exceeds this. 0: never. At most 1: at any difference of 2
    or more. A defragmentation metric is included if max/min in a domain does not exceed it.
    """
    activity_threshold: float = number(0.0, original={}, name="MetricActivityThresholds", unit="load")
    """... and if the load of the fullest node exceeds this. For an unscoped defragmentation metric: the load up to
    which a node counts as empty.
    """
    global_weight: float | None = number(
        None, original={}, name="GlobalMetricWeights", unit="weight", high=LARGEST_WEIGHT, none=True
    )
    """Weight of the metric in the score. None: the mean of the weights of the services."""
    balancing_by_percentage: bool = switch(False, original={})
    """Whether load is balanced relative to capacity, if every node has a capacity."""
    node_buffer_percentage: float = share(0.0, original={})
    """Share of each capacity that moves leave free. New replicas may use it."""
    node_overbooking_percentage: float | None = number(0.0, original={}, unit="share", none=True, unlimited=-1)
    """Load beyond each capacity, as a share of it, that a node may have of new replicas. Moves do not use it. None: no
    limit. Not with a node buffer of the same metric.
    """
    defragmentation: bool = switch(False, original={}, name="DefragmentationMetrics")
    """Whether load is to be packed on few nodes instead of spread."""
    empty_nodes: float | None = number(
        None,
        original={},
        name="DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold",
        unit="share below 1, nodes from 1",
        high=LARGEST_COUNT,
        none=True,
    )
    """Nodes that are to be empty. None: no such target; the balancing threshold decides."""
    empty_nodes_across_domains: bool = attrs.field(default=True, metadata={SETTING: POLICY})
    """Whether the empty nodes are to be spread over fault and upgrade domains (policy 0 of Service Fabric) or not (1).
    """
    empty_node_weight: float | None = number(
        None, original={}, name="DefragmentationEmptyNodeWeight", unit="weight", high=LARGEST_WEIGHT, none=True
    )
    """Weight of empty nodes in the score. None: 1 for the strategy reservation, 0.999 for the others with empty nodes.
    """
    non_empty_node_weight: float | None = number(
        None, original={}, name="DefragmentationNonEmptyNodeWeight", unit="weight", high=LARGEST_WEIGHT, none=True
    )
    """Weight of the balance of the other nodes. None: 1 minus the weight of the empty nodes."""
    scoped_defragmentation: bool = switch(False, original={}, name="DefragmentationScopedAlgorithmEnabled")
    """Whether the strategies that reserve capacity are used for a defragmentation metric."""
    placement_strategy: PlacementStrategy | None = attrs.field(default=None, metadata={SETTING: STRATEGY})
    """Strategy for the metric. None: given by `defragmentation` and `scoped_defragmentation`."""
    reserved_load: float | None = number(None, original={}, name="ReservedLoadPerNode", unit="load", none=True)
    """Load to reserve on a node that counts as empty, if scoped. None: the capacity minus `empty_node_load`."""
    empty_node_load: float = number(0.0, original={}, name="MetricEmptyNodeThresholds", unit="load")
    """Load up to which a node counts as empty, if scoped."""
    placement_heuristic_incoming_load_factor: float = number(0.0, original={}, unit="factor")
    """New replicas use the fullest nodes that together have this many times their load free, or with the strategy
    reservation and balance the least loaded that take it evenly. 0: all nodes, without those to be empty.
    """
    placement_heuristic_empty_space_percent: float = share(0.0, original={})
    """... or those for this share of what is free on all nodes, or on the nodes to be empty, if these are more."""


@naming_fields
@attrs.frozen(field_transformer=with_plain_scalars)
class Metric(MetricSettings):
    """A resource that replicas use and nodes have, in a unit of the user.

    The settings with names of Service Fabric come from `MetricSettings`.
    """

    name: str
    """Name of the metric, such as ``"cpu"``."""
    weight: float = attrs.field(default=1.0, kw_only=True)
    """Weight of this metric's imbalance in the energy; at least 0."""
    violation_threshold: float = attrs.field(default=0.95, kw_only=True)
    """A node is in violation if its load is at least this share of its total capacity ([1] section 3.2, f_r); in (0,
    1]. The total includes what may be over-booked.
    """
    quantum: float | None = attrs.field(default=None, kw_only=True)
    """The unit in which loads are counted exactly: a power of two, at most 1 user unit. None: the finest for which the
    first capacity (or load, if no node has a capacity) is at most 2^20 quanta. Finer loads are rounded up.
    """
    trend: bool = attrs.field(default=True, kw_only=True)
    """True if demand grows from an initial value to a maximum (disk, memory). False if it has no trend and a high
    percentile represents it (CPU); [1] section 5.3.
    """
    transient: bool = attrs.field(default=False, kw_only=True)
    """Whether a replica that moves counts on both nodes until the plan is carried out, such as files that are copied.
    It holds in repairs, too.
    """

    def __attrs_post_init__(self) -> None:
        """Raise an error if a field is invalid, or a buffer and over-booking exclude each other."""
        check_name("metric", self.name)
        super().__attrs_post_init__()
        item = self._item()
        check_number(item, "weight", self.weight, high=LARGEST_WEIGHT)
        check_number(item, "violation_threshold", self.violation_threshold, high=1.0, low_open=True)
        check_switch(item, "trend", self.trend)
        check_switch(item, "transient", self.transient)
        if self.quantum is not None:
            check_quantum(item, "quantum", self.quantum, high=1.0)
        if self.node_buffer_percentage > 0.0 and self.node_overbooking_percentage != 0.0:
            raise ConflictError(f"{item}: node_buffer_percentage and node_overbooking_percentage exclude each other")

    @property
    def keeps_capacity_free(self) -> bool:
        """Whether moves leave a part of the total capacity of a node free: a buffer, or what may be over-booked."""
        return self.node_buffer_percentage > 0.0 or self.node_overbooking_percentage != 0.0

    def _item(self) -> str:
        """Return the name of the metric in messages."""
        return f"metric {self.name}"
