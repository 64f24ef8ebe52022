"""What all commands share: help, version, errors in words."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
import typer

from cluster.cli import app
from cluster.console import BAD_INPUT, clear_errors
from tests.cluster.small_runs import plb


def commands_of(command: Any, *names: str) -> list[tuple[str, ...]]:
    """Return the names of a command and of all below it."""
    below = getattr(command, "commands", {})
    return [names, *(found for name, one in below.items() for found in commands_of(one, *names, name))]


@pytest.mark.parametrize(
    "command", commands_of(typer.main.get_command(app)), ids=lambda names: " ".join(names) or "plb"
)
def test_help(command: tuple[str, ...]):
    """Every command explains itself, and every option and argument of it."""
    run = plb(*command, "--help")
    assert run.exit_code == 0
    assert "Usage" in run.stdout
    found = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]  # type: ignore[attr-defined]
    assert found.help or not command
    assert [one.name for one in found.params if not getattr(one, "help", None)] == []


def test_version():
    """That of the package."""
    assert plb("--version").stdout == f"plb {version('plb')}\n"


def test_a_file_that_a_library_may_not_read_is_said(
    capsys: pytest.CaptureFixture[str],
):
    """Polars names the file in the text of the error alone."""

    @clear_errors
    def command() -> None:
        raise PermissionError("Permission denied (os error 13): traces.parquet")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == BAD_INPUT
    assert capsys.readouterr().err == "plb: Permission denied (os error 13): traces.parquet\n"
