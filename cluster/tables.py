"""Consoles that print names unchanged, and tables with readable cells on narrow terminals."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

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

    def _measured(self, printable: Any) -> Measurement:
        """Return the least and the largest width of something to print."""
        return self.measure(printable, options=self.options.update(max_width=WIDEST))

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
        widths = [max(self._of_cells(column), self._measured(column.header).maximum) for column in table.columns]
        least_widths = [self._least(column) for column in table.columns]
        narrowed = shrunk(widths, least_widths, self._measured(table).maximum - self.width)
        fitted = copy.copy(table)
        fitted.columns = [
            replace(column, width=width, no_wrap=False, overflow="fold")
            for column, width in zip(table.columns, narrowed, strict=True)
        ]
        return fitted

    def _least(self, column: Column) -> int:
        """Return the width below which a column cannot be read: a word of its heading, a name, a figure."""
        cells = self._of_cells(column)
        is_text = not column.no_wrap and column.justify != "right"
        return max(self._measured(column.header).minimum, min(cells, NARROWEST_TEXT) if is_text else cells)

    def _of_cells(self, column: Column) -> int:
        """Return the largest width of the cells of a column; 0 without any."""
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
        wide_columns = [column for column, width in enumerate(shrunken) if width > least[column]]
        if not wide_columns:
            break
        shrunken[max(wide_columns, key=lambda column: shrunken[column])] -= 1
    return shrunken
