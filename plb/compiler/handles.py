"""Handles: kernels take the many arrays of a search by one pointer, `Handle`.

Numba passes a named tuple of arrays member by member: hundreds of numbers for every call between kernels, which cost
more than the kernels themselves, to compile and to run. A `Handle` is one pointer to the same numbers, written down
once. What it points to never changes, so the compiler may keep what it has read; the arrays themselves may change.

Only imported when something is compiled, because ``import plb`` must not load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import Array, addressof, c_int64
from functools import cache
from hashlib import sha256
from types import FunctionType
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba import typeof
from numba._dispatcher import compute_fingerprint
from numba.core.datamodel.models import OpaqueModel
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate

from plb.compiler.compilation import entry_of
from plb.compiler.identity import text_of

types: Any = numba.types  # Numba has no types


class HandleType(types.Type):
    """The type of a handle to a named tuple of arrays, numbers and switches."""

    def __init__(self, members: types.NamedTuple) -> None:
        self.members = members
        self.fields = _fields_of(members)
        super().__init__(f"{members.instance_class.__name__}{sha256(text_of(members).encode()).hexdigest()[:16]}")


def _fields_of(members: types.NamedTuple) -> int:
    """Return the number of fields of a named tuple, with the fields of tuples in it."""
    return sum(_fields_of(kind) if isinstance(kind, types.BaseTuple) else 1 for kind in members.types)


_KINDS: dict[bytes, Any] = {}
_HANDLE_KINDS: dict[bytes, tuple[HandleType, Callable[[Any, int], None]]] = {}


def kind_of(value: Any) -> Any:
    """Return the type of a value as Numba sees it; values of one fingerprint have one type."""
    if hasattr(value, "_numba_type_"):
        return value._numba_type_
    try:
        fingerprint = compute_fingerprint(value)
    except NotImplementedError:  # as for texts
        return typeof(value)
    if fingerprint not in _KINDS:
        _KINDS[fingerprint] = typeof(value)
    return _KINDS[fingerprint]


def type_of_function(function: Any) -> Any:
    """Return the type of an intrinsic, a function that generates its own machine code, by which kernels know it."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(function)


def kind_and_packer_of(members: Any) -> tuple[HandleType, Callable[[Any, int], None]]:
    """Return the type of a handle to a named tuple, and a compiled function that writes such a tuple to an address."""
    fingerprint = compute_fingerprint(members)
    if fingerprint not in _HANDLE_KINDS:
        kind: Any = type(members)
        of_members = typeof(members)
        # the function itself: its dispatcher would find the types of all members for every tuple
        pack = packer_of(kind).compile((of_members, types.uint64))
        _HANDLE_KINDS[fingerprint] = HandleType(of_members), pack
    return _HANDLE_KINDS[fingerprint]


@numba.extending.register_model(HandleType)
class _HandleModel(OpaqueModel):
    """One untyped pointer."""


@numba.extending.unbox(HandleType)
def unbox_address(_: types.Type, handle: Any, c: Any) -> Any:
    """Take the `address` of a Python object as a pointer."""
    address = c.pyapi.object_getattr_string(handle, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return numba.extending.NativeValue(pointer)


@numba.extending.infer_getattr
class _HandleAttributes(AttributeTemplate):
    key = HandleType

    def generic_resolve(self, kind: HandleType, name: str) -> Any:
        """Return the type of the member `name` of the named tuple behind a handle; None: there is no such member."""
        fields = kind.members.fields
        return kind.members.types[fields.index(name)] if name in fields else None


@numba.extending.lower_getattr_generic(HandleType)
def _read_member(context: Any, builder: Any, kind: HandleType, pointer: Any, name: str) -> Any:
    """Read the member `name` of the named tuple to which a handle points."""
    members = builder.bitcast(pointer, context.get_value_type(kind.members).as_pointer())
    position = kind.members.fields.index(name)
    return _read(builder, builder.gep(members, _indices(0, position), inbounds=True))


def _read(builder: Any, pointer: Any) -> Any:
    """Read what `pointer` points to number by number, each marked as never changing."""
    kind = pointer.type.pointee
    if not isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        number = builder.load(pointer)
        number.set_metadata("invariant.load", builder.module.add_metadata([]))
        return number
    value = ir.Constant(kind, ir.Undefined)
    for position in range(len(kind)):
        part = _read(builder, builder.gep(pointer, _indices(0, position), inbounds=True))
        value = builder.insert_value(value, part, position)
    return value


def _indices(*positions: int) -> list[Any]:
    """Return positions as constants of LLVM, to reach a part of a structure."""
    return [ir.Constant(ir.IntType(32), position) for position in positions]


@numba.extending.intrinsic
def write_members(_: Any, members: Any, address: Any) -> Any:
    """Write the members of a named tuple, as Numba holds them, to an address."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> None:
        value, target = arguments
        builder.store(value, builder.inttoptr(target, value.type.as_pointer()))

    return types.void(members, address), generate


WORDS_PER_FIELD = 16
"""Room for an array of up to four dimensions: data, sizes, shape and strides."""
_write: Any = write_members  # an intrinsic takes fewer arguments than its definition


class Handle:
    """A pointer to the members of a named tuple, which has to live as long."""

    def __init__(self, members: Any) -> None:
        """Copy the members of a named tuple to memory of the handle's own, whose address kernels get."""
        self._numba_type_, pack = kind_and_packer_of(members)
        self._words = _words_of(self._numba_type_.fields)()
        self.address = addressof(self._words)
        pack(members, self.address)


@cache
def _words_of(fields: int) -> type[Array[c_int64]]:
    """Return the type of the memory that so many fields take."""
    return c_int64 * (WORDS_PER_FIELD * fields)


def _pack(members: Any, address: np.uint64) -> None:
    """Write the members of a named tuple to an address."""
    _write(members, address)


@cache
def packer_of(kind: type) -> Any:
    """Return the dispatcher that packs tuples of a class.

    Each class has its own, so that the machine code of one is read without importing any other.
    """
    function = FunctionType(_pack.__code__, _pack.__globals__, f"pack_{kind.__qualname__}")
    function.__module__ = kind.__module__
    return entry_of(function)
