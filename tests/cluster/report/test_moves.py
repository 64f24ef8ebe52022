"""The list of moves in the report: completeness, limit, reasons and energies."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.report import sections as listed
from cluster.report import writing
from cluster.report.writing import report_page
from cluster.results.reading import read_results
from tests.cluster.report.pages import Page, number


def by_run(moves: pl.DataFrame) -> list[dict[str, Any]]:
    """Return moves by repeat, policy of the scenario and time, as the page lists them."""
    order = ["modified", "original"]
    return sorted(
        moves.iter_rows(named=True), key=lambda move: (move["repeat"], order.index(move["policy"]), move["time_s"])
    )


def test_every_move_is_listed_with_its_reason(page: Page, eventful: Path):
    moves = read_results(eventful).table("moves")
    rows = page.table("moved")[1:]
    assert len(rows) == len(moves) > 0
    shown = {(row[0], row[1], row[3], row[5], row[6], row[8]) for row in rows}
    assert shown == {
        (m["policy"], str(m["repeat"] + 1), m["tenant"], m["source"] or "-", m["target"], m["cause"])
        for m in moves.iter_rows(named=True)
    }
    for row, m in zip(rows, by_run(moves), strict=True):
        days, clock = divmod(m["time_s"], 86400)
        assert row[2] == f"{days} d {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
        assert row[10].startswith(m["why"])
        assert row[10].endswith(
            f"plb explain {eventful} --partition {m['tenant']} --time {m['time_s']} "
            f"--policy {m['policy']} --repeat {m['repeat'] + 1}"
        )


def test_energies_of_a_move_are_those_of_its_plan(page: Page, eventful: Path):
    """Energies are given only if exactly one plan has the time and the phase of the move."""
    results = read_results(eventful)
    plans = list(results.table("plans").filter(pl.col("moves") > 0).iter_rows(named=True))
    phases = {"constraint check": "repair", "balancing": "balancing"}
    found = 0
    for row, move in zip(page.table("moved")[1:], by_run(results.table("moves")), strict=True):
        of_move = [
            plan
            for plan in plans
            if (plan["policy"], plan["repeat"], plan["time_s"]) == (move["policy"], move["repeat"], move["time_s"])
            and phases.get(plan["occasion"], "placement") == move["phase"]
        ]
        shown = re.search(r" energy: (\S+) → (\S+) ", row[10].removeprefix(move["why"]))
        if len(of_move) != 1 or move["kind"] == "promote":
            assert shown is None
            continue
        found += 1
        energies = [of_move[0]["energy_before"], of_move[0]["energy_after"]]
        assert shown is not None
        assert [number(value) for value in shown.groups()] == pytest.approx(energies, rel=1e-5)
    assert found > 0


def test_the_list_of_moves_is_bounded(eventful: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listed, "MOST_IN_ALL", 8)
    monkeypatch.setattr(writing, "SECTIONS", {})
    results = read_results(eventful)
    page = Page(report_page(results))
    rows = page.table("moved")[1:]
    firsts = Counter((row[0], row[1]) for row in rows)
    assert firsts == {(policy, repeat): 2 for policy in ("original", "modified") for repeat in ("1", "2")}
    total = len(results.table("moves"))
    shown = f"The first 2 moves of each run: 8 of {total:,}. All are in runs/*/moves.parquet."
    assert any(shown in paragraph for paragraph in page.paragraphs)
