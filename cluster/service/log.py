"""The log: all events of all clusters in one SQLite database, with snapshots that bound a restart.

What `append` has returned for is on the disk. The order of the log is the order in which events take effect.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import IO

import attrs
import msgspec
from msgspec import Struct

from cluster.service.events import LOGGED, LoggedEvent
from plb.errors import PlbError

FORMAT = 1
"""Version of the tables."""
TABLES = """
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, cluster TEXT NOT NULL, time REAL NOT NULL, actor TEXT NOT NULL,
    version TEXT NOT NULL, id TEXT, event BLOB NOT NULL, refusal TEXT
);
CREATE UNIQUE INDEX ids ON entries (cluster, id) WHERE id IS NOT NULL;
CREATE INDEX of_cluster ON entries (cluster, sequence);
CREATE TABLE snapshots (cluster TEXT PRIMARY KEY, sequence INTEGER NOT NULL, engine BLOB NOT NULL, state BLOB NOT NULL);
"""
NAME = "plb.sqlite"
"""Name of the database in its directory."""


class LogError(PlbError):
    """The log cannot be read or written."""


@attrs.frozen
class LogEntry:
    """An event in the log."""

    sequence: int
    """Position in the log; entries of a cluster have ascending ones, not all."""
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


class Named(Struct):
    """What a line of the log shows of an object of the model."""

    name: str = ""


class Heading(Struct):
    """What a line of the log shows of an event; the rest of the event is skipped."""

    type: str
    name: str = ""
    plan: str = ""
    node: Named | str = ""
    service: Named | str = ""
    partition: Named | str = ""
    application: Named | str = ""

    @property
    def item(self) -> str:
        """Name of what the event is about; empty: the cluster."""
        fields = (self.name, self.plan, self.partition, self.node, self.service, self.application)
        names = (field.name if isinstance(field, Named) else field for field in fields)
        return next(filter(None, names), "")


HEADING = msgspec.msgpack.Decoder(Heading)


class EntryInBrief(Struct):
    """An entry in brief."""

    sequence: int
    time: float
    """When the service received it, in seconds since 1970."""
    actor: str
    heading: Heading
    refusal: str | None
    """As of an `LogEntry`."""


class Log:
    """The log in a directory, which one process at a time may have open."""

    def __init__(self, folder: Path, *, reads_only: bool = False) -> None:
        self.path = folder / NAME
        self._lock: IO[str] | None = None
        self._version = version("plb")
        try:
            if reads_only:
                self._open(f"{self.path.absolute().as_uri()}?mode=ro")
                return
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / "lock", "a+")  # noqa: SIM115 (open as long as the log)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._open(f"{self.path.absolute().as_uri()}?mode=rwc")
            if not self._connection.execute("PRAGMA user_version").fetchone()[0]:  # new, or killed while it was made
                self._connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT")
                _sync(folder)
        except BlockingIOError:
            raise LogError(f"{folder}: another plb serves this directory; stop it, or use another --data") from None
        except (OSError, sqlite3.Error) as error:
            raise LogError(f"{folder}: the log cannot be opened: {error}") from None

    def _open(self, address: str) -> None:
        """Connect to the database, and check its format."""
        self._connection = sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL") if "mode=rwc" in address else None
        self._connection.execute("PRAGMA synchronous = FULL")
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            raise LogError(f"{self.path}: format {found} of the log is not the format {FORMAT} of this version")

    def close(self) -> None:
        """Close the database and let another process open it."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    @property
    def last(self) -> int:
        """The sequence number of the last entry; 0: there is none."""
        (sequence,) = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM entries").fetchone()
        return int(sequence)

    def append(
        self,
        entries: Sequence[tuple[LogEntry, bytes]],
        refusals: Iterable[tuple[str, int]],
        saved: Iterable[tuple[str, Saved]],
    ) -> None:
        """Write entries, reasons of refusals by sequence number, and states by cluster, all or none, to the disk.

        Each entry comes with its event as `packed` has returned it.

        Raises
        ------
        LogError
            If they could not be written; the log is as before then.
        """
        rows = [
            (entry.sequence, entry.cluster, entry.time, entry.actor, self._version, entry.event.id, data)
            for entry, data in entries
        ]
        states = [(cluster, state.sequence, state.engine, state.state) for cluster, state in saved]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO entries (sequence, cluster, time, actor, version, id, event) VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._connection.executemany("UPDATE entries SET refusal = ? WHERE sequence = ?", refusals)
            self._connection.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", states)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise LogError(f"{self.path}: the log cannot be written: {error}") from error

    def earlier(self, cluster: str, event_id: str) -> tuple[int, str | None] | None:
        """Return sequence number and refusal of the event of a cluster with a client's id; None: there is none."""
        query = "SELECT sequence, refusal FROM entries WHERE cluster = ? AND id = ?"
        try:
            row = self._connection.execute(query, (cluster, event_id)).fetchone()
        except sqlite3.Error as error:
            raise LogError(f"{self.path}: the log cannot be read: {error}") from error
        return None if row is None else (int(row[0]), row[1])

    def clusters(self) -> list[str]:
        """Return the names of all clusters that the log has entries of, in order."""
        rows = self._connection.execute("SELECT DISTINCT cluster FROM entries ORDER BY cluster").fetchall()
        return [name for (name,) in rows]

    def saved(self, cluster: str) -> Saved | None:
        """Return the latest saved state of a cluster; None: there is none."""
        query = "SELECT sequence, engine, state FROM snapshots WHERE cluster = ?"
        row = self._connection.execute(query, (cluster,)).fetchone()
        return None if row is None else Saved(*row)

    def entries(self, cluster: str, after: int = 0, *, most: int | None = None) -> Iterator[LogEntry]:
        """Return the entries of a cluster with sequence numbers above `after`, in order, at most `most` of them."""
        query = (
            "SELECT sequence, cluster, time, actor, version, event, refusal FROM entries"
            " WHERE cluster = ? AND sequence > ? ORDER BY sequence LIMIT ?"
        )
        rows = self._connection.execute(query, (cluster, after, -1 if most is None else most))
        for sequence, name, time, actor, logged_by, event, refusal in rows:
            try:
                yield LogEntry(sequence, name, time, actor, logged_by, LOGGED.decode(event), refusal)
            except (msgspec.MsgspecError, PlbError) as error:
                raise LogError(f"{self.path}: entry {sequence} cannot be read: {error}") from None

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
                EntryInBrief(sequence, time, actor, HEADING.decode(event), refusal)
                for sequence, time, actor, event, refusal in rows
            ]
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise LogError(f"{self.path}: the log cannot be read: {error}") from None


def _sync(folder: Path) -> None:
    """Write the names in a directory to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
