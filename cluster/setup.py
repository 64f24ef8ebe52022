"""From a scenario to an engine that knows the cluster: metrics, nodes in their domains, a service for each class."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cluster.hardware import Cluster
from cluster.ledger import Floats
from cluster.pools import Source
from cluster.replica_states import Tenancy
from cluster.scenario import Scenario
from cluster.tenants import TenantSequence
from plb import Metric, Node, PlacementAndLoadBalancing, Service, UnknownNameError
from plb.model import Role
from plb.risk import DemandHistory
from plb.risk.estimators import MonteCarlo


def metrics_of(scenario: Scenario, source: Source) -> tuple[Metric, ...]:
    """Return the workload's metrics as the engine's, all of equal weight ([1] section 8.2).

    A metric without capacity counts in steps of which the largest trace of the history has about 2^10, so that the load
    of a whole cluster stays within the engine's range.
    """
    _check_metric_names(scenario, source)
    threshold = scenario.cluster.violation_threshold
    largest = dict(zip(source.history.metrics, source.history.maximum.max(axis=0).tolist(), strict=True))
    return tuple(
        Metric(
            info.name,
            violation_threshold=threshold,
            trend=info.trend,
            step=None if info.name in scenario.cluster.capacity else coarse_step(largest[info.name]),
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


def coarse_step(largest: float) -> float:
    """Return the power of two, at most 1, of which `largest` is at least 2^10 steps and below 2^11, if it can be."""
    return min(1.0, 2.0 ** (math.frexp(largest)[1] - 11)) if largest > 0 else 1.0


def nodes_of(cluster: Cluster, metrics: tuple[Metric, ...]) -> list[Node]:
    """Return the nodes; node i is in upgrade domain i mod U and fault domain i mod F, as far as these differ.

    Where U and F have a common factor (10 and 5), ``i mod F`` would put each upgrade domain into few fault domains, so
    the fault domain takes the next place whenever the pairs begin to repeat.
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


def limits_of(cluster: Cluster, metrics: tuple[Metric, ...]) -> tuple[Floats, Floats]:
    """Return capacities and violation thresholds of all nodes, both (H, R); infinite where there is no capacity."""
    capacity = np.array([[row.get(metric.name, np.inf) for metric in metrics] for row in cluster.node_capacities])
    return capacity, capacity * np.array([metric.violation_threshold for metric in metrics])


def make_engine(scenario: Scenario, source: Source, policy: str, seed: int) -> PlacementAndLoadBalancing:
    """Return an engine under a policy, with the nodes in it."""
    metrics = metrics_of(scenario, source)
    engine = PlacementAndLoadBalancing(scenario.config(policy, metrics), seed=seed, history=source.history)
    for node in nodes_of(scenario.cluster, metrics):
        engine.update_node(node)
    return engine


class Services:
    """The services of an engine: one for all tenants of a class with the same replicas and limits, made when asked for.

    Limits are MaxUsage, where the engine's estimator asks for them. Tenants of a pair have services of their own, as an
    affinity ties services.

    Parameters
    ----------
    engine
        Gets the services.
    sequence
        The tenants.
    history
        Where the demand of a new replica is estimated from.
    percentile
        ... as this percentile of the initial demand of its class and role ([1] section 8.2).
    """

    def __init__(
        self, engine: PlacementAndLoadBalancing, sequence: TenantSequence, history: DemandHistory, percentile: float
    ) -> None:
        self._engine, self._traces = engine, sequence.traces
        self._parent, self._parents = sequence.parent, {*sequence.parent.tolist()}
        self._estimate = InitialDemand(history, percentile)
        self._known: set[str] = set()
        self._asks_limits = engine.config.estimator != MonteCarlo.kind
        self._limits: dict[str, dict[tuple[float, ...], int]] = {}
        """By class and replicas, numbers of what the tenants are promised: each has a service of its own."""

    def of(self, tenant: int) -> str:
        """Return the name of a tenant's service."""
        traces = self._traces
        tenant_class = traces.classes[traces.class_code[tenant]]
        stateful = bool(traces.series_index[tenant, Role.INSTANCE] < 0)
        replicas = int(traces.replicas[tenant])
        name = f"{tenant_class}/{replicas}" if stateful else f"{tenant_class}/{replicas}/instances"
        limits = dict(zip(traces.metric_names, traces.max_usage[tenant].tolist(), strict=True))
        limits = limits if self._asks_limits else {}
        name += self._suffix(name, tuple(limits.values()))
        parent = int(self._parent[tenant])
        if parent >= 0 or tenant in self._parents:
            name = f"{name}/{traces.tenant[tenant]}"
        if name not in self._known:
            roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
            loads = {role: self._estimate.of(tenant_class, role, traces.metric_names) for role in roles}
            self._engine.update_service(
                Service(
                    name,
                    stateful=stateful,
                    tenant_class=tenant_class,
                    target_replicas=replicas,
                    default_load=loads,
                    limits=limits,
                    affinity_to=self.of(parent) if parent >= 0 else None,
                )
            )
            self._known.add(name)
        return name

    def _suffix(self, name: str, limits: tuple[float, ...]) -> str:
        """Return what tells a service from those of other limits: nothing for the first."""
        known = self._limits.setdefault(name, {})
        number = known.setdefault(limits, len(known))
        return f"/{number + 1}" if number else ""

    def tenancy(self, tenant: int, partition: str) -> Tenancy:
        """Return what failing over depends on of a tenant."""
        stateful = bool(self._traces.series_index[tenant, Role.INSTANCE] < 0)
        return Tenancy(tenant, partition, self.of(tenant), int(self._traces.replicas[tenant]), stateful)


class InitialDemand:
    """The demand to expect of a replica that has not reported yet.

    Taken from past tenants of the class and role; where there are none, from all of the class, then from all.
    """

    def __init__(self, history: DemandHistory, percentile: float) -> None:
        self._history, self._percentile = history, percentile

    def of(self, tenant_class: str, role: Role, metrics: tuple[str, ...]) -> Mapping[str, float]:
        """Return the estimate by metric, in user units."""
        history = self._history
        same_class = history.tenant_class == history.class_code(tenant_class)
        for chosen in (same_class & (history.role == role), same_class, np.ones(len(history), np.bool_)):
            if chosen.any():
                values = np.percentile(history.initial[chosen], self._percentile, axis=0)
                return {name: float(values[history.metrics.index(name)]) for name in metrics}
        return {}
