"""Types of arguments as texts that are the same in every process, and differ where machine code does."""

from __future__ import annotations

import os
from typing import Any

from plb.compiler.identity import identity_of

_process = os.urandom(8).hex()
"""Stands beside texts that hold addresses of this process."""


def text_of(kind: Any) -> str:
    """Return the text of a type of Numba.

    Numba's own text of a named tuple leaves out its module and the names of its members, by which kernels read them,
    and that of a function leaves out its code.
    """
    if hasattr(kind, "dispatcher"):  # a kernel that is handed over
        return f"kernel {identity_of(kind.dispatcher.py_func)}"
    if hasattr(kind, "types"):  # only tuples have them
        fields = getattr(kind, "fields", ("",) * len(kind.types))
        named = ", ".join(f"{field}:{text_of(member)}" for field, member in zip(fields, kind.types, strict=True))
        origin = getattr(kind, "instance_class", tuple)
        return f"{origin.__module__}.{origin.__qualname__}({named})"
    inner = getattr(kind, "type", None)  # of what may be None
    if inner is not None:
        return f"{type(kind).__name__}({text_of(inner)})"
    text = str(kind)
    return f"{text} {_process}" if " at 0x" in text else text
