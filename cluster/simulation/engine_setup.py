"""Sets up an engine for a scenario: metrics, and nodes in their domains."""

from __future__ import annotations

import math

import numpy as np

from cluster.scenario.cluster_section import ClusterSection
from cluster.scenario.scenario import Scenario
from cluster.simulation.tenant_pools import Source
from plb import Metric, Node, PlacementAndLoadBalancing, UnknownNameError
from plb.array_types import Float


def metrics_of(scenario: Scenario, source: Source) -> tuple[Metric, ...]:
    """Return the workload's metrics as metrics of the engine, all with equal weight ([1] section 8.2).

    A metric without capacity has quanta such that the largest trace of the history, or MaxUsage without a history, has
    about 2^10 of them. So the load of a whole cluster stays within the engine's range.
    """
    _check_metric_names(scenario, source)
    threshold = scenario.cluster.violation_threshold
    largest = source.largest_demand()
    return tuple(
        Metric(
            info.name,
            violation_threshold=threshold,
            trend=info.trend,
            quantum=None if info.name in scenario.cluster.capacity else coarse_quantum(largest[info.name]),
            **scenario.metrics.get(info.name, {}),
        )
        for info in source.metrics
    )


def _check_metric_names(scenario: Scenario, source: Source) -> None:
    known = [info.name for info in source.metrics]
    named = {"metrics": scenario.metrics}
    named |= {f"policies.{policy}.metrics": fields.get("metrics", {}) for policy, fields in scenario.policies.items()}
    for place, metrics in named.items():
        for name in metrics:
            if name not in known:
                raise UnknownNameError("metric", name, known, place)


def coarse_quantum(largest: float) -> float:
    """Return a power of two of at most 1 such that `largest` is in [2^10, 2^11) quanta, if possible."""
    return min(1.0, 2.0 ** (math.frexp(largest)[1] - 11)) if largest > 0 else 1.0


def nodes_of(cluster: ClusterSection, metrics: tuple[Metric, ...]) -> list[Node]:
    """Return the nodes; node i is in upgrade domain i mod U and, roughly, in fault domain i mod F.

    If U and F have a common factor (10 and 5), ``i mod F`` would put each upgrade domain into few fault domains. So the
    fault domain is shifted by one each time the pairs begin to repeat.
    """
    names = {metric.name for metric in metrics}
    width = len(str(cluster.nodes - 1))
    period = math.lcm(cluster.upgrade_domains, cluster.fault_domains)
    return [
        Node(
            f"n{number:0{width}d}",
            capacities={name: value for name, value in capacity.items() if name in names},
            upgrade_domain=f"ud{number % cluster.upgrade_domains}",
            fault_domain=f"fd:/fd{(number + number // period) % cluster.fault_domains}",
        )
        for number, capacity in enumerate(cluster.node_capacities)
    ]


def limits_of(cluster: ClusterSection, metrics: tuple[Metric, ...]) -> tuple[Float, Float]:
    """Return capacities and violation thresholds of all nodes, both (H, R); infinite without a capacity."""
    capacity = np.array([[row.get(metric.name, np.inf) for metric in metrics] for row in cluster.node_capacities])
    return capacity, capacity * np.array([metric.violation_threshold for metric in metrics])


def make_engine(scenario: Scenario, source: Source, policy: str, seed: int) -> PlacementAndLoadBalancing:
    """Return an engine for a policy, with the nodes added."""
    metrics = metrics_of(scenario, source)
    engine = PlacementAndLoadBalancing(scenario.config(policy, metrics), seed=seed, history=source.history)
    for node in nodes_of(scenario.cluster, metrics):
        engine.update_node(node)
    return engine
