"""Settings that limit moves: in total, by partition, in progress and in build."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from plb.model.setting_fields import Checked, count, counts, seconds, share, switch


@attrs.frozen(kw_only=True, slots=False)
class ThrottlingSettings(Checked):
    """Limits of the number of moves.

    The counters include moves and swaps of balancing and of placement with moves.

    Parameters
    ----------
    global_movement_throttle_threshold : movements, default 0, Service Fabric 1000
        Largest number of moves in the counting interval. 0: no limit.
    global_movement_throttle_threshold_percentage : share, default 0.0
        Largest number of moves in the counting interval as a share of all replicas. 0: no limit. The smaller limit
        holds.
    global_movement_throttle_threshold_for_placement : movements, default 0
        Largest number of moves that free capacity for new replicas. 0: no limit.
    global_movement_throttle_threshold_percentage_for_placement : share, default 0.0
        Largest number of moves for new replicas as a share of all replicas. 0: no limit.
    global_movement_throttle_threshold_for_balancing : movements, default 0
        Largest number of moves of balancing. 0: no limit.
    global_movement_throttle_threshold_percentage_for_balancing : share, default 0.0
        Largest number of moves of balancing as a share of all replicas. 0: no limit.
    global_movement_throttle_counting_interval : seconds, default 600.0
        Counting interval of these limits. 0: no limit. None: since the start.
    movement_per_partition_throttle_threshold : movements, default None, Service Fabric 50
        Number of moves of a partition at which balancing stops moving it. None: no limit.
    movement_per_partition_throttle_counting_interval : seconds, default 600.0
        Counting interval of that limit. None: since the start.
    movement_throttled_partitions_percentage_threshold : share, default 0.5
        Share of throttled partitions among the imbalanced ones above which no balancing runs.
    max_movement_execution_time : seconds, default 0.0, Service Fabric 10.0
        Time in which a move that has begun blocks its service domain, unless its partition is updated. None: no end.
    throttle_placement_phase : switch, default False
        Whether placement observes the limits of replicas in build.
    throttle_constraint_check_phase : switch, default False
        Whether the constraint check observes these limits.
    throttle_balancing_phase : switch, default True
        Whether balancing observes these limits.
    maximum_in_build_replicas_per_node : count by name, default {}
        Largest number of replicas in build on a node, by node type (the node property ``NodeType``). 0 or absent: no
        limit.
    maximum_in_build_replicas_per_node_placement_throttle : count by name, default {}
        The same limit for placement. The smaller limit holds.
    maximum_in_build_replicas_per_node_constraint_check_throttle : count by name, default {}
        The same limit for the constraint check.
    maximum_in_build_replicas_per_node_balancing_throttle : count by name, default {}
        The same limit for balancing.
    in_build_throttling_enabled : switch, default False
        Whether replicas in build are limited in the whole cluster, in all phases.
    in_build_throttling_global_max_value : count, default 0
        Largest number of replicas in build in the whole cluster, with those that a plan adds or moves. 0: none.
    swap_primary_throttling_enabled : switch, default False
        Whether swaps of primaries are limited in the whole cluster, except those for an upgrade.
    swap_primary_throttling_global_max_value : count, default 0
        Largest number of primaries that swap their roles in the whole cluster, with those under way. 0: none.
    """

    global_movement_throttle_threshold: int = count(0, original=1000, unit="movements")
    global_movement_throttle_threshold_percentage: float = share(0.0, original=0.0, high=math.inf)
    global_movement_throttle_threshold_for_placement: int = count(0, original=0, unit="movements")
    global_movement_throttle_threshold_percentage_for_placement: float = share(0.0, original=0.0, high=math.inf)
    global_movement_throttle_threshold_for_balancing: int = count(0, original=0, unit="movements")
    global_movement_throttle_threshold_percentage_for_balancing: float = share(0.0, original=0.0, high=math.inf)
    global_movement_throttle_counting_interval: float | None = seconds(600.0, original=600.0)
    movement_per_partition_throttle_threshold: int | None = count(None, original=50, unit="movements", none=True)
    movement_per_partition_throttle_counting_interval: float | None = seconds(600.0, original=600.0)
    movement_throttled_partitions_percentage_threshold: float = share(0.5, original=0.5)
    max_movement_execution_time: float | None = seconds(0.0, original=10.0)
    throttle_placement_phase: bool = switch(False, original=False)
    throttle_constraint_check_phase: bool = switch(False, original=False)
    throttle_balancing_phase: bool = switch(True, original=True)
    maximum_in_build_replicas_per_node: Mapping[str, int] = counts()
    maximum_in_build_replicas_per_node_placement_throttle: Mapping[str, int] = counts()
    maximum_in_build_replicas_per_node_constraint_check_throttle: Mapping[str, int] = counts()
    maximum_in_build_replicas_per_node_balancing_throttle: Mapping[str, int] = counts()
    in_build_throttling_enabled: bool = switch(False, original=False)
    in_build_throttling_global_max_value: int = count(0, original=0)
    swap_primary_throttling_enabled: bool = switch(False, original=False)
    swap_primary_throttling_global_max_value: int = count(0, original=0)

    @property
    def throttles_cluster(self) -> bool:
        """Whether builds or swaps of the whole cluster are limited."""
        return self.in_build_throttling_enabled or self.swap_primary_throttling_enabled
