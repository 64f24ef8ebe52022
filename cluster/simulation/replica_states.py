"""The state of each replica: ready, down since a given time, being built, or marked for an upgrade."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from cluster.simulation.ledger import Ledger
from plb import PlacedReplica, Replica
from plb.model import ReplicaState, Role, UpgradeMark


class ReplicaStates:
    """The state of every replica that is not plainly ready. The ledger has the placement.

    Parameters
    ----------
    ledger
        The replicas of the simulated cluster.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
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

    def of(self, partition: str) -> Mapping[str, ReplicaState]:
        """Return the states by node of the replicas that are not ready."""
        return self._states.get(partition, {})

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
            for one in self._ledger.placed(partition)
            if one.node is not None
        ]

    def ready(self, partition: str) -> list[PlacedReplica]:
        """Return the replicas that serve a partition; a moving replica is ready on its target."""
        states = self.of(partition)
        placed = self._ledger.placed(partition)
        return [one for one in placed if one.node is not None and not one.leaving and one.node not in states]

    def primary(self, partition: str) -> PlacedReplica | None:
        """Return the primary that is not leaving, in any state; None if there is none."""
        placed = self._ledger.placed(partition)
        return next(
            (one for one in placed if one.role is Role.PRIMARY and one.node is not None and not one.leaving), None
        )

    def is_plain(self, partition: str) -> bool:
        """Return whether all replicas of a partition are ready, unmarked and not leaving."""
        if partition in self._states or partition in self.marks:
            return is_plain(self.described(partition))
        return not any(one.leaving for one in self._ledger.placed(partition))


def is_plain(described: Iterable[Replica]) -> bool:
    """Return whether all replicas of a partition are ready, unmarked and not leaving."""
    return all(
        one.state is ReplicaState.READY and one.upgrade is UpgradeMark.NONE and not one.leaving for one in described
    )


def as_leaving(one: Replica, node: str | None, *, leaving: bool) -> Replica:
    """Return a replica with `leaving` set if it is on `node`, else unchanged."""
    return attrs.evolve(one, leaving=leaving) if one.node == node else one


def as_dropped(one: Replica, node: str, *, dropped: bool) -> Replica:
    """Return a replica with `to_be_dropped` set if it is on `node`, and then not leaving, else unchanged."""
    return attrs.evolve(one, leaving=False, to_be_dropped=dropped) if one.node == node else one


def _mark_of(role: Role, mark: UpgradeMark) -> UpgradeMark:
    """Return the mark of a replica on a marked node; a mark ends when its replica changes role."""
    marked_role = Role.PRIMARY if mark is UpgradeMark.SWAP_OUT else Role.SECONDARY
    return mark if role is marked_role else UpgradeMark.NONE
