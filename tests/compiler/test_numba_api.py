"""Only the compiler uses Numba, imports its undocumented names in one place, and accepts tested versions alone."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from plb.compiler.numba_api import SUPPORTED, check_version
from plb.errors import UnsupportedNumbaError
from tests.sources import ROOT, trees

COMPILER = ROOT / "plb" / "compiler"


def imported(inside: bool) -> Iterator[tuple[Path, str]]:
    """Yield the imports, at any place, of the compiler's files or of all others; for a package also the names."""
    for path, tree in trees().items():
        if (path.parent == COMPILER) is not inside:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from ((path, f"{node.module}.{alias.name}") for alias in node.names)


def is_of_numba(name: str) -> bool:
    """Return whether a name belongs to Numba or llvmlite."""
    return name.partition(".")[0] in ("numba", "llvmlite")


def is_private(name: str) -> bool:
    """Return whether a name of Numba is undocumented."""
    _, *parts = name.split(".")
    return name.startswith("numba.") and (parts[0] == "core" or any(part.startswith("_") for part in parts))


def test_no_module_outside_the_compiler_imports_numba():
    """No module imports llvmlite either, at any place."""
    others = list(imported(inside=False))
    assert len(others) > 200
    assert [(path, name) for path, name in others if is_of_numba(name)] == []


def test_private_names_are_imported_in_one_place():
    """That place checks the version first."""
    places = {path.name for path, name in imported(inside=True) if is_private(name)}
    assert places == {"numba_api.py"}


@pytest.mark.parametrize("installed", ["0.67.1", "0.69.0", "1.0", "unknown"])
def test_other_versions_of_numba_are_refused(installed):
    """The error, one sentence, names the installed version and those to install."""
    with pytest.raises(UnsupportedNumbaError) as raised:
        check_version(installed)
    assert str(raised.value) == f"Numba {installed} is not supported; install {SUPPORTED}"
    assert isinstance(raised.value, ImportError)


def test_supported_versions_of_numba_are_bounded():
    """The package requires the versions that it accepts."""
    check_version("0.68.2")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requested,) = [line for line in project["dependencies"] if line.startswith("numba")]
    assert requested == SUPPORTED
