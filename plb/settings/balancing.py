"""Settings of the score: how balance and the cost of moves are weighed."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, number, share, switch


@attrs.frozen(kw_only=True, slots=False)
class BalancingSettings(Checked):
    """How the score weighs balance against moves.

    Parameters
    ----------
    local_domain_weight : share, default 0.0, Service Fabric 0.25
        Share of the balance of single services in the score; the balance of whole metrics has the rest.
    local_balancing_threshold : ratio, default 0.0
        Max/min of node load above which a single service calls for balancing; 0: never, and at most 1: any difference
        of 2 or more.
    ignore_cost_in_scoring : switch, default False
        Whether moves cost nothing: the additive energy loses m, the product form is the deviation alone.
    use_move_cost_reports : switch, default False
        False: every movement counts 1. True: as the service's move cost says (the next five settings), an add 0.
    move_cost_zero_value : moves, default 0.0
        Cost of moving a replica of move cost zero.
    move_cost_low_value : moves, default 1.0
        Cost of moving a replica of move cost low.
    move_cost_medium_value : moves, default 15.0
        Cost of moving a replica of move cost medium.
    move_cost_high_value : moves, default 40.0
        Cost of moving a replica of move cost high.
    swap_cost : moves, default 0.1
        Cost of a swap of a primary with a secondary.
    move_cost_offset : moves, default 1000.0
        Added to replicas and moves in the product form; the larger, the less a single move counts.
    """

    local_domain_weight: float = share(0.0, "LocalDomainWeight", 0.25)
    local_balancing_threshold: float = number(0.0, "LocalBalancingThreshold", 0.0, unit="ratio")
    ignore_cost_in_scoring: bool = switch(False, "IgnoreCostInScoring", False)
    use_move_cost_reports: bool = switch(False, "UseMoveCostReports", False)
    move_cost_zero_value: float = number(0.0, "MoveCostZeroValue", 0, unit="moves")
    move_cost_low_value: float = number(1.0, "MoveCostLowValue", 1, unit="moves")
    move_cost_medium_value: float = number(15.0, "MoveCostMediumValue", 15, unit="moves")
    move_cost_high_value: float = number(40.0, "MoveCostHighValue", 40, unit="moves")
    swap_cost: float = number(0.1, "SwapCost", 0.1, unit="moves")
    move_cost_offset: float = number(1000.0, "MoveCostOffset", 1000, unit="moves")
