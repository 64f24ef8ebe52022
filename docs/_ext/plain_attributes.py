"""Docstrings of properties and attributes as they stand: napoleon takes what is before a colon in them for a type."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600
KINDS = ("property", "attribute", "data")


def setup(app: Sphinx) -> dict[str, Any]:
    """Keep the lines of such docstrings before napoleon, and put them back after it."""
    kept: dict[str, list[str]] = {}

    def keep(_app: Sphinx, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        if what in KINDS:
            kept[name] = list(lines)

    def put_back(_app: Sphinx, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        if what in KINDS:
            lines[:] = kept.pop(name)

    app.connect("autodoc-process-docstring", keep, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", put_back, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
