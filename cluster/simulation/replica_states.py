"""The state of each replica: ready, down since a given time, being built, or marked for an upgrade."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from plb import PlacementAndLoadBalancing, Replica
from plb.model import ReplicaState, Role, UpgradeMark


class ReplicaStates:
    """The state of every replica that is not plainly ready. The engine holds the placement.

    Parameters
    ----------
    engine
        The engine of the run.
    """

    def __init__(self, engine: PlacementAndLoadBalancing) -> None:
        self._engine = engine
        self._states: dict[str, dict[str, ReplicaState]] = {}
        self._since: dict[tuple[str, str], int] = {}
        self.marks: dict[str, dict[str, UpgradeMark]] = {}
        """Marks of upgrades, by partition and node."""

    def set(self, partition: str, node: str, state: ReplicaState, now: int = 0) -> None:
        """Set the state of the replica on a node from `now` on."""
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
        """Remove a tenant that departs."""
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
        """Return partition and node of the replicas that have been down since `time` or before."""
        return [key for key, since in self._since.items() if since <= time]

    def described(self, partition: str) -> list[Replica]:
        """Return the placed replicas of a partition, each with its state."""
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
        """Return the replicas of a partition that serve it; a moving replica is ready on its target."""
        return ready_among(self.described(partition))

    def primary(self, partition: str) -> Replica | None:
        """Return the primary, in any state; None if there is none."""
        return primary_among(self.described(partition))


def ready_among(described: Iterable[Replica]) -> list[Replica]:
    """Return the replicas that serve the partition."""
    return [one for one in described if one.state is ReplicaState.READY and not one.leaving]


def primary_among(described: Iterable[Replica]) -> Replica | None:
    """Return the primary that is not leaving, in any state."""
    return next((one for one in described if one.role == Role.PRIMARY and not one.leaving), None)


def is_plain(described: Iterable[Replica]) -> bool:
    """Return whether all replicas of a partition are ready, unmarked and not leaving."""
    return all(
        one.state is ReplicaState.READY and one.upgrade is UpgradeMark.NONE and not one.leaving for one in described
    )


def as_leaving(one: Replica, node: str | None, *, leaving: bool) -> Replica:
    """Return a replica with `leaving` set if it is on `node`, else unchanged."""
    return attrs.evolve(one, leaving=leaving) if one.node == node else one


def _mark_of(role: Role, mark: UpgradeMark) -> UpgradeMark:
    """Return the mark of a replica on a marked node; a mark ends when its replica changes role."""
    marked_role = Role.PRIMARY if mark is UpgradeMark.SWAP_OUT else Role.SECONDARY
    return mark if role is marked_role else UpgradeMark.NONE
