"""Types of arguments as texts that are the same in every process, and differ where machine code does."""

from __future__ import annotations

from typing import Any


def text_of(kind: Any) -> str:
    """Return the text of a type of Numba.

    Numba's own text of a named tuple leaves out its module and the names of its members, by which kernels read them.
    """
    members = getattr(kind, "types", None)  # only tuples have them
    if members is None:
        return str(kind)
    fields = getattr(kind, "fields", ("",) * len(members))
    named = ", ".join(f"{field}:{text_of(member)}" for field, member in zip(fields, members, strict=True))
    origin = getattr(kind, "instance_class", tuple)
    return f"{origin.__module__}.{origin.__qualname__}({named})"
