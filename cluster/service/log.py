"""The log: all events of all clusters in one SQLite database, with snapshots that bound a restart.

What `append` has returned for is on the disk. The order of the log is the order in which events take effect.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import msgspec
from msgspec import Struct

from cluster.service.events import LOGGED, SUBJECTS, LoggedEvent, RemoveCluster, named_by
from plb import __version__
from plb.errors import PlbError

logger = logging.getLogger(__name__)

ENTRIES = """
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, cluster TEXT NOT NULL, time REAL NOT NULL, actor TEXT NOT NULL,
    version TEXT NOT NULL, id TEXT, event BLOB NOT NULL, refusal TEXT
);
"""
INDICES = """
CREATE UNIQUE INDEX ids ON entries (cluster, id) WHERE id IS NOT NULL;
CREATE INDEX of_cluster ON entries (cluster, sequence);
CREATE TABLE snapshots (cluster TEXT PRIMARY KEY, sequence INTEGER NOT NULL, engine BLOB NOT NULL, state BLOB NOT NULL);
"""
REMOVALS = "CREATE TABLE removals (cluster TEXT PRIMARY KEY, sequence INTEGER NOT NULL);"
"""The latest removal of each cluster."""
FORMATS = (ENTRIES + INDICES, REMOVALS)
"""What each version of the tables has added, the first version first."""
IS_WHOLE = """
SELECT CASE (SELECT count(*) FROM entries INDEXED BY of_cluster)
  WHEN (SELECT coalesce(max(sequence), 0) FROM entries) THEN 1
  WHEN (SELECT count(*) FROM entries NOT INDEXED) THEN 1
  ELSE 0
END
AND (SELECT count(*) FROM entries INDEXED BY ids WHERE id IS NOT NULL) >= 0
AND (SELECT count(*) FROM snapshots INDEXED BY sqlite_autoindex_snapshots_1)
  = (SELECT count(*) FROM snapshots NOT INDEXED)
AND (SELECT count(*) FROM removals INDEXED BY sqlite_autoindex_removals_1)
  = (SELECT count(*) FROM removals NOT INDEXED)
"""
"""Whether the indices can be read, and miss nothing; entries, of which there may be many, are counted at gaps only."""
REPAIR = f"""
CREATE TEMP TABLE kept AS SELECT * FROM removals NOT INDEXED;
PRAGMA writable_schema = ON;
BEGIN IMMEDIATE;
DELETE FROM sqlite_schema WHERE name <> 'entries';
PRAGMA writable_schema = RESET;
{INDICES} {REMOVALS}
INSERT INTO removals SELECT * FROM kept;
COMMIT;
DROP TABLE temp.kept;
"""
"""Makes all but the entries again; `REINDEX` and `DROP` fail at a damaged page."""
NAME = "plb.sqlite"
"""Name of the database in its directory."""


class LogError(PlbError):
    """The log cannot be read or written."""


@attrs.frozen
class LogEntry:
    """An event in the log."""

    sequence: int
    """Position in the log, over all clusters, so that the positions of one cluster ascend with gaps."""
    cluster: str
    """Name of the cluster."""
    time: float
    """When the service received it, in seconds since 1970."""
    actor: str
    """Who sent it: the name of a token, or the kind of the connection."""
    version: str
    """Version of plb that logged it."""
    event: LoggedEvent
    refusal: str | None = None
    """Why the event changed nothing; None: it took effect, or the service ended before this was written."""


@attrs.frozen
class Saved:
    """The state of a cluster after an entry of the log."""

    sequence: int
    engine: bytes
    """Snapshot of the engine."""
    state: bytes
    """What the service keeps beside it."""


class EntryInBrief(Struct):
    """What a line of the log shows of an entry."""

    sequence: int
    time: float
    """When the service received it, in seconds since 1970."""
    actor: str
    kind: str
    """Kind of the event."""
    item: str
    """Names of the subject of the event; empty: the cluster."""
    refusal: str | None
    """As in `LogEntry`."""


class Log:
    """The log in a directory, which one process at a time may have open."""

    def __init__(self, folder: Path, *, reads_only: bool = False) -> None:
        self.path = folder / NAME
        self._version = __version__
        try:
            with ExitStack() as opened:
                if not reads_only:
                    folder.mkdir(parents=True, exist_ok=True)
                    lock = opened.enter_context(open(folder / "lock", "a+", opener=_open_private))
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.close(_open_private(self.path, os.O_RDWR | os.O_CREAT))  # other files of SQLite have its mode
                address = f"{self.path.absolute().as_uri()}?mode={'ro' if reads_only else 'rwc'}"
                connection = sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
                self._connection = opened.enter_context(closing(connection))
                self._prepare(reads_only)
                self._opened = opened.pop_all()
        except BlockingIOError:
            raise LogError(f"{folder}: another plb serves this directory; stop it, or use another --data") from None
        except (OSError, sqlite3.Error) as error:
            raise LogError(f"{folder}: the log cannot be opened: {error}") from None

    def _prepare(self, reads_only: bool) -> None:
        """Check the format of the database, and unless it is only read, add tables that it lacks."""
        if not reads_only:
            self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        ((log_format,),) = self._connection.execute("PRAGMA user_version").fetchall()
        if not 0 <= log_format <= len(FORMATS):
            raise LogError(f"{self.path}: format {log_format} of the log is not a format up to {len(FORMATS)}")
        if log_format < len(FORMATS) and not reads_only:  # new, or killed while it was made, or of an earlier version
            added = " ".join(FORMATS[log_format:])
            self._connection.executescript(f"BEGIN; {added} PRAGMA user_version = {len(FORMATS)}; COMMIT")
            _sync(self.path.parent)
            log_format = len(FORMATS)
        if log_format == len(FORMATS) and not self._is_whole():
            self._repair(reads_only)

    def _is_whole(self) -> bool:
        """Return whether the indices can be read, and miss nothing."""
        try:
            ((is_whole,),) = self._connection.execute(IS_WHOLE).fetchall()
        except sqlite3.OperationalError:  # locked, or no memory
            raise
        except sqlite3.DatabaseError:
            return False
        return bool(is_whole)

    def _repair(self, reads_only: bool) -> None:
        """Make the indices again from the entries; raise `LogError` if that fails, or the log is only read."""
        if reads_only:
            raise LogError(f"{self.path}: an index is damaged; plb serve makes it again")
        logger.warning("%s: an index is damaged; all are made again, and states from the log", self.path)
        try:
            self._connection.executescript(REPAIR)
        except sqlite3.Error as error:
            raise LogError(f"{self.path}: an index cannot be read, nor made again: {error}") from None

    def close(self) -> None:
        """Close the database and let another process open it."""
        self._opened.close()

    @property
    def last(self) -> int:
        """The sequence number of the last entry; 0: there is none."""
        ((sequence,),) = self._read("SELECT coalesce(max(sequence), 0) FROM entries")
        return int(sequence)

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise LogError(f"{self.path}: the log cannot be read: {error}") from error

    def append(
        self,
        entries: Sequence[tuple[LogEntry, bytes]],
        refusals: Mapping[int, str],
        saved: Mapping[str, Saved],
    ) -> None:
        """Write entries, reasons of refusals by sequence number, and states by cluster, all or none, to the disk.

        Each entry comes with its event in MessagePack. Raise `LogError` if they could not be written;
        the log is as before then.
        """
        states = [(cluster, state.sequence, state.engine, state.state) for cluster, state in saved.items()]
        reasons = [(reason, sequence) for sequence, reason in refusals.items()]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", states)
            for are_removals, group in groupby(entries, lambda item: isinstance(item[0].event, RemoveCluster)):
                self._insert([*group], are_removals)
            self._connection.executemany("UPDATE entries SET refusal = ? WHERE sequence = ?", reasons)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise LogError(f"{self.path}: the log cannot be written: {error}") from error

    def _insert(self, entries: Sequence[tuple[LogEntry, bytes]], are_removals: bool) -> None:
        """Write entries; after removals the ids of earlier events may be used again, and no saved state is there."""
        self._connection.executemany(
            "INSERT INTO entries (sequence, cluster, time, actor, version, id, event) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (entry.sequence, entry.cluster, entry.time, entry.actor, self._version, entry.event.id, data)
                for entry, data in entries
            ],
        )
        for entry, _ in entries if are_removals else ():
            end = (entry.cluster, entry.sequence)
            self._connection.execute(
                "UPDATE entries SET id = NULL WHERE cluster = ? AND id IS NOT NULL AND sequence < ?", end
            )
            self._connection.execute("DELETE FROM snapshots WHERE cluster = ?", end[:1])
            self._connection.execute("INSERT OR REPLACE INTO removals VALUES (?, ?)", end)

    def earlier(self, cluster: str, event_id: str) -> tuple[int, bytes] | None:
        """Return sequence number and event of a cluster's entry with a client's id; None: there is none.

        Ids of a cluster of the same name that was removed are forgotten, except for the id of the removal.
        """
        rows = self._read("SELECT sequence, event FROM entries WHERE cluster = ? AND id = ?", cluster, event_id)
        return rows[0] if rows else None

    def refusal(self, sequence: int) -> str | None:
        """Return why the event of an entry changed nothing; None: it took effect, or it is not written yet."""
        rows = self._read("SELECT refusal FROM entries WHERE sequence = ?", sequence)
        return rows[0][0] if rows else None

    def clusters(self) -> list[str]:
        """Return the names of all clusters with entries in the log, in order, removed clusters included."""
        return [name for (name,) in self._read("SELECT DISTINCT cluster FROM entries ORDER BY cluster")]

    def removed(self, cluster: str) -> int:
        """Return the sequence number of the latest removal of a cluster of this name; 0: none was removed."""
        rows = self._read("SELECT sequence FROM removals WHERE cluster = ?", cluster)
        return int(rows[0][0]) if rows else 0

    def saved(self, cluster: str) -> Saved | None:
        """Return the latest saved state of a cluster; None: there is none."""
        rows = self._read("SELECT sequence, engine, state FROM snapshots WHERE cluster = ?", cluster)
        return Saved(*rows[0]) if rows else None

    def entries(self, cluster: str, after: int = 0, *, most: int | None = None) -> Iterator[LogEntry]:
        """Return the entries of a cluster with sequence numbers above `after`, in order, at most `most` of them."""
        query = (
            "SELECT sequence, cluster, time, actor, version, event, refusal FROM entries"
            " WHERE cluster = ? AND sequence > ? ORDER BY sequence LIMIT ?"
        )
        sequence = after
        try:
            rows = self._connection.execute(query, (cluster, after, -1 if most is None else most))
            for sequence, name, time, actor, logged_by, event, refusal in rows:
                yield LogEntry(sequence, name, time, actor, logged_by, self.event(sequence, event), refusal)
        except sqlite3.Error as error:
            raise LogError(f"{self.path}: entries after {sequence} cannot be read: {error}") from error

    def event(self, sequence: int, data: bytes) -> LoggedEvent:
        """Return the event of an entry from its MessagePack."""
        try:
            event: LoggedEvent = LOGGED.decode(data)
        except (msgspec.MsgspecError, PlbError) as error:
            raise LogError(f"{self.path}: entry {sequence} cannot be read: {error}") from None
        return event

    def latest(self, cluster: str, before: int | None = None, *, most: int = 30) -> list[EntryInBrief]:
        """Return the latest entries of a cluster in brief, with sequence numbers below `before`, the latest first.

        It uses a connection of its own, so that any thread may call it.
        """
        query = (
            "SELECT sequence, time, actor, event, refusal FROM entries"
            " WHERE cluster = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?"
        )
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                rows = connection.execute(query, (cluster, 2**63 - 1 if before is None else before, most)).fetchall()
            return [
                EntryInBrief(sequence, time, actor, *_heading(event), refusal)
                for sequence, time, actor, event, refusal in rows
            ]
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise LogError(f"{self.path}: the log cannot be read: {error}") from None


def _heading(data: bytes) -> tuple[str, str]:
    """Return the kind of an event, and the names of its subject; the rest of the event is skipped."""
    fields = msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])
    kind, *items = (msgspec.msgpack.decode(fields[name]) for name in ("type", *SUBJECTS) if name in fields)
    return kind, named_by(items)


def _open_private(path: str | Path, flags: int) -> int:
    """Open a file, which only this user may read if it is new."""
    return os.open(path, flags, 0o600)


def _sync(folder: Path) -> None:
    """Write the names in a directory to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
