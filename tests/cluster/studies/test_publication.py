"""``plb study NAME --publish`` writes the figures of a study to docs/data of a checkout."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.studies.publication import command_of, publish
from tests.command_line import plb

SAMPLES = "machine,task,time_s,usage,limit\nm,t,0,1,2\nm,t,300,2,2\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with docs/data and samples of a machine, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "data").mkdir(parents=True)
    (tmp_path / "mine.csv").write_text(SAMPLES)
    return tmp_path


def test_a_published_result_has_figures_and_what_repeats_them(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["study", "peaks", "--traces", "mine.csv", "--out", "out", "--json", "figures.json", "--publish"]
    monkeypatch.setattr(sys, "argv", ["plb", *options])
    run = plb(*options)
    assert run.exit_code == 0, run.output
    published = json.loads((checkout / "docs" / "data" / "peaks-mine.json").read_text())
    timings = pl.read_parquet(checkout / "out" / "timings.parquet")
    of_run = published.pop("run")
    assert published == json.loads((checkout / "figures.json").read_text())
    assert of_run["command"] == "plb study peaks --traces mine.csv --publish"
    assert of_run["runs"] == len(timings)
    assert of_run["cpu_seconds"] == round(timings["cpu_seconds"].sum(), 1)
    assert of_run["processor"]


def test_figures_that_no_table_needs_are_not_published(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    figures = {"scores": [{"label": "a", "scores": {"skill": 0.5, "by_bin": {"samples": [3]}}, "recalibration": {}}]}
    publish(figures, tmp_path, tmp_path / "published.json")
    published = json.loads((tmp_path / "published.json").read_text())
    assert published["scores"] == [{"label": "a", "scores": {"skill": 0.5}}]


DEPENDED_ON = (["--publish"], ["--region", "region1"], ["--traces", "a b"])
WITHOUT_EFFECT = (
    ["--out", "a b"],
    ["--json", "x"],
    ["--jobs=2"],
    ["--format", "pdf"],
    ["--quiet"],
    ["--restart"],
)


@given(st.permutations([*DEPENDED_ON, *WITHOUT_EFFECT]))
def test_a_published_command_has_the_options_on_which_figures_depend(options: list[list[str]]) -> None:
    kept = [word for option in options if option in DEPENDED_ON for word in option]
    command = command_of(["study", "peaks", *(word for option in options for word in option)])
    assert shlex.split(command) == ["plb", "study", "peaks", *kept]


def test_without_a_checkout_nothing_is_run(checkout: Path) -> None:
    (checkout / "docs" / "data").rmdir()
    run = plb("study", "peaks", "--traces", "mine.csv", "--out", "out", "--publish")
    assert run.exit_code == 2
    assert "--publish writes to docs/data of a checkout, and there is none in" in run.output
    assert not (checkout / "out").exists()
