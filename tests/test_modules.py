"""Modules of the three packages have no circular imports, long functions give a reason, packages a purpose."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import ROOT, modules, name_of, trees

PACKAGES = sorted(path for top in ("plb", "cluster", "workloads") for path in (ROOT / top).rglob("__init__.py"))
MOST_MODULES = 15
"""Largest number of modules of a folder, without those of its folders."""
MOST_LINES_OF_A_MODULE = 500
MOST_LINES = 60
REASON = "# long because "
"""Beginning of the comment that states why a function has more lines."""


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of the packages that a module imports, including imports in functions and for types."""
    for one in ast.walk(tree):
        match one:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                inside = [f"{module}.{alias.name}" for alias in names]
                yield from (name if name in modules() else module for name in inside)


def test_imports_are_not_circular() -> None:
    """The imports of all modules have a topological order. For a cycle, `graphlib` names it."""
    graph = {name: {one for one in imported(tree) if one in modules()} - {name} for name, tree in modules().items()}
    assert sum(map(len, graph.values())) > len(graph)
    assert set(TopologicalSorter(graph).static_order()) == set(modules())


def test_no_folder_has_more_than_fifteen_modules() -> None:
    """A reader keeps an overview of a folder; a larger one has a part that deserves a folder and a name."""
    numbers = Counter(path.parent for path in trees() if path.name != "__init__.py")
    assert {folder: number for folder, number in numbers.items() if number > MOST_MODULES} == {}


def test_no_module_has_more_than_500_lines() -> None:
    numbers = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in trees()}
    assert {name: number for name, number in numbers.items() if number > MOST_LINES_OF_A_MODULE} == {}


def test_git_ignores_no_module() -> None:
    """No pattern of .gitignore matches a module, so a clone is complete."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    paths = "\n".join(str(path.relative_to(ROOT)) for path in trees())
    ignored = subprocess.run(
        [git, "check-ignore", "--no-index", "--stdin"], cwd=ROOT, input=paths, capture_output=True, text=True
    )
    assert ignored.returncode in (0, 1), ignored.stderr
    assert not ignored.stdout


def test_long_functions_state_a_reason() -> None:
    """A function of more than sixty lines has a comment with the reason, and no other function has one."""
    found = []
    for path, tree in trees().items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for one in ast.walk(tree):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                whole = lines[one.lineno - 1 : one.end_lineno]
                says_why = any(line.strip().startswith(REASON) for line in whole)
                if says_why != (len(whole) > MOST_LINES):
                    found.append(f"{name_of(path)}.{one.name}: {len(whole)} lines")
    assert found == []


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_docstring_of_a_package_names_its_first_module(path: Path) -> None:
    """The module is in the package or, for a top-level package, in one of its packages."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    begin = re.search(r"Begin\s+reading\s+in\s+`([\w.]+)`", text)
    assert begin, text
    assert ROOT.joinpath(*begin[1].split(".")).with_suffix(".py").is_file(), begin[1]
