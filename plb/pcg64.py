"""NumPy's PCG64 as machine code, for `plb.uniform`: a 128-bit linear congruential generator with output XSL-RR.

Source: O'Neill, "PCG: A family of simple fast space-efficient statistically good algorithms for random number
generation", 2014, sections 6.3 and 4.3.1 (jumping ahead).

Only imported once something is compiled, since ``import plb`` must load no Numba.
"""

from __future__ import annotations

from ctypes import POINTER, c_uint64, cast
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils as code
from numba.core import types as numba_types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

cgutils: Any = code  # without types of its own
types: Any = numba_types

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
UNIT = 2.0**-53
"""What the upper 53 bits of an output are multiplied by."""
_WORD, _WIDE = ir.IntType(64), ir.IntType(128)
_ALL = 2**128 - 1


@cache
def type_of_uniform() -> Any:
    """Return what kernels take `plb.uniform.uniform` for."""
    return _type_of(_uniform_in_place() if _is_laid_out_as_known() else _uniform_by_call)


@cache
def type_of_coming(others: int) -> Any:
    """Return what kernels take a `plb.uniform.Coming` for; where the state cannot be read it always says 0."""
    return _type_of(_coming(others) if _is_laid_out_as_known() else _unknown)


def _type_of(function: Any) -> Any:
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(function)


def jump(steps: int) -> tuple[int, int]:
    """Return a and c such that so many steps of the generator lead from state s to a·s + c·increment, modulo 2^128."""
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
    """Tell whether NumPy keeps the generator's numbers in memory as machine code expects them here."""
    rng = np.random.Generator(np.random.PCG64(1))
    known: Any = rng.bit_generator.state["state"]
    words = cast(rng.bit_generator.ctypes.state_address, POINTER(POINTER(c_uint64)))[0][:4]
    if (words[0] | words[1] << 64, words[2] | words[3] << 64) != (known["state"], known["inc"]):
        return False
    factor, summand = jump(3)
    return bool(output((factor * known["state"] + summand * known["inc"]) & _ALL) == rng.random(3)[2])


def _uniform_in_place() -> Any:
    @intrinsic
    def uniform(_: Any, rng: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place, state = _state_after(context, builder, signature, values[0], 1)
            builder.store(state, place, align=8)
            return _output_of(builder, state)

        return types.float64(rng), generate

    return uniform


def _coming(others: int) -> Any:
    @intrinsic
    def coming(_: Any, rng: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _output_of(builder, _state_after(context, builder, signature, values[0], others + 1)[1])

        return types.float64(rng), generate

    return coming


def _state_after(context: Any, builder: Any, signature: Any, rng: Any, steps: int) -> tuple[Any, Any]:
    """Return where the state of a generator is kept, and what it is after so many steps."""
    generator = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=rng)
    holder = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
        context, builder, value=generator.bit_generator
    )
    place = builder.load(builder.inttoptr(holder.state_address, _WIDE.as_pointer().as_pointer()))
    increment = builder.load(builder.gep(place, [ir.Constant(_WORD, 1)]), align=8)
    factor, summand = jump(steps)
    moved = builder.mul(builder.load(place, align=8), ir.Constant(_WIDE, factor))
    return place, builder.add(moved, builder.mul(increment, ir.Constant(_WIDE, summand)))


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

    return types.float64(rng), generate


@numba.njit(nogil=True)
def _uniform_by_call(rng: Any) -> Any:
    return rng.random()
