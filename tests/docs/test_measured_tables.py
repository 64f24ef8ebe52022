"""The tables of measured figures are those that `make pages` makes of the files in docs/data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.tables import markdown, pages, studies
from docs.tables.claims import Verdict, verdict_on, verdict_on_cases
from docs.tables.pages import PAGES, PLACE, page_with_tables
from tests.sources import ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_figures_of_the_files(page: Path) -> None:
    assert page_with_tables(page) == page.read_text(encoding="utf-8"), "run make pages"


def test_every_table_of_a_page_has_a_function() -> None:
    found = {
        page: PLACE.findall(page.read_text(encoding="utf-8"))
        for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
    }
    assert {page: set(names) for page, names in found.items() if names} == {page: {*of} for page, of in PAGES.items()}


def test_a_changed_figure_changes_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = json.loads((ROOT / "docs" / "data" / "rebalancing-regions.json").read_text(encoding="utf-8"))
    changed["settings"][0]["violations"]["default energy"] = 99.0
    monkeypatch.setattr(
        pages.rebalancing, "figures", lambda name: changed if "regions" in name else markdown.figures(name)
    )
    page = ROOT / "docs" / "rebalancing.md"
    assert "| region1 | 99.0 |" in page_with_tables(page)


@pytest.mark.parametrize("file", sorted(ROOT.glob("docs/data/*.json")), ids=lambda file: file.stem)
def test_a_file_of_figures_is_small(file: Path) -> None:
    assert file.stat().st_size <= 300_000


def test_a_table_shows_how_many_settings_are_left_out_and_no_interval_where_there_is_none() -> None:
    ratio = {"mean": 2.0, "low": 1.5, "high": 2.5, "without": 3}
    assert markdown.interval(ratio) == "2.00 [1.50, 2.50], 3 left out"
    assert markdown.interval({**ratio, "low": None, "high": None, "without": 0}) == "2.00"
    assert markdown.interval(None) == markdown.interval({**ratio, "mean": None}) == ""


def test_a_figure_without_a_counterpart_of_avoidable_violations_has_an_empty_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Violations by reported loads have no kinds."""
    data = markdown.figures("annealing")
    label = "original+oracle / modified, by reported loads"
    data["ratios"][label] = {"mean": 5.0, "low": 4.0, "high": 6.0, "without": 0}
    data["counts"]["settings"] = "8 of 8"
    monkeypatch.setattr(studies, "figures", lambda _name: data)
    rows = studies.claims("annealing").splitlines()
    assert f"| {label} | | 5.00 [4.00, 6.00] | |" in rows
    assert "| settings | | 8 of 8 | |" in rows


def test_neither_system_breaks_a_limit() -> None:
    """Balancing keeps memory, disk and racks, and no run puts two replicas of a partition in a rack."""
    for run in markdown.figures("rebalancer")["runs"]:
        assert run["rack_mates"] == 0
        assert run["task"] not in pages.other_systems.BALANCING or run["over"] == run["unplaced"] == 0


def test_nothing_is_reproduced_without_an_interval() -> None:
    assert verdict_on({"low": None, "high": None}, 2.0) is Verdict.NOT_REPRODUCED


def test_the_readme_has_ten_repeats() -> None:
    assert {row["repeats"] for row in markdown.figures("quickstart")["rows"]} == {10}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (2.2, 2.9, Verdict.REPRODUCED),
        (2.7, 3.1, Verdict.REPRODUCED),
        (1.9, 2.5, Verdict.PARTLY),
        (0.9, 2.9, Verdict.NOT_REPRODUCED),
        (0.5, 0.9, Verdict.REVERSED),
    ],
)
def test_the_interval_decides_on_a_ratio(low: float, high: float, verdict: Verdict) -> None:
    """The paper has 2.6: an interval above 1 that reaches it reproduces the claim, one below 1 reverses it."""
    assert verdict_on({"low": low, "high": high}, 2.6) is verdict


@given(st.lists(st.booleans(), min_size=1))
def test_a_claim_without_intervals_is_reproduced_where_it_holds(holds: list[bool]) -> None:
    """In every case, in some, or in none."""
    expected = {len(holds): Verdict.REPRODUCED, 0: Verdict.NOT_REPRODUCED}
    assert verdict_on_cases(holds) is expected.get(sum(holds), Verdict.PARTLY)
