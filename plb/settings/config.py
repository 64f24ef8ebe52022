"""The settings of the engine: defaults, units and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np

from plb.errors import ConflictError, InvalidValueError
from plb.model import Metric
from plb.model.documents import naming_fields
from plb.model.setting_fields import Checked, Setting, by_name, count, declared, member_of, number, share, switch
from plb.risk.estimators import Evaluation, MonteCarlo, estimator_of
from plb.settings.limits import ConstraintSettings, SchedulingSettings, ThrottlingSettings
from plb.settings.search import (
    SEARCH_TIMEOUTS,
    AnnealingSettings,
    BalancingSettings,
    Cooling,
    DefragmentationSettings,
    PlacementSettings,
    SearchSettings,
)
from plb.settings.service_fabric import original_defaults, translated, with_maps
from plb.validation import (
    LARGEST_WEIGHT,
    ReadOnlyMapping,
    check_items,
    check_mapping,
    check_number,
    check_text,
    plain_scalar,
)

ANNEALING = "annealing"
"""Name under which settings choose the search of the engine instead of a policy."""


NEIGHBOURHOODS = ("ejection_chain", "partition", "node", "service")
"""Names of the built-in larger neighbourhoods (`plb.search.annealing.neighbourhoods`)."""


def _names(item: str, field: str, value: Any) -> tuple[str, ...]:
    """Return `value`, a list of unique names, as a tuple, or raise `InvalidValueError` or `ConflictError`."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidValueError(item, field, value, "a list of names")
    if len(set(value)) < len(value):
        raise ConflictError(f"{item}: {field} has a name twice: {list(value)}")
    return tuple(check_text(item, field, name) for name in value)


def _policy(item: str, field: str, value: Any) -> str:
    """Return the name of a placement policy, or raise `InvalidValueError` if `value` is no text."""
    if not isinstance(value, str):
        raise InvalidValueError(item, field, value, "the name of a placement policy")
    return check_text(item, field, value)


def _options(item: str, field: str, value: Any) -> Mapping[str, Any]:
    """Return options of a policy by name, read-only, or raise `InvalidValueError` if `value` is no mapping of names."""
    options = check_mapping(item, field, value, "a mapping of names of options to values")
    return ReadOnlyMapping({check_text(item, field, name): _option(option) for name, option in options.items()})


def _option(value: Any) -> Any:
    """Return the value of an option with scalars of Python instead of NumPy's, also in lists and tuples."""
    if type(value) in (list, tuple):
        return type(value)(map(_option, value))
    return plain_scalar(value) if isinstance(value, np.generic) else value


@attrs.frozen(kw_only=True, slots=False)
class ExtensionSettings(Checked):
    """The terms, constraints, neighbourhoods and policies, of those that an engine is given, that it uses."""

    extension_terms: Mapping[str, float] = by_name(
        partial(check_number, high=LARGEST_WEIGHT), "a mapping of names of energy terms to weights", "weight by name"
    )
    """Extension terms and their weights. Each adds weight·term to the energy in both forms."""
    extension_constraints: tuple[str, ...] = declared((), Setting("", None, "names", _names))
    """Extension constraints. They are hard."""
    larger_neighbourhoods: tuple[str, ...] = declared(NEIGHBOURHOODS, Setting("", None, "names", _names))
    """The larger neighbourhoods that balancing searches, with a `larger_neighbourhood_share`; other names than these
    are of extensions.
    """
    policy: str = declared(ANNEALING, Setting("", None, "name", _policy))
    """Placement policy that places and repairs one replica at a time, without balancing. annealing: the search of the
    engine.
    """
    policy_options: Mapping[str, Any] = declared({}, Setting("", None, "value by name", _options))
    """Options of the policy that differ from its own. The parameters of its class have names and
    ranges.
    """


class Combination(Enum):
    """Combination of the five terms to one energy (docs/terms/score.md)."""

    ADDITIVE = "additive"
    """E = (m + w_f·V + w_O·O) + w_I·I + w_F·F: expected terms belong to the first component ([1] section 7)."""
    SERVICE_FABRIC = "service_fabric"
    """E = (I + w_F·F + 0.001)·(R + 1000 ± (m + w_f·V + w_O·O)): the product form of the open-source code; minus if the
    first factor is negative, which happens if load is packed."""


class CapacityLimit(Enum):
    """The load to which the engine fills a node."""

    THRESHOLD = "threshold"
    """The largest quantum below f·c, so that no plan creates a violation."""
    CAPACITY = "capacity"
    """The capacity, as in Service Fabric."""


class Replay(Enum):
    """The use of a sampled trace for a replica with reported demand."""

    AS_RECORDED = "as_recorded"
    """The replica follows the trace ([1] section 5.1)."""
    ANCHORED = "anchored"
    """The replica grows from its largest demand so far by the later growth of the trace at that age."""
    FROM_PRESENT = "from_present"
    """As `ANCHORED`, but it starts between its present load and its largest demand, at a value drawn for each
    repetition.
    """


class Checks(Enum):
    """When increments are compared with totals computed from scratch."""

    OFF = "off"
    """Never."""
    PHASE = "phase"
    """After each phase."""
    STEP = "step"
    """After each applied proposal."""


def _estimator(value: object) -> str:
    """Return `value` if it is the text of an estimator; otherwise `estimator_of` raises an error."""
    estimator_of(value)
    return str(value)


def _tuple_of_metrics(metrics: object) -> tuple[Metric, ...]:
    """Return metrics as a tuple; raise `InvalidValueError` for anything else."""
    return check_items("PlbConfig", "metrics", metrics, Metric)


LONG_SEARCH: Mapping[str, Any] = MappingProxyType(
    {
        "cooling": "by_budget",
        "initial_temperature": 0.2,
        "last_temperature": 0.005,
        "exchange_probability": 0.9,
        "exchange_moved_replicas": True,
        "biased_sampling": False,
        "similar_exchange_share": 0.7,
        "larger_neighbourhood_share": 0.05,
    }
)
"""Settings for balancing that has seconds or minutes, where nodes are full: ``PlbConfig(metrics=..., **LONG_SEARCH)``.

`plb bench search` measures them (docs/performance.md, Known optima).
"""
SERVICE_FABRIC_FORM: Mapping[str, Any] = MappingProxyType(
    {
        "combination": Combination.SERVICE_FABRIC,
        "capacity_limit": CapacityLimit.CAPACITY,
        "initial_temperature": 1.0,
        "cooling": Cooling.BY_ROUND,
        "chains": 4,
        "exchange_probability": 0.0,
        "exchange_moved_replicas": False,
        "similar_exchange_share": 0.0,
        "allow_chained_moves": True,
        "spread_moves": True,
        "biased_sampling": True,
        "is_singleton_replica_move_allowed_during_upgrade": True,
        "drain_removed_nodes": False,
        "one_action_per_refresh": True,
        "w_failovers": 0.0,
        "w_overload": 0.0,
    }
)
"""Further settings of `PlbConfig.from_service_fabric`, so that the search is as in Service Fabric."""

OF_ONE_ACTION = (
    "max_movement_execution_time",
    "plb_action_retry_times",
    "slow_balancing_search_timeout",
    "slow_balancing_temperature_decay_rate",
)
"""Settings that act with `one_action_per_refresh` only."""


@naming_fields
@attrs.frozen(kw_only=True)
class PlbConfig(
    SearchSettings,
    AnnealingSettings,
    PlacementSettings,
    ConstraintSettings,
    BalancingSettings,
    SchedulingSettings,
    ThrottlingSettings,
    DefragmentationSettings,
    ExtensionSettings,
):
    """Settings of a `PlacementAndLoadBalancing` engine.

    Settings that Service Fabric also has come from the classes above, one for each subject, under the names of Service
    Fabric in snake_case; docs/settings.md lists them all. With the defaults here the engine is simple to use;
    `from_service_fabric` starts from the defaults of Service Fabric. InitialRandomSeed of Service Fabric is the `seed`
    of the engine, not a setting.
    """

    metrics: tuple[Metric, ...] = attrs.field(converter=_tuple_of_metrics)
    """The metrics of the energy; at least one, with unique names."""
    combination: Combination = attrs.field(default=Combination.ADDITIVE, metadata=member_of(Combination))
    """Combination of the terms to the energy. additive: a sum ([1] section 7). service_fabric: a product, as in Service
    Fabric.
    """
    w_failovers: float = number(0.10, unit="moves", high=LARGEST_WEIGHT)
    """Weight of the expected failovers, added to the moves ([1] section 8.2: 0.10). 0: the original energy."""
    w_overload: float = number(100.0, unit="moves", high=LARGEST_WEIGHT)
    """Weight of the expected overload, added to the moves; not in [1]. At 100, overload of a hundredth of the threshold
    of a node counts as one move. 0: not used.
    """
    w_imbalance: float = number(10.0, unit="weight", high=LARGEST_WEIGHT)
    """Weight of the imbalance in the additive form. The default has the fewest violations of 1, 10 and 100 with the
    default energy, on tenants that no other study uses (docs/studies.md, Beyond the paper). In balancing the weight
    grows with the cluster, so that it means the same at any size: a replica of average load is worth moving between
    nodes whose loads differ by 1/w_imbalance of the mean load (docs/terms/imbalance.md, In balancing).
    """
    w_fragmentation: float = number(1.0, unit="weight", high=LARGEST_WEIGHT)
    """Weight of the demand on held-out nodes."""
    held_out_nodes: int = count(0, unit="nodes")
    """M, the number of least loaded nodes that stay free for large tenants ([1] section 6.2)."""
    capacity_limit: CapacityLimit = attrs.field(default=CapacityLimit.THRESHOLD, metadata=member_of(CapacityLimit))
    """The load to which a node may be filled. threshold: below the violation threshold. capacity: the capacity, as in
    Service Fabric.
    """
    replay: Replay = attrs.field(default=Replay.ANCHORED, metadata=member_of(Replay))
    """The use of a sampled trace for a replica with reported demand. anchored: from its largest demand so far the
    replica grows by the later growth of the trace. from_present: the same, from a value drawn between its present load
    and this demand. as_recorded: it follows the trace ([1] section 5.1). Before the first report the replica follows
    the trace.
    """
    evaluation: Evaluation = attrs.field(default=Evaluation.PEAK, metadata=member_of(Evaluation))
    """Test of a repetition for violations. peak: every replica at its largest future demand ([1] section 7). timeline:
    exact, at every departure ([1] section 5.3), which takes longer.
    """
    estimator: str = attrs.field(default=MonteCarlo.kind, converter=_estimator)
    """Estimator of the probability of a violation (`plb.risk.estimators`): monte-carlo ([1]), which needs a demand
    history; historical-simulation, which uses the past week of the replicas; gaussian ([2]) or a peak predictor ([5])
    such as n-sigma:n=3,warmup=12,history=60, which use their newest reports. Only the first two have an expected
    overload, and only monte-carlo a timeline.
    """
    one_action_per_refresh: bool = switch(False)
    """Whether `refresh` does at most one action for each service domain, as Service Fabric does, instead of all actions
    that are due.
    """
    repetitions: int = count(100, unit="draws", low=1)
    """K, the Monte Carlo samples of each replica ([1] section 8.1: 100)."""
    chains: int | None = count(None, low=1, none=True)
    """Annealing chains, of which the best result is used; the first one of equal results. None: 4; balancing chooses.
    """
    threads: int | None = count(None, low=1, none=True)
    """Threads that run the chains. None: one for each core. The result does not depend on it."""
    exchange_probability: float | None = share(None, none=True)
    """Share of exchanges of two replicas of different partitions among the proposals that are not swaps. Service Fabric
    has no such proposal: 0. None: balancing chooses (docs/search.md).
    """
    exchange_moved_replicas: bool | None = switch(None, none=True)
    """Whether exchanges have that share also among the proposals for replicas that the search has moved already. Where
    most replicas have moved and nodes are full, few other proposals are left. None: balancing chooses.
    """
    similar_exchange_share: float | None = share(None, none=True)
    """Share of the exchanges of balancing whose partner has about the load of the replica in every metric, above all in
    the full ones. Where nodes are full, few other exchanges are allowed. None: balancing chooses.
    """
    larger_neighbourhood_share: float = share(0.0)
    """Part of the budget of balancing for steps of several moves, which get replicas past full nodes: ejection chains,
    and the new placement of several replicas of a partition, of two nodes or of a service, unless
    `larger_neighbourhoods` chooses others. Each of these is made as often as it pays. A step counts as as many
    proposals as it asks for nodes and tries moves.
    """
    soft_capacity: bool = switch(False)
    """Whether balancing may overload nodes on its way, at a price that rises over the budget, and takes only results
    that overload none. Where nodes are nearly full, large replicas find places so. It needs cooling by_budget, and
    partitions of one replica; with others, and with reservations of applications, capacity is as hard as usual.
    """
    allow_chained_moves: bool = switch(False)
    """Whether, in one plan, a replica may take the node that another replica of its partition leaves, as in Service
    Fabric. The moves then have to be applied in the order of the plan, each after the departure from its target.
    """
    spread_moves: bool = switch(False)
    """Whether a balancing move that breaks the spread over domains moves further replicas of the partition until the
    spread holds again, as Service Fabric does. One proposal then makes several moves.
    """
    biased_sampling: bool | None = switch(None, none=True)
    """Whether balancing proposes only moves that may reduce the imbalance of a metric, from nodes above the mean to
    nodes below, as Service Fabric does. Slow balancing then searches with and without this bias. None: balancing
    chooses.
    """
    is_singleton_replica_move_allowed_during_upgrade: bool = switch(False)
    """Whether services with one target replica avoid nodes that are paused or restarted. Other new replicas may use
    these nodes until their safety check has ended. A setting of the failover manager of Service Fabric.
    """
    drain_removed_nodes: bool = switch(True)
    """Whether a replica breaks the node rule on a node that is deactivated with the intent `remove_data` or
    `remove_node`, so that repairs empty the node. Off in Service Fabric, whose failover manager replaces it.
    """
    refuse_applications_without_capacity: bool = switch(False)
    """Whether an application is refused whose reservation, for its minimum number of nodes, exceeds what the cluster
    has left.
    """
    refuse_services_without_capacity: bool = switch(False)
    """Whether a new service is refused whose default loads, of one partition, exceed what the cluster has left."""
    max_moves: int | None = count(None, unit="moves", none=True)
    """Largest number of moves of a plan, without the placement of new replicas. None: no limit."""
    max_moves_per_hour: int | None = count(None, unit="moves", none=True)
    """Largest number of moves in any hour, of all phases, without the placement of new replicas and the changes of
    roles for an upgrade. Moves count when their plan is applied, at the time of the latest call. None: no limit.
    """
    max_moves_per_node: int | None = count(None, unit="moves", none=True)
    """Largest number of moves of a plan that touch one node. None: no limit."""
    checks: Checks = attrs.field(default=Checks.OFF, metadata=member_of(Checks))
    """When the engine compares its increments with totals computed from scratch. off: never. phase: after each phase.
    step: after each applied proposal.
    """

    def __attrs_post_init__(self) -> None:
        """Raise an error if settings are invalid, contradict each other or have no effect."""
        super().__attrs_post_init__()
        names = [metric.name for metric in self.metrics]
        if not names:
            raise InvalidValueError("PlbConfig", "metrics", (), "at least one Metric")
        if len(set(names)) < len(names):
            raise ConflictError(f"PlbConfig: metrics has a name twice: {names}")
        self._check_neighbourhoods()
        self._check_horizon()
        if self.violation_cost is not None and (self.extension_constraints or self.policy != ANNEALING):
            unsupported = (
                "extension_constraints" if self.extension_constraints else f"balancing by policy {self.policy!r}"
            )
            raise ConflictError(f"PlbConfig: violation_cost is given, but its search knows no {unsupported}")
        if self.soft_capacity and self.cooling is not Cooling.BY_BUDGET:
            raise ConflictError("PlbConfig: soft_capacity has no effect unless cooling is by_budget")
        self._check_effects()
        if self.cooling is Cooling.BY_BUDGET and self.max_simulated_annealing_iterations is None:
            unlimited = [name for name in SEARCH_TIMEOUTS if getattr(self, name) is None]
            if unlimited:
                limits = f"max_simulated_annealing_iterations and {unlimited[0]} are None"
                raise ConflictError(f"PlbConfig: cooling by_budget needs a budget, but {limits}")

    def _check_effects(self) -> None:
        """Raise `ConflictError` for a setting that has no effect without another one."""
        is_on = {
            "one_action_per_refresh": (self.one_action_per_refresh, OF_ONE_ACTION),
            "violation_cost": (self.violation_cost is not None, ("placement_days",)),
        }
        defaults = attrs.fields_dict(type(self))
        for needed, (is_given, names) in is_on.items():
            for name in () if is_given else names:
                value, default = getattr(self, name), defaults[name].default
                if value != default:
                    raise ConflictError(f"PlbConfig: {name} = {value!r} has no effect without {needed}")

    def _check_horizon(self) -> None:
        """Raise `ConflictError` if the estimator has a horizon that has no effect."""
        estimator = estimator_of(self.estimator)
        as_recorded = self.replay is Replay.AS_RECORDED and self.evaluation is Evaluation.PEAK
        if isinstance(estimator, MonteCarlo) and estimator.horizon > 0.0 and as_recorded:
            raise ConflictError(
                f"PlbConfig: {self.estimator!r} has a horizon, without effect with replay as_recorded, evaluation peak"
            )

    def _check_neighbourhoods(self) -> None:
        """Raise `ConflictError` for extension neighbourhoods without a part of the budget, or a part without any."""
        share, names = self.larger_neighbourhood_share, self.larger_neighbourhoods
        extension_names = [name for name in names if name not in NEIGHBOURHOODS]
        if extension_names and share == 0.0:
            raise ConflictError(
                f"PlbConfig: larger_neighbourhoods names {extension_names[0]!r}, which has no effect: "
                "larger_neighbourhood_share is 0"
            )
        if not names and share > 0.0:
            raise ConflictError(f"PlbConfig: larger_neighbourhood_share is {share}, but larger_neighbourhoods is empty")

    @classmethod
    def from_service_fabric(cls, mapping: Mapping[str, Any], *, metrics: Iterable[Metric], **fields: Any) -> PlbConfig:
        """Return the settings of Service Fabric with changes.

        The energy has the product form, nodes are filled up to their capacity, and annealing starts and steps as in
        Service Fabric (`SERVICE_FABRIC_FORM`).

        Parameters
        ----------
        mapping
            Values by original name, such as ``{"MaxPercentageToMove": 0.5, "MetricBalancingThresholds": {"CPU": 2}}``;
            times in seconds, with ``"max"`` for never. Unknown names raise `UnknownNameError`. Names without an effect
            in this engine (`plb.settings.service_fabric`) are ignored.
        metrics
            The metrics. Entries of maps by metric are applied to them; an entry for another metric raises an error.
        fields
            Fields under their names here. They override the others.
        """
        translated_fields, by_metric = translated(mapping, cls)
        defaults = {**SERVICE_FABRIC_FORM, **original_defaults(cls)}
        if not fields.get("one_action_per_refresh", True):
            defaults = {name: value for name, value in defaults.items() if name not in OF_ONE_ACTION}
        values = {**defaults, **translated_fields, **fields}
        return cls(metrics=with_maps(metrics, by_metric), **values)

    @property
    def reads_probabilities(self) -> bool:
        """Whether the energy depends on expected demand, so that demand is sampled if there is a history."""
        return self.w_failovers > 0 or self.w_overload > 0 or self.violation_cost is not None

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the metric axis of all arrays."""
        return tuple(metric.name for metric in self.metrics)
