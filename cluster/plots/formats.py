"""Formats of the files of plots, and what figures for papers look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any


class PlotFormat(StrEnum):
    """Format of a file with a plot: PNG for screens, PDF and SVG at the width of the columns of a paper."""

    PNG = "png"
    PDF = "pdf"
    SVG = "svg"


DATES: Mapping[PlotFormat, str] = {PlotFormat.PNG: "Software", PlotFormat.PDF: "CreationDate", PlotFormat.SVG: "Date"}
"""What Matplotlib writes into a file that depends on the time or the version."""
COLUMN_INCHES, PAGE_INCHES = 3.33, 7.0
"""Widths of a column and of a page of a paper."""
WIDEST_IN_COLUMN = 9.0
"""Largest width of a figure on a screen, in inches, that has the width of a column in a paper."""
OF_PAPERS: Mapping[str, Any] = {
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "figure.titlesize": 8.0,
    "axes.linewidth": 0.6,
    "legend.fontsize": 6.5,
    "pdf.fonttype": 42,  # publishers refuse the default, Type 3
    "svg.hashsalt": "plb",
}
"""Settings of Matplotlib for papers."""
_FORMAT: ContextVar[PlotFormat] = ContextVar("format of plots", default=PlotFormat.PNG)


@contextmanager
def plots_as(plot_format: PlotFormat) -> Iterator[None]:
    """Draw and write all figures of the block in a format."""
    from matplotlib import rc_context

    settings: Any = {} if plot_format is PlotFormat.PNG else dict(OF_PAPERS)
    token = _FORMAT.set(plot_format)
    try:
        with rc_context(settings):
            yield
    finally:
        _FORMAT.reset(token)


def current_format() -> PlotFormat:
    """Return the format of figures in the present block of `plots_as`."""
    return _FORMAT.get()


def size_of(width: float, height: float) -> tuple[float, float]:
    """Return the size of a figure in inches: as given for a screen, narrower and as much lower for a paper."""
    if current_format() is PlotFormat.PNG:
        return width, height
    paper_width = COLUMN_INCHES if width <= WIDEST_IN_COLUMN else PAGE_INCHES
    return paper_width, height * paper_width / width
