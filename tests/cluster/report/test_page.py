"""The page of the report: heading, names, network requests, interrupted runs; and `plb report`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from cluster.errors import ResultsError
from cluster.report import writing
from cluster.report.writing import report_page
from cluster.results.reading import read_results
from cluster.simulation.run_tables import TABLES
from tests.cluster.report.pages import HEADINGS, Page, rewritten
from tests.command_line import plb


def test_the_heading_identifies_the_results(page: Page, text: str, eventful: Path):
    summary = json.loads((eventful / "summary.json").read_text())
    assert page.headings == ["scenario", "Contents", *HEADINGS]
    assert page.paragraphs[0] == "Complete: every run reached its end."
    for words in (summary["scenario_sha256"], f"<dd>{summary['seed']}</dd>", f"polars {pl.__version__}"):
        assert words in text
    anchors = [address for address in page.addresses if address.startswith("#")]
    assert len(anchors) == len(HEADINGS)
    assert all(f'id="{anchor[1:]}"' in text for anchor in anchors)


def test_the_page_makes_no_network_requests(page: Page, text: str):
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert "http" not in re.sub(r"data:[^\"]+|http-equiv", "", text)
    assert "default-src 'none'" in text
    assert len(page.pictures) > 10
    assert all(picture["alt"] and str(picture["src"]).startswith("data:image/png;base64,") for picture in page.pictures)
    assert page.tags["script"] == page.tags["style"] == page.tags["title"] == page.tags["h1"] == 1


@pytest.fixture
def comparison_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the other sections, whose pictures take seconds; the list of moves stays."""
    monkeypatch.setattr(writing, "SECTIONS", {"comparison": writing.SECTIONS["comparison"]})


EVIL = "<script>alert('$x')</script>&\"$\\frac{"


@pytest.mark.usefixtures("drawn_figures")
def test_names_are_never_read_as_html_or_formulas(eventful: Path, tmp_path: Path):
    """Names of tenants, classes, nodes, metrics, rules, causes, scenario and versions may contain any text."""
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
    assert {row[0] for row in page.table("Number of refusals in which")[1:]} == {EVIL, "capacity"}
    assert {str(row["data-cause"])[: len(EVIL)] for row in page.rows if "data-cause" in row} == {EVIL}


@pytest.mark.usefixtures("comparison_only")
def test_policies_may_have_any_name_of_a_directory(eventful: Path, tmp_path: Path):
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
    assert [row[0] for row in page.table("Comparison of the policies")[1:]] == ["modified", name]
    (command,) = {row[10].split("--policy")[1] for row in page.table("moved")[1:] if row[:2] == [name, "1"]}
    assert shlex.split(command) == [name, "--repeat", "1"]


@pytest.mark.usefixtures("comparison_only")
def test_interrupted_runs_are_reported_as_such(eventful: Path, tmp_path: Path):
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


def test_a_directory_without_runs_has_no_report(eventful: Path, tmp_path: Path):
    """After an interrupt before the first run, the page would be empty."""
    folder = Path(shutil.copytree(eventful, tmp_path / "out"))
    for file, change in (("summary.json", {"runs": [], "complete": False}), ("timings.json", {"runs": []})):
        values = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(values | change))
    with pytest.raises(ResultsError, match="there is no run in it yet"):
        report_page(read_results(folder))


report = partial(plb, "report")


def test_the_command_writes_the_page(calm: Path, tmp_path: Path):
    folder = Path(shutil.copytree(calm, tmp_path / "my results"))
    run = report(folder)
    assert (run.exit_code, run.stdout) == (0, f"Report: {folder / 'report.html'}\n")
    first = (folder / "report.html").read_text()
    run = report(folder)
    assert run.exit_code == 2
    assert "report.html: exists already; give another file, or --force to overwrite it" in run.stderr
    (folder / "report.html").write_text("old")
    run = report(folder, "--force", "--quiet")
    assert (run.exit_code, run.output) == (0, "")
    assert (folder / "report.html").read_text() == first
    assert report(folder, "--out", tmp_path / "other" / "page.html").exit_code == 0
    assert (tmp_path / "other" / "page.html").read_text() == first


def test_bad_directories_and_files_are_refused(tmp_path: Path, calm: Path):
    folder = Path(shutil.copytree(calm, tmp_path / "out"))
    read = (folder / "summary.json", next(folder.glob("runs/*/moves.parquet")))
    before = [path.read_bytes() for path in read]
    for arguments, words in (
        ([tmp_path], "is not a results directory of plb simulate: there is no summary.json"),
        ([folder, "--out", tmp_path], "is a directory"),
        *(([folder, "--out", path, "--force"], "give another file to write to") for path in read),
    ):
        run = report(*arguments)
        assert run.exit_code == 2
        assert words in run.stderr
    assert [path.read_bytes() for path in read] == before
