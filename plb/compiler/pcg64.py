"""NumPy's PCG64 as machine code, for `plb.compiler.uniform`: a 128-bit congruential generator with output XSL-RR.

Source: O'Neill, "PCG: A family of simple fast space-efficient statistically good algorithms for random number
generation", 2014, sections 6.3 and 4.3.1 (jumping ahead).

Only imported when something is compiled, because ``import plb`` must not load Numba.
"""

from __future__ import annotations

from ctypes import POINTER, c_uint64, cast
from functools import cache
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, register_model

from plb.compiler.handles import type_of_function, unbox_address
from plb.compiler.numba_api import OpaqueModel

types: Any = numba.types  # Numba has no types

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
UNIT = 2.0**-53
"""Factor of the upper 53 bits of an output."""
_WORD, _WIDE = ir.IntType(64), ir.IntType(128)
_ALL = 2**128 - 1
_NEXT_DOUBLE = 3
"""Position of the function that samples from [0, 1) in NumPy's ``bitgen_t``, after state and two functions."""


class StreamType(types.Type):
    """The type of a `plb.compiler.uniform.StreamHandle`."""

    def __init__(self) -> None:
        super().__init__("Stream")


STREAM = StreamType()


@register_model(StreamType)
class _StreamModel(OpaqueModel):
    """A pointer to NumPy's ``bitgen_t``."""


numba.extending.unbox(StreamType)(unbox_address)


@cache
def type_of_uniform() -> Any:
    """Return the implementation of `plb.compiler.uniform` for kernels."""
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
    """Return the number that a state gives."""
    folded = (state >> 64 ^ state) & 2**64 - 1
    turn = state >> 122
    turned = (folded >> turn | folded << (64 - turn)) & 2**64 - 1
    return (turned >> 11) * UNIT


def _is_laid_out_as_known() -> bool:
    """Return whether NumPy keeps the generator's numbers in memory as machine code expects them here."""
    generator = np.random.PCG64(1)
    known: Any = generator.state["state"]
    words = cast(generator.ctypes.bit_generator, POINTER(POINTER(POINTER(c_uint64))))[0][0][:4]
    if (words[0] | words[1] << 64, words[2] | words[3] << 64) != (known["state"], known["inc"]):
        return False
    factor, summand = jump(3)
    return bool(
        output((factor * known["state"] + summand * known["inc"]) & _ALL) == np.random.Generator(generator).random(3)[2]
    )


def _from_stream(rng: Any, generate: Any) -> Any:
    """Return what a call that takes a number from a stream is compiled to; None, as Numba requires, for another one."""
    return (types.float64(rng), generate) if isinstance(rng, StreamType) else None


def _uniform_in_place() -> Any:
    @intrinsic
    def uniform(_: Any, rng: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            place, state = _state_after(builder, values[0], 1)
            builder.store(state, place, align=8)
            return _output_of(builder, state)

        return _from_stream(rng, generate)

    return uniform


def _peek(others: int) -> Any:
    @intrinsic
    def peek(_: Any, rng: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return _output_of(builder, _state_after(builder, values[0], others + 1)[1])

        return _from_stream(rng, generate)

    return peek


def _state_after(builder: Any, stream: Any, steps: int) -> tuple[Any, Any]:
    """Return where the state of a generator is kept, and what it is after so many steps."""
    place = _fixed(builder, _fixed(builder, builder.bitcast(stream, _WIDE.as_pointer().as_pointer().as_pointer())))
    increment = builder.load(builder.gep(place, [ir.Constant(_WORD, 1)]), align=8)
    factor, summand = jump(steps)
    moved = builder.mul(builder.load(place, align=8), ir.Constant(_WIDE, factor))
    return place, builder.add(moved, builder.mul(increment, ir.Constant(_WIDE, summand)))


def _fixed(builder: Any, pointer: Any) -> Any:
    """Read what never changes while the generator lives."""
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
    def generate(*_: Any) -> Any:
        return ir.Constant(ir.DoubleType(), 0.0)

    return _from_stream(rng, generate)


@intrinsic
def _uniform_by_call(_: Any, rng: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        any_pointer = ir.IntType(8).as_pointer()
        members = builder.bitcast(values[0], any_pointer.as_pointer())
        function = builder.load(builder.gep(members, [ir.Constant(ir.IntType(32), _NEXT_DOUBLE)]))
        draws = ir.FunctionType(ir.DoubleType(), [any_pointer]).as_pointer()
        return builder.call(builder.bitcast(function, draws), [builder.load(members)])

    return _from_stream(rng, generate)
