"""What the docstrings of attrs classes say of their fields: the source of the generated reference."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
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
    """Return the meaning of each field of a class and its bases: the docstring under it, or a named parameter."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        own = {**dict(_entries(vars(base).get("__doc__") or "")), **dict(_under_fields(base))}
        found |= {name: text for name, text in own.items() if not (REFERRED.match(text) and name in found)}
    return found


def _under_fields(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of the fields of a class that have one under them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(text.value.value).split())


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
