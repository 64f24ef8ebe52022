"""The identity of the machine code of a kernel: its code, the code of its callees, and the values that it freezes.

Numba freezes everything that a function uses from its environment. So a kernel is identified by its instructions,
by the values of the names that it reads of its module and of the functions around it, and by the same of every function
that it calls, shared kernels aside, which are compiled by themselves. Docstrings, comments, annotations and line
numbers do not count. The rule is the same for the kernels of plb and of users. Intrinsics, and replacements of
functions, operators and attributes (`plb.compiler.overloads`), count by their code, too; how types of users are lowered
does not.

`text_of` writes types of arguments as texts that are the same in every process and differ if machine code differs.
"""

from __future__ import annotations

import builtins
import hashlib
import opcode
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import chain
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from plb.compiler.overloads import overloads

_COUNTED = (int, float, str, bytes, tuple, frozenset, MappingProxyType)
"""Kinds of constants at the top level of a module that count with its code; none of them changes at run time."""
_IS_FUNCTION = 0x0001
"""Flag of the code of functions; the code of modules and classes does not have it."""
_KINDS_OF_CODE = 0x04 | 0x08 | 0x20
"""Flags of code with further arguments, by place and by name, and of generators; profilers change others."""
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
"""Directory of the standard library."""
_CONSTANT = frozenset(opcode.hasconst)
_READS_NAME = {opcode.opmap["LOAD_GLOBAL"]: 1, opcode.opmap["LOAD_NAME"]: 0}
"""Instructions that read a name from the environment, and the number of further bits of their argument."""
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
    """The functions that it calls and that are compiled with it, in the order in which it is read; some twice."""


def identity_of(function: Callable[..., object]) -> str:
    """Return a text that differs for functions of which other machine code is made."""
    digest = hashlib.sha256()
    together = compiled_with(function)
    place = {one: number for number, one in enumerate(together)}
    for one in together:
        reading = reading_of(one)
        digest.update(reading.digest)
        digest.update(repr([place[called] for called in reading.calls]).encode())  # which name leads where
    return digest.hexdigest()


def compiled_with(function: Callable[..., object]) -> Sequence[Callable[..., object]]:
    """Return a function and all that it calls, directly or not, each once and in the order of the calls."""
    found = dict.fromkeys([function])
    waiting = [function]
    for one in waiting:
        new = dict.fromkeys(called for called in reading_of(one).calls if called not in found)
        found |= new
        waiting += new
    return waiting


def has_changed(function: Callable[..., object]) -> bool:
    """Return whether a function, or one that it calls, has changed since it was first read."""
    return any(reading_of.__wrapped__(one) != reading_of(one) for one in compiled_with(function))


def share(function: Callable[..., object]) -> bool:
    """Register the function of a shared kernel; return whether it is the first with its name, and thus shared."""
    return _SHARED.setdefault(name_of(function), function) is function


def is_shared(function: Callable[..., object]) -> bool:
    """Return whether a function is that of a shared kernel."""
    return _SHARED.get(name_of(function)) is function


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function with its module."""
    return f"{function.__module__}.{function.__qualname__}"


@cache
def reading_of(function: Any) -> Reading:
    """Return the identity of a function without its callees, and these."""
    calls: list[Callable[..., object]] = []
    digest = hashlib.sha256(name_of(function).encode())
    around: set[str] = set()
    attributes: set[str] = set()
    for code in _codes(function.__code__):
        digest.update(_instructions(code))
        around |= _names_read(code, _READS_NAME)
        attributes |= _names_read(code, _READS_ATTRIBUTE)
    others = overloads(_is_of_library)
    for one in chain(others.of_operators, *(others.of_attributes.get(name, ()) for name in sorted(attributes))):
        digest.update(one.options.encode())
        calls.append(one.implementation)
    seen: set[int] = set()
    for name, value in _read_around(function, sorted(around)):
        digest.update(name.encode())
        for part in _value(value, sorted(attributes), calls, seen):
            digest.update(hashlib.sha256(part).digest())
    return Reading(digest.digest(), tuple(calls))


def code_of_modules(names: Iterable[str]) -> str:
    """Return a text that differs if a function of these modules or a constant has changed.

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

    Constants are written where they are used, so a docstring neither counts nor shifts later constants.
    """
    raw = code.co_code
    constants: list[str] = []
    others = bytearray(raw)
    for position in range(0, len(raw), 2):
        if raw[position] in _CONSTANT:
            constants.append(_constant(code.co_consts[_argument(raw, position)]))
            others[position + 1] = 0
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags & _KINDS_OF_CODE)
    return repr((bytes(others), constants, names, shape, code.co_exceptiontable)).encode()


def _shows_its_address(kind: type[Any]) -> bool:
    """Return whether `repr` of an object of this kind has its address."""
    shown: object = kind.__repr__
    return shown is object.__repr__


def _function_of(value: Any) -> Any:
    """Return the Python function of a kernel, of a function of Numba's decorators or of an intrinsic."""
    found = getattr(value, "py_func", value)
    return found if isinstance(found, FunctionType) else getattr(found, "__wrapped__", found)


def _attribute_of(value: Any, name: str) -> object:
    """Return an attribute of a module or a class, or None; also attributes that a module creates on request."""
    if isinstance(value, type):
        return getattr(value, name, None)
    known = vars(value)
    if name in known or "__getattr__" not in known or value.__name__.partition(".")[0] in ("numpy", "numba"):
        return known.get(name)
    try:
        return getattr(value, name)
    except Exception:  # a module may raise any exception for a missing name
        return None


def _slots_of(kind: type[Any]) -> Iterator[str]:
    """Yield the names of the attributes of objects of a class without a dictionary."""
    for one in kind.__mro__:
        slots = vars(one).get("__slots__", ())
        yield from (name for name in ([slots] if isinstance(slots, str) else slots) if not name.startswith("__"))


def _settings_of(function: Any) -> str:
    """Return the options of a function of Numba's decorators, and its types if they are fixed."""
    signatures = () if getattr(function, "_can_compile", True) else function.signatures
    options = getattr(function, "targetoptions", {})
    return f"{_constant(options)} {getattr(function, 'locals', None)!r} {signatures!r}"


def _is_of_library(function: Any) -> bool:
    """Return whether a function belongs to what is known by its version: Python, NumPy or Numba."""
    module = function.__module__ or function.__globals__.get("__name__") or ""
    package = module.partition(".")[0]
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
    if isinstance(value, set | frozenset):
        return f"{{{sorted(map(_constant, value))}}}"
    if isinstance(value, tuple):
        return f"({[_constant(item) for item in value]})"
    return f"{type(value).__qualname__}:{value!r}"


def _read_around(function: Any, names: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Yield the names that a function uses from its environment: of its module, and of enclosing functions."""
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
        elif name in vars(builtins):
            yield name, vars(builtins)[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    yield "", function.__defaults__
    yield "", function.__kwdefaults__


def _value(value: Any, names: Sequence[str], calls: list[Callable[..., object]], seen: set[int]) -> Iterator[bytes]:
    """Yield the frozen parts of a value, and record the functions in it.

    Parameters
    ----------
    names
        What is taken from a module or a class.
    """
    kind: type[Any] = type(value)
    yield kind.__qualname__.encode()
    for one in overloads(_is_of_library).of_functions.get(id(value), ()):
        yield one.options.encode()
        calls.append(one.implementation)
    if isinstance(value, ModuleType | type):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()
        if isinstance(value, type):
            yield repr((getattr(value, "_fields", None), getattr(value, "_field_defaults", None))).encode()
        if id(value) not in seen:
            seen.add(id(value))
            for name in names:
                yield from _value(_attribute_of(value, name), names, calls, seen)
    elif isinstance(function := _function_of(value), FunctionType):
        yield f"{function.__module__}.{function.__qualname__} {getattr(value, 'inline', None)}".encode()
        yield _settings_of(value).encode()
        if getattr(value, "shared", False):  # compiled separately; the caller contains only the call
            code = function.__code__
            names_of_arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            yield repr((names_of_arguments, code.co_argcount)).encode()
            for part in (function.__defaults__, function.__kwdefaults__):
                yield from _value(part, names, calls, seen)
        elif not _is_of_library(function):
            yield str(len(calls)).encode()
            calls.append(function)
    elif isinstance(value, Enum):
        yield value.name.encode()
        yield from _value(value.value, names, calls, seen)
    elif isinstance(value, tuple):
        yield repr(getattr(value, "_fields", None)).encode()
        for item in value:
            yield from _value(item, names, calls, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape, value.strides)).encode()
        yield value.tobytes()
    elif _shows_its_address(kind):
        members = {**getattr(value, "__dict__", {}), **{name: getattr(value, name, None) for name in _slots_of(kind)}}
        yield f"{kind.__module__}.{sorted(members.items())!r}".encode()
    else:
        yield getattr(value, "__qualname__", repr(value)).encode()


_process = os.urandom(8).hex()
"""Prefix of texts with addresses of this process."""


def is_named_tuple(text: str) -> bool:
    """Return whether `text_of` a type is that of a tuple whose members have names."""
    return re.match(r"[\w.<>]+\(\w+:", text) is not None


def text_of(kind: Any) -> str:
    """Return the text of a type of Numba.

    The text of Numba for a named tuple has neither its module nor the names of its members, by which kernels read them,
    and that for a function does not have its code.
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
