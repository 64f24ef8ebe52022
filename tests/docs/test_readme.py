"""The table of the README has the figures of its data file."""

from __future__ import annotations

import json

import pytest

from cluster.results.intervals import Interval
from cluster.results.summary_tables import cell
from tests.sources import ROOT

README = (ROOT / "README.md").read_text()
ROWS = {row["policy"]: row for row in json.loads((ROOT / "docs" / "data" / "quickstart.json").read_text())["rows"]}
FIGURES = ("violations", "violations_avoidable", "failovers")


@pytest.mark.parametrize("policy", ROWS)
def test_the_row_of_a_policy_is_that_of_the_ten_repeats(policy: str) -> None:
    row = ROWS[policy]
    figures = row["figures"]
    cells = [cell(Interval(figures[name]["mean"], figures[name]["half_width"])) for name in FIGURES]
    avoidable = figures["violations_avoidable"]
    apart = Interval(avoidable.get("difference", 0.0), avoidable.get("difference_half_width"))
    cells.append(cell(apart, signed=True) if row["pairs"] else "")
    assert row["repeats"] == 10
    assert row["pairs"] in (0, 10)
    assert f"(`{policy}`) | {' | '.join(cells).rstrip()} |".replace("|  |", "| |") in README
