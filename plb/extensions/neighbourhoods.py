"""The interface of neighbourhoods of users: steps of several moves, proposed in plain Python or by a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from plb.array_types import Int
from plb.compiler import Kernel, by_pointer
from plb.errors import ExtensionError
from plb.extensions.kernel_data import NEIGHBOURHOOD, WithKernels

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration

MOST_PROPOSED = 32
"""Largest number of moves that a neighbourhood may propose as one step."""
PAIRS = "pairs of a row and a node"
"""What errors say that a step has to be."""


@by_pointer
class ProposedMoves(NamedTuple):
    """The moves of a step; a kernel writes the first ones and returns how many they are."""

    row: Int
    """(MOST_PROPOSED,) replicas."""
    target: Int
    """(MOST_PROPOSED,) their new nodes."""


def new_moves() -> Any:
    """Return arrays of zeros for the moves of a step."""
    return ProposedMoves(np.zeros(MOST_PROPOSED, np.int64), np.zeros(MOST_PROPOSED, np.int64))


@runtime_checkable
class Neighbourhood(Protocol):
    """Proposes steps of several moves, which balancing tries as a whole."""

    @property
    def name(self) -> str:
        """The name with which settings choose the neighbourhood and plans count its steps."""

    def propose(self, configuration: Configuration, row: int, random: np.random.Generator) -> Iterable[tuple[int, int]]:
        """Return the moves of a step, at most `MOST_PROPOSED` pairs of a row and its new node; none: no step.

        All rows leave their nodes first. Then each goes to its new node, in this order, if every rule and constraint
        allows it there. The step is not made if one of them may not move, is proposed twice, or finds no place.

        Parameters
        ----------
        configuration
            The present placement; it has to stay as it is.
        row
            A movable replica on a node that costs more than the nodes of a few others.
        random
            The only source of random numbers; its seed is a number of the search, so that plans are reproducible.
        """


class CompiledNeighbourhood(WithKernels):
    """Base of a neighbourhood with a kernel; a subclass adds `name` and `propose`.

    It may have data (`plb.extensions.kernel_data.WithKernels.new_data`). It has no sums, which would follow every
    move: what it needs beyond the sums of the solution it counts when it is asked.
    """

    kind = NEIGHBOURHOOD
    propose: ClassVar[Kernel[..., int]]
    """Kernel: writes the moves of a step to `moves` and returns their number; 0: no step. Arguments: problem, solution,
    data, row, the chain's stream of random numbers, moves (`ProposedMoves`).
    """


AnyNeighbourhood: TypeAlias = Neighbourhood | CompiledNeighbourhood
"""A neighbourhood in plain Python or with a kernel."""


def write_moves(name: str, proposed: object, rows: int, nodes: int, moves: ProposedMoves) -> int:
    """Write what the `propose` of a neighbourhood in Python has returned to `moves`; return the number of moves.

    `name`: of the neighbourhood; `rows`, `nodes`: how many there are. Refuse other results.
    """
    count = 0
    for pair in islice(_iterated(name, proposed), MOST_PROPOSED + 1):
        try:
            row, target = map(index, pair)
        except (TypeError, ValueError) as error:  # no numbers, or not two of them
            raise _failure(name, f"it has proposed {pair!r}; expected {PAIRS}") from error
        if count == MOST_PROPOSED:
            raise _failure(name, what_is_wrong(count + 1, row, target, rows, nodes))
        if not (0 <= row < rows and 0 <= target < nodes):
            raise _failure(name, what_is_wrong(count, row, target, rows, nodes))
        moves.row[count], moves.target[count] = row, target
        count += 1
    return count


def _iterated(name: str, proposed: object) -> Iterable[Iterable[int]]:
    """Return what a neighbourhood has proposed, if it can be iterated over."""
    if not isinstance(proposed, Iterable):
        raise _failure(name, f"it has returned {proposed!r}; expected {PAIRS}")
    return proposed


def what_is_wrong(count: int, row: int, target: int, rows: int, nodes: int) -> str:
    """Return in words what is out of range: the number of moves, `count`, or else the move of `row` to `target`.

    `rows`, `nodes`: how many there are.
    """
    if not 0 <= count <= MOST_PROPOSED:
        return f"it has proposed {count} moves; expected 0 to {MOST_PROPOSED}"
    return f"it has proposed to move row {row} to node {target}; rows are 0 to {rows - 1}, nodes 0 to {nodes - 1}"


def _failure(name: str, reason: str) -> ExtensionError:
    """Return the error of a neighbourhood whose result is refused."""
    return ExtensionError(NEIGHBOURHOOD, name, "propose", reason)
