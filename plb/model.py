"""What users say about a cluster: metrics, nodes, services, partitions, replicas and roles.

Frozen attrs classes, checked when they are made. Arrays, indices and integer loads begin in `plb.state`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.read_only import ReadOnlyMapping
from plb.settings.metric import MetricSettings
from plb.validation import (
    check_count,
    check_items,
    check_loads,
    check_mapping,
    check_member,
    check_name,
    check_names,
    check_number,
    check_step,
    check_switch,
    check_text,
    check_whole,
)


class Role(IntEnum):
    """The role of a replica: a stateful partition has a primary and secondaries, a stateless one instances."""

    PRIMARY = 0
    SECONDARY = 1
    INSTANCE = 2


ROLE_NAMES = {role.name.lower(): role for role in Role}


def check_role(item: str, field: str, value: object) -> Role:
    """Return the `Role` that `value` is or names, or refuse it."""
    if isinstance(value, Role):
        return value
    if isinstance(value, str) and value in ROLE_NAMES:
        return ROLE_NAMES[value]
    try:
        return Role(check_whole(item, field, value))  # type: ignore[arg-type]
    except ValueError:
        raise InvalidValueError(item, field, value, f"one of {', '.join(ROLE_NAMES)}") from None


class MoveCost(Enum):
    """How much a move of a service's replica hurts, in units of one low-cost move (semantics.md section 2)."""

    ZERO = "zero"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class DeactivationIntent(Enum):
    """Why a node that is up is being taken out of service (semantics.md section 4)."""

    NONE = "none"
    PAUSE = "pause"
    RESTART = "restart"
    REMOVE_DATA = "remove_data"
    REMOVE_NODE = "remove_node"


class DeactivationStatus(Enum):
    """How far the deactivation of a node has come."""

    NONE = "none"
    ACTIVATION_IN_PROGRESS = "activation_in_progress"
    SAFETY_CHECK_IN_PROGRESS = "safety_check_in_progress"
    SAFETY_CHECK_COMPLETE = "safety_check_complete"
    COMPLETE = "complete"


class ReplicaState(Enum):
    """How a replica is; only a ready one may be moved."""

    READY = "ready"
    IN_BUILD = "in_build"
    """Its data are being copied; it carries load and does not move."""
    STANDBY = "standby"
    """Left from an earlier replica with its data; it carries a secondary's load and may become a replica again."""
    DOWN = "down"
    """Its process does not run; it carries load and does not move."""
    DROPPED = "dropped"
    """On its way out; it carries nothing, and no other replica of the partition may come to its node."""


class UpgradeMark(Enum):
    """What an upgrade asks for a replica (semantics.md section 6, upgrade pass)."""

    NONE = "none"
    SWAP_OUT = "swap_out"
    """Its node is about to be upgraded: this primary is to swap roles with a secondary."""
    PRIMARY_RETURNS = "primary_returns"
    """The primary stood here before the upgrade, and is to come back."""
    REPLICA_RETURNS = "replica_returns"
    """A replica stood here before the upgrade: a missing one is to come here first."""


@attrs.frozen
class Metric(MetricSettings):
    """A resource that replicas use and nodes have, in a unit of the user's choice.

    The settings under Service Fabric's names come from `plb.settings.metric.MetricSettings`.

    Parameters
    ----------
    name
        Name of the metric, such as ``"cpu"``.
    weight
        Weight of this metric's imbalance in the energy; at least 0.
    violation_threshold
        A node is in violation when its load is at least this share of its capacity ([1] section 3.2, f_r); in (0, 1].
    step
        The unit in which loads are counted exactly: a power of two, at most 1 user unit. None: the finest for which
        the first capacity (or load, where no node has a capacity) is at most 2^20 steps. Finer loads round up.
    trend
        True when demand grows from an initial value to a maximum and stays (disk, memory); False when it has no trend
        and a high percentile stands for it (CPU); [1] section 5.3.
    """

    name: str
    weight: float = attrs.field(default=1.0, kw_only=True)
    violation_threshold: float = attrs.field(default=0.95, kw_only=True)
    step: float | None = attrs.field(default=None, kw_only=True)
    trend: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("metric", self.name)
        super().__attrs_post_init__()
        item = self._item()
        check_number(item, "weight", self.weight)
        check_number(item, "violation_threshold", self.violation_threshold, high=1.0, low_open=True)
        check_switch(item, "trend", self.trend)
        if self.step is not None:
            check_step(item, "step", self.step, high=1.0)

    def _item(self) -> str:
        return f"metric {self.name}"


@attrs.frozen
class Node:
    """A machine of the cluster.

    Parameters
    ----------
    name
        Name of the node, unique in the cluster.
    capacities
        Capacity by metric, in user units. A missing metric is unlimited; 0 is a real limit.
    fault_domain
        Path of the fault domain, such as ``"fd:/dc1/rack0"``; None: a domain of its own.
    upgrade_domain
        Name of the upgrade domain; None: a domain of its own.
    properties
        Properties that placement constraints refer to; those that they find are `placement_properties`.
    up
        False while the node is down: nothing may be placed there, and it leaves the statistics.
    deactivation_intent, deactivation_status
        Why a node that is up is being taken out of service, and how far that has come. Any intent but none takes the
        node out of the statistics.
    """

    name: str
    capacities: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    fault_domain: str | None = attrs.field(default=None, kw_only=True)
    upgrade_domain: str | None = attrs.field(default=None, kw_only=True)
    properties: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    up: bool = attrs.field(default=True, kw_only=True)
    deactivation_intent: DeactivationIntent = attrs.field(default=DeactivationIntent.NONE, kw_only=True)
    deactivation_status: DeactivationStatus = attrs.field(default=DeactivationStatus.NONE, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("node", self.name)
        item = f"node {self.name}"
        object.__setattr__(self, "capacities", check_loads(item, "capacities", self.capacities))
        for field in ("fault_domain", "upgrade_domain"):
            if getattr(self, field) is not None:
                check_text(item, field, getattr(self, field))
        check_switch(item, "up", self.up)
        for field, kind in (("deactivation_intent", DeactivationIntent), ("deactivation_status", DeactivationStatus)):
            object.__setattr__(self, field, check_member(item, field, getattr(self, field), kind))
        for key, value in check_mapping(item, "properties", self.properties, "a mapping of names to texts").items():
            check_text(item, f"properties[{key}]", value)
        object.__setattr__(self, "properties", ReadOnlyMapping(self.properties))

    @property
    def fault_domain_path(self) -> tuple[str, ...]:
        """The fault domain as a tuple of names from the top level down."""
        if self.fault_domain is None:
            return (f"{self.name}_fd",)
        path = self.fault_domain.removeprefix("fd:")
        return tuple(part for part in path.split("/") if part) or (f"{self.name}_fd",)

    @property
    def placement_properties(self) -> dict[str, str]:
        """The properties, and ``FaultDomain`` and ``UpgradeDomain`` as far as these are given and not among them.

        Service Fabric knows these two of every node (semantics.md section 4).
        """
        implicit = {}
        if self.fault_domain is not None:
            implicit["FaultDomain"] = f"fd:/{'/'.join(self.fault_domain_path)}"
        if self.upgrade_domain is not None:
            implicit["UpgradeDomain"] = self.upgrade_domain
        return implicit | {**self.properties}

    @property
    def upgrade_domain_name(self) -> str:
        """The upgrade domain; a private one where none was given."""
        return f"{self.name}_ud" if self.upgrade_domain is None else self.upgrade_domain


def check_move_cost(item: str, cost: MoveCost | str) -> MoveCost:
    """Return the `MoveCost` that `cost` is or names, or refuse it."""
    return check_member(item, "move_cost", cost, MoveCost)


def _blocked_nodes(names: Iterable[str]) -> frozenset[str]:
    return frozenset(check_names("service", "blocked_nodes", names))


@attrs.frozen
class Service:
    """A service: what its partitions have in common.

    Parameters
    ----------
    name
        Name of the service, unique in the cluster.
    stateful
        True: one primary, the rest secondaries. False: instances.
    tenant_class
        Class of similar tenants, the key into the demand history ([1] section 3); None: unknown.
    target_replicas
        Replicas that each partition should have; 0: not known, so each `Partition` says how many it misses.
    default_load
        Load by role (a `Role` or its name in small letters) and metric, in user units, that counts until the first
        report; missing ones are 0.
    placement_constraint
        Expression over node properties, such as ``"ssd == true && zone != z3"``; empty: any node.
    move_cost
        How much moving a replica hurts: a `MoveCost` or its value.
    max_moves
        Most moves of this service's replicas in one plan; None: no limit of its own.
    metrics
        Weight by metric, for a service that reports some metrics only; None: all of the engine's, each with weight 1.
        Services that share a metric, or an affinity, are searched together.
    affinity_to
        Name of the parent, another service, whose replicas this service's replicas must stand beside; None: no
        affinity.
    aligned
        Whether, beside the parent, primary stands with primary and secondary with secondary.
    on_every_node
        True: one replica on every node that may have one; `target_replicas` does not count then.
    blocked_nodes
        Names of the nodes on which the service may not stand; they may be unknown yet.
    limits
        The most that a replica is promised, by metric, in user units: the limit of [5]. Estimators that go by what
        replicas have shown take it for those that have not shown enough; the engine does not enforce it. Missing: no
        promise is known.
    """

    name: str
    stateful: bool = attrs.field(default=True, kw_only=True)
    tenant_class: str | None = attrs.field(default=None, kw_only=True)
    target_replicas: int = attrs.field(default=1, kw_only=True)
    default_load: Mapping[Role, Mapping[str, float]] = attrs.field(factory=dict, kw_only=True)
    placement_constraint: str = attrs.field(default="", kw_only=True)
    move_cost: MoveCost = attrs.field(default=MoveCost.LOW, kw_only=True)
    max_moves: int | None = attrs.field(default=None, kw_only=True)
    metrics: Mapping[str, float] | None = attrs.field(default=None, kw_only=True)
    affinity_to: str | None = attrs.field(default=None, kw_only=True)
    aligned: bool = attrs.field(default=True, kw_only=True)
    on_every_node: bool = attrs.field(default=False, kw_only=True)
    blocked_nodes: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, converter=_blocked_nodes)
    limits: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("service", self.name)
        item = f"service {self.name}"
        check_count(item, "target_replicas", self.target_replicas)
        for field in ("stateful", "aligned", "on_every_node"):
            check_switch(item, field, getattr(self, field))
        check_text(item, "placement_constraint", self.placement_constraint)
        for field in ("tenant_class", "affinity_to"):
            if getattr(self, field) is not None:
                check_text(item, field, getattr(self, field))
        if self.affinity_to == self.name:
            raise InvalidValueError(item, "affinity_to", self.affinity_to, "the name of another service")
        if self.metrics is not None:
            given = check_mapping(item, "metrics", self.metrics, "a mapping of metrics to weights")
            weights = {name: check_number(item, f"metrics[{name}]", weight) for name, weight in given.items()}
            object.__setattr__(self, "metrics", ReadOnlyMapping(weights))
        if self.max_moves is not None:
            check_count(item, "max_moves", self.max_moves)
        object.__setattr__(self, "move_cost", check_move_cost(item, self.move_cost))
        object.__setattr__(self, "default_load", ReadOnlyMapping(self._checked_loads(item)))
        object.__setattr__(self, "limits", ReadOnlyMapping(check_loads(item, "limits", self.limits)))

    def _checked_loads(self, item: str) -> dict[Role, Mapping[str, float]]:
        roles = (Role.PRIMARY, Role.SECONDARY) if self.stateful else (Role.INSTANCE,)
        loads: dict[Role, Mapping[str, float]] = {}
        for named, load in check_mapping(
            item, "default_load", self.default_load, "a mapping of roles to loads"
        ).items():
            role = check_role(item, "default_load", named)
            if role not in roles:
                raise InvalidValueError(item, "default_load", role, f"roles among {[r.name for r in roles]}")
            if role in loads:
                raise ConflictError(f"{item}: default_load has {role.name} twice")
            loads[role] = check_loads(item, f"default_load[{role.name}]", load)
        return loads


@attrs.frozen
class Replica:
    """One copy of a partition on a node.

    Parameters
    ----------
    role
        Its role: a `Role` or its name in small letters.
    node
        Name of the node it stands on.
    pinned
        True: no plan moves it.
    leaving
        True while a move away from this node is under way, or a drop: the load still counts when the node's capacity is
        checked, not in the balance statistics.
    state
        How it is.
    upgrade
        What an upgrade asks for it: an `UpgradeMark` or its value. While a replica is marked, no other phase moves any
        of its partition, until it is described without marks. One that is gone is described as dropped with a mark: it
        holds a place for a new one.
    """

    role: Role
    node: str
    state: ReplicaState = attrs.field(default=ReplicaState.READY, kw_only=True)
    pinned: bool = attrs.field(default=False, kw_only=True)
    leaving: bool = attrs.field(default=False, kw_only=True)
    upgrade: UpgradeMark = attrs.field(default=UpgradeMark.NONE, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("replica", self.node, field="node")
        item = f"replica on {self.node}"
        object.__setattr__(self, "role", check_role(item, "role", self.role))
        for field in ("pinned", "leaving"):
            check_switch(item, field, getattr(self, field))
        for field, kind in (("state", ReplicaState), ("upgrade", UpgradeMark)):
            object.__setattr__(self, field, check_member(item, field, getattr(self, field), kind))
        if self.upgrade is UpgradeMark.SWAP_OUT and self.role is not Role.PRIMARY:
            raise InvalidValueError(item, "upgrade", self.upgrade.value, "a mark other than swap_out, unless a primary")
        if self.upgrade is not UpgradeMark.NONE and self.role is Role.INSTANCE:
            raise InvalidValueError(
                item, "upgrade", self.upgrade.value, "none, as instances have no roles to hand over"
            )


def _tuple_of_replicas(replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    return check_items("partition", "replicas", replicas, Replica)


@attrs.frozen
class Partition:
    """A unit of placement: a set of replicas, at most one a node.

    Parameters
    ----------
    name
        Name of the partition, unique in the cluster.
    service
        Name of its service.
    replicas
        The replicas that stand now. Those missing to the service's target are for the engine to place.
    created
        Time at which the partition was created, in seconds on the host's clock: the start of its demand curve.
    missing
        How many replicas it misses; below 0: how many it has too many. None: what the service's target says.
    version
        Number of this description; another with the same number and the same `missing` says nothing new, except that
        the moves issued before are over. None: every description counts.
    in_transition
        True while it is deleted, upgraded or reconfigured: none of its replicas moves.
    in_quorum_loss
        True while most of its replicas are lost: none of those left moves.
    """

    name: str
    service: str = attrs.field(kw_only=True)
    replicas: tuple[Replica, ...] = attrs.field(default=(), kw_only=True, converter=_tuple_of_replicas)
    created: float = attrs.field(default=0.0, kw_only=True)
    missing: int | None = attrs.field(default=None, kw_only=True)
    version: int | None = attrs.field(default=None, kw_only=True)
    in_transition: bool = attrs.field(default=False, kw_only=True)
    in_quorum_loss: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("partition", self.name)
        item = f"partition {self.name}"
        check_text(item, "service", self.service)
        check_number(item, "created", self.created, low=-math.inf)
        for field in ("missing", "version"):
            if getattr(self, field) is not None:
                check_whole(item, field, getattr(self, field))
        for field in ("in_transition", "in_quorum_loss"):
            check_switch(item, field, getattr(self, field))
        nodes = [replica.node for replica in self.replicas]
        doubled = sorted({node for node in nodes if nodes.count(node) > 1})
        if doubled:
            raise ConflictError(f"{item}: two replicas on node {doubled[0]}; at most one is allowed")
        standing = [r for r in self.replicas if r.role == Role.PRIMARY and not r.leaving]
        if len(standing) > 1:
            raise ConflictError(f"{item}: two primaries, on nodes {standing[0].node} and {standing[1].node}")
