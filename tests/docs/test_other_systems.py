"""The tables of the page on other systems are those of the measured figures."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

import pytest

from tests.docs.pages import ROOT


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that measures and writes the tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "rebalancer")
    return importlib.import_module("compare")


def test_the_page_shows_the_figures_of_the_file(compare: ModuleType) -> None:
    """Tables, versions and processor."""
    page = compare.PAGE.read_text()
    assert compare.page_with_tables(page, json.loads(compare.DATA.read_text())) == page


def test_neither_system_breaks_a_limit(compare: ModuleType) -> None:
    """Balancing keeps memory, disk and racks, and no run puts two replicas of a partition in a rack."""
    for run in json.loads(compare.DATA.read_text())["runs"]:
        assert run["rack_mates"] == 0
        assert run["task"] not in compare.BALANCING or run["over"] == run["unplaced"] == 0
