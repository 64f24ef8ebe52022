"""Settings of balancing and its score: limits, weights of balance and of moves, defragmentation of all metrics.

`plb.model.metric` has the settings of defragmentation for one metric.
"""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, number, share, switch
from plb.validation import LARGEST_COUNT, LARGEST_WEIGHT


@attrs.frozen(kw_only=True, slots=False)
class BalancingSettings(Checked):
    """Limits of balancing, and weights of balance and moves in the score.

    Parameters
    ----------
    max_percentage_to_move : share, default 0.3
        Largest share of the replicas that a balancing plan moves. 0: no balancing.
    score_improvement_threshold : energy, default 0.0
        Smallest improvement of the energy for which a balancing plan is used.
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

    max_percentage_to_move: float = share(0.3, original=0.3)
    score_improvement_threshold: float = number(0.0, original=0.0, unit="energy")
    local_domain_weight: float = share(0.0, original=0.25)
    local_balancing_threshold: float = number(0.0, original=0.0, unit="ratio")
    ignore_cost_in_scoring: bool = switch(False, original=False)
    use_move_cost_reports: bool = switch(False, original=False)
    move_cost_zero_value: float = number(0.0, original=0, unit="moves", high=LARGEST_COUNT)
    move_cost_low_value: float = number(1.0, original=1, unit="moves", high=LARGEST_COUNT)
    move_cost_medium_value: float = number(15.0, original=15, unit="moves", high=LARGEST_COUNT)
    move_cost_high_value: float = number(40.0, original=40, unit="moves", high=LARGEST_COUNT)
    swap_cost: float = number(0.1, original=0.1, unit="moves", high=LARGEST_COUNT)
    move_cost_offset: float = number(1000.0, original=1000, unit="moves", high=LARGEST_WEIGHT)


@attrs.frozen(kw_only=True, slots=False)
class DefragmentationSettings(Checked):
    """Weights of the standard deviations for defragmentation metrics.

    Parameters
    ----------
    defragmentation_nodes_std_dev_factor : factor, default 1.0
        Weight of the standard deviation of the loads of nodes, which is to be large.
    defragmentation_fds_std_dev_factor : factor, default 0.01
        Weight of the standard deviation of the loads of fault domains, which is to be small.
    defragmentation_uds_std_dev_factor : factor, default 0.01
        Weight of the standard deviation of the loads of upgrade domains, which is to be small.
    restricted_defragmentation_heuristic_enabled : switch, default False
        Whether balancing also searches with moves that empty nodes only.
    nodes_with_reserved_load_overlap : switch, default False
        Whether the nodes kept free must be the same for all metrics.
    """

    defragmentation_nodes_std_dev_factor: float = number(1.0, original=1.0, unit="factor")
    defragmentation_fds_std_dev_factor: float = number(0.01, original=0.01, unit="factor")
    defragmentation_uds_std_dev_factor: float = number(0.01, original=0.01, unit="factor")
    restricted_defragmentation_heuristic_enabled: bool = switch(False, original=False)
    nodes_with_reserved_load_overlap: bool = switch(False, original=False)
