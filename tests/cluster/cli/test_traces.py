"""`plb traces`: check of regions, conversion and description of traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import plb


def test_traces_check(tmp_path: Path):
    run = plb("traces", "check", "region1", "--tenants", 3000, "--json", tmp_path / "check.json")
    assert "region1: generated and published statistics" in run.stdout
    rows = json.loads((tmp_path / "check.json").read_text())["regions"]["region1"]
    assert {"statistic", "published", "source", "generated", "within"} == set(rows[0])
    assert run.exit_code == (1 if any(row["within"] is False for row in rows) else 0)
    assert plb("traces", "check", "region7").exit_code == 2


def test_an_unknown_format_is_refused(tmp_path: Path):
    run = plb("traces", "convert", tmp_path, "--format", "azure", tmp_path / "out")
    assert run.exit_code == 2
    assert "unknown format 'azure'; did you mean 'azure2019'" in run.stderr


def test_a_table_is_shown_and_converted(tmp_path: Path):
    rows = [f"{300 * k},{vm},0.5" for vm in "ab" for k in range(12)]
    table, out, figures = tmp_path / "table.csv", tmp_path / "out", tmp_path / "counts.json"
    table.write_text("\n".join(["at,vm,used", *rows]))
    command = ("traces", "convert", table, out, "--time", "at", "--id", "vm", "--metric", "cpu=used:cores")
    run = plb(*command, "--preview")
    assert "metric  cpu: 'used' in cores, 0.5 to 0.5, 0 missing" in run.stdout
    assert "rows read" not in run.stdout
    assert not out.exists()
    run = plb(*command, "--step", "10min", "--json", figures)
    assert "24 rows read, 24 kept" in run.stdout
    assert "step    600 s, as asked for" in run.stdout
    assert json.loads(figures.read_text())["step_seconds"] == 600
    run = plb(*command, "--format", "planetlab")
    assert (run.exit_code, "leave out metrics, time, id" in run.stderr) == (2, True)
    run = plb(*command[:-1], "cpu=usde", "--force")
    assert "table.csv: unknown column 'usde'; did you mean 'used'?" in run.stderr


@pytest.mark.usefixtures("drawn_figures")
def test_traces_are_converted_and_described(tmp_path: Path):
    day = tmp_path / "source" / "20110303"
    day.mkdir(parents=True)
    (day / "host").write_text("".join(f"{10 + at % 20}\n" for at in range(288)))
    source, out = tmp_path / "source", tmp_path / "out"
    run = plb("traces", "convert", source, "--format", "planetlab", out, "--json", tmp_path / "counts.json")
    assert "288 rows read, 288 kept" in run.stdout
    assert json.loads((tmp_path / "counts.json").read_text())["rows_kept"] == 288
    assert plb("traces", "convert", source, "--format", "planetlab", out).exit_code == 2
    run = plb("traces", "describe", out, "--out", tmp_path / "plots", "--json", tmp_path / "one.json")
    assert "percent of the machine" in run.stdout
    assert (tmp_path / "plots" / "trace.png").stat().st_size > 10_000
    run = plb("traces", "describe", source, "--format", "planetlab", "--json", tmp_path / "other.json")
    assert "288 rows read, 288 kept" in run.stdout
    figures, again = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "other.json"))
    assert figures == again
    assert (figures["tenants"], figures["rows"]) == (1, 144)
    assert figures["metrics"]["cpu"]["mean"] == pytest.approx(sum(10 + at % 20 for at in range(288)) / 288)


def test_the_help_names_every_format():
    from cluster.cli.traces import FORMATS
    from workloads.readers import READERS

    assert set(FORMATS.removeprefix("One of ").removesuffix(".").split(", ")) == set(READERS)


@pytest.mark.parametrize("command", [["describe"], ["convert", "--format", "planetlab", "{out}"]])
def test_figures_do_not_overwrite_traces(tmp_path: Path, command: list[str]):
    day = tmp_path / "source"
    day.mkdir()
    (day / "host").write_text("10\n" * 288)
    words = [word.format(out=tmp_path / "out") for word in command]
    run = plb("traces", words[0], day, *words[1:], "--json", day / "host")
    assert run.exit_code == 2
    assert "is in a directory that is read; give another file to write to" in run.stderr
    assert (day / "host").read_text() == "10\n" * 288
