"""A queue of rows by the time at which each is due: a binary heap in which every row has one place.

A row is due once at most; another time moves it. Shapes: M rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import by_pointer, kernel

NEVER = math.inf
"""Time of a row that is not due."""


@by_pointer
class DueQueue(NamedTuple):
    """Rows by time."""

    time: Float
    """(M,) when each row is due; `NEVER`: it is not in the queue."""
    heap: Int
    """(M,) the rows in the queue, each due no earlier than the one above it, at half its position."""
    place: Int
    """(M,) position of each row in `heap`, or NOWHERE."""
    size: Int
    """(1,) number of rows in the queue."""


def empty_queue(rows: int) -> DueQueue:
    """Return a queue for a number of rows, none of which is due."""
    return DueQueue(
        np.full(rows, NEVER), np.zeros(rows, np.int64), np.full(rows, NOWHERE, np.int64), np.zeros(1, np.int64)
    )


@kernel
def set_due(queue: DueQueue, row: int, time: float) -> None:
    """Set the time at which a row is due; `NEVER` takes it out of the queue."""
    if queue.place[row] == NOWHERE:
        if time == NEVER:
            return
        _put(queue, queue.size[0], row)
        queue.size[0] += 1
    queue.time[row] = time
    _rise(queue, queue.place[row])
    _sink(queue, queue.place[row])
    if time == NEVER:  # all rows that never are due are at the end
        queue.size[0] -= 1
        last = queue.heap[queue.size[0]]
        place = queue.place[row]
        queue.place[row] = NOWHERE
        if last != row:
            _put(queue, place, last)
            _rise(queue, place)
            _sink(queue, queue.place[last])


@kernel
def take_due(queue: DueQueue, now: float, found: Int) -> int:
    """Take the rows that are due at `now` or before out of the queue; write them to `found`, (M,), return how many."""
    count = 0
    while queue.size[0] > 0 and queue.time[queue.heap[0]] <= now:
        row = queue.heap[0]
        found[count] = row
        count += 1
        set_due(queue, row, NEVER)
    return count


@kernel
def _put(queue: DueQueue, place: int, row: int) -> None:
    queue.heap[place] = row
    queue.place[row] = place


@kernel
def _rise(queue: DueQueue, place: int) -> None:
    """Move a row up while it is due before the one above."""
    row = queue.heap[place]
    while place > 0:
        above = (place - 1) // 2
        if queue.time[queue.heap[above]] <= queue.time[row]:
            break
        _put(queue, place, queue.heap[above])
        place = above
    _put(queue, place, row)


@kernel
def _sink(queue: DueQueue, place: int) -> None:
    """Move a row down while one below is due before it."""
    row = queue.heap[place]
    while True:
        below = 2 * place + 1
        if below >= queue.size[0]:
            break
        if below + 1 < queue.size[0] and queue.time[queue.heap[below + 1]] < queue.time[queue.heap[below]]:
            below += 1
        if queue.time[queue.heap[below]] >= queue.time[row]:
            break
        _put(queue, place, queue.heap[below])
        place = below
    _put(queue, place, row)
