"""Settings of the constraints: their priorities and how each of them counts."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, priority, share, switch


@attrs.frozen(kw_only=True, slots=False)
class ConstraintSettings(Checked):
    """Which constraints hold, how firmly, and how they count.

    Priorities: -1 off, 0 hard, 1 soft (given up where nothing else fits), 2 optimisation (given up first).

    Parameters
    ----------
    placement_constraint_priority : priority, default 0
        Priority of block lists and placement expressions.
    capacity_constraint_priority : priority, default 0
        Priority of the capacities of nodes.
    affinity_constraint_priority : priority, default 0
        Priority of standing beside the parent service.
    fault_domain_constraint_priority : priority, default 0
        Priority of the spread over fault domains.
    upgrade_domain_constraint_priority : priority, default 1
        Priority of the spread over upgrade domains.
    preferred_location_constraint_priority : priority, default -1, Service Fabric 2
        Priority of nodes that hold a replica of the partition already; while it holds, replicas can only swap.
    throttling_constraint_priority : priority, default 0
        Priority of the limits on replicas in build; see `throttle_balancing_phase`.
    fault_domain_enabled : switch, default True
        Whether there are fault domains at all.
    upgrade_domain_enabled : switch, default True
        Whether there are upgrade domains at all.
    quorum_based_replica_distribution_per_fault_domains : switch, default False
        Whether each fault domain may hold all but a write quorum of a partition, instead of a difference of one.
    quorum_based_replica_distribution_per_upgrade_domains : switch, default False
        The same for upgrade domains.
    quorum_based_logic_auto_switch : switch, default False, Service Fabric True
        Whether a service takes the quorum rule by itself where its target is divisible by the numbers of domains and
        there are no more usable nodes than fault times upgrade domains.
    allow_higher_child_target_replica_count_for_affinity : switch, default True
        Whether a child with more replicas than its parent is fine once each parent replica has a child beside it.
    place_child_without_parent : switch, default True
        Whether a child may be placed while its parent has no partition yet.
    move_parent_to_fix_affinity_violation : switch, default False
        Whether a constraint check may move parents, not only children.
    move_parent_to_fix_affinity_violation_transition_percentage : share, default 0.2
        Share of the transitions, at their end, in which parents may move.
    prefer_existing_replica_locations : switch, default True
        Whether the preferred location of a replica is where its partition has replicas.
    prefer_upgraded_uds : switch, default True
        Whether, during an upgrade, upgrade domains that are done are preferred locations.
    check_aligned_affinity_for_upgrade : switch, default False
        Whether aligned primaries swap together during an upgrade.
    relax_capacity_constraint_for_upgrade : switch, default True
        Whether swaps for an upgrade may overfill a node where they cannot be done otherwise.
    prevent_transient_overcommit : switch, default False
        Whether loads that move away in a plan still count as being there, except in constraint checks.
    count_disappearing_load_for_simulated_annealing : switch, default True
        Whether, with `prevent_transient_overcommit`, the load of disappearing replicas counts in annealing as it does
        elsewhere; if not, annealing may use their room.
    """

    placement_constraint_priority: int = priority(0, "PlacementConstraintPriority", 0)
    capacity_constraint_priority: int = priority(0, "CapacityConstraintPriority", 0)
    affinity_constraint_priority: int = priority(0, "AffinityConstraintPriority", 0)
    fault_domain_constraint_priority: int = priority(0, "FaultDomainConstraintPriority", 0)
    upgrade_domain_constraint_priority: int = priority(1, "UpgradeDomainConstraintPriority", 1)
    preferred_location_constraint_priority: int = priority(-1, "PreferredLocationConstraintPriority", 2)
    throttling_constraint_priority: int = priority(0, "ThrottlingConstraintPriority", 0)
    fault_domain_enabled: bool = switch(True, "FaultDomainEnabled", True)
    upgrade_domain_enabled: bool = switch(True, "UpgradeDomainEnabled", True)
    quorum_based_replica_distribution_per_fault_domains: bool = switch(
        False, "QuorumBasedReplicaDistributionPerFaultDomains", False
    )
    quorum_based_replica_distribution_per_upgrade_domains: bool = switch(
        False, "QuorumBasedReplicaDistributionPerUpgradeDomains", False
    )
    quorum_based_logic_auto_switch: bool = switch(False, "QuorumBasedLogicAutoSwitch", True)
    allow_higher_child_target_replica_count_for_affinity: bool = switch(
        True, "AllowHigherChildTargetReplicaCountForAffinity", True
    )
    place_child_without_parent: bool = switch(True, "PlaceChildWithoutParent", True)
    move_parent_to_fix_affinity_violation: bool = switch(False, "MoveParentToFixAffinityViolation", False)
    move_parent_to_fix_affinity_violation_transition_percentage: float = share(
        0.2, "MoveParentToFixAffinityViolationTransitionPercentage", 0.2
    )
    prefer_existing_replica_locations: bool = switch(True, "PreferExistingReplicaLocations", True)
    prefer_upgraded_uds: bool = switch(True, "PreferUpgradedUDs", True)
    check_aligned_affinity_for_upgrade: bool = switch(False, "CheckAlignedAffinityForUpgrade", False)
    relax_capacity_constraint_for_upgrade: bool = switch(True, "RelaxCapacityConstraintForUpgrade", True)
    prevent_transient_overcommit: bool = switch(False, "PreventTransientOvercommit", False)
    count_disappearing_load_for_simulated_annealing: bool = switch(
        True, "CountDisappearingLoadForSimulatedAnnealing", True
    )
