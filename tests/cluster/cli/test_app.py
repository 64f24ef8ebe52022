"""Properties of all commands: help, version, error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pytest
import typer

from cluster.bench import engine as bench
from cluster.bench import search
from cluster.capacity import question
from cluster.cli.app import app
from cluster.console import BAD_INPUT, clear_errors
from cluster.studies import compression
from cluster.studies.gaussian import packings as gaussian
from cluster.studies.provisioning import design as provisioning
from tests.command_line import plb


def commands_of(command: Any, *names: str) -> list[tuple[str, ...]]:
    """Return the names of a command and of all its subcommands."""
    below = getattr(command, "commands", {})
    return [names, *(found for name, one in below.items() for found in commands_of(one, *names, name))]


@pytest.mark.parametrize(
    "command", commands_of(typer.main.get_command(app)), ids=lambda names: " ".join(names) or "plb"
)
def test_help(command: tuple[str, ...]):
    """Every command has a help text, and so has each of its options and arguments."""
    run = plb(*command, "--help")
    assert run.exit_code == 0
    assert "Usage" in run.stdout
    found = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]  # type: ignore[attr-defined]
    assert found.help or not command
    assert [one.name for one in found.params if not getattr(one, "help", None)] == []


DEFAULTS_IN_HELP: dict[str, Sequence[float]] = {
    "bench engine nodes": bench.SIZES,
    "bench search nodes": sorted({shape.nodes for shape in search.SHAPES}),
    "bench search seconds": (search.SECONDS, search.QUICK_SECONDS),
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
"""Defaults in help texts, with the constants of the modules that are loaded only when a command runs."""
DEFAULTS_OF_OPTIONS = {
    "study gaussian tasks": gaussian.TASKS,
    "study gaussian realisations": gaussian.REALISATIONS,
    "study gaussian averaged": gaussian.AVERAGED,
}
"""Defaults of the options themselves."""


def option_of(place: str) -> Any:
    """Return an option, given the words of its command and its name."""
    *words, name = place.split()
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    (option,) = [one for one in command.params if one.name == name]
    return option


@pytest.mark.parametrize("place", DEFAULTS_IN_HELP)
def test_help_states_the_defaults(place: str):
    """The help texts contain all of these defaults."""
    numbers = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", option_of(place).help)}
    assert set(DEFAULTS_IN_HELP[place]) <= numbers


@pytest.mark.parametrize("place", DEFAULTS_OF_OPTIONS)
def test_defaults_of_options_equal_those_of_the_study(place: str):
    """The options repeat the values of the study."""
    assert option_of(place).default == DEFAULTS_OF_OPTIONS[place]


def test_version():
    """The version is that of the package."""
    assert plb("--version").stdout == f"plb {version('plb')}\n"


def test_an_unreadable_file_is_named(
    capsys: pytest.CaptureFixture[str],
):
    """Polars names the file only in the text of the error."""

    @clear_errors
    def command() -> None:
        raise PermissionError("Permission denied (os error 13): traces.parquet")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == BAD_INPUT
    assert capsys.readouterr().err == "plb: Permission denied (os error 13): traces.parquet\n"
