"""What replicas have demanded in the slots of the recent past, for `plb.risk.historical_simulation`.

The column of a slot holds the loads at the first call of the engine in the slot. M rows, R metrics, K slots.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Int, Int32
from plb.model.snapshot import Part
from plb.risk.historical_simulation import MISSING

NO_SLOT = -(2**62)
"""Number of the newest slot before the first call."""
LARGEST_LOAD = 2**31 - 2
"""Larger loads are kept as this, in quanta."""


class PastLoads:
    """A ring of slots for every row of a `plb.state.replica_table.RowTable`.

    Parameters
    ----------
    metrics, capacity
        R and M.
    slots, slot_minutes
        K, and the length of a slot; 0: nothing is kept.

    Attributes
    ----------
    values
        (M, R, K) quanta, the slot of number s in column s modulo K; `MISSING` where the row had no reported load.
    newest
        Number of the newest slot since time 0.
    """

    def __init__(self, metrics: int, capacity: int, slots: int = 0, slot_minutes: int = 0) -> None:
        self.slot_minutes = slot_minutes
        self.values: Int32 = np.full((capacity, metrics, slots), MISSING, np.int32)
        self.newest = NO_SLOT

    @property
    def slots(self) -> int:
        """K."""
        return int(self.values.shape[2])

    def grow(self, added: int) -> None:
        """Add rows."""
        more = np.full((added, *self.values.shape[1:]), MISSING, np.int32)
        self.values = np.concatenate([self.values, more])

    def forget(self, row: int) -> None:
        """Make a row as if never used."""
        self.values[row] = MISSING

    def enter(self, slot: int, load: Int, known: Bool) -> bool:
        """Enter the present loads as those of a slot, and return whether it is a new one.

        Slots that passed without a call are missing in all rows.

        Parameters
        ----------
        slot
            Number of the slot since time 0.
        load
            (M, R) quanta.
        known
            (M,) whether the row is in use and its load was reported.
        """
        if slot <= self.newest:
            return False
        if self.newest != NO_SLOT:
            for passed in range(max(self.newest + 1, slot - self.slots + 1), slot):
                self.values[:, :, passed % self.slots] = MISSING
        self.values[:, :, slot % self.slots] = np.where(known[:, np.newaxis], np.minimum(load, LARGEST_LOAD), MISSING)
        self.newest = slot
        return True

    def part(self, made: int) -> Part:
        """Return the first rows as a part of a snapshot."""
        return Part({"newest": self.newest}, {"values": self.values[:made].copy()})

    def take(self, part: Part, made: int) -> None:
        """Take over the first rows of a part, for the same numbers of metrics and slots."""
        self.newest = part.value("newest", int)
        shape = (made, *self.values.shape[1:])
        self.values[:made] = part.array("values", shape, np.int32, low=MISSING)
