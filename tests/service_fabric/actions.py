"""Collects the moves of plans like the failover manager of the original tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from plb import Move, MoveKind, Plan, Role
from tests.service_fabric.described import identifier_of
from tests.service_fabric.matching import action_match
from tests.service_fabric.scenario import Step

Action = tuple[str, str, int | None, int | None]
"""Kind, role, source and target, in the order of `print_actions`."""


class CollectedActions:
    """The actions since the last clear. A partition with actions keeps the first ones."""

    def __init__(self) -> None:
        self._by_partition: dict[str, list[Move]] = {}

    def collect(self, plan: Plan) -> None:
        """Add the moves of a plan for partitions without actions."""
        new: dict[str, list[Move]] = {}
        for move in plan.moves:
            new.setdefault(move.partition, []).append(move)
        self._by_partition = {**new, **self._by_partition}

    def clear(self) -> None:
        """Remove all actions."""
        self._by_partition.clear()

    def texts(self, stateless: Collection[int] = ()) -> tuple[str, ...]:
        """Return the actions in the notation of the patterns; secondaries of `stateless` partitions are instances."""
        ordered = sorted((identifier_of(name), moves) for name, moves in self._by_partition.items())
        printed = ((one, _printed(one, moves)) for one, moves in ordered)
        return tuple(
            text.replace(" secondary ", " instance ") if one in stateless else text
            for one, texts in printed
            for text in texts
        )

    def by_partition(self) -> Iterable[tuple[int, list[Move]]]:
        """Return the moves of each partition by its id."""
        return [(identifier_of(name), moves) for name, moves in self._by_partition.items()]

    @property
    def partitions(self) -> int:
        """Number of partitions with actions."""
        return len(self._by_partition)

    @property
    def raw_count(self) -> int:
        """Number of collected moves; two of them may give one text."""
        return sum(len(moves) for moves in self._by_partition.values())


def domains_with_moves(moves: Iterable[Move], domain_of_partition: Mapping[str, str]) -> int:
    return len({domain_of_partition[move.partition] for move in moves})


def after_moves(partition: Step, moves: Iterable[Move]) -> Step:
    """Return a partition after its moves: the version rises by 1, and the replica difference falls by 1 per add."""
    replicas, difference = {one["node"]: one for one in partition["replicas"]}, partition["replica_diff"]
    for move in moves:
        source, target = _node(move.source), _node(move.target)
        if move.kind is MoveKind.ADD:
            role = "primary" if move.role is Role.PRIMARY else "secondary"
            replicas[target] = {"role": role, "node": target, "state": "ready", "up": True, "flags": []}
            difference -= 1
        elif move.kind is MoveKind.SWAP:
            primary, secondary = replicas[source], replicas[target]
            replicas[source], replicas[target] = {**secondary, "node": source}, {**primary, "node": target}
        elif move.kind is MoveKind.PROMOTE:
            replicas[target] = {**replicas[target], "role": "primary", "flags": []}
        elif move.kind is MoveKind.VOID:
            replicas[source] = {**replicas[source], "flags": []}
        else:
            moved = replicas.pop(source)
            difference += move.kind is MoveKind.DROP
            if target is not None:
                replicas[target] = {**moved, "node": target}
    changed = {"replicas": list(replicas.values()), "replica_diff": difference, "version": partition["version"] + 1}
    return {**partition, **changed}


def _printed(partition: int, moves: Iterable[Move]) -> list[str]:
    texts: list[str] = action_match().print_actions(partition, [_action(move) for move in moves])
    return texts


def _action(move: Move) -> Action:
    return move.kind.value, move.role.name.lower(), _node(move.source), _node(move.target)


def _node(name: str | None) -> int | None:
    return identifier_of(name) if name else None
