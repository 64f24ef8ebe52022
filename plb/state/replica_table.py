"""The replicas as arrays, one row a replica, and their loads of the recent past (`plb.risk.historical_simulation`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Array, Bool, Float, Int, Int32
from plb.errors import InvalidValueError
from plb.model import Role
from plb.model.snapshot import ITEM, read_array
from plb.risk.demand_history import LARGEST_LEVEL
from plb.risk.estimators import Kept
from plb.risk.historical_simulation import MISSING

NO_SLOT = -(2**62)
"""Number of the newest slot before the first call."""


class EnteredSlot(NamedTuple):
    """What the columns of `PastLoads` held before an entry changed them."""

    newest: int
    """`PastLoads.newest` before."""
    columns: Int
    """(c,) the columns that the entry has changed."""
    values: Int32
    """(M, R, c) quanta in these columns before."""


class PastLoads:
    """A ring of K slots for every row of a `RowTable`; each holds the loads at the first plan in the slot."""

    def __init__(self, metrics: int, capacity: int, slots: int = 0, slot_minutes: int = 0) -> None:
        self.slot_minutes = slot_minutes
        """The length of a slot in minutes; 0: nothing is kept."""
        self.values: Int32 = np.full((capacity, metrics, slots), MISSING, np.int32)
        """(M, R, K) quanta, slot s in column s modulo K; `MISSING` where the row had no node or no reported load."""
        self.newest = NO_SLOT
        """Number of the newest slot since time 0."""

    @property
    def slots(self) -> int:
        """K, the number of slots that are kept."""
        return int(self.values.shape[2])

    def grow(self, added: int) -> None:
        """Add `added` rows."""
        more = np.full((added, *self.values.shape[1:]), MISSING, np.int32)
        self.values = np.concatenate([self.values, more])

    def forget(self, row: int) -> None:
        """Make a row as if never used."""
        self.values[row] = MISSING

    def enter(self, slot: int, load: Int, shown: Bool) -> EnteredSlot | None:
        """Enter the loads, (M, R) quanta, of the rows with `shown`, (M,), in `slot`; other rows have `MISSING` there.

        Return what the columns held before; None, and enter nothing, if the slot is kept already. Slots that passed
        without being entered are missing in all rows; after a slot before the kept ones, all other slots are.
        """
        if self.newest - self.slots < slot <= self.newest:
            return None
        first = max(self.newest + 1, slot - self.slots + 1) if slot > self.newest else slot - self.slots + 1
        columns = np.arange(first, slot + 1) % self.slots
        before = EnteredSlot(self.newest, columns, self.values[:, :, columns])
        self.values[:, :, columns] = MISSING
        self.values[:, :, slot % self.slots] = np.where(shown[:, np.newaxis], np.minimum(load, LARGEST_LEVEL), MISSING)
        self.newest = slot
        return before

    def add(self, slot: int, load: Int, rows: Int) -> None:
        """Enter the loads, (M, R) quanta, of the replicas of `rows`, (m,), without any in `slot`, which is kept."""
        column = self.values[:, :, slot % self.slots]
        rows = rows[(column[rows] == MISSING).all(axis=1)]
        column[rows] = np.minimum(load[rows], LARGEST_LEVEL)

    def leave(self, before: EnteredSlot) -> None:
        """Undo the last entry, from which `before` is; no row may have been added, removed or forgotten since."""
        self.values[:, :, before.columns] = before.values
        self.newest = before.newest


FLAGS = (
    "leaving",
    "pinned",
    "standby",
    "vacant",
    "moving",
    "still",
    "building",
    "dropping",
    "dropped",
    "swaps_out",
    "regains",
    "kept",
    "marked",
    "upgrading",
    "used",
    "reported",
)
"""Names of the boolean arrays of `RowTable`; all are false for a row out of use."""
OUT_OF_USE = {"node": NOWHERE, "arriving": NOWHERE, "past": MISSING, "load": 0, **dict.fromkeys(FLAGS, False)}
"""By name of an array of `RowTable`, the entry of a row out of use."""

FEW_ROWS = 1000
"""Number of rows below which a sort is faster than a mask of all rows."""
MOST_ARRAYS = 16
"""Number of arrays of changed rows above which they are merged."""
SHORT_ARRAY = 64
"""Length from which an array of changed rows is kept as it is."""
LARGEST_SAMPLE = 2**31 - 2
"""Larger loads are kept as this, in quanta."""


def merged(*rows: Int) -> Int:
    """Return the rows of all arrays, ascending, each once; each array but the first may be in any order."""
    nonempty = [array for array in rows if len(array)]
    if not nonempty or (len(nonempty) == 1 and nonempty[0] is rows[0]):
        return rows[0]
    joined = np.concatenate(nonempty)
    if len(joined) < FEW_ROWS:
        joined.sort()
        is_first = np.ones(len(joined), np.bool_)
        np.not_equal(joined[1:], joined[:-1], out=is_first[1:])
        return joined[is_first]
    is_member = np.zeros(int(joined.max()) + 1, np.bool_)  # faster than a sort
    is_member[joined] = True
    return np.flatnonzero(is_member)


class _NotedRows:
    """A set of rows, from single ones and arrays."""

    def __init__(self) -> None:
        self._few: set[int] = set()
        self._arrays: list[Int] = []
        self._merged: Int | None = None

    def update(self, rows: Iterable[int]) -> None:
        """Add a few rows."""
        self._few.update(rows)
        self._merged = None

    def append(self, rows: Int) -> None:
        """Add an array of rows, (n,), to the set."""
        if len(rows) < SHORT_ARRAY:
            self.update(rows.tolist())
            return
        self._arrays.append(rows)
        if len(self._arrays) > MOST_ARRAYS:
            self._arrays = [merged(*self._arrays)]
        self._merged = None

    def merged(self) -> Int:
        """Return the rows, ascending, each once; merged again only after changes."""
        if self._merged is None:
            self._merged = merged(np.array(sorted(self._few), np.int64), *self._arrays)
        return self._merged


class ChangedRows:
    """The rows of a table that have changed since `take` was last called."""

    def __init__(self) -> None:
        self._described, self._reported = _NotedRows(), _NotedRows()

    def note(self, rows: Iterable[int], *, loads_only: bool = False) -> None:
        """Note a few rows; `loads_only`: nothing but their loads and samples has changed."""
        (self._reported if loads_only else self._described).update(rows)

    def note_many(self, rows: Int, *, loads_only: bool = False) -> None:
        """Note `rows`, (n,); `loads_only`: nothing but their loads and samples has changed."""
        (self._reported if loads_only else self._described).append(rows)

    def take(self) -> Int:
        """Return the rows, ascending, each once; none is noted afterwards."""
        noted = self.noted
        self._described, self._reported = _NotedRows(), _NotedRows()
        return noted

    @property
    def noted(self) -> Int:
        """The rows, ascending, each once."""
        return merged(self.described, self._reported.merged())

    @property
    def described(self) -> Int:
        """The rows of which more than loads and samples may have changed, ascending, each once."""
        return self._described.merged()


class RowTable:
    """Arrays with one row for each replica slot, which grow by half; the last row of `load` stays zero, for NOWHERE."""

    def __init__(self, metrics: int, capacity: int = 64) -> None:
        self.load: Int = np.zeros((capacity + 1, metrics), np.int64)
        """Quanta."""
        self.node: Int = np.full(capacity, NOWHERE, np.int64)
        """Index of the node, or NOWHERE for a missing replica."""
        self.sibling: Int = np.arange(capacity, dtype=np.int64)
        """Next row of the same partition; a ring."""
        self.role: Int = np.zeros(capacity, np.int64)
        """Value of `Role`."""
        self.leaving: Bool = np.zeros(capacity, np.bool_)
        """A replica on its way out, or the departing end of a move."""
        self.pinned: Bool = np.zeros(capacity, np.bool_)
        """Its owner forbids moves."""
        self.standby: Bool = np.zeros(capacity, np.bool_)
        """Copy of an earlier replica: it has load and does not move, and a new replica may replace it."""
        self.vacant: Bool = np.zeros(capacity, np.bool_)
        """The place of a standby that was dropped: it has no load."""
        self.moving: Bool = np.zeros(capacity, np.bool_)
        """Departing end of a move in progress: the first to be dropped of surplus replicas."""
        self.still: Bool = np.zeros(capacity, np.bool_)
        """Not ready, so it does not move."""
        self.building: Bool = np.zeros(capacity, np.bool_)
        """In build."""
        self.dropping: Bool = np.zeros(capacity, np.bool_)
        """To be dropped: it leaves, and no plan drops it."""
        self.dropped: Bool = np.zeros(capacity, np.bool_)
        """Being removed, or a place that is kept for one that was: it has no load."""
        self.swaps_out: Bool = np.zeros(capacity, np.bool_)
        """A primary that must hand over its role because its node is about to be upgraded."""
        self.regains: Bool = np.zeros(capacity, np.bool_)
        """A secondary, or a place, that is to have the primary again, because its node has been upgraded."""
        self.kept: Bool = np.zeros(capacity, np.bool_)
        """The place of a replica before the upgrade, to which a missing one is to return."""
        self.marked: Bool = np.zeros(capacity, np.bool_)
        """Marked by an upgrade, or the primary of a partition to which a primary returns: no repair moves it."""
        self.upgrading: Bool = np.zeros(capacity, np.bool_)
        """Of a partition with a replica marked by an upgrade: only the phase of upgrades moves it."""
        self.arriving: Int = np.full(capacity, NOWHERE, np.int64)
        """Row of the departing end while a move of the row is in progress, else NOWHERE; such a row does not move."""
        self.used: Bool = np.zeros(capacity, np.bool_)
        self.service: Int = np.zeros(capacity, np.int64)
        self.created: Float = np.zeros(capacity)
        """Time of the partition, in seconds."""
        self.key = np.zeros(capacity, np.uint64)
        """Key with which the slot samples its traces: `plb.state.role_slots.slot_key`."""
        self.generation: Int = np.zeros(capacity, np.int64)
        """Increases each time the row is reused, so that a new replica is distinguished from the previous one."""
        self.largest_demand: Float = np.zeros((capacity, metrics))
        """(M, R) user units: the largest load reported by the replica so far."""
        self.reported: Bool = np.zeros(capacity, np.bool_)
        """Whether the replica has reported its load."""
        self.samples: Int32 = np.zeros((capacity, metrics, 0), np.int32)
        """(M, R, H) quanta: the newest H reported loads of each row, in a ring; `keep_reports` sets H."""
        self.seen: Int = np.zeros(capacity, np.int64)
        """Number of reports of each row since the number of samples was set."""
        self.past = PastLoads(metrics, capacity)
        """Loads of the recent past; `keep_reports` sets the number of slots."""
        self.changes = ChangedRows()
        """Rows that a report, a description or a move has changed."""
        self._free: list[int] = list(range(capacity - 1, -1, -1))

    @property
    def capacity(self) -> int:
        """Rows that the arrays can hold."""
        return len(self.node)

    def take(self, count: int) -> Int:
        """Take a number of free rows into use and return them, (count,)."""
        taken: list[int] = []
        while len(taken) < count:
            if not self._free:
                self._grow()
            start = max(0, len(self._free) - (count - len(taken)))
            taken += self._free[start:][::-1]
            del self._free[start:]
        rows = np.array(taken, np.int64)
        self.used[rows] = True
        self.generation[rows] += 1
        self.changes.note_many(rows)
        return rows

    def release(self, row: int) -> None:
        """Give a row back: it is free, without load, node, flags and past, and counts as changed."""
        self.load[row] = 0
        self.largest_demand[row] = 0.0
        self.seen[row] = 0
        self.past.forget(row)
        self.node[row] = NOWHERE
        self.arriving[row] = NOWHERE
        self.sibling[row] = row
        for name in FLAGS:
            getattr(self, name)[row] = False
        self._free.append(row)
        self.changes.note((row,))

    def next_entries(self) -> dict[str, Array]:
        """Return copies of the entries, by name of the array, of the row that is taken next."""
        if not self._free:
            self._grow()
        return {name: array[self._free[-1]].copy() for name, array in self._arrays().items()}

    def restore(self, row: int, entries: Mapping[str, Array]) -> None:
        """Give row `row`, which was released, the entries that `next_entries` returned before it was taken."""
        for name, array in self._arrays().items():
            array[row] = entries[name]

    def keep_reports(self, kept: Kept) -> None:
        """Set how many samples and slots of each row are kept; a change of a number forgets what was kept."""
        if kept.samples != self.samples.shape[2]:
            self.samples = np.zeros((self.capacity, self.load.shape[1], kept.samples), np.int32)
            self.seen[:] = 0
        if (kept.slots, kept.slot_minutes) != (self.past.slots, self.past.slot_minutes):
            self.past = PastLoads(self.load.shape[1], self.capacity, kept.slots, kept.slot_minutes)

    def note_samples(self, rows: Int) -> None:
        """Record the present load of each replica of `rows`, (m,), as its newest sample."""
        kept = self.samples.shape[2]
        if kept:
            self.samples[rows, :, self.seen[rows] % kept] = np.minimum(self.load[rows], LARGEST_SAMPLE)
        self.seen[rows] += 1

    def shown(self, rows: Int) -> tuple[Int32, Int]:
        """Return the samples of `rows`, (m, R, H) quanta, the newest first, and the numbers of reports, (m,)."""
        seen, kept = self.seen[rows], self.samples.shape[2]
        newest_first = (seen[:, np.newaxis] - 1 - np.arange(kept)) % max(1, kept)
        return np.take_along_axis(self.samples[rows], newest_first[:, np.newaxis, :], axis=2), seen

    def _grow(self) -> None:
        """Lengthen the arrays by half, when no row is free."""
        old = self.capacity
        added = max(1, old // 2)
        new = old + added
        self.load = np.vstack([self.load[:-1], np.zeros((added + 1, self.load.shape[1]), np.int64)])
        self.node = np.concatenate([self.node, np.full(added, NOWHERE, np.int64)])
        self.arriving = np.concatenate([self.arriving, np.full(added, NOWHERE, np.int64)])
        self.sibling = np.concatenate([self.sibling, np.arange(old, new, dtype=np.int64)])
        for name in (*FLAGS, "role", "service", "created", "key", "generation", "samples", "seen", "largest_demand"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros((added, *array.shape[1:]), array.dtype)]))
        self.past.grow(added)
        self._free = list(range(new - 1, old - 1, -1))

    def _arrays(self) -> dict[str, Array]:
        """Return by name the arrays that a snapshot holds, one entry a row; siblings follow from partitions."""
        arrays = {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}
        del arrays["sibling"]
        return arrays | {"load": self.load[:-1], "past": self.past.values}

    def to_arrays(self) -> dict[str, Array]:
        """Return the table for a snapshot: all rows that were ever used, and the free rows in their order."""
        ever_used = int(np.flatnonzero(self.generation).max(initial=NOWHERE)) + 1
        arrays = {name: array[:ever_used] for name, array in self._arrays().items()}
        arrays |= {"free": np.array(self._free, np.int64), "newest": np.array([self.past.newest])}
        return {f"rows.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], kept: Kept, metrics: int, nodes: int, services: int) -> RowTable:
        """Return the table of `to_arrays`, for numbers of metrics, nodes and services; the caller links siblings."""
        used = read_array(arrays, "rows.used", (None,), np.bool_)
        free = read_array(arrays, "rows.free", (None,), np.int64)
        ever_used, capacity = len(used), int(np.count_nonzero(used)) + len(free)
        if not np.array_equal(np.sort(free), np.append(np.flatnonzero(~used), np.arange(ever_used, capacity))):
            raise InvalidValueError(ITEM, "rows.free", f"{len(free)} rows", "each row that is not in use, once")
        table = cls(metrics, capacity)
        table.keep_reports(kept)
        bounds: dict[str, tuple[int, int | None]] = {
            "node": (NOWHERE, nodes - 1),
            "service": (0, max(0, services - 1)),
            "role": (0, len(Role) - 1),
            "arriving": (NOWHERE, ever_used - 1),
            "past": (MISSING, LARGEST_LEVEL),
            **dict.fromkeys(("load", "samples", "seen", "generation"), (0, None)),
        }
        for name, array in table._arrays().items():
            low, high = bounds.get(name, (None, None))
            shape = (ever_used, *array.shape[1:])
            array[:ever_used] = read_array(arrays, f"rows.{name}", shape, array.dtype, low=low, high=high)
            if name in OUT_OF_USE and (array[:ever_used][~used] != OUT_OF_USE[name]).any():
                allowed = f"{OUT_OF_USE[name]} for rows out of use"
                raise InvalidValueError(ITEM, f"rows.{name}", "a row out of use with one", allowed)
        if not table.used[table.arriving[table.arriving != NOWHERE]].all():
            raise InvalidValueError(ITEM, "rows.arriving", "a row out of use", "rows in use")
        newest = read_array(arrays, "rows.newest", (1,), np.int64, low=NO_SLOT, high=-NO_SLOT)
        table.past.newest, table._free = int(newest[0]), free.tolist()
        return table
