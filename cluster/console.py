"""What the commands share: clear errors, and where things are printed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

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
    """Let a command end with a message, not with a traceback, on a `PlbError` or a file that cannot be used."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        from plb.errors import PlbError

        try:
            return command(*args, **kwargs)
        except PlbError as error:
            typer.secho(f"plb: {error}", err=True, fg=typer.colors.RED)
            raise typer.Exit(BAD_INPUT) from None
        except OSError as error:
            # Polars names the file in the text alone
            what = error if error.filename is None else f"{error.filename}: {error.strerror}"
            typer.secho(f"plb: {what}", err=True, fg=typer.colors.RED)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            typer.secho("plb: interrupted", err=True, fg=typer.colors.RED)
            raise typer.Exit(INTERRUPTED) from None

    return wrapped


def output(*, quiet: bool = False) -> Console:
    """Return the console for tables on standard output; wide where that is no terminal."""
    from rich.console import Console

    console = Console(quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_OF_FILES)
    return console
