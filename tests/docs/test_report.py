"""The guide to the report has the headings, limits and functions of the page."""

from __future__ import annotations

import re

from cluster.plots.moves import plot_energy
from cluster.report import sections
from cluster.report.writing import SECTIONS
from tests.docs.pages import ROOT

GUIDE = (ROOT / "docs" / "report.md").read_text()


def test_the_guide_names_every_section():
    """They have the order of the page, and the moves are the last."""
    rows = re.findall(r"^\| ([A-Z][^|]*?) \|", GUIDE, re.MULTILINE)
    assert rows[:-1] == [heading for heading, _ in SECTIONS.values()]


def test_the_guide_states_the_limits():
    assert f"first {sections.MOST_MOVES:,} moves of each run, and {sections.MOST_IN_ALL:,} of all runs" in GUIDE
    assert sections.SLOWEST_SHOWN == 20
    assert "the twenty plans" in GUIDE


def test_the_functions_of_the_guide_exist():
    from importlib import import_module

    names = re.findall(r"`(cluster(?:\.\w+)+)\.(\w+)`", GUIDE)
    assert (plot_energy.__module__, plot_energy.__name__) in names
    assert all(callable(getattr(import_module(module), name)) for module, name in names)
