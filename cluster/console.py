"""Consoles of commands: errors without a traceback, progress, and tables with readable cells on narrow terminals."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
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
    """End a command with a message instead of a traceback on a `PlbError`, an unusable file or Ctrl-C."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return _without_traceback(command, *args, **kwargs)
        except KeyboardInterrupt as interrupt:
            say("; ".join(["interrupted", *map(str, interrupt.args)]))
            raise typer.Exit(INTERRUPTED) from None

    return wrapped


def _without_traceback(command: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    from plb.errors import PlbError

    try:
        return command(*args, **kwargs)
    except PlbError as error:
        say(str(error))
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
    console = FittingConsole(quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_OF_FILES)
    return console


def messages(*, quiet: bool = False) -> Console:
    """Return the console for progress on standard error; it prints text, as `output` does."""
    return FittingConsole(stderr=True, quiet=quiet)


def progress(*columns: ProgressColumn, quiet: bool = False, **options: Any) -> Progress:
    """Return a progress bar on standard error: description, bar, then `columns`; `options` as of `Progress`."""
    from rich.progress import BarColumn, Progress, TextColumn

    first = TextColumn("{task.description}", markup=False), BarColumn()
    return Progress(*first, *columns, console=messages(), disable=quiet, **options)


WIDEST = 10_000
"""Width of a terminal in which every table has its full width."""
NARROWEST_TEXT = 20
"""Least width of columns with long texts."""


class FittingConsole(Console):
    """A console that reads no markup, and narrows tables without cutting anything off.

    A table that does not fit gets headings of several lines, and its texts are folded; names and figures stay in one
    line. If that is not enough, the space at the rules is removed, and if that is not enough either, the table is
    printed too wide, and the terminal wraps its lines.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print with tables that fit."""
        width = self.width
        fitted = [self._fitted(item) if isinstance(item, Table) else item for item in objects]
        try:
            self.width = max([width, *(self._measured(item).maximum for item in fitted if isinstance(item, Table))])
            super().print(*fitted, **options)
        finally:
            self.width = width

    def _measured(self, what: Any) -> Measurement:
        return self.measure(what, options=self.options.update(max_width=WIDEST))

    def _fitted(self, table: Table) -> Table:
        """Return a table that is no wider than the console, if possible."""
        if self._measured(table).maximum <= self.width:
            return table
        fitted = self._filtered(table)
        if self._measured(fitted).maximum > self.width:
            table = copy.copy(table)
            table.padding = 0
            fitted = self._filtered(table)
        return fitted

    def _filtered(self, table: Table) -> Table:
        """Return a table whose columns are narrowed, the widest first, until it fits."""
        own = [max(self._of_cells(column), self._measured(column.header).maximum) for column in table.columns]
        least = [self._least(column) for column in table.columns]
        widths = shrunk(own, least, self._measured(table).maximum - self.width)
        fitted = copy.copy(table)
        fitted.columns = [
            replace(column, width=width, no_wrap=False, overflow="fold")
            for column, width in zip(table.columns, widths, strict=True)
        ]
        return fitted

    def _least(self, column: Column) -> int:
        """Return the width below which a column cannot be read: a word of its heading, a name, a figure."""
        cells = self._of_cells(column)
        is_text = not column.no_wrap and column.justify != "right"
        return max(self._measured(column.header).minimum, min(cells, NARROWEST_TEXT) if is_text else cells)

    def _of_cells(self, column: Column) -> int:
        return max((self._measured(cell).maximum for cell in column.cells), default=0)


def new_table(
    headings: Iterable[str],
    title: str | None = None,
    caption: str | Text | None = None,
    *,
    texts: int = 1,
    no_wrap: bool = False,
    **options: Any,
) -> Table:
    """Return a table without rows, with texts in the first `texts` columns, and figures on the right of the others."""
    columns = (
        Column(heading, justify="right" if number >= texts else "left", no_wrap=no_wrap)
        for number, heading in enumerate(headings)
    )
    return Table(*columns, title=title, caption=caption, **options)


def shrunk(widths: Sequence[int], least: Sequence[int], excess: int) -> list[int]:
    """Return widths of columns reduced by `excess` in total, the widest first, but none below its least width."""
    shrunken = list(widths)
    for _ in range(excess):
        can_give = [place for place, width in enumerate(shrunken) if width > least[place]]
        if not can_give:
            break
        shrunken[max(can_give, key=lambda place: shrunken[place])] -= 1
    return shrunken
