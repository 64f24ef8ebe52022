"""What all commands share: help, version, errors in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pytest
import typer

from cluster.bench import engine as bench
from cluster.capacity import question
from cluster.cli.app import app
from cluster.console.output import BAD_INPUT, clear_errors
from cluster.studies import compression
from cluster.studies.gaussian import design as gaussian
from cluster.studies.provisioning import design as provisioning
from tests.command_line import plb


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


TOLD: dict[str, Sequence[float]] = {
    "bench engine nodes": bench.SIZES,
    "capacity violations": (question.VIOLATIONS_A_DAY,),
    "capacity highest": (question.FARTHEST,),
    "capacity step": (question.NODES_STEP, question.DENSITY_STEP),
    "capacity repeats": (question.LEAST_REPEATS,),
    "study compression samples": (compression.SAMPLES,),
    "study gaussian instances": (gaussian.INSTANCES,),
    "study gaussian samples": (gaussian.SAMPLES,),
    "study gaussian capacity": (round(gaussian.MEAN_TASK, 4),),
    "study provisioning instances": (provisioning.INSTANCES,),
    "study provisioning auto_seconds": (provisioning.AUTO_SECONDS,),
    "study provisioning density": provisioning.DENSITIES,
    "study provisioning applications": provisioning.SIZES[:1],
}
"""Defaults that help texts tell, as modules that are loaded only when a command runs have them."""
GIVEN = {
    "study gaussian tasks": gaussian.TASKS,
    "study gaussian realisations": gaussian.REALISATIONS,
    "study gaussian averaged": gaussian.AVERAGED,
}
"""Defaults that options themselves have."""


def option_of(place: str) -> Any:
    """Return an option, from the words of its command and its name."""
    *words, name = place.split()
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    (option,) = [one for one in command.params if one.name == name]
    return option


@pytest.mark.parametrize("place", TOLD)
def test_help_states_the_defaults(place: str):
    """All of them."""
    numbers = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", option_of(place).help)}
    assert set(TOLD[place]) <= numbers


@pytest.mark.parametrize("place", GIVEN)
def test_defaults_of_options_are_those_of_the_study(place: str):
    """They are written there, too."""
    assert option_of(place).default == GIVEN[place]


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
