"""Partitions, and the replicas of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum

import attrs

from plb.errors import ConflictError, InvalidValueError
from plb.model.role import Role, check_role
from plb.validation import (
    MOST_REPLICAS,
    check_count,
    check_items,
    check_member,
    check_name,
    check_number,
    check_switch,
    check_text,
    check_whole,
    plain_scalar,
    with_plain_scalars,
)


class ReplicaState(Enum):
    """The state of a replica; only a ready one may be moved."""

    READY = "ready"
    IN_BUILD = "in_build"
    """Its data are being copied. It has load and does not move."""
    STANDBY = "standby"
    """A copy of the data of an earlier replica. It has the load of a secondary and may become a replica again."""
    DOWN = "down"
    """Its process does not run. It has load and does not move."""
    DROPPED = "dropped"
    """It is being removed. It has no load, and no other replica of the partition may use its node."""


class UpgradeMark(Enum):
    """The request of an upgrade for a replica (docs/embedding.md, Upgrades)."""

    NONE = "none"
    SWAP_OUT = "swap_out"
    """Its node is about to be upgraded: this primary is to swap roles with a secondary."""
    PRIMARY_RETURNS = "primary_returns"
    """The primary was on this node before the upgrade, and is to return."""
    REPLICA_RETURNS = "replica_returns"
    """A replica was on this node before the upgrade: a missing replica is to be placed here first."""


READY, UNMARKED = ReplicaState.READY, UpgradeMark.NONE  # members are looked up slowly


@attrs.frozen
class Replica:
    """One copy of a partition on a node.

    Parameters
    ----------
    role
        Its role: a `Role` or its name in small letters.
    node
        Name of its node.
    pinned
        True: no plan moves it.
    leaving
        True during a move from this node: the load still counts against the capacity of the node, but not in the
        balance statistics. A primary that leaves is still the primary of its partition.
    to_be_dropped
        True if it is to be dropped: it counts as one that leaves, but no plan drops it, and a primary is no longer the
        primary, unless it is marked to be swapped out.
    state
        Its state.
    upgrade
        The request of an upgrade: an `UpgradeMark` or its value. While a replica is marked, no other phase moves any
        replica of its partition, until it is described without marks. A removed replica is described as dropped with a
        mark: it reserves a place for a new one.
    """

    role: Role
    node: str
    state: ReplicaState = attrs.field(default=ReplicaState.READY, kw_only=True)
    pinned: bool = attrs.field(default=False, kw_only=True)
    leaving: bool = attrs.field(default=False, kw_only=True)
    to_be_dropped: bool = attrs.field(default=False, kw_only=True)
    upgrade: UpgradeMark = attrs.field(default=UpgradeMark.NONE, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("replica", self.node, field="node")
        is_usual = self.state is READY and self.upgrade is UNMARKED and type(self.role) is Role
        is_standing = self.pinned is self.leaving is self.to_be_dropped is False
        if is_usual and is_standing and type(self.node) is str:
            return  # nothing to check further or to convert
        item = f"replica on {self.node}"
        object.__setattr__(self, "node", plain_scalar(self.node))
        object.__setattr__(self, "role", check_role(item, "role", self.role))
        for field in ("pinned", "leaving", "to_be_dropped"):
            object.__setattr__(self, field, check_switch(item, field, getattr(self, field)))
        for field, kind in (("state", ReplicaState), ("upgrade", UpgradeMark)):
            object.__setattr__(self, field, check_member(item, field, getattr(self, field), kind))
        if self.upgrade is UpgradeMark.SWAP_OUT and self.role is not Role.PRIMARY:
            raise InvalidValueError(item, "upgrade", self.upgrade.value, "a mark other than swap_out, unless a primary")
        if self.upgrade is not UpgradeMark.NONE and self.role is Role.INSTANCE:
            raise InvalidValueError(
                item, "upgrade", self.upgrade.value, "none, as instances have no roles to hand over"
            )

    @property
    def disappears(self) -> bool:
        """Whether it is on its way out: it moves away, or is to be dropped."""
        return self.leaving or self.to_be_dropped


def _tuple_of_replicas(replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    return check_items("partition", "replicas", replicas, Replica)


@attrs.frozen(field_transformer=with_plain_scalars)
class Partition:
    """A unit of placement: a set of replicas. Several on one node are a violation, which a repair ends.

    Parameters
    ----------
    name
        Name of the partition, unique in the cluster.
    service
        Name of its service.
    replicas
        The present replicas. The engine places those that are missing.
    created
        Time at which the partition was created, in seconds on the host's clock: the start of its demand curve.
    missing
        Number of missing replicas; below 0: surplus replicas. None: given by the target of the service.
    version
        Number of this description. Another description with the same number and the same `missing` is ignored, except
        that it ends the moves of earlier plans. None: every description counts.
    in_transition
        True while it is deleted or reconfigured: none of its replicas moves, and marks of an upgrade wait.
    upgrading
        True while it is upgraded: balancing does not move its replicas, and marks of the upgrade act. Constraint check
        moves those without marks, if `allow_constraint_check_fixes_during_application_upgrade` is on. A partition with
        a marked replica counts as upgraded.
    in_quorum_loss
        True while most of its replicas are lost: the others do not move.
    """

    name: str
    service: str = attrs.field(kw_only=True)
    replicas: tuple[Replica, ...] = attrs.field(default=(), kw_only=True, converter=_tuple_of_replicas)
    created: float = attrs.field(default=0.0, kw_only=True)
    missing: int | None = attrs.field(default=None, kw_only=True)
    version: int | None = attrs.field(default=None, kw_only=True)
    in_transition: bool = attrs.field(default=False, kw_only=True)
    in_quorum_loss: bool = attrs.field(default=False, kw_only=True)
    upgrading: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("partition", self.name)
        item = f"partition {self.name}"
        check_text(item, "service", self.service)
        check_number(item, "created", self.created, low=-math.inf)
        if self.missing is not None:
            check_count(item, "missing", self.missing, low=-MOST_REPLICAS, high=MOST_REPLICAS)
        if self.version is not None:
            check_whole(item, "version", self.version)
        if not (self.in_transition is self.in_quorum_loss is self.upgrading is False):
            for field in ("in_transition", "in_quorum_loss", "upgrading"):
                check_switch(item, field, getattr(self, field))
        standing = [r for r in self.replicas if r.role is Role.PRIMARY and not r.disappears]
        if len(standing) > 1:
            raise ConflictError(f"{item}: two primaries, on nodes {standing[0].node} and {standing[1].node}")
