"""The keys of the cache of machine code.

Only imported once a kernel is needed, since ``import plb`` must load no Numba.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite
import numba
import numpy as np

from plb.compiler.identity import code_of_modules, identity_of, is_shared
from plb.compiler.numba_api import cpu_target

_settings: Any = numba.config

MAKES_CODE = tuple(
    f"{__package__}.{name}"
    for name in ("addresses", "compilation", "handles", "identity", "keys", "modules", "pcg64", "prefetching")
)
"""Modules that determine every entry."""


def digest(parts: Iterable[str]) -> str:
    """Return a short text that differs for other parts; the text of Numba for types is not enough, see `text_of`."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def key_of(function: Callable[..., Any], kinds: tuple[str, ...], returning: str) -> str:
    """Return a digest of everything that determines an entry: code, frozen values, types, versions, processor."""
    parts = (identity_of(function), str(is_shared(function)), *kinds, returning, _surroundings())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _surroundings() -> str:
    """Return versions, processor and what makes the code of a kernel."""
    for module in MAKES_CODE:
        import_module(module)
    versions = (platform.python_version(), numba.__version__, llvmlite.__version__, np.__version__)
    processor = cpu_target.target_context.codegen().magic_tuple()
    switches = (bool(_settings.BOUNDSCHECK), int(_settings.OPT), bool(_settings.DEBUGINFO_DEFAULT))
    return repr((versions, processor, switches, code_of_modules(MAKES_CODE)))
