"""Which function machine code was made of: Numba freezes all that a kernel takes from around it, and so has the cache.

Kernels of plb itself are known by the hash of its sources. One of a user is known by its code, the file it stands in,
and what it reads of its module and of the function around it; the same holds for the kernels that it calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def identity_of(function: Callable[..., object]) -> str:
    """Return a text that differs for functions of which other machine code may be made; empty for those of plb."""
    if _is_of_plb(function):
        return ""
    digest = hashlib.sha256()
    for part in _function(function, set()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def _is_of_plb(function: Callable[..., object]) -> bool:
    return str(function.__module__).partition(".")[0] == __name__.partition(".")[0]


def _function(function: Any, seen: set[int]) -> Iterator[bytes]:
    """Yield what a function is: its name, its code, its file, and what it reads."""
    yield f"{function.__module__}.{function.__qualname__}".encode()
    if id(function) in seen or _is_of_plb(function):
        return
    seen.add(id(function))
    codes = list(_codes(function.__code__))
    for code in codes:
        constants = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        yield repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars)).encode()
    yield _contents(function.__code__.co_filename)
    names = sorted({name for code in codes for name in code.co_names})
    for name, value in _read_by(function, names).items():
        yield name.encode()
        yield from _value(value, names, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _contents(file: str) -> bytes:
    """Return what a file holds; nothing where there is none, as for what was typed in."""
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


def _read_by(function: Any, names: Collection[str]) -> Mapping[str, object]:
    """Return what a function finds around it by name: in its module, and in the functions that it stands in."""
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found | {"": function.__defaults__}


def _value(value: Any, names: Collection[str], seen: set[int]) -> Iterator[bytes]:
    """Yield what is frozen of a value; of a module or a class, what is taken from it by one of `names`."""
    yield type(value).__qualname__.encode()
    if isinstance(value, ModuleType | type):
        yield value.__name__.encode()
        if id(value) not in seen:
            seen.add(id(value))
            for name in names:
                yield from _value(vars(value).get(name), names, seen)
    elif isinstance(function := getattr(value, "py_func", value), FunctionType):
        yield from _function(function, seen) if function is not value else [function.__qualname__.encode()]
    elif isinstance(value, tuple):
        for item in value:
            yield from _value(item, names, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape)).encode()
        yield value.tobytes()
    else:
        yield getattr(value, "__qualname__", repr(value)).encode()
