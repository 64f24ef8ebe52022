"""No command overwrites existing files by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.commands import BY_NAME, COMMANDS

CASES = [(command.name, file) for command in COMMANDS for file in command.writes]


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_file_of_results_is_unchanged(inputs: Path, tmp_path: Path, name: str, file: str):
    """The command ends at once with a message that names the file and the option. It writes nothing else."""
    command, there = BY_NAME[name], tmp_path / "out" / file
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    run = command.run(inputs, tmp_path / "out")
    assert run.exit_code == 2, run.output
    assert str(tmp_path / "out") in run.stderr
    assert command.overwrites in run.stderr
    assert [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["mine"]


@pytest.mark.parametrize("name", ["provision", "replan", "predict", "traces convert", "traces generate"])
def test_a_file_of_results_is_overwritten_on_request(inputs: Path, tmp_path: Path, name: str):
    command = BY_NAME[name]
    for file in command.writes:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("mine")
    run = command.run(inputs, tmp_path, "--force")
    assert run.exit_code == 0, run.output
    assert all((tmp_path / file).read_bytes() != b"mine" for file in command.writes)
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_file_in_place_of_a_directory_is_named(inputs: Path, tmp_path: Path, name: str):
    (tmp_path / "out").write_text("mine")
    run = BY_NAME[name].run(inputs, tmp_path / "out")
    assert run.exit_code == 2, run.output
    assert str(tmp_path / "out") in run.stderr
    assert (tmp_path / "out").read_text() == "mine"
