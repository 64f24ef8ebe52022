"""What replicas have demanded in the slots of the recent past, for `plb.risk.historical_simulation`.

The column of a slot holds the loads at the first call of the engine in the slot. M rows, R metrics, K slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from plb.array_types import Bool, Int, Int8, Int32
from plb.model import Role
from plb.model.snapshot import Part
from plb.risk.historical_simulation import OWN, RATIOS, UNKNOWN

NO_SLOT = -(2**62)
"""Number of the newest slot before the first call."""
NO_DONORS: Int = np.zeros(0, np.int64)
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
        (M, R, K) quanta in a slot that the row has lived through; else what `source` says, or `OWN`.
    lived
        (M, K) whether the row has lived through the slot with a reported load.
    count
        (M,) number of such slots.
    source
        (M,) `UNKNOWN`, `LOADS` in quanta, or `RATIOS` to the level of the row.
    newest
        Number of the newest slot since time 0.
    donors
        Rows that may be donors, by tenant class and role; "" stands for no class.
    """

    def __init__(self, metrics: int, capacity: int, slots: int = 0, slot_minutes: int = 0) -> None:
        self.slot_minutes = slot_minutes
        self.values: Int32 = np.full((capacity, metrics, slots), OWN, np.int32)
        self.lived: Bool = np.zeros((capacity, slots), np.bool_)
        self.count: Int = np.zeros(capacity, np.int64)
        self.source: Int8 = np.zeros(capacity, np.int8)
        self.newest = NO_SLOT
        self.donors: Mapping[tuple[str, Role], Int] = {}

    @property
    def slots(self) -> int:
        """K."""
        return int(self.values.shape[2])

    def grow(self, added: int) -> None:
        """Add rows."""
        more = PastLoads(self.values.shape[1], added, self.slots, self.slot_minutes)
        for name in ("values", "lived", "count", "source"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))

    def forget(self, rows: int | list[int]) -> None:
        """Make rows as if never used."""
        self.values[rows] = OWN
        self.lived[rows] = False
        self.count[rows] = 0
        self.source[rows] = UNKNOWN

    def enter(self, slot: int, load: Int, known: Bool) -> bool:
        """Enter the present loads as those of a slot, and return whether it is a new one.

        Slots that passed without a call are not lived through by any row.

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
                self._leave(passed % self.slots)
        column = slot % self.slots
        self._leave(column)
        self.values[known, :, column] = np.minimum(load[known], LARGEST_LOAD)
        self.lived[:, column] = known
        self.count += known
        self.newest = slot
        return True

    def _leave(self, column: int) -> None:
        """Make a column one that no row has lived through; what was borrowed for it stays."""
        was = self.lived[:, column]
        self.values[was, :, column] = OWN
        self.count -= was
        self.lived[:, column] = False

    def list_donors(self, rows: Int, classes: Sequence[str | None], roles: Int) -> None:
        """List the rows that may be donors from now on, with their tenant classes and roles."""
        groups: dict[tuple[str, Role], list[int]] = {}
        for row, tenant_class, role in zip(rows.tolist(), classes, roles.tolist(), strict=True):
            groups.setdefault((tenant_class or "", Role(role)), []).append(row)
        self.donors = {group: np.array(members, np.int64) for group, members in groups.items()}

    def donors_for(self, tenant_class: str | None, role: int) -> Int:
        """Return the rows that may be donors for a replica."""
        return self.donors.get((tenant_class or "", Role(role)), NO_DONORS)

    def part(self, made: int) -> Part:
        """Return the first rows as a part of a snapshot."""
        groups = [[tenant_class, role.name, len(rows)] for (tenant_class, role), rows in self.donors.items()]
        arrays = {name: getattr(self, name)[:made].copy() for name in ("values", "lived", "source")}
        donors = np.concatenate([NO_DONORS, *self.donors.values()])
        return Part({"newest": self.newest, "donor_groups": groups}, {**arrays, "donors": donors})

    def take(self, part: Part, made: int) -> None:
        """Take over the first rows of a part, for the same numbers of metrics and slots."""
        self.newest = part.value("newest", int)
        shape = (made, *self.values.shape[1:])
        self.values[:made] = part.array("values", shape, np.int32, low=OWN)
        self.lived[:made] = part.array("lived", (made, self.slots), np.bool_)
        self.source[:made] = part.array("source", (made,), np.int8, low=UNKNOWN, high=RATIOS)
        self.count[:] = self.lived.sum(axis=1)
        if (self.values.min(axis=1, initial=0) == OWN)[self.lived].any():
            part.refuse("values", OWN, "loads in slots that were lived through")
        donors = part.array("donors", (None,), np.int64, low=0, high=made - 1)
        found, first = {}, 0
        for tenant_class, role, count in part.entries("donor_groups", str, str, int):
            if role not in Role.__members__ or count < 1:
                part.refuse("donor_groups", [tenant_class, role, count], "a class, a role, and a number of rows")
            found[tenant_class, Role[role]] = donors[first : first + count]
            first += count
        if first != len(donors):
            part.refuse("donors", f"{len(donors)} rows", f"{first} rows, as in donor_groups")
        self.donors = found
