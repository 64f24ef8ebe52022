"""The page of file formats covers the output of a run: files, totals, and figures as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text()
RESULTS = PAGE.split("## Results")[1].split("## What differs")[0]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    scenario = str(ROOT / "examples" / "own_traces.toml")
    call = [
        "simulate",
        scenario,
        "--days",
        "0.05",
        "--out",
        str(folder / "out"),
        "--json",
        str(folder / "figures.json"),
    ]
    assert CliRunner().invoke(app, [*call, "--quiet"]).exit_code == 0
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_page_has_every_file_of_a_run(run_folder: Path) -> None:
    """Another page lists the tables."""
    names = {path.name for path in (run_folder / "out").iterdir() if path.is_file()}
    assert [name for name in sorted(names) if f"`{name}`" not in RESULTS] == []


def test_page_has_every_key_of_the_summary(run_folder: Path) -> None:
    """These are keys of the file and of each run in it."""
    summary = read(run_folder / "out" / "summary.json")
    named = set(re.findall(r"`(\w+)`", RESULTS))
    assert set(summary) - named == set()
    assert set(summary["runs"][0]) - named == {"policy", "repeat"}


def test_page_has_the_figures_of_a_run(run_folder: Path) -> None:
    """They have the order of the file."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith("| `plb simulate` | `policies`"))
    figures = read(run_folder / "figures.json")
    assert list(figures) == ["policies", "stamp"]
    assert [name for name in figures["stamp"] if f"`{name}`" not in PAGE] == []
    assert re.findall(r"`(\w+)`", row)[1:] == list(figures["policies"]["original"])
