"""The moves of a plan as columns: a plan of many moves costs no object for each until somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import attrs
import numpy as np

from plb.array_types import Array, Float, Int, made_again
from plb.model.move import Move, MoveKind, Reason
from plb.model.role import ROLES

KINDS = tuple(MoveKind)
"""The kinds by their numbers in `PlanMoves.kind`."""
_NO_NUMBERS: Int = np.zeros(0, np.int64)


def _read_only(values: Array) -> Array:
    view = values.view()
    view.flags.writeable = False
    return view


@attrs.define(eq=False, repr=False)
class PlanMoves(Sequence[Move]):
    """A sequence of moves, equal to the tuple of them; every column has an entry for each move. Arrays are read-only.

    Parameters
    ----------
    kind
        (m,) numbers of `KINDS`.
    partition
        Names.
    role
        (m,) values of `Role`.
    source, target
        Names of nodes, or None.
    reason
        The reasons.
    cost
        (m,) in moves.
    row
        (m,) indices of replicas, or -1.
    """

    kind: Int = attrs.field(converter=_read_only)
    partition: Sequence[str]
    role: Int = attrs.field(converter=_read_only)
    source: Sequence[str | None]
    target: Sequence[str | None]
    reason: Sequence[Reason]
    cost: Float = attrs.field(converter=_read_only)
    row: Int = attrs.field(converter=_read_only)
    _made: tuple[Move, ...] | None = attrs.field(default=None, init=False)
    """All moves, once somebody has looked at all."""
    __reduce__ = made_again

    @classmethod
    def of(cls, moves: Sequence[Move]) -> PlanMoves:
        """Return the columns of some moves."""
        if isinstance(moves, PlanMoves):
            return moves
        return cls(
            kind=np.array([KINDS.index(move.kind) for move in moves], np.int64),
            partition=[move.partition for move in moves],
            role=np.array([move.role for move in moves], np.int64),
            source=[move.source for move in moves],
            target=[move.target for move in moves],
            reason=[move.reason for move in moves],
            cost=np.array([move.cost for move in moves], np.float64),
            row=np.array([move.index for move in moves], np.int64),
        )

    @classmethod
    def joined(cls, parts: Iterable[Sequence[Move]]) -> PlanMoves:
        """Return the moves of all parts, one after another."""
        columns = [part for part in map(cls.of, parts) if len(part)]
        if len(columns) == 1:
            return columns[0]
        return cls(
            kind=np.concatenate([_NO_NUMBERS, *(part.kind for part in columns)]),
            partition=[name for part in columns for name in part.partition],
            role=np.concatenate([_NO_NUMBERS, *(part.role for part in columns)]),
            source=[name for part in columns for name in part.source],
            target=[name for part in columns for name in part.target],
            reason=[reason for part in columns for reason in part.reason],
            cost=np.concatenate([np.zeros(0), *(part.cost for part in columns)]),
            row=np.concatenate([_NO_NUMBERS, *(part.row for part in columns)]),
        )

    def of_kinds(self, *kinds: MoveKind) -> list[str]:
        """Return the partition of each move of these kinds, in order."""
        chosen = np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        return [self.partition[at] for at in np.flatnonzero(chosen).tolist()]

    def __len__(self) -> int:
        """Return the number of moves."""
        return len(self.kind)

    def __iter__(self) -> Iterator[Move]:
        """Return an iterator over the moves, which are made once."""
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Move: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Move, ...]: ...
    def __getitem__(self, at: int | slice) -> Move | tuple[Move, ...]:
        """Return a move, or those of a slice."""
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple(map(self._at, places))
        return self._at(places)

    def __eq__(self, other: object) -> bool:
        """Return whether another one, or a tuple, has the same moves."""
        if not isinstance(other, PlanMoves | tuple):
            return NotImplemented
        return len(self) == len(other) and self._all() == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        return hash(self._all())

    def __repr__(self) -> str:
        """Return the moves as those of a tuple."""
        return repr(self._all())

    def _at(self, place: int) -> Move:
        if self._made is not None:
            return self._made[place]
        return Move(
            kind=KINDS[self.kind[place]],
            partition=self.partition[place],
            role=ROLES[self.role[place]],
            source=self.source[place],
            target=self.target[place],
            reason=self.reason[place],
            cost=float(self.cost[place]),
            index=int(self.row[place]),
        )

    def _all(self) -> tuple[Move, ...]:
        if self._made is None:
            kinds, roles = map(KINDS.__getitem__, self.kind.tolist()), map(ROLES.__getitem__, self.role.tolist())
            names = self.partition, roles, self.source, self.target
            self._made = tuple(map(Move, kinds, *names, self.reason, self.cost.tolist(), self.row.tolist()))
        return self._made
