"""Kernels by address: a chain calls the kernels of users without a compilation for each of them.

Only imported when something is compiled, because ``import plb`` must not load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from plb.compiler.compilation import machine_code
from plb.compiler.handles import kind_of, type_of_function
from plb.compiler.numba_api import NumbaError, cgutils
from plb.errors import KernelError

types: Any = numba.types  # Numba has no types
_RESULTS: dict[type | None, Any] = {float: types.float64, int: types.int64, bool: types.boolean, None: types.none}


def compiled_address(function: Callable[..., object], returning: type | None, arguments: tuple[object, ...]) -> int:
    """Return the address of a kernel, compiled for arguments of these kinds and for this kind of result.

    Raises
    ------
    KernelError
        If Numba cannot compile it.
    """
    try:
        kinds = tuple(map(kind_of, arguments))
        return machine_code(function, kinds, _RESULTS[returning]).address
    except (NumbaError, TypeError, ValueError) as error:  # the latter for a wrong number or kind of arguments
        reason = " ".join(str(error).splitlines()[:2])
        raise KernelError(f"{function.__module__}.{function.__qualname__}", reason) from error


@cache
def type_of_call(returning: type | None) -> Any:
    """Return what kernels take a call by address for: a function of an address and further arguments."""
    return type_of_function(_call_returning(_RESULTS[returning]))


@cache
def type_of_python_call() -> Any:
    """Return what kernels take a call of a callback for: a function of an address and whole numbers."""
    return type_of_function(_call_of_callback())


@cache
def type_of_pointer() -> Any:
    """Return what kernels take the conversion of an address to a pointer for."""
    return type_of_function(_conversion_to_pointer())


def _conversion_to_pointer() -> Any:
    @intrinsic
    def convert(_: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

        return types.voidptr(address), generate

    return convert


def _call_of_callback() -> Any:
    @intrinsic
    def call(_: Any, address: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            given = zip(cgutils.unpack_tuple(builder, values[1]), arguments, strict=True)
            numbers = [context.cast(builder, value, kind, types.int64) for value, kind in given]
            of_c = ir.FunctionType(ir.DoubleType(), [ir.IntType(64)] * len(numbers))
            return builder.call(builder.inttoptr(values[0], of_c.as_pointer()), numbers)

        return types.float64(address, types.StarArgTuple.from_types(arguments)), generate

    return call


def _call_returning(result: Any) -> Any:
    @intrinsic
    def call(_: Any, address: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            convention = context.call_conv
            pointer = convention.get_function_type(result, arguments).as_pointer()
            callee = builder.inttoptr(values[0], pointer)
            handed = cgutils.unpack_tuple(builder, values[1])
            status, value = convention.call_function(builder, callee, result, arguments, handed)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return value

        return result(address, types.StarArgTuple.from_types(arguments)), generate

    return call
