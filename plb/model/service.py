"""Services, the common properties of their partitions, and applications, groups of services with common limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.model.documents import Described, naming_fields
from plb.model.role import Role, check_role
from plb.validation import (
    LARGEST_COUNT,
    LARGEST_WEIGHT,
    MOST_REPLICAS,
    ReadOnlyMapping,
    check_count,
    check_loads,
    check_mapping,
    check_member,
    check_name,
    check_names,
    check_number,
    check_switch,
    check_text,
    with_plain_scalars,
)


class MoveCost(Enum):
    """The cost of a move of a replica of a service, in units of a low-cost move (docs/terms/movement.md)."""

    ZERO = "zero"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def check_move_cost(item: str, cost: MoveCost | str | float) -> MoveCost | float:
    """Return `cost` as a number of moves, to tenths, or as the `MoveCost` that it is or names; `item` is for errors."""
    if isinstance(cost, MoveCost | str):
        return check_member(item, "move_cost", cost, MoveCost)
    return round(check_number(item, "move_cost", cost, high=LARGEST_COUNT), 1)


def _blocked_nodes(names: Iterable[str]) -> frozenset[str]:
    """Return names of nodes after checks, as a set."""
    return frozenset(check_names("service", "blocked_nodes", names))


@naming_fields
@attrs.frozen(field_transformer=with_plain_scalars)
class Service(Described):
    """A service: the common properties of its partitions."""

    name: str
    """Name of the service, unique in the cluster."""
    stateful: bool = attrs.field(default=True, kw_only=True)
    """True: one primary, the others secondaries. False: instances."""
    tenant_class: str | None = attrs.field(default=None, kw_only=True)
    """Class of similar tenants, the key in the demand history ([1] section 3); None: unknown."""
    target_replicas: int = attrs.field(default=1, kw_only=True)
    """Target number of replicas of each partition, at most 2^20; 0: unknown, so that each `Partition` has its number of
    missing replicas.
    """
    default_load: Mapping[Role, Mapping[str, float]] = attrs.field(factory=dict, kw_only=True)
    """Load by role (a `Role` or its name in small letters) and metric, in user units, until the first report; missing
    ones are 0.
    """
    placement_constraint: str = attrs.field(default="", kw_only=True)
    """Expression over node properties, such as ``"ssd == true && zone != z3"``; empty: any node."""
    move_cost: MoveCost | float = attrs.field(default=MoveCost.LOW, kw_only=True)
    """Cost of moving a replica: a `MoveCost` or its value; or a number of moves, to tenths, of which the settings of
    these levels change nothing.
    """
    max_moves: int | None = attrs.field(default=None, kw_only=True)
    """Largest number of moves of replicas of this service in a plan; None: no limit."""
    metrics: Mapping[str, float] | None = attrs.field(default=None, kw_only=True)
    """Weight by metric, for a service that reports some metrics only; None: all metrics of the engine, each with weight
    1. Services that share a metric, or an affinity, are searched together.
    """
    affinity_to: str | None = attrs.field(default=None, kw_only=True)
    """Name of the parent, another service. Replicas of this service must be on nodes of its replicas. None: no
    affinity.
    """
    aligned: bool = attrs.field(default=True, kw_only=True)
    """Whether primaries must be on the node of the parent's primary, and secondaries on nodes of its secondaries."""
    application: str | None = attrs.field(default=None, kw_only=True)
    """Name of the application that it belongs to, whose limits then bind it (`plb.Application`); unknown names are
    allowed. None: none.
    """
    on_every_node: bool = attrs.field(default=False, kw_only=True)
    """True: one replica on every allowed node; `target_replicas` is not used."""
    blocked_nodes: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, converter=_blocked_nodes)
    """Names of the nodes on which the service may not be placed. Unknown names are allowed."""
    limits: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Promised maximum of a replica, by metric, in user units: the limit of [5]. Estimators from reports use it for
    replicas with too few reports. The engine does not enforce it. Missing: no known promise.
    """

    def __attrs_post_init__(self) -> None:
        """Convert the fields to their types, and raise an error if one is invalid."""
        check_name("service", self.name)
        item = f"service {self.name}"
        check_count(item, "target_replicas", self.target_replicas, high=MOST_REPLICAS)
        for field in ("stateful", "aligned", "on_every_node"):
            check_switch(item, field, getattr(self, field))
        check_text(item, "placement_constraint", self.placement_constraint)
        for field in ("tenant_class", "affinity_to", "application"):
            if getattr(self, field) is not None:
                check_text(item, field, getattr(self, field))
        if self.affinity_to == self.name:
            raise InvalidValueError(item, "affinity_to", self.affinity_to, "the name of another service")
        if self.metrics is not None:
            by_metric = check_mapping(item, "metrics", self.metrics, "a mapping of metrics to weights")
            weights = {
                name: check_number(item, f"metrics[{name}]", weight, high=LARGEST_WEIGHT)
                for name, weight in by_metric.items()
            }
            object.__setattr__(self, "metrics", ReadOnlyMapping(weights))
        if self.max_moves is not None:
            check_count(item, "max_moves", self.max_moves, high=LARGEST_COUNT)
        object.__setattr__(self, "move_cost", check_move_cost(item, self.move_cost))
        object.__setattr__(self, "default_load", ReadOnlyMapping(self._checked_loads(item)))
        object.__setattr__(self, "limits", ReadOnlyMapping(check_loads(item, "limits", self.limits)))

    def _checked_loads(self, item: str) -> dict[Role, Mapping[str, float]]:
        """Return the default loads by `Role` after checks; `item` names the service in errors."""
        roles = (Role.PRIMARY, Role.SECONDARY) if self.stateful else (Role.INSTANCE,)
        loads: dict[Role, Mapping[str, float]] = {}
        for role_or_name, load in check_mapping(
            item, "default_load", self.default_load, "a mapping of roles to loads"
        ).items():
            role = check_role(item, "default_load", role_or_name)
            if role not in roles:
                raise InvalidValueError(item, "default_load", role, f"roles among {[r.name for r in roles]}")
            if role in loads:
                raise ConflictError(f"{item}: default_load has {role.name} twice")
            loads[role] = check_loads(item, f"default_load[{role.name}]", load)
        return loads


AMOUNTS = ("total_capacity", "node_capacity", "node_reservation")
"""The fields of an `Application` with an amount by metric."""


def _domains(names: Iterable[str]) -> frozenset[str]:
    """Return names of upgrade domains after checks, as a set."""
    return frozenset(check_names("application", "completed_upgrade_domains", names))


@naming_fields
@attrs.frozen(field_transformer=with_plain_scalars)
class Application(Described):
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
    """Most nodes that its replicas use [MaximumNodes, scale-out count]; None: no limit; 0 becomes None."""
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
        """Convert the fields to their types, and raise an error if one is invalid or limits contradict each other."""
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
        """Whether searches heed it: it has `most_nodes`, a capacity, a reservation above 0 or `upgraded_domains`."""
        limits = (self.total_capacity, self.node_capacity, self.upgraded_domains)
        return self.most_nodes is not None or any(limits) or any(self.node_reservation.values())

    @property
    def upgraded_domains(self) -> frozenset[str]:
        """The upgrade domains that its upgrade has finished, while one runs."""
        return self.completed_upgrade_domains if self.upgrade_in_progress else frozenset()
