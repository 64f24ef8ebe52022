"""The report: what the page says is what the tables say, whatever the names in them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cluster.cli import app
from cluster.errors import ResultsError
from cluster.experiment import prepare
from cluster.report import moves as listed
from cluster.report import outages
from cluster.report.blocks import Table
from cluster.report.decisions import refusals_section
from cluster.report.material import Material
from cluster.report.writing import report_page
from cluster.results import ResultsFolder
from cluster.results_comparison import compare_results
from cluster.results_reading import read_results
from cluster.scenario_file import scenario_from
from cluster.simulation import Simulation
from cluster.tables import TABLES, columns_of
from tests.cluster.tiny import small_region

HEADINGS = [
    "Comparison of the policies",
    "Violations over time",
    "Failovers over time and by cause",
    "Load of the nodes",
    "Moves between fault domains",
    "Energy by term over time",
    "Availability by tenant class",
    "Interruptions, faults and upgrades",
    "Refusals by rule",
    "Slowest decisions",
    "Every move, and why",
]


class Page(HTMLParser):
    """A page taken apart: its headings, tables by caption, paragraphs, pictures and addresses."""

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
        """Note an element."""
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
        """Note what an element held."""
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
        """Note words."""
        self._words.append(data)

    def table(self, beginning: str) -> list[list[str]]:
        """Return the table whose caption, or id, begins so, its headings first."""
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(beginning)]
        return found


def results_of(folder: Path, sections: dict[str, Any]) -> Path:
    """Simulate a scenario and return its results directory."""
    experiment = prepare(scenario_from(sections))
    results = ResultsFolder(folder, experiment.scenario, experiment.source)
    for run in experiment.runs():
        results.add(run)
    return folder


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a dense cluster with a node fault and an upgrade, two policies and two repeats."""
    sections = small_region(repeats=2, policies=["modified", "original"])
    sections["workload"]["density"] = 2.6
    sections["faults"] = {"crashes": [{"node": "n3", "at_hours": 1.0, "hours": 1.0}]}
    sections["upgrades"] = {"starts_hours": [3.0]}
    return results_of(tmp_path_factory.mktemp("eventful") / "out", sections)


@pytest.fixture(scope="module")
def text(eventful: Path) -> str:
    """Return its report."""
    return report_page(read_results(eventful))


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    """Return its report, taken apart."""
    return Page(text)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of one policy in an empty cluster, where nothing happens."""
    sections = small_region(policies=["original"], days=0.05)
    sections["workload"]["density"] = 0.2
    return results_of(tmp_path_factory.mktemp("calm") / "out", sections)


def number(text: str) -> float:
    """Return a number as the page writes it."""
    return float(text.replace(",", ""))


def test_the_heading_says_what_was_run(page: Page, text: str, eventful: Path):
    """Scenario, seed, hash, versions and completeness are at the top; every section is there and in the contents."""
    summary = json.loads((eventful / "summary.json").read_text())
    assert page.headings == ["scenario", "Contents", *HEADINGS]
    assert page.paragraphs[0] == "Complete: every run reached its end."
    for words in (summary["scenario_sha256"], f"<dd>{summary['seed']}</dd>", f"polars {pl.__version__}"):
        assert words in text
    anchors = [address for address in page.addresses if address.startswith("#")]
    assert len(anchors) == len(HEADINGS)
    assert all(f'id="{anchor[1:]}"' in text for anchor in anchors)


def test_the_comparison_is_that_of_the_summary(page: Page, eventful: Path):
    """Means and half-widths of the table are those of the totals, by the quantile of Student's t for two repeats."""
    runs = json.loads((eventful / "summary.json").read_text())["runs"]
    headings, *rows = page.table("Policies beside one another")
    assert [row[:2] for row in rows] == [["modified", "2"], ["original", "2"]]
    for row in rows:
        for heading, name in {"violations": "violations", "failovers": "failovers", "moves": "moves"}.items():
            first, second = (run[name] for run in runs if run["policy"] == row[0])
            mean, half = (first + second) / 2, 12.7062047 * abs(first - second) / 2
            told = [number(part) for part in row[headings.index(heading)].split(" ± ")]
            assert told == pytest.approx([mean, half], abs=0.51), heading


def test_violations_are_those_of_the_table_of_shortages(page: Page, eventful: Path):
    """Violations are nodes and times, however many metrics were short; means over repeats."""
    shortages = read_results(eventful).table("shortages")
    assert len(shortages), "the scenario is dense enough"
    for policy, violations, *_ in page.table("Nodes and metering times")[1:]:
        seen = {
            (row["repeat"], row["time_s"], row["node"])
            for row in shortages.iter_rows(named=True)
            if (row["policy"], row["outcome"]) == (policy, "violation")
        }
        assert number(violations) == len(seen) / 2


def test_failovers_by_cause_add_up(page: Page, eventful: Path):
    """Each cell is the mean of `failovers_by_cause` of the summary."""
    runs = json.loads((eventful / "summary.json").read_text())["runs"]
    (_, *policies), *rows = page.table("Failovers by cause")
    assert {row[0].removeprefix("rule ") for row in rows} == {
        cause for run in runs for cause in run["failovers_by_cause"]
    }
    for cause, *cells in rows:
        for policy, cell in zip(policies, cells, strict=True):
            counts = [
                run["failovers_by_cause"].get(cause.removeprefix("rule "), 0) for run in runs if run["policy"] == policy
            ]
            assert number(cell) == sum(counts) / len(counts)


def test_moves_between_domains_are_counted_by_the_domains_of_the_nodes(page: Page, eventful: Path):
    """Every cell of the matrix is the number of moves from a node of one domain to a node of the other."""
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


def test_availability_is_that_of_the_stays(page: Page, eventful: Path):
    """Of all classes together, it is what the downtime of the summary leaves of the stays; each tenant counts once."""
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
    """Interruptions by cause, each event of a node, each upgrade domain, and the figures of the closing table."""
    results = read_results(eventful)
    interruptions = results.table("interruptions")
    rows = page.table("Interruptions of tenants by cause")[1:]
    assert sum(number(row[2]) for row in rows) == len(interruptions) > 0
    end = results.runs[0].totals["simulated_seconds"]
    lengths = interruptions.select(pl.col("end_s").fill_null(end) - pl.col("begin_s")).to_series()
    assert sum(number(row[3]) for row in rows) == pytest.approx(lengths.sum(), rel=1e-5)
    events = page.table("Nodes that went down and came back")[1:]
    assert len(events) == min(100, len(results.table("node_events")))
    assert ["modified", "1", "n3", "node fault", "goes down", "0 d 01:00:00"] in events
    assert len(page.table("Upgrade domains")[1:]) == len(results.table("upgrades"))
    (faults,) = [row for row in page.table("Faults and upgrades, means") if row[0] == "node faults"]
    assert faults[1:] == ["1", "1"]


def test_the_slowest_decisions_are_those_of_the_timings(page: Page, eventful: Path):
    """By their seconds, each with what the table of plans says of it."""
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
    assert number(rows[0][headings.index("proposals drawn")]) == plan["drawn"]


def test_every_move_stands_in_the_list_with_its_reason(page: Page, eventful: Path):
    """A row a move: time, tenant, nodes, cause and the engine's words, and the command that tells more."""
    moves = read_results(eventful).table("moves")
    rows = page.table("moved")[1:]
    assert len(rows) == len(moves) > 0
    told = {(row[0], row[1], row[3], row[5], row[6], row[8]) for row in rows}
    assert told == {
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


def by_run(moves: pl.DataFrame) -> list[dict[str, Any]]:
    """Return moves by repeat, policy of the scenario and time, as the page lists them."""
    order = ["modified", "original"]
    return sorted(
        moves.iter_rows(named=True), key=lambda move: (move["repeat"], order.index(move["policy"]), move["time_s"])
    )


def test_energies_beside_a_move_are_those_of_its_plan(page: Page, eventful: Path):
    """Where only one plan has the time and the phase of a move, its energies stand there, else none do."""
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
        told = re.search(r" energy: (\S+) → (\S+) ", row[10].removeprefix(move["why"]))
        if len(of_move) != 1 or move["kind"] == "promote":
            assert told is None
            continue
        found += 1
        energies = [of_move[0]["energy_before"], of_move[0]["energy_after"]]
        assert told is not None
        assert [number(value) for value in told.groups()] == pytest.approx(energies, rel=1e-5)
    assert found > 0


def test_the_list_of_moves_is_bounded(eventful: Path, monkeypatch: pytest.MonkeyPatch):
    """The first moves of every run are listed, and the page says what is left out and where it is."""
    monkeypatch.setattr(listed, "MOST_IN_ALL", 8)
    results = read_results(eventful)
    page = Page(report_page(results))
    rows = page.table("moved")[1:]
    firsts = Counter((row[0], row[1]) for row in rows)
    assert firsts == {(policy, repeat): 2 for policy in ("original", "modified") for repeat in ("1", "2")}
    total = len(results.table("moves"))
    told = f"The first 2 moves of each run: 8 of {total:,}. All are in runs/*/moves.parquet."
    assert any(told in paragraph for paragraph in page.paragraphs)


def test_the_page_asks_nothing_of_any_network(page: Page, text: str):
    """Pictures are in the page, each with words for those who do not see it, and all else is forbidden."""
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert "http" not in re.sub(r"data:[^\"]+|http-equiv", "", text)
    assert "default-src 'none'" in text
    assert len(page.pictures) > 10
    assert all(picture["alt"] and str(picture["src"]).startswith("data:image/png;base64,") for picture in page.pictures)
    assert page.tags["script"] == page.tags["style"] == page.tags["title"] == page.tags["h1"] == 1


def test_the_page_is_the_same_each_time(text: str, eventful: Path):
    """The same directory gives the same bytes."""
    assert report_page(read_results(eventful)) == text


def test_empty_sections_say_so(calm: Path):
    """Where nothing happened, each section says that in a sentence."""
    page = Page(report_page(read_results(calm)))
    assert [heading for heading in page.headings if heading in HEADINGS] == HEADINGS
    for words in (
        "No node was in violation at any time.",
        "There was no failover.",
        "No replica moved to another node.",
        "Every tenant could be used all the time.",
        "No tenant was interrupted.",
        "No node was down: there were neither faults nor upgrades.",
        "Every replica found a place when it was looked for.",
        "No replica that stood somewhere was moved.",
    ):
        assert words in page.paragraphs


def rewritten(folder: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a table of every run."""
    for path in (folder / "runs").glob(f"*/{table}.parquet"):
        change(pl.read_parquet(path)).write_parquet(path)


EVIL = "<script>alert('$x')</script>&\"$\\frac{"


def test_names_are_never_read_as_html_or_formulas(eventful: Path, tmp_path: Path):
    """Tenants, classes, nodes, metrics, rules, causes, scenario and versions may hold anything."""
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    summary = json.loads((folder / "summary.json").read_text())
    summary["scenario"]["name"] = summary["versions"]["python"] = summary["scenario_sha256"] = EVIL
    for run in summary["runs"]:
        run["moves_by_cause"][EVIL] = 1
    (folder / "summary.json").write_text(json.dumps(summary))
    rename = {
        "tenants": ("tenant", "tenant_class"),
        "moves": ("tenant", "cause", "why", "outcome"),
        "nodes": ("fault_domain",),
        "plans": ("end_reason",),
        "interruptions": ("cause",),
        "node_events": ("node", "cause"),
        "upgrades": ("domain", "outcome"),
        "node_load": ("metric",),
    }
    for table, columns in rename.items():
        rewritten(
            folder,
            table,
            lambda frame, columns=columns: frame.with_columns(  # type: ignore[misc]
                pl.concat_str(pl.lit(EVIL), pl.col(name)).alias(name) for name in columns
            ),
        )
    ruled_out = pl.lit(json.dumps({EVIL: 3, "capacity": 7}))
    rewritten(folder, "refusals", lambda frame: frame.with_columns(ruled_out.alias("ruled_out")))
    text = report_page(read_results(folder))
    page = Page(text)
    assert page.tags["script"] == 1
    assert "<script>alert" not in text
    assert page.headings[0] == EVIL
    assert {row[0] for row in page.table("In how many of the refusals")[1:]} == {EVIL, "capacity"}
    assert {str(row["data-cause"])[: len(EVIL)] for row in page.rows if "data-cause" in row} == {EVIL}


def test_policies_may_have_any_name_that_a_directory_can_have(eventful: Path, tmp_path: Path):
    """Their names are text everywhere, and part of the command that tells more."""
    name = "<b>'$1 &"
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    for file in ("summary.json", "timings.json"):
        (folder / file).write_text((folder / file).read_text().replace('"original"', json.dumps(name)))
    for table in TABLES:
        rewritten(folder, table, lambda frame: frame.with_columns(pl.col("policy").replace("original", name)))
    for repeat in (0, 1):
        (folder / "runs" / f"original-{repeat}").rename(folder / "runs" / f"{name}-{repeat}")
    text = report_page(read_results(folder))
    page = Page(text)
    assert "<b>" not in text
    assert [row[0] for row in page.table("Policies beside one another")[1:]] == ["modified", name]
    (command,) = {row[10].split("--policy")[1] for row in page.table("moved")[1:] if row[:2] == [name, "1"]}
    assert shlex.split(command) == [name, "--repeat", "1"]


def test_refusals_are_counted_by_rule(page: Page, eventful: Path):
    """A rule counts once for each refusal in which it ruled out nodes, and with the number of these nodes."""
    refusals = read_results(eventful).table("refusals")
    assert len(refusals), "the scenario is dense enough"
    for rule, policy, tries, nodes in page.table("In how many of the refusals")[1:]:
        found = [json.loads(row["ruled_out"]) for row in refusals.filter(policy=policy).iter_rows(named=True)]
        assert number(tries) == sum(one.get(rule, 0) > 0 for one in found)
        assert number(nodes) == sum(one.get(rule, 0) for one in found)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": null}', '{"a": "b"}', '{"a": 1e999}', "[" * 100_000])
def test_refusals_that_cannot_be_read_are_an_error_of_the_project(calm: Path, tmp_path: Path, text: str):
    """Where the rules of a refusal are no JSON of numbers, the directory is named."""
    folder = Path(shutil.copytree(calm, tmp_path / "out"))
    schema = {name: column.dtype for name, column in columns_of("refusals").items()}
    frame = pl.DataFrame([("original", 0, 0, "t", "primary", 1, text, 10)], schema=schema, orient="row")
    frame.write_parquet(folder / "runs" / "original-0" / "refusals.parquet")
    with pytest.raises(ResultsError, match="ruled_out: found"):
        refusals_section(Material(read_results(folder)))


def test_interrupted_runs_are_reported_as_such(eventful: Path, tmp_path: Path):
    """The page says which runs were cut short and which policies have none; what there is, is shown."""
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    summary = json.loads((folder / "summary.json").read_text())
    summary["complete"] = False
    summary["runs"] = [run for run in summary["runs"] if run["policy"] == "original" and run["repeat"] == 1]
    summary["runs"][0].update(complete=False, simulated_seconds=3600)
    timings = json.loads((folder / "timings.json").read_text())
    timings["runs"] = [run for run in timings["runs"] if run["policy"] == "original" and run["repeat"] == 1]
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "timings.json").write_text(json.dumps(timings))
    page = Page(report_page(read_results(folder)))
    assert page.paragraphs[0] == (
        "Interrupted: one run is there; cut short: original, repeat 2; "
        "not begun: 3 runs (modified, repeats 1 to 2; original, repeat 1)."
    )
    assert any("original, repeat 2, covers 0.04 days only" in paragraph for paragraph in page.paragraphs)
    assert {row[0] for row in page.table("moved")[1:]} == {"original"}


def test_repeats_that_never_began_are_named(eventful: Path, tmp_path: Path):
    """All policies have a run, so nothing else would tell that there should be more; the comparison counts as many."""
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    summary = json.loads((folder / "summary.json").read_text())
    summary["complete"] = False
    summary["scenario"]["run"]["repeats"] = 7
    (folder / "summary.json").write_text(json.dumps(summary))
    results = read_results(folder)
    page = Page(report_page(results))
    assert page.paragraphs[0] == (
        "Interrupted: 4 runs are there; not begun: 10 runs (modified, repeats 3 to 7; original, repeats 3 to 7)."
    )
    assert compare_results([results]).missing == [(results, 10)]


def test_node_events_are_bounded_for_each_policy(eventful: Path, monkeypatch: pytest.MonkeyPatch):
    """However many the first policy has, those after it are listed, too, in the order of the scenario."""
    monkeypatch.setattr(outages, "MOST_EVENTS", 2)
    material = Material(read_results(eventful))
    whole = outages.outages_section(material)
    tables = {block.caption: block.rows for block in whole.blocks if isinstance(block, Table)}
    for name, caption in (("node_events", "Nodes that went down"), ("upgrades", "Upgrade domains")):
        (rows,) = [rows for key, rows in tables.items() if key.startswith(caption)]
        (key,) = [key for key in tables if key.startswith(caption)]
        assert [row[0] for row in rows] == [policy for policy in material.policies for _ in range(2)]
        number = len(material.results.table(name))
        assert key.endswith(f"; the first 2 of each policy, of {number:,} in all; the rest is in {name}.parquet.")


def test_a_directory_without_runs_has_no_report(eventful: Path, tmp_path: Path):
    """Interrupted before any run began, there is nothing to tell but that."""
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    for file, change in (("summary.json", {"runs": [], "complete": False}), ("timings.json", {"runs": []})):
        values = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(values | change))
    with pytest.raises(ResultsError, match="there is no run in it yet"):
        report_page(read_results(folder))


def plb(*arguments: Any) -> Any:
    """Run the command line."""
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_command_writes_the_page(calm: Path, tmp_path: Path):
    """Into the directory or to a file; what is there is overwritten with --force alone; --quiet prints nothing."""
    folder = Path(shutil.copytree(calm, tmp_path / "my results"))
    run = plb(folder)
    assert (run.exit_code, run.stdout) == (0, f"Report: {folder / 'report.html'}\n")
    first = (folder / "report.html").read_text()
    run = plb(folder)
    assert run.exit_code == 2
    assert "report.html: is there already; give another file, or --force to overwrite it" in run.stderr
    (folder / "report.html").write_text("old")
    run = plb(folder, "--force", "--quiet")
    assert (run.exit_code, run.output) == (0, "")
    assert (folder / "report.html").read_text() == first
    assert plb(folder, "--out", tmp_path / "other" / "page.html").exit_code == 0
    assert (tmp_path / "other" / "page.html").read_text() == first


def test_a_run_that_is_interrupted_has_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After Ctrl-C, `plb report` shows what was simulated until then."""
    meter = Simulation._meter

    def interrupt(simulation: Simulation) -> None:
        if simulation._policy == "modified" and simulation.env.now >= 3600:
            raise KeyboardInterrupt
        meter(simulation)

    monkeypatch.setattr(Simulation, "_meter", interrupt)
    page = Page(report_page(read_results(results_of(tmp_path / "out", small_region(days=0.1)))))
    assert page.paragraphs[0] == "Interrupted: 2 runs are there; cut short: modified, repeat 1."
    assert [row[:2] for row in page.table("Policies beside one another")[1:]] == [["original", "1"], ["modified", "1"]]


def test_what_is_no_results_directory_is_refused(tmp_path: Path, calm: Path):
    """A missing directory, one without results, and a page that cannot be written are said by name."""
    for arguments, words in (
        ([tmp_path / "none"], "holds no results of plb simulate"),
        ([tmp_path], "there is no summary.json"),
        ([calm, "--out", tmp_path], "is a directory"),
    ):
        run = plb(*arguments)
        assert run.exit_code == 2
        assert words in run.stderr


def test_blocks_are_frozen():
    """What a section holds cannot be changed behind the page's back."""
    from cluster.report.blocks import Text

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Text("a").text = "b"  # type: ignore[misc]
