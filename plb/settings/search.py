"""Settings of the searches: their budget, their randomness and how much they may move."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, count, number, seconds, share, switch


@attrs.frozen(kw_only=True, slots=False)
class SearchSettings(Checked):
    """How long and how the searches look, and how much a plan may move.

    Parameters
    ----------
    max_simulated_annealing_iterations : rounds, default 25, Service Fabric None
        Most rounds of a chain; the temperature falls after each round without a new best. None: until time is up or
        nothing improves any more.
    simulated_annealing_iterations_per_round : proposals, default 60, Service Fabric 1000
        Proposals of one chain in one round; 0: no annealing.
    initial_temperature_probe_count : proposals, default 50
        Random steps that set the first temperature.
    enable_cluster_specific_initial_temperature : switch, default False
        Whether the first temperature follows from the number of replicas and their deviation, not from the probes.
    cluster_specific_temperature_coefficient : factor, default 100.0
        Scales that temperature; more of it makes more random moves, 0 allows improvements only.
    fast_balancing_temperature_decay_rate : factor, default 0.8
        Factor by which the temperature falls in placement, constraint check and quick balancing.
    slow_balancing_temperature_decay_rate : factor, default 0.98
        Factor by which the temperature falls in slow balancing.
    placement_search_iterations_per_round : tries, default 20, Service Fabric 100
        Random placements tried before annealing.
    constraint_check_iterations_per_round : tries, default 20, Service Fabric 100
        Random repairs tried before annealing.
    placement_search_timeout : seconds, default None, Service Fabric 0.5
        Longest search of a placement; None: only rounds limit it.
    constraint_check_search_timeout : seconds, default None, Service Fabric 0.5
        Longest search of a constraint check; None: only rounds limit it.
    fast_balancing_search_timeout : seconds, default None, Service Fabric 10.0
        Longest search of a quick balancing; None: only rounds limit it.
    slow_balancing_search_timeout : seconds, default None, Service Fabric 120.0
        Longest search of a slow balancing; None: only rounds limit it.
    swap_primary_probability : share, default 0.3
        Share of proposals that swap a primary with a secondary.
    max_percentage_to_move : share, default 0.3
        Largest share of the replicas that one balancing plan moves; 0: no balancing.
    max_percentage_to_move_for_placement : share, default 1.0, Service Fabric 0.1
        Largest share of the replicas that move to make room for new ones.
    score_improvement_threshold : energy, default 0.0
        What a balancing plan must win to be used, besides being better at all.
    use_score_in_constraint_check : switch, default True
        Whether the energy decides between repairs that mend equally much.
    enable_preferred_swap_solution_in_constraint_check : switch, default True
        Whether repairs are also tried that swap rather than move.
    dummy_plb_enabled : switch, default False
        Whether placement takes the last of the allowed nodes, not a random one.
    """

    max_simulated_annealing_iterations: int | None = count(
        25, "MaxSimulatedAnnealingIterations", -1, unit="rounds", none=True, unlimited=-1
    )
    simulated_annealing_iterations_per_round: int = count(
        60, "SimulatedAnnealingIterationsPerRound", 1000, unit="proposals"
    )
    initial_temperature_probe_count: int = count(50, "InitialTemperatureProbeCount", 50, unit="proposals")
    enable_cluster_specific_initial_temperature: bool = switch(False, "EnableClusterSpecificInitialTemperature", False)
    cluster_specific_temperature_coefficient: float = number(
        100.0, "ClusterSpecificTemperatureCoefficient", 100.0, unit="factor"
    )
    fast_balancing_temperature_decay_rate: float = number(
        0.8, "FastBalancingTemperatureDecayRate", 0.8, unit="factor", high=1.0, low_open=True
    )
    slow_balancing_temperature_decay_rate: float = number(
        0.98, "SlowBalancingTemperatureDecayRate", 0.98, unit="factor", high=1.0, low_open=True
    )
    placement_search_iterations_per_round: int = count(20, "PlacementSearchIterationsPerRound", 100, unit="tries")
    constraint_check_iterations_per_round: int = count(20, "ConstraintCheckIterationsPerRound", 100, unit="tries")
    placement_search_timeout: float | None = seconds(None, "PlacementSearchTimeout", 0.5)
    constraint_check_search_timeout: float | None = seconds(None, "ConstraintCheckSearchTimeout", 0.5)
    fast_balancing_search_timeout: float | None = seconds(None, "FastBalancingSearchTimeout", 10.0)
    slow_balancing_search_timeout: float | None = seconds(None, "SlowBalancingSearchTimeout", 120.0)
    swap_primary_probability: float = share(0.3, "SwapPrimaryProbability", 0.3)
    max_percentage_to_move: float = share(0.3, "MaxPercentageToMove", 0.3)
    max_percentage_to_move_for_placement: float = share(1.0, "MaxPercentageToMoveForPlacement", 0.1)
    score_improvement_threshold: float = number(0.0, "ScoreImprovementThreshold", 0.0, unit="energy")
    use_score_in_constraint_check: bool = switch(True, "UseScoreInConstraintCheck", True)
    enable_preferred_swap_solution_in_constraint_check: bool = switch(
        True, "EnablePreferredSwapSolutionInConstraintCheck", True
    )
    dummy_plb_enabled: bool = switch(False, "DummyPLBEnabled", False)
