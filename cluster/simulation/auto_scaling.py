"""Auto scaling: tenants get further instances or partitions, or lose some, by their mean load.

The engine does not scale; a host does, as here. It changes the target of the tenant's service, or adds and removes
partitions, and lets the engine place what is missing and drop what is surplus.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from cluster.scenario.workload_sections import Scaling
from cluster.simulation.ledger import Metering
from cluster.simulation.simulated_cluster import SimulatedCluster
from cluster.simulation.tenancies import Tenancies
from cluster.simulation.tenant_arrivals import TenantSequence
from plb.array_types import Float, Int


@attrs.frozen
class Change:
    """A change in the number of a tenant's instances or partitions."""

    tenant: int
    """Row of the tenant."""
    before: int
    after: int
    """The numbers."""
    load: float
    """Mean load of its replicas."""
    scaling: Scaling
    """The section that asks for it."""


class AutoScaling:
    """Looks at the scaled tenants of a run after each metering.

    Parameters
    ----------
    cluster
        The shared objects of the run.
    sequence
        The tenants.
    tenancies
        Their state.
    """

    def __init__(self, cluster: SimulatedCluster, sequence: TenantSequence, tenancies: Tenancies) -> None:
        self._cluster, self._sequence, self._tenancies = cluster, sequence, tenancies
        self.sections = [*cluster.scenario.scaling.values()]
        self._names: list[str] = sequence.traces.tenant_names().tolist()
        scaled = np.flatnonzero((sequence.scaling >= 0) & sequence.is_tenant)
        self._interval = {tenant: 60 * self.section_of(tenant).interval_minutes for tenant in scaled.tolist()}
        self._due = np.full(len(sequence.arrival), np.inf)
        self._due[scaled] = sequence.arrival[scaled] + np.array([self._interval[tenant] for tenant in scaled.tolist()])
        self._counts = np.where(sequence.is_tenant, 1, 0)
        self._counts[sequence.scales_instances] = sequence.traces.replicas[sequence.scales_instances]

    def section_of(self, tenant: int) -> Scaling:
        """Return the section of a scaled tenant."""
        return self.sections[int(self._sequence.scaling[tenant])]

    def partitions_of(self, tenant: int) -> range:
        """Return the rows of the present partitions of a tenant."""
        return range(tenant, tenant + (1 if self._sequence.scales_instances[tenant] else int(self._counts[tenant])))

    def changes(self, metering: Metering) -> Iterator[Change]:
        """Yield the changes that are due, after each of which the tenant has the new number.

        A tenant waits while a replica of it is missing, moves or is not ready; looks that it misses are not made later.
        """
        due = np.flatnonzero(self._due <= self._cluster.now).tolist()
        loads: dict[int, Float] = {}
        for tenant in due:
            if self._names[tenant] not in self._tenancies.known:
                self._due[tenant] = np.inf  # it has departed
                continue
            if not all(self._is_settled(row) for row in self.partitions_of(tenant)):
                continue
            interval = self._interval[tenant]
            self._due[tenant] += interval * (1 + (self._cluster.now - self._due[tenant]) // interval)
            number = int(self._sequence.scaling[tenant])
            if number not in loads:
                loads[number] = self._mean_loads(metering, self.sections[number])
            change = self._change_of(tenant, float(loads[number][tenant]))
            if change is not None:
                self._counts[tenant] = change.after
                yield change

    def _is_settled(self, row: int) -> bool:
        """Return whether all replicas of a partition are placed, ready and not moving."""
        name = self._names[row]
        placed = self._cluster.ledger.placed(name)
        wanted = self._tenancies.known[name].replicas
        standing = sum(one.node is not None for one in placed)
        return self._tenancies.serves(name) and standing == wanted and self._tenancies.states.is_plain(name)

    def _change_of(self, tenant: int, load: float) -> Change | None:
        before, scaling = int(self._counts[tenant]), self.section_of(tenant)
        after = scaling.wanted(before, load)
        return None if after == before else Change(tenant, before, after, load, scaling)

    def _mean_loads(self, metering: Metering, scaling: Scaling) -> Float:
        """Return the mean load of the replicas of each tenant, (T,); 0 without any."""
        ledger, rows = self._cluster.ledger, metering.rows
        counted = ~ledger.leaving[rows]
        if scaling.primary_only:
            counted &= ledger.is_primary(rows)
        metric = self._sequence.traces.metric_names.index(scaling.metric)
        owner: Int = self._sequence.owner[ledger.tenant[rows[counted]]]
        count = len(self._counts)
        total = np.bincount(owner, metering.reported[counted, metric], count)
        mean: Float = total / np.maximum(np.bincount(owner, minlength=count), 1)
        return mean
