"""The sources of the three packages as syntax trees, read once for all tests that look at them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def trees() -> Mapping[Path, ast.Module]:
    """Return the tree of every file; reading them all takes seconds, so no module does it when it is imported."""
    files = sorted(path for package in ("plb", "workloads", "cluster") for path in (ROOT / package).rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return the same by the names under which files are imported."""
    return {name_of(path): tree for path, tree in trees().items()}


def name_of(path: Path) -> str:
    """Return the name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
