"""Collects the moves of plans as the failover manager of the original tests did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plb import Move, Plan
from tests.service_fabric.described import identifier_of
from tests.service_fabric.matching import action_match

Action = tuple[str, str, int | None, int | None]
"""Kind, role, source and target, as `print_actions` wants them."""


class CollectedActions:
    """The actions since the last clear; a partition that has some keeps the first ones."""

    def __init__(self) -> None:
        self._by_partition: dict[str, list[Move]] = {}

    def collect(self, plan: Plan) -> None:
        """Add the moves of a plan, for partitions that have none yet."""
        new: dict[str, list[Move]] = {}
        for move in plan.moves:
            new.setdefault(move.partition, []).append(move)
        self._by_partition = {**new, **self._by_partition}

    def clear(self) -> None:
        """Forget all."""
        self._by_partition.clear()

    def texts(self) -> tuple[str, ...]:
        """Return the actions in the language of the patterns, partitions by id."""
        ordered = sorted((identifier_of(name), moves) for name, moves in self._by_partition.items())
        return tuple(text for partition, moves in ordered for text in _printed(partition, moves))

    @property
    def partitions(self) -> int:
        """How many partitions have actions."""
        return len(self._by_partition)

    @property
    def raw_count(self) -> int:
        """How many moves were collected; two of them may make one text."""
        return sum(len(moves) for moves in self._by_partition.values())


def domains_with_moves(moves: Iterable[Move], domain_of_partition: Mapping[str, str]) -> int:
    """Return in how many service domains something moves."""
    return len({domain_of_partition[move.partition] for move in moves})


def _printed(partition: int, moves: Iterable[Move]) -> list[str]:
    texts: list[str] = action_match().print_actions(partition, [_action(move) for move in moves])
    return texts


def _action(move: Move) -> Action:
    return move.kind.value, move.role.name.lower(), _node(move.source), _node(move.target)


def _node(name: str | None) -> int | None:
    return identifier_of(name) if name else None
