"""Settings that throttle movements: over all, by partition, while under way and in build."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from plb.model.setting_fields import Checked, count, counts, seconds, share, switch


@attrs.frozen(kw_only=True, slots=False)
class ThrottlingSettings(Checked):
    """How many movements are let through.

    The counters see moves and swaps of balancing and of placement with moves.

    Parameters
    ----------
    global_movement_throttle_threshold : movements, default 0, Service Fabric 1000
        Most movements in the counting interval; 0: no limit.
    global_movement_throttle_threshold_percentage : share, default 0.0
        The same as a share of all replicas; 0: no limit. The smaller of the two holds.
    global_movement_throttle_threshold_for_placement : movements, default 0
        Most movements that make room for new replicas; 0: no limit.
    global_movement_throttle_threshold_percentage_for_placement : share, default 0.0
        The same as a share of all replicas; 0: no limit.
    global_movement_throttle_threshold_for_balancing : movements, default 0
        Most movements of balancing; 0: no limit.
    global_movement_throttle_threshold_percentage_for_balancing : share, default 0.0
        The same as a share of all replicas; 0: no limit.
    global_movement_throttle_counting_interval : seconds, default 600.0
        How far back these counters look; 0: no limit at all, None: to the beginning.
    movement_per_partition_throttle_threshold : movements, default None, Service Fabric 50
        Movements of a partition from which on balancing leaves it alone; None: no limit.
    movement_per_partition_throttle_counting_interval : seconds, default 600.0
        How far back that counter looks; None: to the beginning.
    movement_throttled_partitions_percentage_threshold : share, default 0.5
        Share of the imbalanced partitions above which, when they are throttled, no balancing runs.
    max_movement_execution_time : seconds, default 0.0, Service Fabric 10.0
        How long an issued movement holds up its domain unless its partition is updated; None: until it is.
    max_movement_holding_time : seconds, default 0.0, Service Fabric 3600.0
        How long movements that are found but not yet issued hold up their domain; None: until they are.
    throttle_placement_phase : switch, default False
        Whether placement keeps to the limits on replicas in build.
    throttle_constraint_check_phase : switch, default False
        Whether constraint check keeps to them.
    throttle_balancing_phase : switch, default True
        Whether balancing keeps to them.
    maximum_in_build_replicas_per_node : count by name, default {}
        By node type (the node property ``NodeType``), the most replicas in build on a node; 0 or no entry: no limit.
    maximum_in_build_replicas_per_node_placement_throttle : count by name, default {}
        The same for placement; the smaller of the two holds.
    maximum_in_build_replicas_per_node_constraint_check_throttle : count by name, default {}
        The same for constraint check.
    maximum_in_build_replicas_per_node_balancing_throttle : count by name, default {}
        The same for balancing.
    """

    global_movement_throttle_threshold: int = count(0, "GlobalMovementThrottleThreshold", 1000, unit="movements")
    global_movement_throttle_threshold_percentage: float = share(
        0.0, "GlobalMovementThrottleThresholdPercentage", 0.0, high=math.inf
    )
    global_movement_throttle_threshold_for_placement: int = count(
        0, "GlobalMovementThrottleThresholdForPlacement", 0, unit="movements"
    )
    global_movement_throttle_threshold_percentage_for_placement: float = share(
        0.0, "GlobalMovementThrottleThresholdPercentageForPlacement", 0.0, high=math.inf
    )
    global_movement_throttle_threshold_for_balancing: int = count(
        0, "GlobalMovementThrottleThresholdForBalancing", 0, unit="movements"
    )
    global_movement_throttle_threshold_percentage_for_balancing: float = share(
        0.0, "GlobalMovementThrottleThresholdPercentageForBalancing", 0.0, high=math.inf
    )
    global_movement_throttle_counting_interval: float | None = seconds(
        600.0, "GlobalMovementThrottleCountingInterval", 600.0
    )
    movement_per_partition_throttle_threshold: int | None = count(
        None, "MovementPerPartitionThrottleThreshold", 50, unit="movements", none=True
    )
    movement_per_partition_throttle_counting_interval: float | None = seconds(
        600.0, "MovementPerPartitionThrottleCountingInterval", 600.0
    )
    movement_throttled_partitions_percentage_threshold: float = share(
        0.5, "MovementThrottledPartitionsPercentageThreshold", 0.5
    )
    max_movement_execution_time: float | None = seconds(0.0, "MaxMovementExecutionTime", 10.0)
    max_movement_holding_time: float | None = seconds(0.0, "MaxMovementHoldingTime", 3600.0)
    throttle_placement_phase: bool = switch(False, "ThrottlePlacementPhase", False)
    throttle_constraint_check_phase: bool = switch(False, "ThrottleConstraintCheckPhase", False)
    throttle_balancing_phase: bool = switch(True, "ThrottleBalancingPhase", True)
    maximum_in_build_replicas_per_node: Mapping[str, int] = counts("MaximumInBuildReplicasPerNode")
    maximum_in_build_replicas_per_node_placement_throttle: Mapping[str, int] = counts(
        "MaximumInBuildReplicasPerNodePlacementThrottle"
    )
    maximum_in_build_replicas_per_node_constraint_check_throttle: Mapping[str, int] = counts(
        "MaximumInBuildReplicasPerNodeConstraintCheckThrottle"
    )
    maximum_in_build_replicas_per_node_balancing_throttle: Mapping[str, int] = counts(
        "MaximumInBuildReplicasPerNodeBalancingThrottle"
    )
