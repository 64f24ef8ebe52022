"""Settings of the searches: budgets, random numbers and limits of moves; and of placement."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, count, number, seconds, share, switch

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
