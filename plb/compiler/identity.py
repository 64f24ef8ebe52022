"""The keys of machine code: digests of everything from which it is made.

Numba freezes everything that a function uses from its environment. So a kernel is identified by its instructions, by
the values of the names that it reads of its module and of the functions around it, and by the same of every function
that it calls, shared kernels aside, which are compiled by themselves. Docstrings, comments, annotations and line
numbers do not count. Functions are read as they are in memory, since their file may have changed after they were
loaded. With a value that cannot be pickled, machine code is not kept.
"""

from __future__ import annotations

import hashlib
import opcode
import os
import pickle
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from io import BytesIO
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from plb.compiler.source_code import digest_of_modules, modules_in

_CONSTANT = frozenset(opcode.hasconst)
_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_KINDS_OF_CODE = 0x04 | 0x08 | 0x20
"""Flags of code with further arguments, by place and by name, and of generators; profilers change others."""
_KNOWN = ("builtins", "numpy", "numba", "llvmlite")
"""Packages that are known by their version."""
_PYTHON = os.path.join(os.path.dirname(os.__file__), "")
"""Directory of the standard library."""
_process = os.urandom(8).hex()
"""Prefix of texts with addresses of this process."""


_SHARED: dict[str, Callable[..., object]] = {}
"""The functions of shared kernels by name."""


class Reading(NamedTuple):
    """A function without what it calls."""

    digest: bytes
    """Of its name, its instructions, and the values that it freezes."""
    calls: tuple[Callable[..., object], ...]
    """The functions that it calls and that are compiled with it, in the order in which it is read; some twice."""


def share(function: Callable[..., object]) -> bool:
    """Register the function of a shared kernel; return whether it is the first with its name, and thus shared."""
    return _SHARED.setdefault(name_of(function), function) is function


def is_shared(function: Callable[..., object]) -> bool:
    """Return whether a function belongs to a shared kernel."""
    return _SHARED.get(name_of(function)) is function


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function with its module."""
    return f"{function.__module__}.{function.__qualname__}"


def key_of(function: Callable[..., Any], kinds: tuple[str, ...], returning: str) -> str:
    """Return a digest of everything that determines an entry: code, frozen values, types, versions, processor."""
    return digest((identity_of(function), str(is_shared(function)), *kinds, returning, _surroundings()))


def digest(parts: Iterable[str]) -> str:
    """Return a text that differs for other parts; the text of Numba for types is not enough, see `text_of`."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@cache
def _surroundings() -> str:
    """Return versions, processor, settings and the source code of the compiler."""
    import llvmlite
    import numba
    from numba.core.registry import cpu_target

    settings: Any = numba.config
    versions = (platform.python_version(), numba.__version__, llvmlite.__version__, np.__version__)
    processor = cpu_target.target_context.codegen().magic_tuple()
    switches = (bool(settings.BOUNDSCHECK), int(settings.OPT), bool(settings.DEBUGINFO_DEFAULT))
    return repr((versions, processor, switches, digest_of_modules(modules_in(Path(__file__).parent))))


def identity_of(function: Callable[..., object]) -> str:
    """Return a text that differs for functions of which other machine code is made."""
    together = compiled_with(function)
    place = {called: number for number, called in enumerate(together)}
    hashed = hashlib.sha256(repr([text for text, _ in overloads()]).encode())
    for called in together:
        reading = reading_of(called)
        hashed.update(reading.digest)
        hashed.update(repr([place[callee] for callee in reading.calls]).encode())  # which name leads where
    return hashed.hexdigest()


def compiled_with(function: Callable[..., object]) -> Sequence[Callable[..., object]]:
    """Return a function and all that it calls or may call, directly or not, each once and in the order of the calls."""
    waiting = list(dict.fromkeys([function, *(implementation for _, implementation in overloads())]))
    seen = set(waiting)
    for caller in waiting:
        new = dict.fromkeys(called for called in reading_of(caller).calls if called not in seen)
        seen.update(new)
        waiting += new
    return waiting


def has_changed(function: Callable[..., object]) -> bool:
    """Return whether a function, or one that it calls, has changed since it was first read, or cannot be read."""
    return any(reading_of.__wrapped__(called) != reading_of(called) for called in compiled_with(function))


@cache
def reading_of(function: Any) -> Reading:
    """Return the identity of a function without its callees, and the functions that it calls."""
    codes = list(_codes(function.__code__))
    parts = [_instructions(code) for code in codes]
    names = sorted(set().union(*(read for _, read in parts)) & function.__globals__.keys())
    content = BytesIO()
    writer = _Writer(content, sorted(set().union(*(code.co_names for code in codes))))
    try:
        around = [function.__globals__[name] for name in names]
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        defaults = (function.__defaults__, function.__kwdefaults__)
        writer.dump((name_of(function), [done for done, _ in parts], names, around, cells, defaults))
    except Exception:  # values raise any exception; with other bytes at each reading, the function always has changed
        return Reading(os.urandom(16), ())
    return Reading(hashlib.sha256(content.getvalue()).digest(), tuple(writer.calls))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object, and the code objects of functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instructions(code: CodeType) -> tuple[object, set[str]]:
    """Return what a code object does, and the names that it reads of its module.

    Constants are written where they are used, so a docstring neither counts nor shifts later constants.
    """
    raw = bytearray(code.co_code)
    constants: list[object] = []
    read: set[str] = set()
    for place in range(0, len(raw), 2):
        upper = raw[place - 1] << 8 if place and raw[place - 2] == opcode.EXTENDED_ARG else 0
        if raw[place] in _CONSTANT:
            constant = code.co_consts[upper | raw[place + 1]]
            constants.append("code" if isinstance(constant, CodeType) else constant)
            raw[place + 1] = 0
        elif raw[place] == _GLOBAL:
            read.add(code.co_names[(upper | raw[place + 1]) >> 1])
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags & _KINDS_OF_CODE)
    return (bytes(raw), constants, names, shape, code.co_exceptiontable), read


class _Writer(pickle.Pickler):
    """Writes frozen values as bytes that are the same in every process, and notes the functions in them."""

    def __init__(self, content: BytesIO, names: Sequence[str]) -> None:
        from numba.types import Type

        super().__init__(content, 5)
        self.fast = True  # equal values are written alike, whether or not they are one object
        self.names = names
        """What may be read of modules and classes."""
        self.calls: list[Callable[..., object]] = []
        self._seen: set[int] = set()
        self._kind_of_types: Any = Type

    def persistent_id(self, value: Any) -> object:
        """Return what is written in place of a value; None: the value as it is."""
        if isinstance(value, ModuleType):
            return "module", *self._members(value, value.__name__)
        if isinstance(value, type):
            fields = getattr(value, "_fields", None), getattr(value, "_field_defaults", None)
            return "class", fields, *self._members(value, name_of(value))
        function = _function_of(value)
        if isinstance(function, FunctionType):
            return self._function(value, function)
        if isinstance(value, np.ndarray):
            return "array", repr(value.dtype), value.shape, value.strides, value.tobytes()
        if isinstance(value, set | frozenset):
            return "set", sorted(map(repr, value))
        return ("type", text_of(value)) if isinstance(value, self._kind_of_types) else None

    def _function(self, value: Any, function: Any) -> object:
        """Note a function that is compiled with the caller, and return its name and options."""
        options = [getattr(value, name, None) for name in ("inline", "targetoptions", "locals")]
        signatures = () if getattr(value, "_can_compile", True) else value.signatures
        described = (name_of(function), repr((options, signatures)))
        if getattr(value, "shared", False):  # compiled separately; the caller contains only the call
            code = function.__code__
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            return *described, arguments, code.co_argcount, function.__defaults__, function.__kwdefaults__
        if _is_of_library(function):
            return described
        self.calls.append(function)
        return *described, len(self.calls)

    def _members(self, owner: ModuleType | type, name: str) -> tuple[object, ...]:
        """Return the name of a module or class, and what may be read of it."""
        if id(owner) in self._seen or name.partition(".")[0] in _KNOWN:
            # `numba.types` is `numba.core.types` until something imports it by the shorter name
            return (name.replace("numba.core.", "numba."),)
        self._seen.add(id(owner))
        return name, [(read, getattr(owner, read)) for read in self.names if hasattr(owner, read)]


def _function_of(value: Any) -> Any:
    """Return the Python function of a kernel, of a function of Numba's decorators or of an intrinsic."""
    function = getattr(value, "py_func", value)
    return function if isinstance(function, FunctionType) else getattr(function, "__wrapped__", function)


def _is_of_library(function: Any) -> bool:
    """Return whether a function belongs to Python or to a library whose version stands for its code."""
    file = function.__code__.co_filename
    if str(function.__globals__.get("__name__")).partition(".")[0] in _KNOWN[1:]:
        return True
    return file.startswith(("<frozen ", _PYTHON)) and "-packages" not in file


def overloads() -> Sequence[tuple[str, Callable[..., object]]]:
    """Return the replacements of functions, operators and attributes by `numba.extending`, with what they replace.

    Those of libraries aside, all count for every kernel.
    """
    from numba.core.entrypoints import init_all
    from numba.core.typing.templates import builtin_registry

    init_all()  # otherwise the first compilation registers what installed packages overload, after the key is made
    return _overloads_among(len(builtin_registry.globals), len(builtin_registry.attributes))


@lru_cache(maxsize=1)
def _overloads_among(functions: int, attributes: int) -> Sequence[tuple[str, Callable[..., object]]]:
    """Return `overloads` among the first functions and attributes that are registered with Numba.

    The numbers of both are the key of the cache: what is registered changes them.
    """
    from numba.core.typing.templates import builtin_registry

    pairs = ((value, kind) for value, kind in builtin_registry.globals[:functions])
    templates = chain(
        ((value, template) for value, kind in pairs for template in getattr(kind, "templates", ())),
        (
            (f"{template.key}.{getattr(template, '_attr', '')}", template)
            for template in builtin_registry.attributes[:attributes]
        ),
    )
    overloaded = []
    for replaced, template in templates:
        implementation = getattr(template, "_overload_func", None)
        if implementation is not None and not _is_of_library(implementation):
            options = sorted(getattr(template, "_jit_options", {}).items())
            overloaded.append((f"{getattr(replaced, '__qualname__', replaced)} {options}", implementation))
    return overloaded


def is_named_tuple(text: str) -> bool:
    """Return whether `text_of` a type describes a tuple whose members have names."""
    return re.match(r"[\w.<>]+\(\w+:", text) is not None


def text_of(kind: Any) -> str:
    """Return the text of a type of Numba, which is the same in every process and differs if machine code differs.

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
