"""The journal of a sweep: what its tasks returned, and by which code.

A finished run is identified by its key, which depends on all inputs, and by the code that made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from plb.errors import PlbError

CHECK = "check"
"""Field of a line of a journal with its checksum, besides the fields of `TaskOutcome`."""


@attrs.frozen
class TaskOutcome:
    """The outcome of a task."""

    key: str
    """Key of the task."""
    values: Mapping[str, Any] | None
    """What the function returned; None where it failed."""
    seconds: float
    """CPU seconds of the run."""
    error: str | None = None
    """The traceback, where it failed."""
    kind: str | None = None
    """The name of the exception's class, where it failed."""
    code: str | None = None
    """Digest of the code that made it, see `cluster.runs.code_digest`. None: it was not recorded."""

    @property
    def last_line(self) -> str:
        """The last line of the traceback, which has the error."""
        return (self.error or "").strip().splitlines()[-1] if self.error else ""


class Journal:
    """The outcomes of the finished tasks of a sweep, one in each line of a file, in the order in which they came.

    Use it as a context: if another process writes the file, or it has other contents, it raises `PlbError`. A line that
    was cut off when the sweep was killed is removed. Outcomes count if the code with the digest `code` made them.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path, self.code = path, code
        self.finished: dict[str, TaskOutcome] = {}
        """The outcomes that count, by key."""
        self.of_other_code: set[str] = set()
        """Keys of tasks that only other code has finished."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        """Return the journal."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the journal."""
        with suppress(OSError):  # a line that could not be written, which `add` has reported
            self._file.close()

    def add(self, outcome: TaskOutcome) -> None:
        """Store an outcome; a failure is not stored, so that it is tried again."""
        if outcome.error is not None:
            return
        outcome = attrs.evolve(outcome, code=self.code)
        content = json.loads(json.dumps(attrs.asdict(outcome), allow_nan=False))
        line = json.dumps({**content, CHECK: _digest(content)}, sort_keys=True) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        self._finish(outcome)

    def _finish(self, outcome: TaskOutcome) -> None:
        """Count an outcome as the result of its task."""
        self.finished[outcome.key] = outcome
        self.of_other_code.discard(outcome.key)

    def _lock(self) -> None:
        """Raise `PlbError` if another process writes the file."""
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlbError(f"{self._path}: another process runs this sweep; give another directory") from None

    def _read(self) -> None:
        """Read all whole lines of the file, and remove a last line that was cut off."""
        self._file.seek(0)
        bytes_read = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._file.truncate(bytes_read)
                return
            self._remember(number, line)
            bytes_read += len(line)

    def _remember(self, number: int, line: bytes) -> None:
        """Take the outcome of line `number` of the file; raise `PlbError` if the line is damaged."""
        content = _plain(line)
        if content is None or content.pop(CHECK, None) != _digest(content):
            raise PlbError(f"{self._path}, line {number}: is not an outcome of a run, or damaged; remove the file")
        outcome = TaskOutcome(**content)
        if outcome.code == self.code:
            self._finish(outcome)
        elif outcome.key not in self.finished:
            self.of_other_code.add(outcome.key)


def _plain(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line; None if the line is no object."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _digest(content: Mapping[str, Any]) -> str:
    """Return the checksum of the content of a line of a journal, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
