"""What the sections of a report are made of. The page shows each kind in one way."""

from __future__ import annotations

import attrs


@attrs.frozen
class Text:
    """A paragraph."""

    text: str


@attrs.frozen
class PageTable:
    """A table; all cells but those of the first columns are set to the right.

    Parameters
    ----------
    caption
        What it shows.
    headings, rows
        The cells, as text.
    left
        How many columns at the left are texts.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@attrs.frozen
class Picture:
    """A picture.

    Parameters
    ----------
    source
        The picture itself, as a ``data:`` address.
    caption
        What stands under it.
    alternative
        What it shows, for those who do not see it.
    width, height
        Pixels at which it is well to see; it is made narrower where there is no room.
    """

    source: str
    caption: str
    alternative: str
    width: int
    height: int


@attrs.frozen
class Gallery:
    """Pictures beside one another, where there is room."""

    pictures: tuple[Picture, ...]


@attrs.frozen
class Tables:
    """Tables beside one another, where there is room."""

    tables: tuple[PageTable, ...]


Block = Text | PageTable | Tables | Gallery


@attrs.frozen
class PageSection:
    """A section of a report.

    Parameters
    ----------
    key
        Its anchor in the page.
    heading
        Its heading.
    blocks
        What it holds.
    """

    key: str
    heading: str
    blocks: tuple[Block, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the classes of the blocks, by which the page chooses how to show them."""
        return tuple(type(block).__name__ for block in self.blocks)
