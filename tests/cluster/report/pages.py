"""Parsed reports, and results for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from cluster.report.writing import SECTIONS

HEADINGS = [*(heading for heading, _ in SECTIONS.values()), "Every move, and why", "Inputs and versions"]


class Page(HTMLParser):
    """A parsed page: headings, tables by caption, paragraphs, images and addresses."""

    EMPTY = frozenset({"meta", "link", "img", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.paragraphs: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.rows: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.tags: Counter[str] = Counter()
        self._open: list[str] = []
        self._words: list[str] = []
        self._table: list[list[str]] = []
        self._caption = ""
        self.feed(text)
        assert not self._open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the start of an element."""
        values = dict(attrs)
        self.tags[tag] += 1
        self.addresses += [str(values[name]) for name in ("src", "href", "action") if name in values]
        if tag == "img":
            self.pictures.append(values)
        if tag == "table":
            self._table, self._caption = [], str(values.get("id"))
        if tag == "tr":
            self._table.append([])
            self.rows.append(values)
        if tag in ("h1", "h2", "p", "caption", "td", "th"):
            self._words = []
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Record the content of an element."""
        assert self._open.pop() == tag, "elements are closed in their order"
        words = " ".join("".join(self._words).split())
        if tag in ("h1", "h2"):
            self.headings.append(words)
        if tag == "p":
            self.paragraphs.append(words)
        if tag == "caption":
            self._caption = words
        if tag in ("td", "th"):
            self._table[-1].append(words)
        if tag == "table":
            self.tables[self._caption] = self._table

    def handle_data(self, data: str) -> None:
        """Record text."""
        self._words.append(data)

    def table(self, beginning: str) -> list[list[str]]:
        """Return the table whose caption or id begins with this text, headings first."""
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(beginning)]
        return found


def number(text: str) -> float:
    """Return a number of the page."""
    return float(text.replace(",", ""))


def rewritten(folder: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a table in every run."""
    for path in (folder / "runs").glob(f"*/{table}.parquet"):
        change(pl.read_parquet(path)).write_parquet(path)
