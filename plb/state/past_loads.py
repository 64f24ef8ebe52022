"""What replicas have demanded in the slots of the recent past, for `plb.risk.historical_simulation`.

The column of a slot holds the loads at the first plan in the slot. M rows, R metrics, K slots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Bool, Int, Int32
from plb.risk.demand_history import LARGEST_LEVEL
from plb.risk.historical_simulation import MISSING

NO_SLOT = -(2**62)
"""Number of the newest slot before the first call."""


class EnteredSlot(NamedTuple):
    """What was in the columns that an entry has changed."""

    newest: int
    columns: Int
    values: Int32
    """(M, R, c) of these columns."""


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
        (M, R, K) quanta, the slot of number s in column s modulo K; `MISSING` where the row had no node, or no
        reported load.
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

    def enter(self, slot: int, load: Int, known: Bool) -> EnteredSlot | None:
        """Enter the present loads as those of a slot, and return what was there; None: the slot is no new one.

        Slots that passed without being entered are missing in all rows. After a slot so early that it is none of those
        that are kept, all others are missing.

        `slot`: number of the slot since time 0.
        `load`: (M, R) quanta.
        `known`: (M,) whether the row has a node, and its load was reported.
        """
        if self.newest - self.slots < slot <= self.newest:
            return None
        first = max(self.newest + 1, slot - self.slots + 1) if slot > self.newest else slot - self.slots + 1
        columns = np.arange(first, slot + 1) % self.slots
        before = EnteredSlot(self.newest, columns, self.values[:, :, columns])
        self.values[:, :, columns] = MISSING
        self.values[:, :, slot % self.slots] = np.where(known[:, np.newaxis], np.minimum(load, LARGEST_LEVEL), MISSING)
        self.newest = slot
        return before

    def leave(self, before: EnteredSlot) -> None:
        """Undo the last entry, before any row was added, removed or forgotten."""
        self.values[:, :, before.columns] = before.values
        self.newest = before.newest
