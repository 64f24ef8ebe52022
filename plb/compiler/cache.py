"""Machine code on disk: one file for each entry, with a key of everything from which the code is made.

Files are written whole and then renamed, and have a checksum, so that a reader finds a valid entry or none: processes
that write the same entry at once, a full disk and a damaged file do no harm.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has none; processes there may compile the same kernel twice
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("plb")

SUFFIX = ".kernel"
FORMAT = b"plb kernel 1\n"
"""What an entry begins with; its checksum follows."""
UNUSED_DAYS = 90.0
"""Days without use after which an entry is removed when another one is written."""
PATIENCE_SECONDS = 30.0
"""Seconds of waiting for another process after which a message is logged."""
_CHECKSUM = hashlib.sha256().digest_size


class KernelCache:
    """The entries of one directory, which may be read-only; None keeps nothing."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._can_write = directory is not None
        self._is_swept = False
        self._locks: int | None = None

    def load(self, name: str, key: str) -> bytes | None:
        """Return the data of a kernel `name` under `key`, which now counts as used; None without a whole file."""
        if self.directory is None:
            return None
        path = self._path(name, key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        checksum, data = content[len(FORMAT) : len(FORMAT) + _CHECKSUM], content[len(FORMAT) + _CHECKSUM :]
        if not content.startswith(FORMAT) or hashlib.sha256(data).digest() != checksum:
            logger.info("%s is damaged and is made again", path)
            return None
        with suppress(OSError):  # for example in a read-only directory
            os.utime(path)
        return data

    def store(self, name: str, key: str, data: bytes) -> None:
        """Write the `data` of a kernel `name` under `key`; if that is impossible, log it once in this process."""
        if self.directory is None or not self._can_write:
            return
        try:
            if not self._is_swept:
                self._is_swept = True
                self._remove_unused()
            self._write(self._path(name, key), FORMAT + hashlib.sha256(data).digest() + data)
        except OSError as error:
            self._can_write = False
            logger.warning(
                "Compiled kernels cannot be kept in %s (%s); each new process compiles them again. "
                "Set PLB_CACHE_DIR to a directory with free space.",
                self.directory,
                error.strerror or error,
            )

    @contextmanager
    def alone(self, name: str, key: str) -> Iterator[None]:
        """Wait until no other process makes the entry of a key, and keep others from making it meanwhile.

        If files cannot be locked there is no wait: two processes may then make the same entry.
        """
        place = int(key[:12], 16)
        file = self._lock_file()
        locked = False
        if file is not None:
            with suppress(OSError):
                self._lock(file, name, place)
                locked = True
        try:
            yield
        finally:
            if file is not None and locked:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    def _lock(self, file: int, name: str, place: int) -> None:
        """Lock the byte `place` of the open `file`, which stands for the kernel `name` and its key; log a long wait."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return
            except BlockingIOError:
                time.sleep(0.02)
        logger.warning("Still waiting for another process that compiles %s.", name)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)

    def _lock_file(self) -> int | None:
        """Return the file whose bytes are the locks of keys; it stays open, because closing it releases every lock."""
        if self._locks is None and self._can_write and self.directory is not None and fcntl is not None:
            with suppress(OSError):
                self.directory.mkdir(parents=True, exist_ok=True)
                self._locks = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        return self._locks

    def _path(self, name: str, key: str) -> Path:
        """Return the file of a kernel: the key identifies it, and `name` tells people which kernel it is."""
        assert self.directory is not None
        readable = re.sub(r"[^A-Za-z0-9_.]", "_", name)[-80:]
        return self.directory / f"{readable}-{key[:32]}{SUFFIX}"

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file in one step, so that other processes never read a part of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # hosts that share a directory may give two processes one number
        partial = path.with_name(f"{path.stem}-{os.getpid()}-{os.urandom(4).hex()}.part")
        try:
            partial.write_bytes(content)
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise

    def _remove_unused(self) -> None:
        """Remove entries that nobody has read for long, and what processes that were killed left behind."""
        assert self.directory is not None
        before = time.time() - UNUSED_DAYS * 86_400.0
        for pattern in (f"*{SUFFIX}", "*.part"):
            for path in self.directory.glob(pattern):
                with suppress(OSError):
                    if path.stat().st_mtime < before:
                        path.unlink()


def cache_directory() -> Path | None:
    """Return where machine code is kept: ``PLB_CACHE_DIR``, or below the user's cache; None where there is no home."""
    chosen = os.environ.get("PLB_CACHE_DIR") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "plb")
    try:
        return Path(chosen).expanduser().absolute()  # the process may change its directory
    except RuntimeError:  # there is no home
        return None


@cache
def kernel_cache() -> KernelCache:
    """Return the cache of this process."""
    return KernelCache(cache_directory())
