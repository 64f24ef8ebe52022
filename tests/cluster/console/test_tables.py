"""Printed names and tables: each cell is readable on any terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table

from cluster.results.intervals import Interval
from cluster.results.summary_tables import FIGURES, HEADINGS, SHOWN, Comparison, Estimate, cell, comparison_table
from cluster.tables import FittingConsole, shrunk

NAMES = ["[/b]x", "[red]", "[bold]y[/bold]", ":smile:", "a\\[b", "original"]


def printed(what: object, width: int) -> list[str]:
    """Return the lines on a terminal of a given width."""
    console = FittingConsole(file=io.StringIO(), width=width)
    console.print(what)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def comparison_of(*policies: str) -> Comparison:
    """Return a comparison with figures of many digits."""
    figures = {name: Estimate(1234.5 + place, 234.5, 0.25) for place, name in enumerate(FIGURES)}
    return Comparison(policies, dict.fromkeys(policies, 8), dict.fromkeys(policies, figures))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_literally(name):
    """Brackets and colons in names have no meaning, in lines and in tables."""
    assert printed(f"{name} stays", 80) == [f"{name} stays"]
    table = Table(name, title=name, caption=name)
    table.add_row(name)
    assert "".join(printed(table, 80)).count(name) == 4
    assert sum(name in line for line in printed(comparison_table(comparison_of(name), name, name), 200)) == 4


def test_interrupted_runs_have_a_separate_line():
    """The line follows the table."""
    lines = printed(comparison_table(comparison_of("original"), "title", "original, repeat 1"), 200)
    assert lines[-1].strip() == "interrupted: original, repeat 1"


@pytest.mark.parametrize("width", [20, 40, 80, 100, 120, 200])
def test_names_and_figures_are_complete_on_any_terminal(width):
    """Headings shrink first. The terminal wraps a table that cannot be narrower."""
    lines = printed(comparison_table(comparison_of("original", "modified"), "title"), width)
    for whole in ("original", "modified", *(f"{1234 + place + 1:,} ± 234" for place in (1, 3))):
        assert any(whole in line for line in lines), (whole, lines)
    assert not any("…" in line for line in lines)
    for word in " ".join(HEADINGS[name] for name in SHOWN).split():
        assert any(word in line for line in lines)


def test_table_that_fits_is_unchanged():
    """Its output is that of Rich."""
    table = comparison_table(comparison_of("original"), "title")
    wide = printed(table, 200)
    assert printed(table, max(map(len, wide))) == wide


def test_longer_texts_are_folded_to_the_width():
    """No part of the text is lost."""
    table = Table("node", title="title")
    table.add_column("why", overflow="fold")
    table.add_row("n1", " ".join(["word"] * 60))
    lines = printed(table, 60)
    assert max(map(len, lines)) <= 60
    assert "".join(lines).count("word") == 60


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=8), st.integers(0, 200))
def test_the_widest_columns_shrink_first(pairs, excess):
    """No column falls below its minimum. The sum falls by the excess, or to the sum of the minima."""
    least, widths = [low for low, _ in pairs], [low + more for low, more in pairs]
    found = shrunk(widths, least, excess)
    assert all(low <= width <= own for low, width, own in zip(least, found, widths, strict=True))
    assert sum(found) == max(sum(least), sum(widths) - excess)
    could_give = max((width for width, low in zip(found, least, strict=True) if width > low), default=0)
    assert all(width >= could_give - 1 for own, width in zip(widths, found, strict=True) if width < own)


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (2.0, 0.04, "2.00 ± 0.04"),
        (150.25, 0.3, "150.2 ± 0.3"),
        (2.4, 1.51, "2.4 ± 1.5"),
        (1.0, 12.7, "1 ± 13"),
        (1234.5, 234.5, "1,234 ± 234"),
        (3.0, 0.0, "3 ± 0"),
        (3.0, 1e-12, "3 ± 0"),
        (3.5, None, "3.5"),
    ],
)
def test_interval_shows_its_first_digit(mean, half, text):
    """An interval that is 0 or a rounding error is an exception."""
    assert cell(Interval(mean, half)) == text


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_interval_that_is_not_zero_never_looks_like_zero(mean, half):
    """Mean and interval have the same number of decimals."""
    shown, width = cell(Interval(mean, half)).replace(",", "").split(" ± ")
    assert float(width) == pytest.approx(half, rel=0.5)
    assert float(width) > 0.0
    assert shown.partition(".")[2].isdigit() == width.partition(".")[2].isdigit()
    assert len(shown.partition(".")[2]) == len(width.partition(".")[2])
