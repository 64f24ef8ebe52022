"""Settings of the searches: budgets, random numbers, annealing, balancing with its score, placement."""

from __future__ import annotations

from enum import Enum

import attrs

from plb.model.setting_fields import Checked, count, member_of, number, seconds, share, switch
from plb.validation import LARGEST_COUNT, LARGEST_WEIGHT

SEARCH_TIMEOUTS = (
    "placement_search_timeout",
    "constraint_check_search_timeout",
    "fast_balancing_search_timeout",
    "slow_balancing_search_timeout",
)
"""The settings that limit the time of a search."""


@attrs.frozen(kw_only=True, slots=False)
class SearchSettings(Checked):
    """Budgets of the searches and limits of moves."""

    max_simulated_annealing_iterations: int | None = count(25, original=-1, unit="rounds", none=True, unlimited=-1)
    """Largest number of rounds of a chain. The temperature decreases after each round without a new best. None: until
    the time is used or nothing improves.
    """
    simulated_annealing_iterations_per_round: int | None = count(None, original=1000, unit="proposals", none=True)
    """Proposals of a chain in a round. 0: no annealing. None: 60; in balancing as many more as it takes for 30
    proposals in all for each replica that may move.
    """
    initial_temperature_probe_count: int = count(50, original=50, unit="proposals")
    """Random proposals that determine the first temperature."""
    enable_cluster_specific_initial_temperature: bool = switch(False, original=False)
    """Whether the first temperature follows from the number of replicas and their deviation instead of the probes."""
    cluster_specific_temperature_coefficient: float = number(100.0, original=100.0, unit="factor")
    """Factor of the first temperature that follows from the cluster. A larger value allows more random moves. 0 allows
    improvements only.
    """
    fast_balancing_temperature_decay_rate: float = number(0.8, original=0.8, unit="factor", high=1.0, low_open=True)
    """Factor of the temperature in placement, constraint check and quick balancing."""
    slow_balancing_temperature_decay_rate: float = number(0.98, original=0.98, unit="factor", high=1.0, low_open=True)
    """Factor of the temperature in slow balancing."""
    placement_search_iterations_per_round: int = count(20, original=100, unit="tries")
    """Tries of placement before annealing: the first of all new replicas, the others of replicas that found no node.
    """
    constraint_check_iterations_per_round: int = count(20, original=100, unit="tries")
    """Random repair moves before annealing."""
    placement_search_timeout: float | None = seconds(None, original=0.5)
    """Longest search of a placement. None: only rounds limit it."""
    constraint_check_search_timeout: float | None = seconds(None, original=0.5)
    """Longest search of a constraint check, after its first random repairs. None: only rounds limit it."""
    fast_balancing_search_timeout: float | None = seconds(None, original=10.0)
    """Longest search of a quick balancing. None: only rounds limit it."""
    slow_balancing_search_timeout: float | None = seconds(None, original=120.0)
    """Longest search of a slow balancing. None: only rounds limit it."""
    swap_primary_probability: float = share(0.3, original=0.3)
    """Share of the proposals that swap a primary with a secondary."""
    max_percentage_to_move_for_placement: float = share(1.0, original=0.1)
    """Largest share of the replicas that move to free capacity for new ones."""
    use_score_in_constraint_check: bool = switch(True, original=True)
    """Whether the energy decides between equally good repairs."""
    enable_preferred_swap_solution_in_constraint_check: bool = switch(True, original=True)
    """Whether the constraint check also tries repairs by swaps."""
    dummy_plb_enabled: bool = switch(False, original=False, name="DummyPLBEnabled")
    """Whether placement uses the last allowed node instead of a random one."""


@attrs.frozen(kw_only=True, slots=False)
class PlacementSettings(Checked):
    """Actions of placement for new replicas that fit on no node."""

    move_existing_replica_for_placement: bool = switch(True, original=True)
    """Whether existing replicas may move to free capacity for a new one."""
    partially_place_services: bool = switch(True, original=True)
    """Whether a partition without replicas may be placed in part. False: all its replicas are placed, or none."""
    relax_constraint_for_placement: bool = switch(True, original=True)
    """Whether soft constraints are relaxed for a new replica that fits nowhere else."""
    use_separate_secondary_load: bool = switch(True, original=True)
    """Whether each secondary or instance has its own load, and a new one the mean of the present loads."""
    use_default_load_for_service_on_every_node: bool = switch(False, original=False)
    """Whether a new replica of a service on every node has the default load instead of this mean."""


class Cooling(Enum):
    """When the temperature of a chain falls."""

    BY_ROUND = "by_round"
    """After each round without a new best, as in Service Fabric."""
    BY_BUDGET = "by_budget"
    """With the share of the budget that is used, geometrically from the first temperature to the last."""
    BY_PRICE = "by_price"
    """As by_budget, while the price of a move falls to its cost in the energy (docs/search.md)."""


@attrs.frozen(kw_only=True, slots=False)
class AnnealingSettings(Checked):
    """The schedule of a chain."""

    initial_temperature: float | None = number(None, unit="energy changes", none=True)
    """First temperature, in units of the largest energy change of the probes. Service Fabric: 50. None: 1; balancing
    chooses (docs/search.md).
    """
    absolute_initial_temperature: float | None = number(None, unit="energy", none=True)
    """First temperature in units of the energy. None: as given by the probes."""
    cooling: Cooling | None = attrs.field(default=None, metadata=member_of(Cooling, none=True))
    """When the temperature falls. by_round: after each round without a new best, as in Service Fabric. by_budget:
    geometrically with the used share of the rounds or of the time; a chain then uses its whole budget, and probes until
    the constraints have allowed as many proposals as it is to probe. by_price: as by_budget, while the price of a move
    falls to its cost in the energy; such a chain ends when it finds no further move. None: by_round; balancing chooses.
    """
    last_temperature: float = number(0.001, unit="share", high=1.0, low_open=True)
    """Last temperature as a share of the first one, for cooling by budget."""
    quiet_change: float = share(0.001)
    """A round is quiet if it changes the energy by at most this share of its absolute value."""
    absolute_quiet_change: float | None = number(None, unit="energy", none=True)
    """Largest change of a quiet round in units of the energy, instead of `quiet_change`. A constant in a term then has
    no effect. None: `quiet_change` holds.
    """
    quiet_rounds: int = count(10, unit="rounds", low=1)
    """Quiet rounds after which a chain ends, or cools to 0 if it found a new best in its last rounds of this number."""
    restarts: int = count(0)
    """How often a chain returns to its best solution and heats up again to the first temperature: when it has
    converged, or, for cooling by budget, after equal parts of the budget.
    """


@attrs.frozen(kw_only=True, slots=False)
class BalancingSettings(Checked):
    """Limits of balancing, and weights of balance and moves in the score."""

    violation_cost: float | None = number(None, unit="moves", high=LARGEST_WEIGHT, none=True)
    """What a violation costs, in moves. Balancing then begins where a node expects violations that are worth a move,
    and makes the moves that avoid more than they cost (docs/rebalancing.md). None: only loads that are out of balance
    start balancing.
    """
    placement_days: float = number(7.0, unit="days", high=LARGEST_COUNT, low_open=True)
    """How long a placement is expected to last: a violation that a move avoids is avoided as long."""
    max_percentage_to_move: float = share(0.3, original=0.3)
    """Largest share of the replicas that a balancing plan moves. 0: no balancing."""
    score_improvement_threshold: float = number(0.0, original=0.0, unit="energy")
    """Smallest improvement of the energy for which a balancing plan is used."""
    local_domain_weight: float = share(0.0, original=0.25)
    """Share of the balance of single services in the score. The balance of whole metrics has the rest."""
    local_balancing_threshold: float = number(0.0, original=0.0, unit="ratio")
    """Max/min of node load above which balancing includes a single service. 0: never. At most 1: any difference of 2 or
    more.
    """
    ignore_cost_in_scoring: bool = switch(False, original=False)
    """Whether moves have no cost: the additive energy omits m, and the product form is the deviation alone."""
    use_move_cost_reports: bool = switch(False, original=False)
    """False: each move counts 1. True: each counts the move cost of its service (the next five settings), an add 0."""
    move_cost_zero_value: float = number(0.0, original=0, unit="moves", high=LARGEST_COUNT)
    """Cost of moving a replica with move cost zero."""
    move_cost_low_value: float = number(1.0, original=1, unit="moves", high=LARGEST_COUNT)
    """Cost of moving a replica with move cost low."""
    move_cost_medium_value: float = number(15.0, original=15, unit="moves", high=LARGEST_COUNT)
    """Cost of moving a replica with move cost medium."""
    move_cost_high_value: float = number(40.0, original=40, unit="moves", high=LARGEST_COUNT)
    """Cost of moving a replica with move cost high."""
    swap_cost: float = number(0.1, original=0.1, unit="moves", high=LARGEST_COUNT)
    """Cost of a swap of a primary with a secondary."""
    move_cost_offset: float = number(1000.0, original=1000, unit="moves", high=LARGEST_WEIGHT)
    """Added to replicas and moves in the product form. With a larger value a single move counts less."""


@attrs.frozen(kw_only=True, slots=False)
class DefragmentationSettings(Checked):
    """Weights of the standard deviations for defragmentation metrics."""

    defragmentation_nodes_std_dev_factor: float = number(1.0, original=1.0, unit="factor")
    """Weight of the standard deviation of the loads of nodes, which is to be large."""
    defragmentation_fds_std_dev_factor: float = number(0.01, original=0.01, unit="factor")
    """Weight of the standard deviation of the loads of fault domains, which is to be small."""
    defragmentation_uds_std_dev_factor: float = number(0.01, original=0.01, unit="factor")
    """Weight of the standard deviation of the loads of upgrade domains, which is to be small."""
    restricted_defragmentation_heuristic_enabled: bool = switch(False, original=False)
    """Whether balancing also searches with moves that empty nodes only."""
    nodes_with_reserved_load_overlap: bool = switch(False, original=False)
    """Whether the nodes kept free must be the same for all metrics."""
