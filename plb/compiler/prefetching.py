"""The machine instruction behind `plb.compiler.prefetch`.

Only imported when something is compiled, because ``import plb`` must not load Numba.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from plb.compiler.handles import type_of_function
from plb.compiler.numba_api import cgutils

types: Any = numba.types  # Numba has no types
READ, KEEP_NEAR, DATA = 0, 3, 1
"""Arguments of the prefetch of LLVM: for reading, into the nearest cache, of data."""


@intrinsic
def _fetch(_: Any, array: Any, row: Any) -> Any:  # noqa: ARG001  # Numba looks at the names
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> None:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        byte = ir.IntType(8).as_pointer()
        place = builder.gep(builder.bitcast(array.data, byte), [builder.mul(values[1], stride)])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(instruction, [place, *(number(argument) for argument in (READ, KEEP_NEAR, DATA))])

    return types.void(array, types.intp), generate


@cache
def type_of_fetch() -> Any:
    """Return what kernels take `plb.compiler.fetch` for."""
    return type_of_function(_fetch)
