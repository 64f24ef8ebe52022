"""Applications: named groups of services with common limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from plb.errors import ConflictError
from plb.validation import (
    LARGEST_COUNT,
    ReadOnlyMapping,
    check_count,
    check_loads,
    check_name,
    check_names,
    check_switch,
    with_plain_scalars,
)

AMOUNTS = ("total_capacity", "node_capacity", "node_reservation")
"""The fields with an amount by metric."""


def _domains(names: Iterable[str]) -> frozenset[str]:
    return frozenset(check_names("application", "completed_upgrade_domains", names))


@attrs.frozen(field_transformer=with_plain_scalars)
class Application:
    """An application: a group of services with common limits (docs/constraints/applications.md).

    Service Fabric calls it an application with capacities, and an application group in its sources. Its names are in
    brackets.

    Raises
    ------
    InvalidValueError
        If a field is out of its range.
    ConflictError
        If the reservation of a metric exceeds the capacity of a node or in all, or `minimum_nodes` exceeds
        `most_nodes`.
    """

    name: str
    """Name of the application, unique in the cluster. A service names it in `plb.Service.application`."""
    most_nodes: int | None = attrs.field(default=None, kw_only=True)
    """Most nodes that its replicas use [MaximumNodes, scale-out count]; None or 0: no limit."""
    minimum_nodes: int = attrs.field(default=0, kw_only=True)
    """Number of nodes for which the cluster has to have the reservation left, if applications without it are refused
    (`PlbConfig.refuse_applications_without_capacity`) [MinimumNodes].
    """
    total_capacity: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Largest load of all its replicas by metric, in user units [TotalApplicationCapacity]; missing: no limit."""
    node_capacity: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Largest load of its replicas on one node by metric, in user units [MaximumNodeCapacity]; missing: no limit."""
    node_reservation: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Load by metric, in user units, that every node with a replica of it keeps free for it [ReservationNodeCapacity];
    missing or 0: none.
    """
    upgrade_in_progress: bool = attrs.field(default=False, kw_only=True)
    """Whether an upgrade of the application runs."""
    completed_upgrade_domains: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, converter=_domains)
    """Upgrade domains that this upgrade has finished. While it runs, they are preferred locations of its replicas."""

    def __attrs_post_init__(self) -> None:
        check_name("application", self.name)
        item = f"application {self.name}"
        if self.most_nodes is not None:
            check_count(item, "most_nodes", self.most_nodes, high=LARGEST_COUNT)
        object.__setattr__(self, "most_nodes", self.most_nodes or None)
        check_count(item, "minimum_nodes", self.minimum_nodes, high=LARGEST_COUNT)
        check_switch(item, "upgrade_in_progress", self.upgrade_in_progress)
        for field in AMOUNTS:
            object.__setattr__(self, field, ReadOnlyMapping(check_loads(item, field, getattr(self, field))))
        if self.most_nodes is not None and self.minimum_nodes > self.most_nodes:
            raise ConflictError(f"{item}: minimum_nodes is {self.minimum_nodes}, but most_nodes is {self.most_nodes}")
        for metric, reserved in self.node_reservation.items():
            for field in ("node_capacity", "total_capacity"):
                capacity = getattr(self, field).get(metric)
                if capacity is not None and reserved > capacity:
                    raise ConflictError(
                        f"{item}: node_reservation[{metric}] is {reserved:g}, but {field}[{metric}] is {capacity:g}"
                    )

    @property
    def binds(self) -> bool:
        """Whether it matters to searches: it has a limit of nodes, a capacity or a reservation, or upgraded domains."""
        amounts = (getattr(self, field) for field in AMOUNTS)
        return self.most_nodes is not None or any(amounts) or bool(self.upgraded_domains)

    @property
    def upgraded_domains(self) -> frozenset[str]:
        """The upgrade domains that its upgrade has finished, while one runs."""
        return self.completed_upgrade_domains if self.upgrade_in_progress else frozenset()
