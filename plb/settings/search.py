"""Settings of the searches: budgets, random numbers and limits of moves; and of placement."""

from __future__ import annotations

from enum import Enum

import attrs

from plb.model.setting_fields import Checked, count, number, seconds, share, switch
from plb.validation import LARGEST_COUNT, LARGEST_WEIGHT, check_member

SEARCH_TIMEOUTS = (
    "placement_search_timeout",
    "constraint_check_search_timeout",
    "fast_balancing_search_timeout",
    "slow_balancing_search_timeout",
)
"""The settings that limit the time of a search."""


@attrs.frozen(kw_only=True, slots=False)
class SearchSettings(Checked):
    """Budgets of the searches and limits of moves.

    Parameters
    ----------
    max_simulated_annealing_iterations : rounds, default 25, Service Fabric None
        Largest number of rounds of a chain. The temperature decreases after each round without a new best. None: until
        the time is used or nothing improves.
    simulated_annealing_iterations_per_round : proposals, default None, Service Fabric 1000
        Proposals of a chain in a round. 0: no annealing. None: 60; in balancing as many more as it takes for 30
        proposals in all for each replica that may move.
    initial_temperature_probe_count : proposals, default 50
        Random proposals that determine the first temperature.
    enable_cluster_specific_initial_temperature : switch, default False
        Whether the first temperature follows from the number of replicas and their deviation instead of the probes.
    cluster_specific_temperature_coefficient : factor, default 100.0
        Factor of that temperature. A larger value allows more random moves. 0 allows improvements only.
    fast_balancing_temperature_decay_rate : factor, default 0.8
        Factor of the temperature in placement, constraint check and quick balancing.
    slow_balancing_temperature_decay_rate : factor, default 0.98
        Factor of the temperature in slow balancing.
    placement_search_iterations_per_round : tries, default 20, Service Fabric 100
        Tries of placement before annealing. The first places all new replicas, the others those that found no node.
    constraint_check_iterations_per_round : tries, default 20, Service Fabric 100
        Random repair moves before annealing.
    placement_search_timeout : seconds, default None, Service Fabric 0.5
        Longest search of a placement. None: only rounds limit it.
    constraint_check_search_timeout : seconds, default None, Service Fabric 0.5
        Longest search of a constraint check, after its first random repairs. None: only rounds limit it.
    fast_balancing_search_timeout : seconds, default None, Service Fabric 10.0
        Longest search of a quick balancing. None: only rounds limit it.
    slow_balancing_search_timeout : seconds, default None, Service Fabric 120.0
        Longest search of a slow balancing. None: only rounds limit it.
    swap_primary_probability : share, default 0.3
        Share of the proposals that swap a primary with a secondary.
    max_percentage_to_move_for_placement : share, default 1.0, Service Fabric 0.1
        Largest share of the replicas that move to free capacity for new ones.
    use_score_in_constraint_check : switch, default True
        Whether the energy decides between equally good repairs.
    enable_preferred_swap_solution_in_constraint_check : switch, default True
        Whether the constraint check also tries repairs by swaps.
    dummy_plb_enabled : switch, default False
        Whether placement uses the last allowed node instead of a random one.
    """

    max_simulated_annealing_iterations: int | None = count(25, original=-1, unit="rounds", none=True, unlimited=-1)
    simulated_annealing_iterations_per_round: int | None = count(None, original=1000, unit="proposals", none=True)
    initial_temperature_probe_count: int = count(50, original=50, unit="proposals")
    enable_cluster_specific_initial_temperature: bool = switch(False, original=False)
    cluster_specific_temperature_coefficient: float = number(100.0, original=100.0, unit="factor")
    fast_balancing_temperature_decay_rate: float = number(0.8, original=0.8, unit="factor", high=1.0, low_open=True)
    slow_balancing_temperature_decay_rate: float = number(0.98, original=0.98, unit="factor", high=1.0, low_open=True)
    placement_search_iterations_per_round: int = count(20, original=100, unit="tries")
    constraint_check_iterations_per_round: int = count(20, original=100, unit="tries")
    placement_search_timeout: float | None = seconds(None, original=0.5)
    constraint_check_search_timeout: float | None = seconds(None, original=0.5)
    fast_balancing_search_timeout: float | None = seconds(None, original=10.0)
    slow_balancing_search_timeout: float | None = seconds(None, original=120.0)
    swap_primary_probability: float = share(0.3, original=0.3)
    max_percentage_to_move_for_placement: float = share(1.0, original=0.1)
    use_score_in_constraint_check: bool = switch(True, original=True)
    enable_preferred_swap_solution_in_constraint_check: bool = switch(True, original=True)
    dummy_plb_enabled: bool = switch(False, original=False, name="DummyPLBEnabled")


@attrs.frozen(kw_only=True, slots=False)
class PlacementSettings(Checked):
    """Actions of placement for new replicas that fit on no node.

    Parameters
    ----------
    move_existing_replica_for_placement : switch, default True
        Whether existing replicas may move to free capacity for a new one.
    partially_place_services : switch, default True
        Whether a partition without replicas may be placed in part. False: all its replicas are placed, or none.
    relax_constraint_for_placement : switch, default True
        Whether soft constraints are relaxed for a new replica that fits nowhere else.
    use_separate_secondary_load : switch, default True
        Whether each secondary or instance has its own load, and a new one the mean of the present loads.
    use_default_load_for_service_on_every_node : switch, default False
        Whether a new replica of a service on every node has the default load instead of this mean.
    """

    move_existing_replica_for_placement: bool = switch(True, original=True)
    partially_place_services: bool = switch(True, original=True)
    relax_constraint_for_placement: bool = switch(True, original=True)
    use_separate_secondary_load: bool = switch(True, original=True)
    use_default_load_for_service_on_every_node: bool = switch(False, original=False)


class Cooling(Enum):
    """When the temperature of a chain falls."""

    BY_ROUND = "by_round"
    """After each round without a new best, as in Service Fabric."""
    BY_BUDGET = "by_budget"
    """With the share of the budget that is used, geometrically from the first temperature to the last."""
    BY_PRICE = "by_price"
    """As by_budget, while the price of a move falls to its cost in the energy (docs/search.md)."""


def _cooling(value: object) -> Cooling | None:
    return None if value is None else check_member("PlbConfig", "cooling", value, Cooling)


@attrs.frozen(kw_only=True, slots=False)
class AnnealingSettings(Checked):
    """The schedule of a chain.

    Parameters
    ----------
    initial_temperature : energy changes, default None
        First temperature, in units of the largest energy change of the probes. Service Fabric: 50. None: 1; balancing
        chooses (docs/search.md).
    absolute_initial_temperature : energy, default None
        First temperature in units of the energy. None: as given by the probes.
    cooling : name, default None
        When the temperature falls. by_round: after each round without a new best, as in Service Fabric. by_budget:
        geometrically with the used share of the rounds or of the time; a chain then uses its whole budget, and probes
        until the constraints have allowed as many proposals as it is to probe. by_price: as by_budget, while the price
        of a move falls to its cost in the energy; such a chain ends when it finds no further move. None: by_round;
        balancing chooses.
    last_temperature : share, default 0.001
        Last temperature as a share of the first one, for cooling by budget.
    quiet_change : share, default 0.001
        A round is quiet if it changes the energy by at most this share of its absolute value.
    absolute_quiet_change : energy, default None
        The same in units of the energy, instead of the share. A constant in a term then has no effect.
    quiet_rounds : rounds, default 10
        Quiet rounds after which a chain ends, or cools to 0 if it found a new best in its last rounds of this number.
    restarts : count, default 0
        How often a chain returns to its best solution and heats up again to the first temperature: when it has
        converged, or, for cooling by budget, after equal parts of the budget.
    """

    initial_temperature: float | None = number(None, unit="energy changes", none=True)
    absolute_initial_temperature: float | None = number(None, unit="energy", none=True)
    cooling: Cooling | None = attrs.field(default=None, converter=_cooling)
    last_temperature: float = number(0.001, unit="share", high=1.0, low_open=True)
    quiet_change: float = share(0.001)
    absolute_quiet_change: float | None = number(None, unit="energy", none=True)
    quiet_rounds: int = count(10, unit="rounds", low=1)
    restarts: int = count(0)


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
