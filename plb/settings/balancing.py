"""Settings of the score: weights of balance and of the cost of moves."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, number, share, switch


@attrs.frozen(kw_only=True, slots=False)
class BalancingSettings(Checked):
    """Weights of balance and moves in the score.

    Parameters
    ----------
    local_domain_weight : share, default 0.0, Service Fabric 0.25
        Share of the balance of single services in the score. The balance of whole metrics has the rest.
    local_balancing_threshold : ratio, default 0.0
        Max/min of node load above which balancing includes a single service. 0: never. At most 1: any difference of 2
        or more.
    ignore_cost_in_scoring : switch, default False
        Whether moves have no cost: the additive energy omits m, and the product form is the deviation alone.
    use_move_cost_reports : switch, default False
        False: each move counts 1. True: each counts the move cost of its service (the next five settings), an add 0.
    move_cost_zero_value : moves, default 0.0
        Cost of moving a replica with move cost zero.
    move_cost_low_value : moves, default 1.0
        Cost of moving a replica with move cost low.
    move_cost_medium_value : moves, default 15.0
        Cost of moving a replica with move cost medium.
    move_cost_high_value : moves, default 40.0
        Cost of moving a replica with move cost high.
    swap_cost : moves, default 0.1
        Cost of a swap of a primary with a secondary.
    move_cost_offset : moves, default 1000.0
        Added to replicas and moves in the product form. With a larger value a single move counts less.
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
