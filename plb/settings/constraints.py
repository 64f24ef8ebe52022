"""Settings of the constraints: their priorities and rules."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, priority, share, switch


@attrs.frozen(kw_only=True, slots=False)
class ConstraintSettings(Checked):
    """Priorities and rules of the constraints.

    Priorities: -1 off, 0 hard, 1 soft (relaxed if nothing else fits), 2 optimisation (relaxed first).

    Parameters
    ----------
    placement_constraint_priority : priority, default 0
        Priority of block lists and placement expressions.
    capacity_constraint_priority : priority, default 0
        Priority of the capacities of nodes.
    affinity_constraint_priority : priority, default 0
        Priority of affinity: replicas on the nodes of the parent service.
    fault_domain_constraint_priority : priority, default 0
        Priority of the spread over fault domains.
    upgrade_domain_constraint_priority : priority, default 1
        Priority of the spread over upgrade domains.
    preferred_location_constraint_priority : priority, default -1, Service Fabric 2
        Priority of nodes that have a replica of the partition; while it is enforced, replicas can only swap.
    scaleout_count_constraint_priority : priority, default 0
        Priority of the number of nodes that an application uses.
    application_capacity_constraint_priority : priority, default 0
        Priority of the capacities of applications, in all and on a node.
    throttling_constraint_priority : priority, default 0
        Priority of the limits on replicas in build; see `throttle_balancing_phase`.
    fault_domain_enabled : switch, default True
        Whether there are fault domains.
    upgrade_domain_enabled : switch, default True
        Whether there are upgrade domains.
    quorum_based_replica_distribution_per_fault_domains : switch, default False
        Whether each fault domain may have all replicas except a write quorum, instead of a difference of one.
    quorum_based_replica_distribution_per_upgrade_domains : switch, default False
        Whether each upgrade domain may have all replicas except a write quorum, instead of a difference of one.
    quorum_based_logic_auto_switch : switch, default False, Service Fabric True
        Whether a service uses the quorum rule if its target is divisible by the numbers of domains and there are no
        more usable nodes than fault times upgrade domains.
    allow_higher_child_target_replica_count_for_affinity : switch, default True
        Whether a child with more replicas than its parent satisfies affinity if each parent replica has a child on its
        node.
    place_child_without_parent : switch, default True
        Whether a child may be placed while its parent has no partition.
    move_parent_to_fix_affinity_violation : switch, default False
        Whether a constraint check may move parents as well as children.
    move_parent_to_fix_affinity_violation_transition_percentage : share, default 0.2
        Share of the transitions, the last ones, in which parents may move.
    prefer_existing_replica_locations : switch, default True
        Whether the nodes with replicas of a partition are its preferred locations.
    prefer_upgraded_uds : switch, default True
        Whether, during an upgrade, completed upgrade domains are preferred locations.
    check_aligned_affinity_for_upgrade : switch, default False
        Whether aligned primaries swap together during an upgrade.
    relax_affinity_constraint_during_upgrade : switch, default False, Service Fabric True
        Whether, while balancing is switched off, new replicas are placed apart from their parents if none can be placed
        otherwise.
    relax_capacity_constraint_for_upgrade : switch, default True
        Whether swaps for an upgrade may exceed the capacity of a node if they are impossible otherwise.
    prevent_transient_overcommit : switch, default False
        Whether load that a plan moves away still counts on its source, except in constraint checks.
    count_disappearing_load_for_simulated_annealing : switch, default True
        Whether, with `prevent_transient_overcommit`, the load of disappearing replicas counts in annealing and in
        constraint checks. False: these may use their capacity.
    """

    placement_constraint_priority: int = priority(0, original=0)
    capacity_constraint_priority: int = priority(0, original=0)
    affinity_constraint_priority: int = priority(0, original=0)
    fault_domain_constraint_priority: int = priority(0, original=0)
    upgrade_domain_constraint_priority: int = priority(1, original=1)
    preferred_location_constraint_priority: int = priority(-1, original=2)
    scaleout_count_constraint_priority: int = priority(0, original=0)
    application_capacity_constraint_priority: int = priority(0, original=0)
    throttling_constraint_priority: int = priority(0, original=0)
    fault_domain_enabled: bool = switch(True, original=True)
    upgrade_domain_enabled: bool = switch(True, original=True)
    quorum_based_replica_distribution_per_fault_domains: bool = switch(False, original=False)
    quorum_based_replica_distribution_per_upgrade_domains: bool = switch(False, original=False)
    quorum_based_logic_auto_switch: bool = switch(False, original=True)
    allow_higher_child_target_replica_count_for_affinity: bool = switch(True, original=True)
    place_child_without_parent: bool = switch(True, original=True)
    move_parent_to_fix_affinity_violation: bool = switch(False, original=False)
    move_parent_to_fix_affinity_violation_transition_percentage: float = share(0.2, original=0.2)
    prefer_existing_replica_locations: bool = switch(True, original=True)
    prefer_upgraded_uds: bool = switch(True, original=True, name="PreferUpgradedUDs")
    check_aligned_affinity_for_upgrade: bool = switch(False, original=False)
    relax_affinity_constraint_during_upgrade: bool = switch(False, original=True)
    relax_capacity_constraint_for_upgrade: bool = switch(True, original=True)
    prevent_transient_overcommit: bool = switch(False, original=False)
    count_disappearing_load_for_simulated_annealing: bool = switch(True, original=True)
