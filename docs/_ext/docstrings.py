"""What docstrings say of attrs classes and of their fields: the source of the generated reference."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.pycode import ModuleAnalyzer

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
REFERRED = re.compile(r"As in `(\w+)`")


def summary(kind: Any) -> str:
    """Return a docstring up to its first section."""
    text = inspect.getdoc(kind) or ""
    return SECTION.split(text)[0].strip()


def parameters(kind: type[Any]) -> dict[str, str]:
    """Return the docstring under each field of a class or of one of its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] in ("plb", "workloads", "cluster"):
            documented = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
            own = {
                name: " ".join(" ".join(lines).split())
                for (owner, name), lines in documented.items()
                if owner == base.__qualname__
            }
            meanings |= {name: text for name, text in own.items() if not (REFERRED.match(text) and name in meanings)}
    return meanings
