"""Settings of constraints, of the schedule of phases, and of limits of moves and builds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from plb.model.setting_fields import Checked, count, counts, priority, seconds, share, switch


@attrs.frozen(kw_only=True, slots=False)
class ThrottlingSettings(Checked):
    """Limits of the number of moves.

    The counters include moves and swaps of balancing and of placement with moves.
    """

    global_movement_throttle_threshold: int = count(0, original=1000, unit="movements")
    """Largest number of moves in the counting interval. 0: no limit."""
    global_movement_throttle_threshold_percentage: float = share(0.0, original=0.0, high=math.inf)
    """Largest number of moves in the counting interval as a share of all replicas. 0: no limit. The smaller limit
    holds.
    """
    global_movement_throttle_threshold_for_placement: int = count(0, original=0, unit="movements")
    """Largest number of moves that free capacity for new replicas. 0: no limit."""
    global_movement_throttle_threshold_percentage_for_placement: float = share(0.0, original=0.0, high=math.inf)
    """Largest number of moves for new replicas as a share of all replicas. 0: no limit."""
    global_movement_throttle_threshold_for_balancing: int = count(0, original=0, unit="movements")
    """Largest number of moves of balancing. 0: no limit."""
    global_movement_throttle_threshold_percentage_for_balancing: float = share(0.0, original=0.0, high=math.inf)
    """Largest number of moves of balancing as a share of all replicas. 0: no limit."""
    global_movement_throttle_counting_interval: float | None = seconds(600.0, original=600.0)
    """Counting interval of these limits. 0: no limit. None: since the start."""
    movement_per_partition_throttle_threshold: int | None = count(None, original=50, unit="movements", none=True)
    """Number of moves of a partition at which balancing stops moving it. None: no limit."""
    movement_per_partition_throttle_counting_interval: float | None = seconds(600.0, original=600.0)
    """Counting interval of that limit. None: since the start."""
    movement_throttled_partitions_percentage_threshold: float = share(0.5, original=0.5)
    """Share of throttled partitions among the imbalanced ones above which no balancing runs."""
    max_movement_execution_time: float | None = seconds(0.0, original=10.0)
    """Time in which a move that has begun blocks its service domain, unless its partition is updated. None: no end."""
    throttle_placement_phase: bool = switch(False, original=False)
    """Whether placement observes the limits of replicas in build."""
    throttle_constraint_check_phase: bool = switch(False, original=False)
    """Whether the constraint check observes these limits."""
    throttle_balancing_phase: bool = switch(True, original=True)
    """Whether balancing observes these limits."""
    maximum_in_build_replicas_per_node: Mapping[str, int] = counts()
    """Largest number of replicas in build on a node, by node type (the node property ``NodeType``). 0 or absent: no
    limit.
    """
    maximum_in_build_replicas_per_node_placement_throttle: Mapping[str, int] = counts()
    """The same limit for placement. The smaller limit holds."""
    maximum_in_build_replicas_per_node_constraint_check_throttle: Mapping[str, int] = counts()
    """The same limit for the constraint check."""
    maximum_in_build_replicas_per_node_balancing_throttle: Mapping[str, int] = counts()
    """The same limit for balancing."""
    in_build_throttling_enabled: bool = switch(False, original=False)
    """Whether replicas in build are limited in the whole cluster, in all phases."""
    in_build_throttling_global_max_value: int = count(0, original=0)
    """Largest number of replicas in build in the whole cluster, with replicas that a plan adds or moves. 0: none."""
    swap_primary_throttling_enabled: bool = switch(False, original=False)
    """Whether swaps of primaries are limited in the whole cluster, except those for an upgrade."""
    swap_primary_throttling_global_max_value: int = count(0, original=0)
    """Largest number of primaries that swap their roles in the whole cluster, with those under way. 0: none."""

    @property
    def throttles_moves(self) -> bool:
        """Whether the number of moves in the counting interval is limited."""
        return (
            self.global_movement_throttle_threshold > 0
            or self.global_movement_throttle_threshold_percentage > 0.0
            or self.global_movement_throttle_threshold_for_balancing > 0
            or self.global_movement_throttle_threshold_percentage_for_balancing > 0.0
            or self.global_movement_throttle_threshold_for_placement > 0
            or self.global_movement_throttle_threshold_percentage_for_placement > 0.0
        )

    @property
    def throttles_partitions(self) -> bool:
        """Whether balancing does not move partitions that moved often."""
        return self.movement_per_partition_throttle_threshold is not None

    @property
    def throttles_cluster(self) -> bool:
        """Whether builds or swaps of the whole cluster are limited."""
        return self.in_build_throttling_enabled or self.swap_primary_throttling_enabled


@attrs.frozen(kw_only=True, slots=False)
class ConstraintSettings(Checked):
    """Priorities and rules of the constraints.

    Priorities: -1 off, 0 hard, 1 soft (relaxed if nothing else fits), 2 optimisation (relaxed first).
    """

    placement_constraint_priority: int = priority(0, original=0)
    """Priority of block lists and placement expressions."""
    capacity_constraint_priority: int = priority(0, original=0)
    """Priority of the capacities of nodes."""
    affinity_constraint_priority: int = priority(0, original=0)
    """Priority of affinity: replicas on the nodes of the parent service."""
    fault_domain_constraint_priority: int = priority(0, original=0)
    """Priority of the spread over fault domains."""
    upgrade_domain_constraint_priority: int = priority(1, original=1)
    """Priority of the spread over upgrade domains."""
    preferred_location_constraint_priority: int = priority(-1, original=2)
    """Priority of nodes that have a replica of the partition; while it is enforced, replicas can only swap."""
    scaleout_count_constraint_priority: int = priority(0, original=0)
    """Priority of the number of nodes that an application uses."""
    application_capacity_constraint_priority: int = priority(0, original=0)
    """Priority of the capacities of applications, in all and on a node."""
    throttling_constraint_priority: int = priority(0, original=0)
    """Priority of the limits on replicas in build; see `throttle_balancing_phase`."""
    fault_domain_enabled: bool = switch(True, original=True)
    """Whether there are fault domains."""
    upgrade_domain_enabled: bool = switch(True, original=True)
    """Whether there are upgrade domains."""
    quorum_based_replica_distribution_per_fault_domains: bool = switch(False, original=False)
    """Whether each fault domain may have all replicas except a write quorum, instead of a difference of one."""
    quorum_based_replica_distribution_per_upgrade_domains: bool = switch(False, original=False)
    """Whether each upgrade domain may have all replicas except a write quorum, instead of a difference of one."""
    quorum_based_logic_auto_switch: bool = switch(False, original=True)
    """Whether a service uses the quorum rule if its target is divisible by the numbers of domains and there are no more
    usable nodes than fault times upgrade domains.
    """
    allow_higher_child_target_replica_count_for_affinity: bool = switch(True, original=True)
    """Whether a child with more replicas than its parent satisfies affinity if each parent replica has a child on its
    node.
    """
    place_child_without_parent: bool = switch(True, original=True)
    """Whether a child may be placed while its parent has no partition."""
    move_parent_to_fix_affinity_violation: bool = switch(False, original=False)
    """Whether a constraint check may move parents as well as children."""
    move_parent_to_fix_affinity_violation_transition_percentage: float = share(0.2, original=0.2)
    """Share of the transitions, the last ones, in which parents may move."""
    prefer_existing_replica_locations: bool = switch(True, original=True)
    """Whether the nodes with replicas of a partition are its preferred locations."""
    prefer_upgraded_uds: bool = switch(True, original=True, name="PreferUpgradedUDs")
    """Whether, during an upgrade, completed upgrade domains are preferred locations."""
    check_aligned_affinity_for_upgrade: bool = switch(False, original=False)
    """Whether aligned primaries swap together during an upgrade."""
    relax_affinity_constraint_during_upgrade: bool = switch(False, original=True)
    """Whether, while balancing is switched off, new replicas are placed apart from their parents if none can be placed
    otherwise.
    """
    relax_capacity_constraint_for_upgrade: bool = switch(True, original=True)
    """Whether swaps for an upgrade may exceed the capacity of a node if they are impossible otherwise."""
    prevent_transient_overcommit: bool = switch(False, original=False)
    """Whether load that a plan moves away still counts on its source, except in constraint checks."""
    count_disappearing_load_for_simulated_annealing: bool = switch(True, original=True)
    """Whether, with `prevent_transient_overcommit`, the load of disappearing replicas counts in annealing and in
    constraint checks. False: these may use their capacity.
    """


@attrs.frozen(kw_only=True, slots=False)
class SchedulingSettings(Checked):
    """When the phases of a refresh run."""

    load_balancing_enabled: bool = switch(True, original=True)
    """Whether balancing runs."""
    constraint_check_enabled: bool = switch(True, original=True)
    """Whether the constraint check runs."""
    allow_constraint_check_fixes_during_application_upgrade: bool = switch(False, original=True)
    """Whether the constraint check moves replicas of upgraded partitions, except replicas with marks and the primary of
    a partition to which a primary returns.
    """
    allow_balancing_during_application_upgrade: bool = switch(True, original=True)
    """Whether balancing runs for a service domain with an upgraded partition."""
    min_placement_interval: float | None = seconds(0.0, original=1.0)
    """Time between two placements in `refresh`. None: placement does not run in `refresh`."""
    min_constraint_check_interval: float | None = seconds(0.0, original=1.0)
    """Time between two constraint checks. None: the check does not run in `refresh`."""
    min_load_balancing_interval: float | None = seconds(0.0, original=5.0)
    """Time between two balancings. None: balancing does not run in `refresh`."""
    balancing_delay_after_node_down: float | None = seconds(0.0, original=120.0)
    """Time without balancing after a node went down. None: balancing never runs again."""
    balancing_delay_after_new_node: float | None = seconds(0.0, original=120.0)
    """Time without balancing after a node was added. None: balancing never runs again."""
    constraint_fix_partial_delay_after_node_down: float | None = seconds(0.0, original=120.0)
    """Time in which the constraint check ignores fault and upgrade domains after a node went down. None: always."""
    constraint_fix_partial_delay_after_new_node: float | None = seconds(0.0, original=120.0)
    """Time in which the constraint check ignores fault and upgrade domains after a node was added. None: always."""
    plb_action_retry_times: int = count(1, original=3, name="PLBActionRetryTimes", unit="tries", low=1)
    """Tries of a variant of a phase before the next: placement, then placement with moves; quick balancing, then slow
    balancing.
    """
