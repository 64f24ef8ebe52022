"""Imports the Python files of a scenario, which register energy terms, constraints and policies."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from cluster.errors import ScenarioError, ScenarioProblem


def import_files(files: Iterable[str]) -> None:
    """Run each file once in this process; every process that creates engines of the scenario needs this.

    Raises
    ------
    ScenarioError
        If a file cannot be run; the message has the error that it raised.
    """
    for file in files:
        path = Path(file).resolve()
        name = f"imports_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
        if name not in sys.modules:
            _execute(name, path, file)


def _execute(name: str, path: Path, file: str) -> None:
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ScenarioError(file, [ScenarioProblem("imports", "is not a Python file")])
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ScenarioError(file, [ScenarioProblem("imports", f"{type(error).__name__}: {error}")]) from error


def digests(files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file by its name, to record its version in results."""
    return {Path(file).name: sha256(Path(file).read_bytes()).hexdigest() for file in files}
