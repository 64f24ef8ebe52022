"""The journal of a sweep: what its tasks returned, and by which code.

A finished run is identified by its key, which depends on all inputs, and by the code that made it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from plb.errors import PlbError

CHECK = "check"
"""Field of a line of a journal with its checksum, besides the fields of `TaskOutcome`."""
UNKNOWN = "unknown"
"""In place of the digest of the code that did not record it."""


@attrs.frozen
class TaskOutcome:
    """The outcome of a task.

    Parameters
    ----------
    key
        Key of the task.
    values
        What the function returned; None where it failed.
    seconds
        CPU seconds of the run.
    error, kind
        The traceback and the name of the exception's class, where it failed.
    code
        Digest of the code that made it, see `cluster.runs.code_digest`. None: that was not recorded.
    """

    key: str
    values: Mapping[str, Any] | None
    seconds: float
    error: str | None = None
    kind: str | None = None
    code: str | None = None

    @property
    def last_line(self) -> str:
        """The last line of the traceback, which has the error."""
        return (self.error or "").strip().splitlines()[-1] if self.error else ""


class Journal:
    """The outcomes of the finished tasks of a sweep, one in each line of a file, in the order in which they came.

    Use it as a context: no two processes write one journal at the same time.

    Parameters
    ----------
    path
        The file; made where it is missing. A line that was cut off when the sweep was killed is removed.
    code
        Digest of the code whose outcomes count: `cluster.runs.code_digest.code_of` the function of the tasks.
    any_code
        True: the outcomes of other code count, too, unless this code has made the same task.

    Attributes
    ----------
    finished
        The outcomes that count, by key.
    of_other_code
        Those that do not count, by the keys of tasks that are not finished; the newest of each.

    Raises
    ------
    PlbError
        If another process writes it, or it has other contents.
    """

    def __init__(self, path: Path, code: str, *, any_code: bool = False) -> None:
        self._path, self._code = path, code
        self.finished: dict[str, TaskOutcome] = {}
        self.of_other_code: dict[str, TaskOutcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        try:
            self._lock()
            self._read()
            if any_code:
                self.finished, self.of_other_code = {**self.of_other_code, **self.finished}, {}
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
        content = json.loads(json.dumps(attrs.asdict(outcome), allow_nan=False))
        line = json.dumps({**content, CHECK: _digest(content)}, sort_keys=True) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        self._finish(outcome)

    def _finish(self, outcome: TaskOutcome) -> None:
        self.finished[outcome.key] = outcome
        self.of_other_code.pop(outcome.key, None)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlbError(f"{self._path}: another process runs this sweep; give another directory") from None

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._file.truncate(whole)
                return
            self._remember(number, line)
            whole += len(line)

    def _remember(self, number: int, line: bytes) -> None:
        content = _plain(line)
        if content is None or content.pop(CHECK, None) != _digest(content):
            raise PlbError(f"{self._path}, line {number}: is not an outcome of a run, or damaged; remove the file")
        outcome = TaskOutcome(**content)
        if outcome.code == self._code:
            self._finish(outcome)
        elif outcome.key not in self.finished:
            self.of_other_code[outcome.key] = outcome


def _plain(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line of JSON; None without one."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _digest(content: Mapping[str, Any]) -> str:
    """Return the checksum of a line of a journal, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def of_other_code(outcomes: Iterable[TaskOutcome], code: str) -> dict[str, int]:
    """Return how many of these outcomes were made by other code than this, by its digest; without failures."""
    others = (one.code or UNKNOWN for one in outcomes if one.code != code and one.error is None)
    return dict(sorted(Counter(others).items()))
