"""Sections ``[applications.NAME]`` of a scenario: tenants with common limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import attrs

from cluster.scenario.sections import Section, count
from plb import Application, InvalidValueError, PlbError

OF_APPLICATIONS = ("most_nodes", "minimum_nodes", "total_capacity", "node_capacity", "node_reservation")
"""Fields that are those of `plb.Application`."""


class Known(Enum):
    """What the engine of a policy knows of the applications of a scenario."""

    ALL = "all"
    WITHOUT_RESERVATIONS = "without reservations"
    NONE = "none"


@attrs.frozen(kw_only=True)
class ApplicationsSection(Section):
    """Tenants of some classes that form applications with common limits.

    A tenant belongs to the first section that matches its class, and the second tenant of an affinity pair to the
    application of the first. A policy with ``applications = "none"`` has none of them, one with ``applications =
    "without reservations"`` only their other limits.

    Parameters
    ----------
    tenant_class
        The class, or a pattern: ``"BC_*"`` matches every class whose name starts with BC_, ``"*"`` matches all.
    tenants
        Number of tenants of each application, in order of arrival; 0: all in one.
    most_nodes
        Most nodes that the replicas of an application use; 0: no limit.
    minimum_nodes
        Number of nodes for which the cluster has to have the reservation left, if the engine checks it.
    total_capacity
        Largest load of an application by metric, such as ``{ cpu = 200.0 }``; missing: no limit.
    node_capacity
        Largest load of an application on one node by metric; missing: no limit.
    node_reservation
        Load by metric that every node with a replica of an application keeps free for it; missing: none.
    """

    tenant_class: str = "*"
    tenants: int = count(0)
    most_nodes: int = count(0)
    minimum_nodes: int = count(0)
    total_capacity: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    node_capacity: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    node_reservation: Mapping[str, float] = attrs.field(factory=dict, hash=False)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield the error for limits that an application of the engine refuses."""
        limits = {name: value for name, value in values.items() if name in OF_APPLICATIONS}
        try:
            Application("of the section", **limits)
        except InvalidValueError as error:
            yield error.field.partition("[")[0], error
        except PlbError as error:
            has_too_many = 0 < values.get("most_nodes", 0) < values.get("minimum_nodes", 0)
            yield "minimum_nodes" if has_too_many else "node_reservation", error

    def named(self, name: str) -> Application:
        """Return an application of this section."""
        return Application(name, **{field: getattr(self, field) for field in OF_APPLICATIONS})
