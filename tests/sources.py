"""Syntax trees of the three packages, parsed once for all tests."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def trees() -> Mapping[Path, ast.Module]:
    """Return the tree of every file. Parsing takes seconds, so no module does it at import."""
    files = sorted(path for package in ("plb", "workloads", "cluster") for path in (ROOT / package).rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


@cache
def modules() -> Mapping[str, ast.Module]:
    return {name_of(path): tree for path, tree in trees().items()}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
