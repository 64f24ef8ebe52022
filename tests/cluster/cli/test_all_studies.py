"""``plb study all``: which commands it runs, in which order, and what it does without traces or after a failure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

from cluster.cli import all_studies
from cluster.cli.all_studies import DATA, STUDIES
from cluster.cli.study import study_app
from cluster.console import FAILED
from tests.command_line import plb


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that are run; the study of compression fails."""
    ran: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> SimpleNamespace:
        assert not check
        ran.append(command[3:])
        return SimpleNamespace(returncode=int("compression" in command))

    monkeypatch.setattr(all_studies.subprocess, "run", run)
    return ran


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a directory that has all traces."""
    for study in STUDIES:
        for text in study.arguments:
            if DATA in text:
                Path(text.replace(DATA, str(tmp_path))).mkdir(parents=True, exist_ok=True)
    return tmp_path


def test_all_studies_run_the_cheapest_first_and_a_failure_stops_none(commands: list[list[str]], data: Path) -> None:
    run = plb("study", "all", "--data", data, "--out", data / "out", "--jobs", "2", "--quick")
    assert run.exit_code == FAILED
    assert f"1 of {len(STUDIES)} are not complete: plb study compression" in run.stderr
    assert [command[1] for command in commands] == [study.arguments[0] for study in STUDIES]
    assert [study.minutes for study in STUDIES] == sorted(study.minutes for study in STUDIES)
    assert all("--quick" in command for command in commands)
    folders = {Path(command[command.index("--out") + 1]) for command in commands}
    assert {folder.parent for folder in folders} == {data / "out"}
    assert len(folders) == len(STUDIES)
    assert [command[1] for command in commands if "--jobs" not in command] == ["overhead"]


def test_a_study_without_its_traces_is_left_out_and_named(commands: list[list[str]], tmp_path: Path) -> None:
    run = plb("study", "all", "--data", tmp_path / "none")
    assert run.exit_code == FAILED
    assert f"plb study gaussian --traces {tmp_path}/none/planetlab: left out" in run.stderr
    assert {command[1] for command in commands}.isdisjoint({"gaussian", "provisioning", "rebalancing"})
    assert "plb study peaks: about 1 minute of processor time" in run.stderr


def test_every_study_and_option_of_the_list_exists() -> None:
    """No study is forgotten, except the pilot of the densities, whose results are part of the code."""
    known = get_command(study_app).commands  # type: ignore[attr-defined]
    assert {study.arguments[0] for study in STUDIES} == {*known} - {"all", "densities"}
    for study in STUDIES:
        options = {name for parameter in known[study.arguments[0]].params for name in parameter.opts}
        given = {text for text in study.arguments if text.startswith("--")}
        assert given | {"--out", "--quick", "--publish"} <= options
        assert study.has_jobs == ("--jobs" in options)
