"""What calls within kernels are compiled to, for the objects of `plb.compiler.calls`.

- Kernels by address: a chain calls the kernels of users without a compilation for each of them.
- The machine instruction that requests memory.
- NumPy's PCG64, a 128-bit congruential generator with output XSL-RR. Source: O'Neill, "PCG: A family of simple fast
  space-efficient statistically good algorithms for random number generation", 2014, sections 6.3 and 4.3.1 (jumping
  ahead).

Only imported when something is compiled, because ``import plb`` must not load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_uint64, cast
from functools import cache
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel.models import OpaqueModel
from numba.core.errors import NumbaError
from numba.extending import intrinsic, register_model

from plb.compiler.compilation import machine_code
from plb.compiler.handles import kind_of, type_of_function, unbox_address
from plb.errors import KernelError

types: Any = numba.types  # Numba has no types
_RESULTS: dict[type | None, Any] = {float: types.float64, int: types.int64, bool: types.boolean, None: types.none}
READ, KEEP_NEAR, DATA = 0, 3, 1
"""Arguments of the prefetch of LLVM: for reading, into the nearest cache, of data."""
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
UNIT = 2.0**-53
"""Factor of the upper 53 bits of an output."""
_WORD, _WIDE = ir.IntType(64), ir.IntType(128)
_ALL = 2**128 - 1
_NEXT_DOUBLE = 3
"""Position of the function that samples from [0, 1) in NumPy's ``bitgen_t``, after state and two functions."""


def compiled_address(function: Callable[..., object], returning: type | None, arguments: tuple[object, ...]) -> int:
    """Return the address of a kernel, compiled for arguments of these kinds and this kind of result."""
    try:
        kinds = tuple(map(kind_of, arguments))
        return machine_code(function, kinds, _RESULTS[returning]).address
    except (NumbaError, TypeError, ValueError) as error:  # the latter for a wrong number or kind of arguments
        reason = " ".join(str(error).splitlines()[:2])
        raise KernelError(f"{function.__module__}.{function.__qualname__}", reason) from error


@cache
def type_of_call(returning: type | None) -> Any:
    """Return the type in kernels of a call by address of a kernel with the result `returning`, and its arguments."""
    result = _RESULTS[returning]

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

    return type_of_function(call)


@cache
def type_of_python_call() -> Any:
    """Return the type in kernels of a call by address of a Python function, from whole numbers to a float."""

    @intrinsic
    def call(_: Any, address: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            typed_values = zip(cgutils.unpack_tuple(builder, values[1]), arguments, strict=True)
            numbers = [context.cast(builder, value, kind, types.int64) for value, kind in typed_values]
            of_c = ir.FunctionType(ir.DoubleType(), [ir.IntType(64)] * len(numbers))
            return builder.call(builder.inttoptr(values[0], of_c.as_pointer()), numbers)

        return types.float64(address, types.StarArgTuple.from_types(arguments)), generate

    return type_of_function(call)


@cache
def type_of_pointer() -> Any:
    """Return the type in kernels of the conversion of an address to a pointer."""

    @intrinsic
    def convert(_: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

        return types.voidptr(address), generate

    return type_of_function(convert)


@cache
def type_of_fetch() -> Any:
    """Return the type in kernels of `plb.compiler.fetch`, which requests a row of an array for the nearest cache."""

    @intrinsic
    def fetch(_: Any, array: Any, row: Any) -> Any:  # noqa: ARG001  # Numba looks at the names
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

    return type_of_function(fetch)


class StreamType(types.Type):
    """The type of a `plb.compiler.calls.StreamHandle`."""

    def __init__(self) -> None:
        super().__init__("Stream")


STREAM = StreamType()


@register_model(StreamType)
class _StreamModel(OpaqueModel):
    """A pointer to NumPy's ``bitgen_t``."""


numba.extending.unbox(StreamType)(unbox_address)


@cache
def type_of_uniform() -> Any:
    """Return the implementation of `plb.compiler.calls.uniform` for kernels."""
    return type_of_function(_uniform_in_place() if _is_laid_out_as_known() else _uniform_by_call)


@cache
def type_of_peek(others: int) -> Any:
    """Return the implementation of a `plb.compiler.Peek` for kernels; it returns 0 if the state cannot be read."""
    return type_of_function(_peek(others) if _is_laid_out_as_known() else _unknown)


def jump(steps: int) -> tuple[int, int]:
    """Return a and c such that a number of steps of the generator maps state s to a·s + c·increment, modulo 2^128."""
    factor, summand = 1, 0
    for _ in range(steps):
        factor, summand = factor * MULTIPLIER & _ALL, (summand * MULTIPLIER + 1) & _ALL
    return factor, summand


def output(state: int) -> float:
    """Return the number from [0, 1) that NumPy's PCG64 draws in a state."""
    folded = (state >> 64 ^ state) & 2**64 - 1
    turn = state >> 122
    turned = (folded >> turn | folded << (64 - turn)) & 2**64 - 1
    return (turned >> 11) * UNIT


def _is_laid_out_as_known() -> bool:
    """Return whether NumPy keeps the generator's numbers in memory as machine code expects them here."""
    generator = np.random.PCG64(1)
    state, increment = (int(generator.state["state"][name]) for name in ("state", "inc"))
    words = cast(generator.ctypes.bit_generator, POINTER(POINTER(POINTER(c_uint64))))[0][0][:4]
    if (words[0] | words[1] << 64, words[2] | words[3] << 64) != (state, increment):
        return False
    factor, summand = jump(3)
    third = np.random.Generator(generator).random(3)[2]
    return bool(output((factor * state + summand * increment) & _ALL) == third)


def _from_stream(rng: Any, generate: Any) -> Any:
    """Return what a call that takes a number from a stream is compiled to; None, as Numba requires, for another one."""
    return (types.float64(rng), generate) if isinstance(rng, StreamType) else None


def _uniform_in_place() -> Any:
    """Return an intrinsic that draws the next number of a stream by machine code, and stores its new state."""

    @intrinsic
    def uniform(_: Any, rng: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            place, state = _state_after(builder, values[0], 1)
            builder.store(state, place, align=8)
            return _output_of(builder, state)

        return _from_stream(rng, generate)

    return uniform


def _peek(others: int) -> Any:
    """Return an intrinsic for the number of a stream after the next `others`; it leaves the stream as it is."""

    @intrinsic
    def peek(_: Any, rng: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return _output_of(builder, _state_after(builder, values[0], others + 1)[1])

        return _from_stream(rng, generate)

    return peek


def _state_after(builder: Any, stream: Any, steps: int) -> tuple[Any, Any]:
    """Return, as values of LLVM, where the state of a generator is kept, and what it is after so many steps."""
    place = _fixed(builder, _fixed(builder, builder.bitcast(stream, _WIDE.as_pointer().as_pointer().as_pointer())))
    increment = builder.load(builder.gep(place, [ir.Constant(_WORD, 1)]), align=8)
    factor, summand = jump(steps)
    moved = builder.mul(builder.load(place, align=8), ir.Constant(_WIDE, factor))
    return place, builder.add(moved, builder.mul(increment, ir.Constant(_WIDE, summand)))


def _fixed(builder: Any, pointer: Any) -> Any:
    """Return what is at a pointer, and never changes while the generator lives."""
    value = builder.load(pointer)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _output_of(builder: Any, state: Any) -> Any:
    """Return the number of a state, as `output` does."""
    upper = builder.trunc(builder.lshr(state, ir.Constant(_WIDE, 64)), _WORD)
    folded = builder.xor(upper, builder.trunc(state, _WORD))
    turn = builder.lshr(upper, ir.Constant(_WORD, 58))
    back = builder.and_(builder.neg(turn), ir.Constant(_WORD, 63))
    turned = builder.or_(builder.lshr(folded, turn), builder.shl(folded, back))
    bits = builder.lshr(turned, ir.Constant(_WORD, 11))
    return builder.fmul(builder.uitofp(bits, ir.DoubleType()), ir.Constant(ir.DoubleType(), UNIT))


@intrinsic
def _unknown(_: Any, rng: Any) -> Any:
    """Return 0 where NumPy keeps its state elsewhere than expected, so that no later number can be read."""

    def generate(*_: Any) -> Any:
        return ir.Constant(ir.DoubleType(), 0.0)

    return _from_stream(rng, generate)


@intrinsic
def _uniform_by_call(_: Any, rng: Any) -> Any:
    """Draw the next number of a stream by a call of NumPy's function."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        any_pointer = ir.IntType(8).as_pointer()
        members = builder.bitcast(values[0], any_pointer.as_pointer())
        function = builder.load(builder.gep(members, [ir.Constant(ir.IntType(32), _NEXT_DOUBLE)]))
        draws = ir.FunctionType(ir.DoubleType(), [any_pointer]).as_pointer()
        return builder.call(builder.bitcast(function, draws), [builder.load(members)])

    return _from_stream(rng, generate)
