"""Every knob of the engine: its default, its unit, its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.model import Metric
from plb.model.setting_fields import count, number, share, switch
from plb.risk.estimators import MonteCarlo, estimator_of
from plb.risk.monte_carlo import Evaluation
from plb.settings.balancing import BalancingSettings
from plb.settings.constraints import ConstraintSettings
from plb.settings.defragmentation import DefragmentationSettings
from plb.settings.extensions import ExtensionSettings
from plb.settings.placement import PlacementSettings
from plb.settings.scheduling import SchedulingSettings
from plb.settings.search import SearchSettings
from plb.settings.throttling import ThrottlingSettings
from plb.settings.translation import original_defaults, translated, with_maps
from plb.validation import check_items, check_member


class Combination(Enum):
    """How the five terms become one energy (docs/terms/score.md)."""

    ADDITIVE = "additive"
    """E = (m + w_f·V + w_O·O) + w_I·I + w_F·F: what is expected joins the first component, as [1] section 7 says."""
    SERVICE_FABRIC = "service_fabric"
    """E = (I + w_F·F + 0.001)·(R + 1000 ± (m + w_f·V + w_O·O)): the product form of the open-source code; minus where
    the first factor is negative, as it may be where load is packed."""


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


def _combination(value: object) -> Combination:
    return check_member("PlbConfig", "combination", value, Combination)


def _capacity_limit(value: object) -> CapacityLimit:
    return check_member("PlbConfig", "capacity_limit", value, CapacityLimit)


def _checks(value: object) -> Checks:
    return check_member("PlbConfig", "checks", value, Checks)


def _evaluation(value: object) -> Evaluation:
    return check_member("PlbConfig", "evaluation", value, Evaluation)


def _replay(value: object) -> Replay:
    return check_member("PlbConfig", "replay", value, Replay)


def _estimator(value: object) -> str:
    estimator_of(value)
    return str(value)


def _tuple_of_metrics(metrics: object) -> tuple[Metric, ...]:
    return check_items("PlbConfig", "metrics", metrics, Metric)


SERVICE_FABRIC_FORM: Mapping[str, Any] = MappingProxyType(
    {
        "combination": Combination.SERVICE_FABRIC,
        "capacity_limit": CapacityLimit.CAPACITY,
        "exchange_probability": 0.0,
        "allow_chained_moves": True,
        "spread_moves": True,
        "biased_sampling": True,
        "is_singleton_replica_move_allowed_during_upgrade": True,
        "one_action_per_refresh": True,
        "w_failovers": 0.0,
        "w_overload": 0.0,
    }
)
"""What `PlbConfig.from_service_fabric` sets beside Service Fabric's settings, to search as Service Fabric does."""


@attrs.frozen(kw_only=True)
class PlbConfig(
    SearchSettings,
    PlacementSettings,
    ConstraintSettings,
    BalancingSettings,
    SchedulingSettings,
    ThrottlingSettings,
    DefragmentationSettings,
    ExtensionSettings,
):
    """Settings of a `PlacementAndLoadBalancing` engine.

    Those that Service Fabric has too come from the classes above, one a theme, under Service Fabric's names in
    snake_case; docs/settings.md lists them all. Their defaults here leave the engine as simple as it is for those who
    set nothing; `from_service_fabric` starts from Service Fabric's own defaults. Service Fabric's InitialRandomSeed is
    the `seed` of the engine, and is no setting.

    Parameters
    ----------
    metrics
        The metrics that the engine weighs; at least one, names unique.
    combination : name, default additive
        How the terms become one energy.
    w_failovers : moves, default 0.1
        Weight of the expected failovers beside the moves ([1] section 8.2: 0.10). 0 is the original energy.
    w_overload : moves, default 100.0
        Weight of the expected overload beside the moves, no part of [1]: at 100, overload of a hundredth of a node's
        threshold counts like a move. 0 leaves it out.
    w_imbalance : weight, default 10.0
        Weight of the imbalance in the additive form; the default is the best of those in docs/energy.md.
    w_fragmentation : weight, default 1.0
        Weight of the demand on held-out nodes.
    held_out_nodes : nodes, default 0
        M, the number of least loaded nodes that are kept free for large tenants ([1] section 6.2).
    capacity_limit : name, default threshold
        Up to where a node may be filled.
    replay : name, default anchored
        What a sampled trace says of a replica that has reported demand; before its first report it follows the trace.
    evaluation : name, default peak
        How a repetition is tested for violations: peak, every replica at its largest demand to come ([1] section 7), or
        timeline, exactly, at every departure ([1] section 5.3), which takes longer.
    estimator : text, default monte-carlo
        Who says how likely a violation is (`plb.risk.estimators`): monte-carlo ([1]), which needs a demand history,
        gaussian ([2]) or a peak predictor ([5]), such as n-sigma:n=3,warmup=12,history=60, which go by what replicas
        have reported. Only monte-carlo has an expected overload and a timeline.
    repetitions : draws, default 100
        K, Monte Carlo draws a replica ([1] section 8.1: 100).
    one_action_per_refresh : switch, default False
        Whether `refresh` does one thing at most for each service domain, as Service Fabric does, instead of all that is
        due.
    chains : count, default 4
        Annealing chains from which the best result is taken; ties go to the first.
    threads : count, default None
        Threads that run the chains; None: one a core. The result does not depend on it.
    initial_temperature : energy changes, default 1.0
        First temperature, in units of the largest energy change seen by the probes. Service Fabric: 50.
    exchange_probability : share, default 0.1
        Share of the proposals that swap no primary which exchange two replicas of different partitions. Service Fabric
        has no such step: 0.
    allow_chained_moves : switch, default False
        Whether, in one plan, a replica may take the node that another replica of its partition leaves, as in Service
        Fabric. The moves then have to be carried out in the plan's order, each after the other's departure.
    spread_moves : switch, default False
        Whether balancing, where a move would break the spread over domains, lets other replicas of the partition move
        on until the spread holds again, as Service Fabric does; one step then makes several moves.
    biased_sampling : switch, default False
        Whether balancing proposes only moves that may even out a metric that calls for it, off nodes above its mean to
        nodes below, as Service Fabric does; slow balancing then searches both ways.
    is_singleton_replica_move_allowed_during_upgrade : switch, default False
        Whether services that want a single replica keep off nodes that are paused or restarted, on which other new
        replicas may be placed until their safety check is over. A setting of Service Fabric's failover manager.
    max_moves : moves, default None
        Most moves of one plan, not counting the placement of new replicas; None: no limit.
    max_moves_per_node : moves, default None
        The same for the moves that touch one node.
    checks : name, default off
        How often the engine checks its own increments.
    """

    metrics: tuple[Metric, ...] = attrs.field(converter=_tuple_of_metrics)
    combination: Combination = attrs.field(default=Combination.ADDITIVE, converter=_combination)
    w_failovers: float = number(0.10, unit="moves")
    w_overload: float = number(100.0, unit="moves")
    w_imbalance: float = number(10.0, unit="weight")
    w_fragmentation: float = number(1.0, unit="weight")
    held_out_nodes: int = count(0, unit="nodes")
    capacity_limit: CapacityLimit = attrs.field(default=CapacityLimit.THRESHOLD, converter=_capacity_limit)
    replay: Replay = attrs.field(default=Replay.ANCHORED, converter=_replay)
    evaluation: Evaluation = attrs.field(default=Evaluation.PEAK, converter=_evaluation)
    estimator: str = attrs.field(default=MonteCarlo.kind, converter=_estimator)
    one_action_per_refresh: bool = switch(False)
    repetitions: int = count(100, unit="draws", low=1)
    chains: int = count(4, low=1)
    threads: int | None = count(None, low=1, none=True)
    initial_temperature: float = number(1.0, unit="energy changes")
    exchange_probability: float = share(0.1)
    allow_chained_moves: bool = switch(False)
    spread_moves: bool = switch(False)
    biased_sampling: bool = switch(False)
    is_singleton_replica_move_allowed_during_upgrade: bool = switch(False)
    max_moves: int | None = count(None, unit="moves", none=True)
    max_moves_per_node: int | None = count(None, unit="moves", none=True)
    checks: Checks = attrs.field(default=Checks.OFF, converter=_checks)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        names = [metric.name for metric in self.metrics]
        if not names:
            raise InvalidValueError("PlbConfig", "metrics", (), "at least one Metric")
        if len(set(names)) < len(names):
            raise ConflictError(f"PlbConfig: metrics has a name twice: {names}")

    @classmethod
    def from_service_fabric(cls, mapping: Mapping[str, Any], *, metrics: Iterable[Metric], **fields: Any) -> PlbConfig:
        """Return Service Fabric's own settings, changed as `mapping` says.

        The energy has the product form, nodes are filled up to their capacity, and annealing begins and steps as in
        Service Fabric (`SERVICE_FABRIC_FORM`).

        Parameters
        ----------
        mapping
            Values by original name, such as ``{"MaxPercentageToMove": 0.5, "MetricBalancingThresholds": {"CPU": 2}}``;
            times in seconds, ``"max"``: never. Unknown names raise `UnknownNameError`; those that the engine does not
            act on (`plb.settings.ignored`) are passed over.
        metrics
            The metrics; entries of the maps by metric go to them, and an entry for another metric is refused.
        fields
            Fields by their names here; they prevail.
        """
        given, by_metric = translated(mapping, cls)
        values = {**SERVICE_FABRIC_FORM, **original_defaults(cls), **given, **fields}
        return cls(metrics=with_maps(metrics, by_metric), **values)

    @property
    def reads_probabilities(self) -> bool:
        """Whether the energy asks what demand is to be expected, so that it is sampled where there is a history."""
        return self.w_failovers > 0 or self.w_overload > 0

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of every array's metric axis."""
        return tuple(metric.name for metric in self.metrics)
