"""Which machine code a kernel needs: its own code, the code of what it calls, and the values that it freezes.

Numba freezes everything that a function takes from around it. So a kernel is known by its instructions and constants,
by the values of the names that it reads of its module and of the functions around it, and by the same of every function
that it calls, shared kernels aside, which are compiled by themselves. Docstrings, comments, annotations and line
numbers do not count. The rule is one for the kernels of plb and for those of users. Intrinsics and functions that
`numba.extending.overload` stands in for count by their code, too; how types of users are lowered does not.
"""

from __future__ import annotations

import hashlib
import opcode
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

_COUNTED = (int, float, str, bytes, tuple, frozenset, dict)
"""Kinds of constants at the top level of a module that count with its code."""
_IS_FUNCTION = 0x0001
"""Flag of the code of functions; the code of modules and classes does not have it."""
_HAS_DOCSTRING = 0x4000000
"""Flag of code with a docstring, from Python 3.13 on."""
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
"""Where the files of Python's own modules lie."""
_CONSTANT = frozenset(opcode.hasconst)
_READS_NAME = {opcode.opmap["LOAD_GLOBAL"]: 1, opcode.opmap["LOAD_NAME"]: 0}
"""Instructions that read a name around a function, and how many bits their argument has besides the name's number."""
_READS_ATTRIBUTE = {
    opcode.opmap[name]: bits
    for name, bits in (("LOAD_ATTR", int(sys.version_info >= (3, 12))), ("LOAD_METHOD", 0))
    if name in opcode.opmap
}
"""The same for instructions that read an attribute."""


_SHARED: dict[str, Callable[..., object]] = {}
"""The functions of shared kernels by name."""


class Reading(NamedTuple):
    """A function without what it calls."""

    digest: bytes
    """Of its name, its instructions, and the values that it freezes."""
    calls: tuple[Callable[..., object], ...]
    """The functions that it calls and that are compiled with it."""


def identity_of(function: Callable[..., object]) -> str:
    """Return a text that differs for functions of which other machine code is made."""
    digest = hashlib.sha256()
    for one in compiled_with(function):
        digest.update(reading_of(one).digest)
    return digest.hexdigest()


def compiled_with(function: Callable[..., object]) -> Sequence[Callable[..., object]]:
    """Return a function and all that it calls, directly or not, each once and in the order of the calls."""
    found = [function]
    for one in found:
        found += [called for called in reading_of(one).calls if called not in found]
    return found


def has_changed(function: Callable[..., object]) -> bool:
    """Tell whether a function, or one that it calls, would be read otherwise now than when it was first read."""
    return any(reading_of.__wrapped__(one) != reading_of(one) for one in compiled_with(function))


def share(function: Callable[..., object]) -> bool:
    """Enter the function of a shared kernel; tell whether it is the first of its name, which alone can be one."""
    return _SHARED.setdefault(name_of(function), function) is function


def is_shared(function: Callable[..., object]) -> bool:
    """Tell whether a function is that of a shared kernel."""
    return _SHARED.get(name_of(function)) is function


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function with its module."""
    return f"{function.__module__}.{function.__qualname__}"


@cache
def reading_of(function: Any) -> Reading:
    """Return what a function is by itself, and which functions it calls."""
    calls: list[Callable[..., object]] = []
    digest = hashlib.sha256(name_of(function).encode())
    around: set[str] = set()
    attributes: set[str] = set()
    for code in _codes(function.__code__):
        digest.update(_instructions(code))
        around |= _names_read(code, _READS_NAME)
        attributes |= _names_read(code, _READS_ATTRIBUTE)
    seen: set[int] = set()
    for name, value in _read_around(function, sorted(around)):
        digest.update(name.encode())
        for part in _value(value, sorted(attributes), calls, seen):
            digest.update(hashlib.sha256(part).digest())
    return Reading(digest.digest(), tuple(dict.fromkeys(calls)))


def code_of_modules(names: Iterable[str]) -> str:
    """Return a text that differs where a function of these modules does something else, or a constant has changed.

    Parameters
    ----------
    names
        Modules that are loaded.
    """
    digest = hashlib.sha256()
    for name in names:
        module = sys.modules[name]
        for part in _codes(_code_of_module(module)):
            if part.co_flags & _IS_FUNCTION:
                digest.update(_instructions(part))
        for key, value in sorted(vars(module).items(), key=lambda item: item[0]):
            if key.isupper() and isinstance(value, _COUNTED):
                digest.update(f"{key}={_constant(value)}".encode())
    return digest.hexdigest()


def _code_of_module(module: ModuleType) -> CodeType:
    loader: Any = module.__spec__.loader if module.__spec__ else None
    code: CodeType = loader.get_code(module.__name__)
    return code


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instructions(code: CodeType) -> bytes:
    """Return what a code object does.

    Constants are written out where they are used, so a docstring neither counts nor shifts the constants behind it.
    """
    raw = code.co_code
    constants: list[str] = []
    others = bytearray(raw)
    for position in range(0, len(raw), 2):
        if raw[position] in _CONSTANT:
            constants.append(_constant(code.co_consts[_argument(raw, position)]))
            others[position + 1] = 0
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING)
    return repr((bytes(others), constants, names, shape, code.co_exceptiontable)).encode()


def _shows_its_place(kind: type[Any]) -> bool:
    """Tell whether `repr` of an object of this kind says where it lies in memory."""
    shown: object = kind.__repr__
    return shown is object.__repr__


def _function_of(value: Any) -> Any:
    """Return the Python function of a kernel, of a function of Numba's own decorators or of an intrinsic."""
    found = getattr(value, "py_func", value)
    return found if isinstance(found, FunctionType) else getattr(found, "__wrapped__", found)


def _implementations() -> Mapping[int, Sequence[Callable[..., object]]]:
    """Return, by the `id` of a function, what users have given with `numba.extending.overload` for it."""
    if "numba.extending" not in sys.modules:
        return {}
    from plb.compiler.numba_api import builtin_registry

    return _implementations_among(len(builtin_registry.globals))


@lru_cache(maxsize=1)
def _implementations_among(number: int) -> Mapping[int, Sequence[Callable[..., object]]]:
    from plb.compiler.numba_api import builtin_registry

    found: dict[int, list[Callable[..., object]]] = {}
    for function, kind in builtin_registry.globals[:number]:
        for template in getattr(kind, "templates", ()):
            implementation = getattr(template, "_overload_func", None)
            if implementation is not None and not _is_of_library(implementation):
                found.setdefault(id(function), []).append(implementation)
    return found


def _settings_of(function: Any) -> str:
    """Return what a function that Numba's own decorator made is compiled for: options, and types if they are fixed."""
    signatures = () if getattr(function, "_can_compile", True) else function.signatures
    return repr((getattr(function, "targetoptions", None), getattr(function, "locals", None), signatures))


def _is_of_library(function: Any) -> bool:
    """Tell whether a function belongs to what is known by its version: Python, NumPy or Numba."""
    package = str(function.__module__).partition(".")[0]
    if package in sys.stdlib_module_names:  # or a module of a user that has such a name
        file = function.__code__.co_filename
        return file.startswith(("<frozen ", _LIBRARY)) and "-packages" not in file
    return package in ("numpy", "numba")


def _names_read(code: CodeType, instructions: Mapping[int, int]) -> set[str]:
    """Return the names that instructions of a code object read."""
    raw = code.co_code
    found = set()
    for position in range(0, len(raw), 2):
        if raw[position] in instructions:
            found.add(code.co_names[_argument(raw, position) >> instructions[raw[position]]])
    return found


def _argument(raw: bytes, position: int) -> int:
    """Return the argument of an instruction; a prefix holds its upper bits."""
    has_prefix = position > 0 and raw[position - 2] == opcode.EXTENDED_ARG
    return raw[position + 1] | (raw[position - 1] << 8 if has_prefix else 0)


def _constant(value: object) -> str:
    """Return a constant as a text that is the same in every process."""
    if isinstance(value, CodeType):
        return "code"
    if isinstance(value, Mapping):
        return f"{{{sorted(f'{_constant(key)}: {_constant(item)}' for key, item in value.items())}}}"
    if isinstance(value, frozenset):
        return f"{{{sorted(map(_constant, value))}}}"
    if isinstance(value, tuple):
        return f"({[_constant(item) for item in value]})"
    return f"{type(value).__qualname__}:{value!r}"


def _read_around(function: Any, names: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Yield what a function finds around it by name: in its module, and in the functions that it stands in."""
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    yield "", function.__defaults__
    yield "", function.__kwdefaults__


def _value(value: Any, names: Sequence[str], calls: list[Callable[..., object]], seen: set[int]) -> Iterator[bytes]:
    """Yield what is frozen of a value, and note the functions in it.

    Parameters
    ----------
    names
        What is taken from a module or a class.
    """
    kind: type[Any] = type(value)
    yield kind.__qualname__.encode()
    if callable(value):
        calls += _implementations().get(id(value), ())
    if isinstance(value, ModuleType | type):
        yield value.__name__.encode()
        yield repr(getattr(value, "_fields", None)).encode()
        yield repr(getattr(value, "_field_defaults", None)).encode()
        if id(value) not in seen:
            seen.add(id(value))
            found = vars(value).get if isinstance(value, ModuleType) else partial(getattr, value)
            for name in names:
                yield from _value(found(name, None), names, calls, seen)
    elif isinstance(function := _function_of(value), FunctionType):
        yield f"{function.__module__}.{function.__qualname__} {getattr(value, 'inline', None)}".encode()
        yield _settings_of(value).encode()
        if not _is_of_library(function) and not getattr(value, "shared", False):
            calls.append(function)
    elif isinstance(value, Enum):
        yield value.name.encode()
        yield from _value(value.value, names, calls, seen)
    elif isinstance(value, tuple):
        yield repr(getattr(value, "_fields", None)).encode()
        for item in value:
            yield from _value(item, names, calls, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape)).encode()
        yield value.tobytes()
    elif _shows_its_place(kind):
        yield f"{kind.__module__}.{sorted(getattr(value, '__dict__', {}).items())!r}".encode()
    else:
        yield getattr(value, "__qualname__", repr(value)).encode()
