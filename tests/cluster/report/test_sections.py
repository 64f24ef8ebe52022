"""The sections of the report agree with the tables of the results, and so does the list of moves."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.errors import ResultsError
from cluster.report import quality, writing
from cluster.report import sections as listed
from cluster.report.blocks import Material, PageTable
from cluster.report.sections import refusals_blocks
from cluster.report.writing import report_page
from cluster.results.reading import read_results
from cluster.simulation.run_tables import columns_of
from tests.cluster.report.pages import HEADINGS, Page, number


def test_the_comparison_agrees_with_the_summary(page: Page, eventful: Path):
    runs = json.loads((eventful / "summary.json").read_text())["runs"]
    headings, *rows = page.table("Comparison of the policies")
    assert [row[:2] for row in rows] == [["modified", "2"], ["original", "2"]]
    for row in rows:
        for heading, name in {"violations": "violations", "failovers": "failovers", "moves": "moves"}.items():
            first, second = (run[name] for run in runs if run["policy"] == row[0])
            mean, half = (first + second) / 2, 12.7062047 * abs(first - second) / 2
            shown = [number(part) for part in row[headings.index(heading)].split(" ± ")]
            assert shown == pytest.approx([mean, half], abs=0.51), heading


def test_violations_agree_with_the_table_of_shortages(page: Page, eventful: Path):
    """A violation is a node and a time, regardless of the number of metrics. Figures are means over repeats."""
    shortages = read_results(eventful).table("shortages")
    assert len(shortages), "the scenario is dense enough"
    headings, *table = page.table("Nodes and metering times")
    for row in table:
        shown = dict(zip(headings, row, strict=True))
        for outcome, total, unavoidable in (
            ("violation", "violations", "unavoidable"),
            ("unresolved", "nothing could be moved", "of these unavoidable"),
        ):
            of_policy = shortages.filter(policy=row[0], outcome=outcome)
            found = of_policy.select("repeat", "time_s", "node", "avoidable").rows()
            assert number(shown[total]) == len({one[:3] for one in found}) / 2
            assert number(shown[unavoidable]) == len({one[:3] for one in found if not one[3]}) / 2
        assert number(shown["avoidable"]) + number(shown["unavoidable"]) == number(shown["violations"])


def test_failovers_by_cause_add_up(page: Page, eventful: Path):
    runs = json.loads((eventful / "summary.json").read_text())["runs"]
    (_, *policies), *rows = page.table("Failovers by cause")
    assert {row[0].removeprefix("rule ") for row in rows} == {
        cause for run in runs for cause in run["failovers_by_cause"]
    }
    for shown, *cells in rows:
        cause = shown.removeprefix("rule ")
        for policy, cell in zip(policies, cells, strict=True):
            counts = [run["failovers_by_cause"].get(cause, 0) for run in runs if run["policy"] == policy]
            assert number(cell) == sum(counts) / len(counts)


def test_moves_between_domains_are_counted_by_the_domains_of_the_nodes(page: Page, eventful: Path):
    results = read_results(eventful)
    domain = {row["node"]: row["fault_domain"] for row in results.table("nodes").iter_rows(named=True)}
    for policy in ("original", "modified"):
        moves = results.table("moves").filter(policy=policy, kind="move").iter_rows(named=True)
        counts = Counter((domain[move["source"]], domain[move["target"]]) for move in moves)
        (_, *columns, last), *rows, sums = page.table(f"Moves under {policy}, all repeats together")
        assert last == sums[0] == "all"
        for source, *cells, whole in rows:
            assert [number(cell) for cell in cells] == [counts[source, target] for target in columns]
            assert number(whole) == sum(counts[source, target] for target in columns)
        assert number(sums[-1]) == counts.total() > 0


def test_availability_follows_from_the_stays(page: Page, eventful: Path):
    results = read_results(eventful)
    seconds = results.runs[0].totals["simulated_seconds"]
    for policy in ("original", "modified"):
        tenants = results.table("tenants").filter(policy=policy)
        _, whole, *classes = page.table(f"Policy {policy}, all repeats together")
        assert sum(number(row[1]) for row in classes) == number(whole[1]) == len(tenants)
        stays = np.minimum(tenants["departure_s"].to_numpy(), seconds) - tenants["arrival_s"].to_numpy()
        assert number(whole[2]) == pytest.approx(stays.sum() / 86400, abs=0.06)
        downtime = sum(run.totals["downtime_seconds"] for run in results.runs if run.policy == policy)
        assert number(whole[3]) == pytest.approx(downtime, rel=1e-5)
        assert float(whole[4].rstrip("%")) == pytest.approx(100 - 100 * downtime / stays.sum(), abs=1e-4)
        assert sum(number(row[5]) for row in classes) == tenants["failovers"].sum()


def test_interruptions_faults_and_upgrades_are_listed(page: Page, eventful: Path):
    results = read_results(eventful)
    interruptions = results.table("interruptions")
    rows = page.table("Interruptions of tenants by cause")[1:]
    assert sum(number(row[2]) for row in rows) == len(interruptions) > 0
    end = results.runs[0].totals["simulated_seconds"]
    lengths = interruptions.select(pl.col("end_s").fill_null(end) - pl.col("begin_s")).to_series()
    assert sum(number(row[3]) for row in rows) == pytest.approx(lengths.sum(), rel=1e-5)
    events = page.table("Nodes that went down and were restored")[1:]
    assert len(events) == min(100, len(results.table("node_events")))
    assert ["modified", "1", "n3", "node fault", "goes down", "0 d 01:00:00"] in events
    assert len(page.table("Upgrade domains")[1:]) == len(results.table("upgrades"))
    (faults,) = [row for row in page.table("Faults and upgrades, means") if row[0] == "node faults"]
    assert faults[1:] == ["1", "1"]


def test_node_events_are_limited_for_each_policy(eventful: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quality, "MOST_EVENTS", 2)
    material = Material(read_results(eventful))
    blocks = quality.outages_blocks(material)
    tables = {block.caption: block.rows for block in blocks if isinstance(block, PageTable)}
    for name, caption in (("node_events", "Nodes that went down"), ("upgrades", "Upgrade domains")):
        (rows,) = [rows for key, rows in tables.items() if key.startswith(caption)]
        (key,) = [key for key in tables if key.startswith(caption)]
        assert [row[0] for row in rows] == [policy for policy in material.policies for _ in range(2)]
        number = len(material.results.table(name))
        assert key.endswith(f"; the first 2 of each policy, of {number:,} in all; the rest is in {name}.parquet.")


def test_refusals_are_counted_by_rule(page: Page, eventful: Path):
    refusals = read_results(eventful).table("refusals")
    assert len(refusals), "the scenario is dense enough"
    for rule, policy, tries, nodes in page.table("Number of refusals in which")[1:]:
        found = [json.loads(row["ruled_out"]) for row in refusals.filter(policy=policy).iter_rows(named=True)]
        assert number(tries) == sum(one.get(rule, 0) > 0 for one in found)
        assert number(nodes) == sum(one.get(rule, 0) for one in found)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": null}', '{"a": "b"}', '{"a": 1e999}', "[" * 100_000])
def test_unreadable_refusals_are_an_error_of_the_project(calm: Path, tmp_path: Path, text: str):
    folder = Path(shutil.copytree(calm, tmp_path / "out"))
    schema = {name: column.dtype for name, column in columns_of("refusals").items()}
    frame = pl.DataFrame([("original", 0, 0, "t", "primary", 1, text, 10)], schema=schema, orient="row")
    frame.write_parquet(folder / "runs" / "original-0" / "refusals.parquet")
    with pytest.raises(ResultsError, match="ruled_out: found"):
        refusals_blocks(Material(read_results(folder)))


def test_the_slowest_decisions_agree_with_the_timings(page: Page, eventful: Path):
    results = read_results(eventful)
    timed = json.loads((eventful / "timings.json").read_text())["runs"]
    seconds = sorted((one["seconds"] for run in timed for one in run["slowest"]), reverse=True)
    headings, *rows = page.table("The 20 slowest plans")
    assert [number(row[headings.index("ms")]) for row in rows] == pytest.approx(
        [1000 * one for one in seconds[:20]], abs=0.06
    )
    first = max(((run, one) for run in timed for one in run["slowest"]), key=lambda pair: pair[1]["seconds"])
    plan = (
        results.table("plans")
        .filter(policy=first[0]["policy"], repeat=first[0]["repeat"])
        .row(first[1]["plan"], named=True)
    )
    assert rows[0][:3] == [first[0]["policy"], str(first[0]["repeat"] + 1), plan["occasion"]]
    assert number(rows[0][headings.index("proposals generated")]) == plan["drawn"]


def test_empty_sections_contain_a_sentence(calm: Path):
    page = Page(report_page(read_results(calm)))
    assert [heading for heading in page.headings if heading in HEADINGS] == HEADINGS
    for words in (
        "No node was in violation at any time.",
        "There was no failover.",
        "No replica moved to another node.",
        "Every tenant could be used all the time.",
        "No tenant was interrupted.",
        "No node was down: there were neither faults nor upgrades.",
        "Every replica was placed.",
        "No replica that stood somewhere was moved.",
    ):
        assert words in page.paragraphs


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
