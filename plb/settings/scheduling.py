"""Settings of the schedule of the phases."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, count, seconds, switch


@attrs.frozen(kw_only=True, slots=False)
class SchedulingSettings(Checked):
    """When the phases of a refresh run.

    Parameters
    ----------
    load_balancing_enabled : switch, default True
        Whether balancing runs.
    constraint_check_enabled : switch, default True
        Whether the constraint check runs.
    allow_constraint_check_fixes_during_application_upgrade : switch, default False, Service Fabric True
        Whether the constraint check moves replicas of upgraded partitions, except those with marks and the primary of a
        partition to which a primary returns.
    allow_balancing_during_application_upgrade : switch, default True
        Whether balancing runs for a service domain with an upgraded partition.
    min_placement_interval : seconds, default 0.0, Service Fabric 1.0
        Time between two placements in `refresh`. None: placement does not run in `refresh`.
    min_constraint_check_interval : seconds, default 0.0, Service Fabric 1.0
        Time between two constraint checks. None: the check does not run in `refresh`.
    min_load_balancing_interval : seconds, default 0.0, Service Fabric 5.0
        Time between two balancings. None: balancing does not run in `refresh`.
    balancing_delay_after_node_down : seconds, default 0.0, Service Fabric 120.0
        Time without balancing after a node went down. None: balancing never runs again.
    balancing_delay_after_new_node : seconds, default 0.0, Service Fabric 120.0
        Time without balancing after a node was added. None: balancing never runs again.
    constraint_fix_partial_delay_after_node_down : seconds, default 0.0, Service Fabric 120.0
        Time in which the constraint check ignores fault and upgrade domains after a node went down. None: always.
    constraint_fix_partial_delay_after_new_node : seconds, default 0.0, Service Fabric 120.0
        Time in which the constraint check ignores fault and upgrade domains after a node was added. None: always.
    plb_action_retry_times : tries, default 1, Service Fabric 3
        Tries of a variant of a phase before the next: placement, then placement with moves; quick balancing, then slow
        balancing.
    """

    load_balancing_enabled: bool = switch(True, original=True)
    constraint_check_enabled: bool = switch(True, original=True)
    allow_constraint_check_fixes_during_application_upgrade: bool = switch(False, original=True)
    allow_balancing_during_application_upgrade: bool = switch(True, original=True)
    min_placement_interval: float | None = seconds(0.0, original=1.0)
    min_constraint_check_interval: float | None = seconds(0.0, original=1.0)
    min_load_balancing_interval: float | None = seconds(0.0, original=5.0)
    balancing_delay_after_node_down: float | None = seconds(0.0, original=120.0)
    balancing_delay_after_new_node: float | None = seconds(0.0, original=120.0)
    constraint_fix_partial_delay_after_node_down: float | None = seconds(0.0, original=120.0)
    constraint_fix_partial_delay_after_new_node: float | None = seconds(0.0, original=120.0)
    plb_action_retry_times: int = count(1, original=3, name="PLBActionRetryTimes", unit="tries", low=1)
