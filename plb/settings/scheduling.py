"""Settings of the schedule: which stage runs when."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, count, seconds, switch


@attrs.frozen(kw_only=True, slots=False)
class SchedulingSettings(Checked):
    """When the stages of a refresh run.

    Parameters
    ----------
    load_balancing_enabled : switch, default True
        Whether balancing runs.
    constraint_check_enabled : switch, default True
        Whether constraint check runs.
    min_placement_interval : seconds, default 0.0, Service Fabric 1.0
        Time between two placements in `refresh`; None: none runs by itself.
    min_constraint_check_interval : seconds, default 0.0, Service Fabric 1.0
        Time between two constraint checks; None: none runs by itself.
    min_load_balancing_interval : seconds, default 0.0, Service Fabric 5.0
        Time between two balancings; None: none runs by itself.
    balancing_delay_after_node_down : seconds, default 0.0, Service Fabric 120.0
        No balancing for so long after a node went down; None: never again.
    balancing_delay_after_new_node : seconds, default 0.0, Service Fabric 120.0
        No balancing for so long after a node came; None: never again.
    constraint_fix_partial_delay_after_node_down : seconds, default 0.0, Service Fabric 120.0
        Constraint check leaves fault and upgrade domains alone for so long after a node went down; None: ever after.
    constraint_fix_partial_delay_after_new_node : seconds, default 0.0, Service Fabric 120.0
        The same after a node came.
    plb_action_retry_times : tries, default 1, Service Fabric 3
        Tries of one variant of a stage before the next: placement, then placement with moves; quick, then slow
        balancing.
    """

    load_balancing_enabled: bool = switch(True, "LoadBalancingEnabled", True)
    constraint_check_enabled: bool = switch(True, "ConstraintCheckEnabled", True)
    min_placement_interval: float | None = seconds(0.0, "MinPlacementInterval", 1.0)
    min_constraint_check_interval: float | None = seconds(0.0, "MinConstraintCheckInterval", 1.0)
    min_load_balancing_interval: float | None = seconds(0.0, "MinLoadBalancingInterval", 5.0)
    balancing_delay_after_node_down: float | None = seconds(0.0, "BalancingDelayAfterNodeDown", 120.0)
    balancing_delay_after_new_node: float | None = seconds(0.0, "BalancingDelayAfterNewNode", 120.0)
    constraint_fix_partial_delay_after_node_down: float | None = seconds(
        0.0, "ConstraintFixPartialDelayAfterNodeDown", 120.0
    )
    constraint_fix_partial_delay_after_new_node: float | None = seconds(
        0.0, "ConstraintFixPartialDelayAfterNewNode", 120.0
    )
    plb_action_retry_times: int = count(1, "PLBActionRetryTimes", 3, unit="tries", low=1)
