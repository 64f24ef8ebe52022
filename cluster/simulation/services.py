"""Creates the services of tenants in the engine, with the expected demand of a new replica."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from cluster.scenario.applications_section import Known
from cluster.simulation.availability import Tenancy
from cluster.simulation.tenant_applications import TenantApplications
from cluster.simulation.tenant_arrivals import TenantSequence
from plb import Application, PlacementAndLoadBalancing, Service
from plb.model import Role
from plb.risk import DemandHistory
from plb.risk.estimators import estimator_of, reads_limits


class Services:
    """The services of an engine, created on demand.

    All tenants of a class with the same replicas and limits share a service. Limits are MaxUsage, if the engine's
    estimator uses limits. Tenants of different applications have different services. Each tenant of an affinity pair
    has its own service, because an affinity relates services; so has each partition of a tenant that is scaled, because
    its number of instances changes.

    Parameters
    ----------
    engine
        Receives the services.
    sequence
        The tenants.
    history
        Data for the estimate of a new replica's demand; None: nothing is expected until the first report.
    percentile
        The estimate is this percentile of the initial demand of the class and role ([1] section 8.2).
    applications
        The applications of the tenants.
    known
        What the engine is to know of them.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        sequence: TenantSequence,
        history: DemandHistory | None,
        percentile: float,
        applications: TenantApplications,
        known: Known,
    ) -> None:
        self._engine, self._traces = engine, sequence.traces
        # lists, because single elements of arrays take long to read
        self._class: list[int] = sequence.traces.class_code.tolist()
        self._replicas: list[int] = sequence.traces.replicas.tolist()
        self._stateful: list[bool] = (sequence.traces.series_index[:, Role.INSTANCE] < 0).tolist()
        self._parent: list[int] = sequence.parent.tolist()
        self._parents = {*self._parent}
        self._scaled: list[bool] = (sequence.scaling >= 0).tolist()
        self._estimate = InitialDemand(history, percentile)
        self._applications, self._knows = applications, known
        self._known_applications: set[str] = set()
        self._known: set[str] = set()
        self._services: dict[int, Service] = {}
        self._uses_limits = reads_limits(estimator_of(engine.config.estimator))
        self._limits: dict[str, dict[tuple[float, ...], int]] = {}
        """By class and replicas, a number for each combination of limits, which has its own service."""

    def of(self, tenant: int) -> str:
        """Return the name of a tenant's service."""
        traces = self._traces
        tenant_class = traces.classes[self._class[tenant]]
        stateful, replicas = self._stateful[tenant], self._replicas[tenant]
        name = f"{tenant_class}/{replicas}" if stateful else f"{tenant_class}/{replicas}/instances"
        limits: dict[str, float] = {}
        if self._uses_limits:
            limits = dict(zip(traces.metric_names, traces.max_usage[tenant].tolist(), strict=True))
            name += self._suffix(name, tuple(limits.values()))
        application = self._application_of(tenant)
        if application is not None:
            name = f"{name}/{application.name}"
        parent = self._parent[tenant]
        if parent >= 0 or tenant in self._parents or self._scaled[tenant]:
            name = f"{name}/{traces.tenant[tenant]}"
        if name not in self._known:
            if application is not None and application.name not in self._known_applications:
                self._engine.update_application(application)
                self._known_applications.add(application.name)
            roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
            loads = {role: self._estimate.of(tenant_class, role, traces.metric_names) for role in roles}
            service = Service(
                name,
                stateful=stateful,
                tenant_class=tenant_class,
                target_replicas=replicas,
                default_load=loads,
                limits=limits,
                affinity_to=self.of(parent) if parent >= 0 else None,
                application=None if application is None else application.name,
            )
            self._engine.update_service(service)
            if self._scaled[tenant]:
                self._services[tenant] = service
            self._known.add(name)
        return name

    def _application_of(self, tenant: int) -> Application | None:
        """Return the application of a tenant as the engine knows it."""
        application = None if self._knows is Known.NONE else self._applications.application_of(tenant)
        if application is not None and self._knows is Known.WITHOUT_RESERVATIONS:
            return attrs.evolve(application, node_reservation={})
        return application

    def scale(self, tenant: int, instances: int) -> None:
        """Set the number of instances of a tenant that is scaled."""
        self._services[tenant] = attrs.evolve(self._services[tenant], target_replicas=instances)
        self._engine.update_service(self._services[tenant])

    def remove(self, tenant: int) -> None:
        """Remove the service of a tenant that is scaled, whose partition is gone; others stay."""
        service = self._services.pop(tenant, None)
        if service is not None:
            self._engine.remove_service(service.name)
            self._known.discard(service.name)

    def _suffix(self, name: str, limits: tuple[float, ...]) -> str:
        """Return the suffix that distinguishes services with different limits; empty for the first."""
        known = self._limits.setdefault(name, {})
        number = known.setdefault(limits, len(known))
        return f"/{number + 1}" if number else ""

    def tenancy(self, tenant: int, partition: str) -> Tenancy:
        """Return the properties of a tenant that failover depends on."""
        return Tenancy(tenant, partition, self.of(tenant), self._replicas[tenant], self._stateful[tenant])


class InitialDemand:
    """The expected demand of a replica without a report.

    The estimate uses past tenants of the class and role, or else of the class, or else all. Without a history, it is 0.

    Parameters
    ----------
    history
        The past tenants, or None.
    percentile
        Percentile of their initial demand that is expected.
    """

    def __init__(self, history: DemandHistory | None, percentile: float) -> None:
        self._history, self._percentile = history, percentile

    def of(self, tenant_class: str, role: Role, metrics: tuple[str, ...]) -> Mapping[str, float]:
        """Return the estimate by metric, in user units."""
        history = self._history
        if history is None:
            return {}
        same_class = history.tenant_class == history.class_code(tenant_class)
        for chosen in (same_class & (history.role == role), same_class, np.ones(len(history), np.bool_)):
            if chosen.any():
                values = np.percentile(history.initial[chosen], self._percentile, axis=0)
                return {name: float(values[history.metrics.index(name)]) for name in metrics}
        return {}
