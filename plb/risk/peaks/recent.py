"""The newest samples of the tasks on one machine, in rows that the kernels of `plb.risk.peaks.windows` read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from plb.array_types import Float, Int

LEAST_FREE = 16
"""Number of tasks for which memory is allocated at first."""


class RecentSamples:
    """Keeps at least the newest samples of each present task, those of each task in consecutive rows.

    Every task has space for twice its history; if it is full, the newer half moves to its beginning.

    Parameters
    ----------
    history
        Number of samples of a task that are kept.
    """

    def __init__(self, history: int) -> None:
        self._history, self._width = history, 2 * history
        self._place: dict[Hashable, int] = {}
        self._free = list(range(LEAST_FREE))
        self._seen = np.zeros(LEAST_FREE, np.int64)
        self._next = np.zeros(LEAST_FREE, np.int64)
        self.usage: Float = np.zeros(LEAST_FREE * self._width)
        self.limit: Float = np.zeros(LEAST_FREE * self._width)

    def add(self, tasks: Sequence[Hashable], usage: Float, limit: Float) -> tuple[Int, Int]:
        """Add a sample of each present task; remove the others.

        Returns
        -------
        rows, seen
            Row of the new sample, and number of samples in a row, of each task.
        """
        self._keep_only(set(tasks))
        places = np.array([self._place_of(task) for task in tasks])
        full = places[self._next[places] == self._width]
        for place in full.tolist():
            self._move_back(place)
        rows = places * self._width + self._next[places]
        self.usage[rows], self.limit[rows] = usage, limit
        self._next[places] += 1
        self._seen[places] += 1
        return rows, self._seen[places]

    def _keep_only(self, tasks: set[Hashable]) -> None:
        for task in [task for task in self._place if task not in tasks]:
            self._free.append(self._place.pop(task))

    def _place_of(self, task: Hashable) -> int:
        place = self._place.get(task)
        if place is None:
            if not self._free:
                self._grow()
            place = self._place[task] = self._free.pop()
            self._seen[place] = self._next[place] = 0
        return place

    def _move_back(self, place: int) -> None:
        start, middle, end = (place * self._width + part * self._history for part in (0, 1, 2))
        for column in (self.usage, self.limit):
            column[start:middle] = column[middle:end]
        self._next[place] = self._history

    def _grow(self) -> None:
        length = len(self._seen)
        self._free.extend(range(length, 2 * length))
        self._seen, self._next = (np.append(column, np.zeros(length, np.int64)) for column in (self._seen, self._next))
        self.usage, self.limit = (np.append(c, np.zeros(length * self._width)) for c in (self.usage, self.limit))
