"""Writes files in one piece: readers find the former file or the new one, and errors name the file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from errno import EIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import polars as pl

_NUMBER = re.compile(r"\(os error (\d+)\)")
"""The number of a system error in a message of the libraries of Polars."""


STANDARD_OUTPUT = Path("-")
"""The name of a file that stands for standard output, in a block of `standard_output_for_files`."""
_standard_output: ContextVar[TextIO | None] = ContextVar("_standard_output", default=None)


@contextmanager
def standard_output_for_files() -> Iterator[None]:
    """Write the file `STANDARD_OUTPUT` to standard output, and print to standard error."""
    former = _standard_output.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _standard_output.reset(former)


@contextmanager
def in_one_piece(path: str | Path) -> Iterator[Path]:
    """Yield the name of a temporary file, which replaces the file `path` at the end; a missing directory is created.

    After an error, the temporary file is removed. Devices and pipes are written directly, and a link keeps
    its target. Any `OSError` names the file, whichever library wrote.
    """
    file, stream = Path(path), _standard_output.get()
    if stream is not None and file == STANDARD_OUTPUT:
        with TemporaryDirectory(prefix="plb-") as folder:
            yield Path(folder) / "file"
            stream.buffer.write((Path(folder) / "file").read_bytes())
            stream.flush()
        return
    try:
        file = file.resolve() if file.is_symlink() else file
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file() and not file.is_dir():
            yield file
            return
        partial = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            yield partial
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise _system_error(error, file) from None
    except pl.exceptions.ComputeError as error:  # Polars raises this also for a full disk
        if _NUMBER.search(str(error)) is None:
            raise
        raise _system_error(error, file) from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the name of the file to system errors without one, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise _system_error(error, Path(path)) from None


def write_parquet(frame: pl.DataFrame, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a table as a Parquet file, in one piece."""
    with in_one_piece(path) as partial:
        frame.write_parquet(partial, metadata=None if metadata is None else dict(metadata))


def write_csv(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as a CSV file, in one piece."""
    with in_one_piece(path) as partial:
        frame.write_csv(partial)


def _system_error(error: Exception, path: Path) -> OSError:
    """Return the system error that an error of a library reports, with the name of the file."""
    match = _NUMBER.search(str(error))
    errno = getattr(error, "errno", None) or (int(match[1]) if match else EIO)
    filename = getattr(error, "filename", None) or path
    filename = path if str(filename).endswith(".part") else filename
    return OSError(errno, os.strerror(errno), str(filename))
