"""Every package has a docstring with its purpose and the module to read first."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path for top in ("plb", "cluster", "workloads") for path in (ROOT / top).rglob("__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_docstring_of_a_package_names_its_first_module(path: Path) -> None:
    """The module is in the package or, for a top-level package, in one of its packages."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    begin = re.search(r"Begin\s+reading\s+in\s+`([\w.]+)`", text)
    assert begin, text
    assert ROOT.joinpath(*begin[1].split(".")).with_suffix(".py").is_file(), begin[1]
