"""Runs the command line in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from cluster.cli.app import app


def plb(*arguments: Any) -> Any:
    """Run `plb` with arguments of any type; return the result."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
