"""Settings of Service Fabric without an effect in this engine, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NOT_ACTED_ON: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "the seed is an argument of the engine, `PlacementAndLoadBalancing(config, seed=...)`": frozenset(
            {"InitialRandomSeed"}
        ),
        "tracing and health reports: plans carry their reasons as data": frozenset(
            {
                "ApplicationLoadsTracingInterval",
                "ConsecutiveDroppedMovementsHealthReportLimit",
                "ConstraintViolationHealthReportLimit",
                "ConstraintViolationReportingPolicy",
                "DetailedConstraintViolationHealthReportLimit",
                "DetailedDiagnosticsInfoListLimit",
                "DetailedMetricListLimit",
                "DetailedNodeListLimit",
                "DetailedPartitionListLimit",
                "DetailedVerboseHealthReportLimit",
                "MaxInvalidReplicasToTrace",
                "MaxViolatedItemsToTrace",
                "NodeLoadsTracingInterval",
                "PLBApplicationLoadTraceBatchSize",
                "PLBApplicationLoadTraceMaxSize",
                "PLBHealthEventTTL",
                "PLBNodeLoadTraceEntryCount",
                "PLBPeriodicalTraceApplicationCount",
                "PLBPeriodicalTraceInterval",
                "PLBPeriodicalTraceNodeCount",
                "PLBPeriodicalTraceServiceCount",
                "PrintRefreshTimers",
                "SimulatedAnnealingStatisticsInterval",
                "StatisticsTracingInterval",
                "TraceCRMReasons",
                "TraceMetricInfoForBalancingRun",
                "TraceSimulatedAnnealingStatistics",
                "UseCRMPublicName",
                "VerboseHealthReportLimit",
            }
        ),
        "self-checks and load generators of the tests of Service Fabric; see `checks`": frozenset(
            {
                "AllowedBalancingScoreDifference",
                "IsTestMode",
                "PerfTestNumberOfInstances",
                "PerfTestNumberOfNodes",
                "PerfTestNumberOfPartitions",
                "PerNodeThrottlingCheck",
                "UseAppGroupsInBoost",
                "UseRGInBoost",
            }
        ),
        "threads and messages of the process of Service Fabric: here the host calls refresh": frozenset(
            {
                "InterruptBalancingForAllFailoverUnitUpdates",
                "PLBRefreshGap",
                "PLBRefreshInterval",
                "PLBRewindInterval",
                "PlacementConstraintValidationCacheSize",
                "ProcessPendingUpdatesInterval",
                "SplitDomainEnabled",
                "ValidatePlacementConstraint",
                "YieldDurationPer10ms",
            }
        ),
        "placement in batches: one plan places everything": frozenset(
            {"PlacementReplicaCountPerBatch", "UseBatchPlacement"}
        ),
        "applications: their capacity, scale-out, upgrade and scaling are not modelled": frozenset(
            {
                "AllowBalancingDuringApplicationUpgrade",
                "AllowConstraintCheckFixesDuringApplicationUpgrade",
                "ApplicationCapacityConstraintPriority",
                "CheckAffinityForUpgradePlacement",
                "RelaxAffinityConstraintDuringUpgrade",
                "RelaxAlignAffinityConstraintDuringSingletonUpgrade",
                "RelaxScaleoutConstraintDuringUpgrade",
                "ScaleoutCountConstraintPriority",
                "ServiceRepartitionForAutoScalingTimeout",
            }
        ),
        "resource governance and containers: capacities and weights are given": frozenset(
            {
                "AutoDetectAvailableResources",
                "CpuCoresMetricWeight",
                "CpuPercentageNodeCapacity",
                "IncludeResourceGovernanceNoneReplicaLoad",
                "MemoryInMBMetricWeight",
                "MemoryPercentageNodeCapacity",
                "PreferNodesForContainerPlacement",
            }
        ),
        "history of loads: the last report counts": frozenset(
            {"LoadDecayFactor", "LoadDecayInterval", "UseDefaultLoadForServiceOnEveryNode"}
        ),
        "throttles that are off by default and not documented": frozenset(
            {
                "AvgStdDevDeltaThrottleThreshold",
                "InBuildThrottlingAssociatedMetric",
                "InBuildThrottlingEnabled",
                "InBuildThrottlingGlobalMaxValue",
                "SwapPrimaryThrottlingAssociatedMetric",
                "SwapPrimaryThrottlingEnabled",
                "SwapPrimaryThrottlingGlobalMaxValue",
            }
        ),
        "deprecated": frozenset(
            {
                "AffinityMoveParentReplicaProbability",
                "FastBalancingPopulationSize",
                "IsAffinityBidirectional",
                "PreventIntermediateOvercommit",
                "RelaxAffinityConstraintsForPlacement",
                "RelaxCapacityConstraintsForPlacement",
                "RelaxConstraintsForPlacementEnabled",
                "RelaxFaultDomainConstraintsForPlacement",
                "SlowBalancingPopulationSize",
            }
        ),
    }
)
"""Names by reason."""

IGNORED: frozenset[str] = frozenset().union(*NOT_ACTED_ON.values())
"""All names; `PlbConfig.from_service_fabric` accepts and ignores them."""
