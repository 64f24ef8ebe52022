"""Python files that a scenario names: they register the energy terms, constraints and policies that it uses."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from cluster.errors import ScenarioError, ScenarioProblem


def import_files(files: Iterable[str]) -> None:
    """Run each file, unless this process has done so; in every process that makes engines of the scenario.

    Raises
    ------
    ScenarioError
        If a file cannot be run; the error it raised is named.
    """
    for file in files:
        path = Path(file).resolve()
        name = f"imports_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
        if name not in sys.modules:
            _run(name, path, file)


def _run(name: str, path: Path, file: str) -> None:
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ScenarioError(file, [ScenarioProblem("imports", "is no Python file")])
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ScenarioError(file, [ScenarioProblem("imports", f"{type(error).__name__}: {error}")]) from error


def digests(files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file by its name, so that results tell which version they were made with."""
    return {Path(file).name: sha256(Path(file).read_bytes()).hexdigest() for file in files}
