"""The services of tenants, as the engine is told of them, with the demand to expect of a replica that is new."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cluster.simulation.replica_states import Tenancy
from cluster.simulation.tenants import TenantSequence
from plb import PlacementAndLoadBalancing, Service
from plb.model import Role
from plb.risk import DemandHistory
from plb.risk.estimators import MonteCarlo


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

    Parameters
    ----------
    history
        The past tenants.
    percentile
        Which percentile of their initial demand is expected.
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
