"""How the replicas of tenants are: ready, down since a time, being built, marked for an upgrade."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from plb import PlacementAndLoadBalancing, Replica
from plb.model import ReplicaState, Role, UpgradeMark


@attrs.frozen(eq=False)
class Tenancy:
    """What failing over depends on of a tenant.

    Parameters
    ----------
    tenant
        Its row.
    partition, service
        Their names.
    replicas
        How many it should have.
    stateful
        Whether they are a primary and secondaries; False: instances.
    """

    tenant: int
    partition: str
    service: str
    replicas: int
    stateful: bool

    @property
    def quorum(self) -> int:
        """Ready replicas without which it cannot be used: a majority, or one instance."""
        return self.replicas // 2 + 1 if self.stateful else 1


class ReplicaStates:
    """The state of every replica that is not simply ready; where replicas stand, the engine knows.

    Parameters
    ----------
    engine
        The run's.
    """

    def __init__(self, engine: PlacementAndLoadBalancing) -> None:
        self._engine = engine
        self._states: dict[str, dict[str, ReplicaState]] = {}
        self._since: dict[tuple[str, str], int] = {}
        self.marks: dict[str, dict[str, UpgradeMark]] = {}
        """By partition and node, what an upgrade asks of a replica."""

    def set(self, partition: str, node: str, state: ReplicaState, now: int = 0) -> None:
        """Note how the replica on a node is from `now` on."""
        states = self._states.setdefault(partition, {})
        states.pop(node, None)
        self._since.pop((partition, node), None)
        if state is not ReplicaState.READY:
            states[node] = state
        if state is ReplicaState.DOWN:
            self._since[partition, node] = now
        if not states:
            del self._states[partition]

    def forget(self, partition: str) -> None:
        """Forget a tenant who departs."""
        self.marks.pop(partition, None)
        for node in self._states.pop(partition, {}):
            self._since.pop((partition, node), None)

    def of(self, partition: str) -> dict[str, ReplicaState]:
        """Return the states by node of the replicas that are not ready."""
        return dict(self._states.get(partition, {}))

    def down_on(self, node: str) -> list[str]:
        """Return the partitions whose replica on a node is down."""
        return [name for name, states in self._states.items() if states.get(node) is ReplicaState.DOWN]

    def down_until(self, time: float) -> list[tuple[str, str]]:
        """Return partition and node of the replicas that have been down since `time` or longer."""
        return [key for key, since in self._since.items() if since <= time]

    def described(self, partition: str) -> list[Replica]:
        """Return the replicas of a partition that have a node, each with its state."""
        states, marks = self._states.get(partition, {}), self.marks.get(partition, {})
        return [
            Replica(one.role, one.node, leaving=True)
            if one.leaving
            else Replica(
                one.role,
                one.node,
                state=states.get(one.node, ReplicaState.READY),
                upgrade=_mark_of(one.role, marks.get(one.node, UpgradeMark.NONE)),
            )
            for one in self._engine.replicas(partition)
            if one.node is not None
        ]

    def ready(self, partition: str) -> list[Replica]:
        """Return the replicas of a partition that serve it; one that moves is ready on its target."""
        return ready_among(self.described(partition))

    def primary(self, partition: str) -> Replica | None:
        """Return the primary that stands, in whatever state."""
        return primary_among(self.described(partition))


def ready_among(described: Iterable[Replica]) -> list[Replica]:
    """Return those of a partition's replicas that serve it."""
    return [one for one in described if one.state is ReplicaState.READY and not one.leaving]


def primary_among(described: Iterable[Replica]) -> Replica | None:
    """Return the primary that stands among a partition's replicas, in whatever state."""
    return next((one for one in described if one.role == Role.PRIMARY and not one.leaving), None)


def is_plain(described: Iterable[Replica]) -> bool:
    """Tell whether all of a partition's replicas are simply ready: no end of a move, nothing that is asked for."""
    return all(
        one.state is ReplicaState.READY and one.upgrade is UpgradeMark.NONE and not one.leaving for one in described
    )


def as_leaving(one: Replica, node: str | None, *, leaving: bool) -> Replica:
    """Return a replica as it is once that on `node` leaves it, or does so no more."""
    return attrs.evolve(one, leaving=leaving) if one.node == node else one


def _mark_of(role: Role, mark: UpgradeMark) -> UpgradeMark:
    """Return the mark of a replica on a marked node; once the role has been handed over, there is none any more."""
    requested = Role.PRIMARY if mark is UpgradeMark.SWAP_OUT else Role.SECONDARY
    return mark if role is requested else UpgradeMark.NONE
