"""Every knob of the engine: its default, its unit, its source."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.model import Metric, check_count, check_number


class Combination(Enum):
    """How the four terms become one energy (design section 6)."""

    ADDITIVE = "additive"
    """E = (m + w_f·V) + w_I·I + w_F·F: the expected failovers join the first component, as [1] section 7 says."""
    SERVICE_FABRIC = "service_fabric"
    """E = (I + w_F·F + 0.001)·(R + 1000 + m + w_f·V): the product form of the open-source code."""


class CapacityLimit(Enum):
    """Up to where the engine fills a node."""

    THRESHOLD = "threshold"
    """The largest step below f·c, so that no plan creates a violation."""
    CAPACITY = "capacity"
    """The capacity itself, as Service Fabric does."""


class Replay(Enum):
    """What a sampled trace says of a replica that has reported demand."""

    AS_RECORDED = "as_recorded"
    """The replica follows the trace ([1] section 5.1)."""
    ANCHORED = "anchored"
    """The replica grows from its largest demand so far by what the trace still grew at that age."""


class Checks(Enum):
    """How often increments are compared with totals computed from scratch."""

    OFF = "off"
    PHASE = "phase"
    STEP = "step"


Choice = TypeVar("Choice", bound=Enum)


def _member(kind: type[Choice], field: str, value: object) -> Choice:
    """Return the member of `kind` that `value` is or names, or refuse it."""
    try:
        return kind(value)
    except ValueError:
        allowed = "one of " + ", ".join(str(member.value) for member in kind)
        raise InvalidValueError("PlbConfig", field, value, allowed) from None


def _combination(value: object) -> Combination:
    return _member(Combination, "combination", value)


def _capacity_limit(value: object) -> CapacityLimit:
    return _member(CapacityLimit, "capacity_limit", value)


def _checks(value: object) -> Checks:
    return _member(Checks, "checks", value)


def _replay(value: object) -> Replay:
    return _member(Replay, "replay", value)


def _tuple_of_metrics(metrics: object) -> tuple[Metric, ...]:
    return tuple(metrics)  # type: ignore[arg-type]


@attrs.frozen(kw_only=True)
class PlbConfig:
    """Settings of a `PlacementAndLoadBalancing` engine.

    Parameters
    ----------
    metrics
        The metrics that the engine weighs; at least one, names unique.
    combination
        How the terms become one energy.
    w_failovers
        Weight of the expected failovers beside the moves ([1] section 8.2: 0.10). 0 is the original energy.
    w_imbalance
        Weight of the imbalance in the additive form; the default is the best of those in docs/energy.md.
    w_fragmentation
        Weight of the demand on held-out nodes.
    held_out_nodes
        M, the number of least loaded nodes that are kept free for large tenants ([1] section 6.2).
    capacity_limit
        Up to where a node may be filled.
    fault_domain_constraint_priority, upgrade_domain_constraint_priority
        0 hard, 1 soft (given up where nothing else fits), -1 off.
    use_move_cost_reports
        False: every movement counts 1. True: 0/1/15/40 by the service's move cost, a swap of roles 0.1, an add 0.
    move_cost_offset
        The 1000 in the product form (MoveCostOffset).
    replay
        What a sampled trace says of a replica that has reported demand; before its first report it follows the trace.
    repetitions
        K, Monte Carlo draws a replica ([1] section 8.1: 100).
    chains
        Annealing chains from which the best result is taken; ties go to the first.
    threads
        Threads that run the chains; None: one a core. The result does not depend on it.
    max_simulated_annealing_iterations
        Most rounds of a chain; the temperature falls after each round without a new best.
    simulated_annealing_iterations_per_round
        Proposals of one chain in one round.
    initial_temperature_probe_count
        Random steps that set the first temperature (InitialTemperatureProbeCount).
    initial_temperature
        First temperature, in units of the largest energy change seen by the probes.
    fast_balancing_temperature_decay_rate
        Factor by which the temperature falls (FastBalancingTemperatureDecayRate).
    placement_search_iterations_per_round
        Random placements tried before annealing (PlacementSearchIterationsPerRound).
    constraint_check_iterations_per_round
        Random repairs tried before annealing (ConstraintCheckIterationsPerRound).
    move_existing_replica_for_placement
        Whether replicas that stand may move to make room for a new one (MoveExistingReplicaForPlacement).
    swap_primary_probability
        Share of proposals that swap a primary with a secondary (SwapPrimaryProbability).
    exchange_probability
        Share of the remaining proposals that exchange two replicas of different partitions.
    max_percentage_to_move
        Largest share of the replicas that one balancing plan moves (MaxPercentageToMove).
    score_improvement_threshold
        Energy that a balancing plan must win to be used, besides being better at all.
    max_moves, max_moves_per_node
        Budgets of one plan, not counting the placement of new replicas; None: no limit.
    min_placement_interval, min_constraint_check_interval, min_load_balancing_interval
        Seconds between two runs of a phase in `refresh`; None: the phase never runs by itself.
    checks
        How often the engine checks its own increments.
    """

    metrics: tuple[Metric, ...] = attrs.field(converter=_tuple_of_metrics)
    combination: Combination = attrs.field(default=Combination.ADDITIVE, converter=_combination)
    w_failovers: float = 0.10
    w_imbalance: float = 10.0
    w_fragmentation: float = 1.0
    held_out_nodes: int = 0
    capacity_limit: CapacityLimit = attrs.field(default=CapacityLimit.THRESHOLD, converter=_capacity_limit)
    fault_domain_constraint_priority: int = 0
    upgrade_domain_constraint_priority: int = 1
    use_move_cost_reports: bool = False
    move_cost_offset: float = 1000.0
    replay: Replay = attrs.field(default=Replay.ANCHORED, converter=_replay)
    repetitions: int = 100
    chains: int = 4
    threads: int | None = None
    max_simulated_annealing_iterations: int = 25
    simulated_annealing_iterations_per_round: int = 60
    initial_temperature_probe_count: int = 50
    initial_temperature: float = 1.0
    fast_balancing_temperature_decay_rate: float = 0.8
    placement_search_iterations_per_round: int = 20
    constraint_check_iterations_per_round: int = 20
    move_existing_replica_for_placement: bool = True
    swap_primary_probability: float = 0.3
    exchange_probability: float = 0.1
    max_percentage_to_move: float = 0.3
    score_improvement_threshold: float = 0.0
    max_moves: int | None = None
    max_moves_per_node: int | None = None
    min_placement_interval: float | None = 0.0
    min_constraint_check_interval: float | None = 0.0
    min_load_balancing_interval: float | None = 0.0
    checks: Checks = attrs.field(default=Checks.OFF, converter=_checks)

    def __attrs_post_init__(self) -> None:
        for metric in self.metrics:
            if not isinstance(metric, Metric):
                raise InvalidValueError("PlbConfig", "metrics", metric, "a Metric")
        names = [metric.name for metric in self.metrics]
        if not names:
            raise InvalidValueError("PlbConfig", "metrics", (), "at least one Metric")
        if len(set(names)) < len(names):
            raise ConflictError(f"PlbConfig: metrics has a name twice: {names}")
        for field in (
            "w_failovers",
            "w_imbalance",
            "w_fragmentation",
            "move_cost_offset",
            "score_improvement_threshold",
        ):
            check_number("PlbConfig", field, getattr(self, field))
        for field in ("swap_primary_probability", "exchange_probability", "max_percentage_to_move"):
            check_number("PlbConfig", field, getattr(self, field), high=1.0)
        check_number("PlbConfig", "initial_temperature", self.initial_temperature)
        check_number(
            "PlbConfig",
            "fast_balancing_temperature_decay_rate",
            self.fast_balancing_temperature_decay_rate,
            high=1.0,
            low_open=True,
        )
        for field in (
            "held_out_nodes",
            "initial_temperature_probe_count",
            "max_simulated_annealing_iterations",
            "placement_search_iterations_per_round",
        ):
            check_count("PlbConfig", field, getattr(self, field))
        for field in ("constraint_check_iterations_per_round",):
            check_count("PlbConfig", field, getattr(self, field))
        for field in ("repetitions", "chains", "simulated_annealing_iterations_per_round"):
            check_count("PlbConfig", field, getattr(self, field), low=1)
        for field in ("threads", "max_moves", "max_moves_per_node"):
            if getattr(self, field) is not None:
                check_count("PlbConfig", field, getattr(self, field), low=1 if field == "threads" else 0)
        for field in ("min_placement_interval", "min_constraint_check_interval", "min_load_balancing_interval"):
            if getattr(self, field) is not None:
                check_number("PlbConfig", field, getattr(self, field))
        for field in ("fault_domain_constraint_priority", "upgrade_domain_constraint_priority"):
            if getattr(self, field) not in (-1, 0, 1):
                raise InvalidValueError("PlbConfig", field, getattr(self, field), "-1 (off), 0 (hard) or 1 (soft)")

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of every array's metric axis."""
        return tuple(metric.name for metric in self.metrics)
