"""What the docstrings of attrs classes say of their fields: the source of the generated reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(?=\S)(.+)\n((?:(?: {4}.*)?\n?)*)", re.MULTILINE)
REFERRED = re.compile(r"As in `(\w+)`")


def summary(kind: Any) -> str:
    """Return a docstring up to its first section."""
    text = inspect.getdoc(kind) or ""
    return SECTION.split(text)[0].strip()


def parameters(kind: type[Any]) -> dict[str, str]:
    """Return the meaning of each parameter that the docstring of a class, or of one of its bases, has."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        own = dict(_entries(vars(base).get("__doc__") or ""))
        found |= {name: text for name, text in own.items() if not (REFERRED.match(text) and name in found)}
    return found


def _entries(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of what stands in the section of parameters."""
    parts = SECTION.split(inspect.cleandoc(docstring) + "\n")
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title not in ("Parameters", "Attributes"):
            continue
        for head, text in ENTRY.findall(body):
            meaning = " ".join(text.split())
            for name in head.split(" : ")[0].split(","):
                yield name.strip(), meaning
