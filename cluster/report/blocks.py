"""The blocks of a report's sections: text, tables and pictures, and how they write times and amounts.

A picture is part of the page itself, and the same on every machine.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
import polars as pl

from cluster.plots.base import new_axes
from cluster.results.reading import Results
from cluster.results.summary_tables import Comparison, compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@attrs.frozen
class Text:
    """A paragraph."""

    text: str
    """The text of the paragraph."""


@attrs.frozen
class PageTable:
    """A table; its first columns are aligned to the left, the others to the right."""

    caption: str
    """What the table shows."""
    headings: tuple[str, ...]
    """Headings of the columns."""
    rows: tuple[tuple[str, ...], ...]
    """The cells of each row, as text."""
    left: int = 1
    """Number of text columns at the left."""


@attrs.frozen
class Picture:
    """A picture."""

    source: str
    """The image, as a ``data:`` address."""
    caption: str
    """The caption."""
    alternative: str
    """The alternative text."""
    width: int
    """Width in pixels; the page makes the picture smaller if necessary."""
    height: int
    """Height in pixels."""


@attrs.frozen
class Gallery:
    """Images in a row, if they fit."""

    pictures: tuple[Picture, ...]
    """The images, from left to right."""


@attrs.frozen
class Tables:
    """Tables in a row, if they fit."""

    tables: tuple[PageTable, ...]
    """The tables, from left to right."""


Block = Text | PageTable | Tables | Gallery


@attrs.frozen
class PageSection:
    """A section of a report."""

    key: str
    """Its anchor in the page."""
    heading: str
    """Its heading."""
    blocks: tuple[Block, ...]
    """Its contents."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the classes of the blocks, by which the page chooses how to show them."""
        return tuple(type(block).__name__ for block in self.blocks)


def moment(seconds: float) -> str:
    """Return a time since the start as days, hours, minutes and seconds."""
    whole_seconds = math.floor(seconds)
    days, seconds_of_day = divmod(whole_seconds, 86400)
    return f"{days} d {seconds_of_day // 3600:02}:{seconds_of_day // 60 % 60:02}:{seconds_of_day % 60:02}"


def amount(value: float | None) -> str:
    """Return a number with six significant digits; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def share(value: float | None) -> str:
    """Return a share near 1, such as an availability, in percent; a dash for None."""
    return "-" if value is None else "100%" if value == 1.0 else f"{value:.5%}"


DOTS_PER_INCH = 150
"""Sharp also on screens of high resolution."""
PIXELS_PER_INCH = 100
"""Pixels an inch at which an image and the page have letters of one size."""
WIDE, HIGH = 6.0, 3.2
"""Default size of an image in inches."""


def picture(
    draw: Callable[[Axes], object], caption: str, alternative: str, *, width: float = WIDE, height: float = HIGH
) -> Picture:
    """Return the image that `draw` draws into axes; a map of loads, if `draw` returns one, gets a colour bar.

    `alternative`: the text in place of the image; `width`, `height`: inches.
    """
    from matplotlib import rc_context
    from matplotlib.collections import QuadMesh

    target = io.BytesIO()
    with rc_context({"text.parse_math": False, "font.family": "DejaVu Sans"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        figure, ax = new_axes(width, height)
        artist = draw(ax)
        if isinstance(artist, QuadMesh):
            figure.colorbar(artist, ax=ax, extend="max").set_label("load (% of capacity)")
        figure.savefig(target, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    source = "data:image/png;base64," + base64.b64encode(target.getvalue()).decode("ascii")
    return Picture(source, caption, alternative, round(PIXELS_PER_INCH * width), round(PIXELS_PER_INCH * height))


class Material:
    """A results directory with at least one run, and the tables that a report needs."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.comparison: Comparison = compare(results.runs, results.policies)
        self.policies = self.comparison.policies
        """The policies with a run."""
        self.repeats = {policy: results.repeats(policy) for policy in self.policies}
        """Numbers of the repeats, by policy."""
        self.lengths = {policy: results.lengths(policy) for policy in self.policies}
        """Days of each run, by policy and repeat."""
        self.days = max(results.days, 1e-6)
        """Days of the longest run."""
        self.shown_repeat = results.shown_repeat
        """The repeat in plots of a single repeat."""

    @property
    def of_shown(self) -> str:
        """The shown repeat, as the end of a caption; empty if there is only one."""
        return "" if max(map(len, self.repeats.values())) == 1 else f", repeat {self.shown_repeat + 1}"

    @property
    def of_sums(self) -> str:
        """The remark that a table sums over repeats, as the end of a caption; empty if there is only one."""
        return "" if max(map(len, self.repeats.values())) == 1 else ", all repeats together"

    @property
    def shown_policies(self) -> tuple[str, ...]:
        """The policies with a run of the shown repeat."""
        return tuple(policy for policy in self.policies if self.shown_repeat in self.repeats[policy])

    @cached_property
    def moves(self) -> pl.DataFrame:
        """The moves of all runs."""
        return self.results.table("moves")

    @cached_property
    def plans(self) -> pl.DataFrame:
        """The plans of all runs, with their ``plan``: their row in the table of the run."""
        return self.results.table("plans").with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).over("policy", "repeat").alias("plan")
        )

    @cached_property
    def node_load(self) -> pl.DataFrame:
        """The loads by capacity of the shown repeat."""
        return self.results.table("node_load", repeat=self.shown_repeat).filter(pl.col("share").is_not_null())
