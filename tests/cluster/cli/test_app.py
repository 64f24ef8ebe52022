"""Properties of all commands: help, version, error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
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


def commands_of(command: Any, *names: str) -> dict[str, Any]:
    """Return a command and all its subcommands by name."""
    below = getattr(command, "commands", {})
    parts = [commands_of(subcommand, *names, name) for name, subcommand in below.items()]
    return {" ".join(names): command} | {name: found for part in parts for name, found in part.items()}


COMMANDS = commands_of(typer.main.get_command(app))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_options_and_arguments_have_a_help_text(name: str):
    run = plb(*name.split(), "--help")
    assert run.exit_code == 0
    assert "Usage" in run.stdout
    assert COMMANDS[name].help or not name
    assert [option.name for option in COMMANDS[name].params if not getattr(option, "help", None)] == []


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


@pytest.mark.parametrize("place", DEFAULTS_IN_HELP)
def test_help_states_the_defaults(place: str):
    command, _, name = place.rpartition(" ")
    (option,) = [option for option in COMMANDS[command].params if option.name == name]
    numbers = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", option.help)}
    assert set(DEFAULTS_IN_HELP[place]) <= numbers


def test_an_unreadable_file_is_named(capsys: pytest.CaptureFixture[str]):
    """Polars names the file only in the text of the error."""

    @clear_errors
    def command() -> None:
        raise PermissionError("Permission denied (os error 13): traces.parquet")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == BAD_INPUT
    assert capsys.readouterr().err == "plb: Permission denied (os error 13): traces.parquet\n"
