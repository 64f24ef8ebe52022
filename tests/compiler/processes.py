"""Separate processes by fork, each with its cache directory and its version of some modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import Any

import attrs

ROOT = Path(__file__).parents[2]
DRIVER = """
import logging, sys

class Recorder(logging.Handler):
    def __init__(self):
        super().__init__()
        self.names, self.warnings = [], []
    def emit(self, record):
        if record.pathname.endswith("clock.py"):
            self.names.append(record.args[0])
        elif record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())

def recorded(module, function, *arguments):
    handler = Recorder()
    logger = logging.getLogger("plb")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    __import__(module)
    result = getattr(sys.modules[module], function)(*arguments)
    return result, sorted(handler.names), handler.warnings
"""


@attrs.frozen
class Ran:
    """The result of a process."""

    result: Any
    compiled: list[str]
    """Names of the kernels that it compiled, in alphabetical order."""
    warnings: list[str]
    """Other warnings on plb's logger."""


class FailedError(Exception):
    """A process ended with an error."""


@attrs.define
class Started:
    """A running process."""

    server: Server
    number: int
    out: Path

    def wait(self) -> Ran:
        status = self.server.ask(wait=self.number)
        if status:
            raise FailedError(f"{status}: {(self.out / 'stderr').read_text()}")
        return Ran(*json.loads((self.out / "result.json").read_text()))


class Server:
    """Starts processes after a call of `first`, by default with Numba loaded and without plb.

    The folder has their output.
    """

    def __init__(self, folder: Path, first: str = "server:load_compiler") -> None:
        self.folder = folder
        self.started = 0
        (folder / "driver.py").write_text(DRIVER)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLB_", "NUMBA_"))}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]).strip(os.pathsep)
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py"), first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()

    def ask(self, **request: Any) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(
        self,
        call: str,
        *arguments: Any,
        cache: Path | str | None,
        path: Sequence[Path] = (),
        plb: Path = ROOT,
        **environment: str | None,
    ) -> Started:
        """Call a function, ``module:function``, with a result that JSON can store, in a new process.

        `cache`: None for the one in the user's home; `path`: directories of modules; `environment`: None removes one.
        """
        out = self.folder / str(self.started)
        out.mkdir()
        self.started += 1
        number = self.ask(
            call="driver:recorded",
            arguments=[*call.split(":"), *arguments],
            path=[*map(str, path), str(plb), str(self.folder)],
            environment={"PLB_CACHE_DIR": None if cache is None else str(cache), **environment},
            out=str(out),
        )
        return Started(self, number, out)

    def run(self, call: str, *arguments: Any, **settings: Any) -> Ran:
        return self.start(call, *arguments, **settings).wait()


def write(folder: Path, **modules: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(dedent(source))
    return folder
