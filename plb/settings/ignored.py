"""Settings of Service Fabric without an effect in this engine, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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

NOT_ACTED_ON: Mapping[str, frozenset[str]] = MappingProxyType(
    {reason: frozenset(names.split()) for reason, names in _NAMES.items()}
)
"""Names by reason."""

IGNORED: frozenset[str] = frozenset().union(*NOT_ACTED_ON.values())
"""All names; `PlbConfig.from_service_fabric` accepts and ignores them."""
