"""Settings under their Service Fabric names: the fields here that they set, and the ignored ones by reason."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from plb.errors import UnknownNameError
from plb.model import Metric
from plb.model.metric import MetricSettings
from plb.model.setting_fields import Setting, settings_of
from plb.validation import check_items, check_known, check_mapping, plain_scalar

_NAMES = {
    "the seed is an argument of the engine, `PlacementAndLoadBalancing(config, seed=...)`": "InitialRandomSeed",
    "tracing and health reports: plans carry their reasons as data": """
        ApplicationLoadsTracingInterval ConsecutiveDroppedMovementsHealthReportLimit
        ConstraintViolationHealthReportLimit ConstraintViolationReportingPolicy
        DetailedConstraintViolationHealthReportLimit DetailedDiagnosticsInfoListLimit DetailedMetricListLimit
        DetailedNodeListLimit DetailedPartitionListLimit DetailedVerboseHealthReportLimit
        MaxInvalidReplicasToTrace MaxViolatedItemsToTrace NodeLoadsTracingInterval
        PLBApplicationLoadTraceBatchSize PLBApplicationLoadTraceMaxSize PLBHealthEventTTL
        PLBNodeLoadTraceEntryCount PLBPeriodicalTraceApplicationCount PLBPeriodicalTraceInterval
        PLBPeriodicalTraceNodeCount PLBPeriodicalTraceServiceCount PrintRefreshTimers
        SimulatedAnnealingStatisticsInterval StatisticsTracingInterval TraceCRMReasons
        TraceMetricInfoForBalancingRun TraceSimulatedAnnealingStatistics UseCRMPublicName
        VerboseHealthReportLimit
    """,
    "self-checks and load generators of the tests of Service Fabric; see `checks`": """
        AllowedBalancingScoreDifference IsTestMode PerNodeThrottlingCheck PerfTestNumberOfInstances
        PerfTestNumberOfNodes PerfTestNumberOfPartitions UseAppGroupsInBoost UseRGInBoost
    """,
    "threads and messages of the process of Service Fabric: here the host calls refresh": """
        InterruptBalancingForAllFailoverUnitUpdates PLBRefreshGap PLBRefreshInterval PLBRewindInterval
        PlacementConstraintValidationCacheSize ProcessPendingUpdatesInterval SplitDomainEnabled
        ValidatePlacementConstraint YieldDurationPer10ms
    """,
    "placement in batches: one plan places everything": "PlacementReplicaCountPerBatch UseBatchPlacement",
    "applications: these rules of their upgrade and scaling are not modelled": """
        CheckAffinityForUpgradePlacement
        RelaxAlignAffinityConstraintDuringSingletonUpgrade RelaxScaleoutConstraintDuringUpgrade
        ServiceRepartitionForAutoScalingTimeout
    """,
    "resource governance and containers: capacities and weights are given": """
        AutoDetectAvailableResources CpuCoresMetricWeight CpuPercentageNodeCapacity
        IncludeResourceGovernanceNoneReplicaLoad MemoryInMBMetricWeight MemoryPercentageNodeCapacity
        PreferNodesForContainerPlacement
    """,
    "history of loads: the last report counts": "LoadDecayFactor LoadDecayInterval",
    "a plan is returned whole, so no move waits": "MaxMovementHoldingTime",
    "throttles that are off by default and not documented": "AvgStdDevDeltaThrottleThreshold",
    "names of metrics for the throttles of the whole cluster, which count without a metric": """
        InBuildThrottlingAssociatedMetric SwapPrimaryThrottlingAssociatedMetric
    """,
    "deprecated": """
        AffinityMoveParentReplicaProbability FastBalancingPopulationSize IsAffinityBidirectional
        PreventIntermediateOvercommit RelaxAffinityConstraintsForPlacement RelaxCapacityConstraintsForPlacement
        RelaxConstraintsForPlacementEnabled RelaxFaultDomainConstraintsForPlacement SlowBalancingPopulationSize
    """,
}

NOT_ACTED_ON: Mapping[str, frozenset[str]] = {reason: frozenset(names.split()) for reason, names in _NAMES.items()}
"""Names of ignored settings of Service Fabric, by the reason why they have no effect here."""

IGNORED: frozenset[str] = frozenset().union(*NOT_ACTED_ON.values())
"""Names of all ignored settings: `PlbConfig.from_service_fabric` accepts them."""


logger = logging.getLogger("plb")


def by_original_name(kind: Any) -> dict[str, tuple[str, Setting]]:
    """Return the settings of an attrs class: field and `Setting` by name in Service Fabric."""
    return {setting.name: (field, setting) for field, setting in settings_of(kind).items() if setting.name}


def original_defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the translated defaults of Service Fabric by field of an attrs class."""
    return {field: setting.translate(setting.original) for field, setting in by_original_name(kind).values()}


def translated(mapping: Mapping[str, Any], kind: type[Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return the translated settings of `kind` by field, and the maps by metric, untranslated, by original name.

    Names without an effect in this engine are ignored; unknown names raise `UnknownNameError`.
    """
    scalars, maps = by_original_name(kind), by_original_name(MetricSettings)
    fields: dict[str, Any] = {}
    by_metric: dict[str, Mapping[str, Any]] = {}
    for name, value in check_mapping("PlbConfig", "settings", mapping, "a mapping of names to values").items():
        if name in scalars:
            field, setting = scalars[name]
            fields[field] = setting.translate(plain_scalar(value))
        elif name in maps:
            by_metric[name] = value
        elif name not in IGNORED:
            raise UnknownNameError("Service Fabric setting", name, sorted({*scalars, *maps, *IGNORED}), "PlbConfig")
    ignored = sorted(IGNORED & set(mapping))
    if ignored:
        logger.info("settings without an effect in this engine: %s", ", ".join(ignored))
    return fields, by_metric


def with_maps(metrics: Iterable[Metric], by_metric: Mapping[str, Mapping[str, Any]]) -> tuple[Metric, ...]:
    """Return metrics with the settings of `by_metric`: by original name, values by name of the metric.

    An entry for another metric raises `UnknownNameError`.
    """
    checked = check_items("PlbConfig", "metrics", metrics, Metric)
    maps = by_original_name(MetricSettings)
    changes: dict[str, dict[str, Any]] = {metric.name: {} for metric in checked}
    for name, entries in by_metric.items():
        field, setting = maps[name]
        for key, value in check_mapping("PlbConfig", name, entries, "a mapping of metrics to values").items():
            check_known("metric", key, changes, f"PlbConfig: {name}")
            changes[key][field] = setting.translate(plain_scalar(value))
    return tuple(attrs.evolve(metric, **changes[metric.name]) for metric in checked)
