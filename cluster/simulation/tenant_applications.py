"""The applications of tenants, and what they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs
import numpy as np

from cluster.scenario.applications_section import ApplicationsSection
from cluster.simulation.ledger import Ledger, Metering
from cluster.simulation.tenant_arrivals import TenantSequence
from plb import Application, UnknownNameError
from plb.array_types import Int
from plb.model.application import AMOUNTS

NO_APPLICATION = -1


@attrs.frozen(eq=False)
class TenantApplications:
    """The applications of the tenants of a run.

    Parameters
    ----------
    applications
        All of them.
    of_tenant
        (T,) index of the application of each tenant, or `NO_APPLICATION`.
    """

    applications: tuple[Application, ...]
    of_tenant: Int

    @classmethod
    def of(cls, sections: Mapping[str, ApplicationsSection], sequence: TenantSequence) -> TenantApplications:
        """Return the applications of the sections of a scenario.

        Raises
        ------
        UnknownNameError
            No tenant has the class of a section, or a limit names an unknown metric.
        """
        applications: list[Application] = []
        traces, follows = sequence.traces, (sequence.parent >= 0) | ~sequence.is_tenant
        of_tenant = np.full(len(sequence.arrival), NO_APPLICATION)
        for name, section in sections.items():
            _check_metrics(name, section, traces.metric_names)
            matches = np.array([fnmatchcase(known, section.tenant_class) for known in traces.classes], np.bool_)
            if not matches.any():
                place = f"applications.{name}.tenant_class"
                raise UnknownNameError("tenant class", section.tenant_class, traces.classes, place)
            members = np.flatnonzero(matches[traces.class_code] & (of_tenant == NO_APPLICATION) & ~follows)
            group = np.arange(len(members)) // (section.tenants or max(1, len(members)))
            of_tenant[members] = len(applications) + group
            groups = int(group[-1]) + 1 if len(members) else 0
            numbers = [""] if groups == 1 and not section.tenants else [f"/{number + 1}" for number in range(groups)]
            applications += [section.named(f"{name}{number}") for number in numbers]
        leader = np.where(sequence.parent >= 0, sequence.parent, sequence.owner)
        of_tenant[follows] = of_tenant[leader[follows]]
        return cls(tuple(applications), of_tenant)

    def application_of(self, tenant: int) -> Application | None:
        """Return the application of a tenant."""
        index = int(self.of_tenant[tenant])
        return None if index == NO_APPLICATION else self.applications[index]


def _check_metrics(name: str, section: ApplicationsSection, known: Sequence[str]) -> None:
    for field in AMOUNTS:
        for metric in getattr(section, field):
            if metric not in known:
                raise UnknownNameError("metric", metric, known, f"applications.{name}.{field}")


class ApplicationUse:
    """The nodes and loads that applications use, metering by metering; replicas on their way out do not count.

    Parameters
    ----------
    known
        The applications.
    nodes
        Number of nodes.
    metrics
        Names of the metrics.
    """

    def __init__(self, known: TenantApplications, nodes: int, metrics: Sequence[str]) -> None:
        applications = len(known.applications)
        self._known, self._metrics = known, metrics
        self._meterings = 0
        self._nodes, self._most_nodes = np.zeros(applications), np.zeros(applications, np.int64)
        self._load, self._largest, self._largest_on_node = (np.zeros((applications, len(metrics))) for _ in range(3))
        self._node_count = nodes

    def meter(self, ledger: Ledger, metering: Metering) -> None:
        """Record the use at a metering."""
        if not self._known.applications:
            return
        application = self._known.of_tenant[ledger.tenant[metering.rows]]
        counts = (application != NO_APPLICATION) & ~ledger.leaving[metering.rows]
        rows, application = metering.rows[counts], application[counts]
        shape = (len(self._known.applications), self._node_count)
        used, load = np.zeros(shape, np.bool_), np.zeros((*shape, len(self._metrics)))
        used[application, ledger.node[rows]] = True
        np.add.at(load, (application, ledger.node[rows]), metering.demand[counts])
        self._meterings += 1
        self._nodes += used.sum(axis=1)
        np.maximum(self._most_nodes, used.sum(axis=1), out=self._most_nodes)
        self._load += load.sum(axis=1)
        np.maximum(self._largest, load.sum(axis=1), out=self._largest)
        np.maximum(self._largest_on_node, load.max(axis=1, initial=0.0), out=self._largest_on_node)

    def totals(self) -> dict[str, dict[str, Any]]:
        """Return, for each application, means and maxima over the meterings."""
        meterings = max(1, self._meterings)
        return {
            application.name: {
                "nodes": float(self._nodes[index] / meterings),
                "most_nodes": int(self._most_nodes[index]),
                "load": self._by_metric(self._load[index] / meterings),
                "largest_load": self._by_metric(self._largest[index]),
                "largest_load_on_node": self._by_metric(self._largest_on_node[index]),
            }
            for index, application in enumerate(self._known.applications)
        }

    def _by_metric(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self._metrics, values.tolist(), strict=True))
