"""The command line as Markdown, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from cluster.cli.app import app

WORDS = {str: "text", int: "whole number", float: "number", bool: "", Path: "path"}


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command that does something, with the words that call it."""
    yield from _below(("plb",), typer.main.get_command(app))


def command_line() -> str:
    """Return all commands with their arguments and options."""
    return "\n\n".join(_described(words, command) for words, command in commands())


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
    for name, one in (inner or {}).items():
        yield from _below((*words, name), one)


def _described(words: tuple[str, ...], command: Any) -> str:
    shown = [one for one in command.params if not one.hidden and one.name != "help"]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    usage = " ".join([*words, *(_usage(one) for one in arguments), "[OPTIONS]"])
    hints = get_type_hints(inspect.unwrap(command.callback))
    rows = [_row(one, hints[one.name]) for one in shown]
    table = "\n".join(["| name | value | default | meaning |", "|---|---|---|---|", *rows]) if rows else ""
    return f"## {' '.join(words)}\n\n    {usage}\n\n{_text(command.help or '')}\n\n{table}"


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[].") + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _row(parameter: Any, hint: Any) -> str:
    if parameter.param_type_name == "argument":
        names, kind = f"`{_usage(parameter)}`", ""
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        kind = parameter.metavar or _kind(hint, parameter.min, parameter.max)
    default = parameter.default
    is_shown = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    cells = [names, kind, f"`{getattr(default, 'value', default)}`" if is_shown else "", _text(parameter.help or "")]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _kind(hint: Any, low: float | None, high: float | None) -> str:
    """Return in words what an option takes; nothing for a switch."""
    inner = [one for one in get_args(hint) if one is not type(None)]
    if inner:
        return _kind(inner[0], low, high)
    if issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    limits = f", {low:g} to {high:g}" if None not in (low, high) else f", at least {low:g}" if low is not None else ""
    return WORDS[hint] + limits


def _text(text: str) -> str:
    """Return a help text as one paragraph of Markdown; its options in code."""
    joined = re.sub(r"[\b\f]", "", " ".join(cleandoc(text).split()))
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"`\1`", joined.replace("``", "`"))
