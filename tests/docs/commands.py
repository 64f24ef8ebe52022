"""Commands of the pages: their validation, and a folder in which they run unchanged."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from cluster.cli.app import app
from tests.compiler.processes import Server
from tests.docs.pages import ROOT, Block, is_command
from tests.engine.stories import three_nodes

PLB = ("plb", ".venv/bin/plb")
VARIABLE = re.compile(r"[A-Z_]+=")
PLACEHOLDER = re.compile(r"[A-Z][A-Z_-]*|.*\.\.\.|…")
SHARED = ROOT.parent / "shared"
KEPT = ("examples", "benchmarks", "pyproject.toml", "README.md", "docs")
FOLDERS = ("examples", "benchmarks", "tests", "docs")
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "MPLBACKEND": "agg"}
"""Settings for tables and plots: wide, without colours, without a screen."""
LONGEST = 3600
"""Time limit of a command in seconds. It ends only a command that hangs: on busy cores a command takes many times its
CPU seconds."""


def commands_in(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a block, each with its output: the following lines."""
    found: list[tuple[str, list[str]]] = []
    for line in block.content.splitlines():
        if is_command(line):
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def simple_commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line, without comments and leading variables."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line, comments=True):
        if word in ("&&", "|", ";"):
            found.append([])
        elif found[-1] or not VARIABLE.match(word):
            found[-1].append(word)
    return found


def faults_of(words: list[str], *, whole: bool = True) -> list[str]:
    """Return the errors in the words after `plb`; `whole`: all required arguments must be present."""
    command, rest = _tree(), list(words)
    while rest and (inner := getattr(command, "commands", None)) is not None and not rest[0].startswith("-"):
        name = rest.pop(0)
        if PLACEHOLDER.fullmatch(name):
            return []
        if name not in inner:
            return [f"no command {name!r}; there are {', '.join(inner)}"]
        command = inner[name]
    options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts)}
    given, faults = [], []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            given.append(word)
        elif word not in options and word not in ("--help", "-h"):
            faults.append(f"no option {word}; there are {', '.join(options)}")
        elif word in options and not options[word].is_flag and rest:
            rest.pop(0)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    needed = sum(one.required for one in arguments)
    most = float("inf") if any(one.nargs == -1 for one in arguments) else len(arguments)
    is_help = {"--help", "-h", "--list"} & set(words)
    if whole and not is_help and (len(given) < needed or getattr(command, "commands", None) is not None):
        faults.append(f"{needed} arguments are needed")
    if len(given) > most:
        faults.append(f"at most {most} arguments")
    return faults


def absent_files(words: list[str], block: Block) -> list[str]:
    """Return missing files of the repository that a command of a block names and that no applied change creates."""
    changes = "".join((ROOT / name).read_text() for name in re.findall(r"git apply (\S+)", block.content))
    named = [word for word in words if word.split("/")[0] in FOLDERS and "/" in word]
    return [word for word in named if not (ROOT / word).exists() and word not in changes]


def unknown_targets(words: list[str]) -> list[str]:
    """Return the targets of a call of make that the Makefile does not have."""
    known = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [word for word in words if "=" not in word and word not in known]


def needs_shared(block: Block) -> bool:
    """Return whether commands read data that are not part of the repository."""
    return "../shared" in block.content


class Workspace:
    """A copy of the root of the repository, in which commands may write files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "plb"
        self.folder.mkdir()
        for name in KEPT:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
            else:
                shutil.copy(source, self.folder / name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        if SHARED.exists():
            (folder / "shared").symlink_to(SHARED)

    def save(self, blocks: Iterable[Block]) -> None:
        """Save the blocks that the page tells the reader to save."""
        for block in blocks:
            if "saved as" in block.markers:
                (self.folder / block.markers["saved as"]).write_text(block.content)

    def run(self, command: str, *, fails: bool = False) -> str:
        """Return the output of a command. With `fails`, it must end in an error, and standard error is included."""
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | PLAIN | {"PYTHONPATH": os.pathsep.join(paths)}
        call = ["bash", "-c", command]
        run = subprocess.run(
            call, cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        assert (run.returncode != 0) == fails, f"{command}\n{run.stdout}{run.stderr}"
        return run.stdout + run.stderr if fails else run.stdout

    def run_python(self, code: str, server: Server) -> str:
        """Return the output of a program in a new process of a server whose first call was `make_a_plan`."""
        out = self.folder.parent
        named = {"path": [], "environment": PLAIN, "folder": str(self.folder), "out": str(out)}
        process = server.ask(call=f"{__name__}:run_program", arguments=[code], **named)
        assert server.ask(wait=process) == 0, (out / "stderr").read_text()
        return (out / "stdout").read_text()


def make_a_plan() -> None:
    """Make a plan, for which the engine loads its modules and kernels."""
    three_nodes().engine(threads=1).refresh(0.0)


def run_program(code: str) -> None:
    """Run a program as Python runs a script."""
    sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<page>", "exec"), vars(sys.modules["__main__"]))


@cache
def _tree() -> Any:
    return typer.main.get_command(app)
