"""What commands share: errors without a traceback, and the consoles for results and for progress."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

P = ParamSpec("P")
T = TypeVar("T")

FAILED = 1
"""Exit code where a part of the work failed."""
BAD_INPUT = 2
"""Exit code for bad input."""
INTERRUPTED = 130
"""Exit code after Ctrl-C."""
WIDTH_OF_FILES = 120
"""Columns of a table that is not printed on a terminal."""


def clear_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Return a command that ends with a message in place of a traceback.

    This is for `PlbError`, a missing extra, an unusable file, or Ctrl-C. If a file is called ``-``, it is written to
    standard output, and all else to standard error.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with _standard_output_for(kwargs.values()):
                return _without_traceback(command, *args, **kwargs)
        except KeyboardInterrupt as interrupt:
            say("; ".join(["interrupted", *map(str, interrupt.args)]))
            raise typer.Exit(INTERRUPTED) from None

    return wrapped


def _standard_output_for(values: Iterable[object]) -> AbstractContextManager[None]:
    """Return a context in which standard output is for the file that is called ``-``, if the options have one."""
    if Path("-") not in values:
        return nullcontext()
    from workloads.writing import standard_output_for_files

    return standard_output_for_files()


def _without_traceback(command: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a command, or end with a message and an exit code."""
    from plb.errors import MissingExtraError, PlbError, extra_of

    try:
        return command(*args, **kwargs)
    except PlbError as error:
        say(str(error))
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        say(str(MissingExtraError(error.name or "", extra)))
    except BrokenPipeError:  # the reader has closed the pipe; no message
        raise
    except OSError as error:
        # Polars has the file in the text only
        say(str(error) if error.filename is None else f"{error.filename}: {error.strerror}")
    raise typer.Exit(BAD_INPUT)


def say(message: str) -> None:
    """Print an error on standard error."""
    typer.secho(f"plb: {message}", err=True, fg=typer.colors.RED)


def output(*, quiet: bool = False) -> Console:
    """Return the console for plain text and tables on standard output; it is wide without a terminal."""
    from cluster.tables import FittingConsole

    console = FittingConsole(quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_OF_FILES)
    return console


def messages(*, quiet: bool = False) -> Console:
    """Return the console for progress on standard error; it prints text, as `output` does."""
    from cluster.tables import FittingConsole

    return FittingConsole(stderr=True, quiet=quiet)


def progress(*columns: ProgressColumn, quiet: bool = False, **options: Any) -> Progress:
    """Return a progress bar on standard error: description, bar, then `columns`; `options` as in `Progress`."""
    from rich.progress import BarColumn, Progress, TextColumn

    first_columns = TextColumn("{task.description}", markup=False), BarColumn()
    return Progress(*first_columns, *columns, console=messages(), disable=quiet, **options)
