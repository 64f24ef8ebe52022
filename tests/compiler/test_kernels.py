"""Kernels in Python: calls, pickles, copies, calls by address, and runs without a compiler."""

from __future__ import annotations

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest

from plb.compiler import CallByAddress, Stream, kernel, uniform
from plb.errors import KernelError
from tests.compiler.processes import Ran, write


@kernel
def doubled(x):
    return 2.0 * x


@kernel
def without_result(numbers):
    numbers[0] = 7


@kernel
def drawn(rng, least):
    return uniform(rng) >= least


@kernel
def unknown_member(x):
    return x.nothing


@kernel
def failing(x):
    if x >= 5:
        raise ValueError("too large")
    return x * 1.0


number_by_address, nothing_by_address, truth_by_address = CallByAddress(float), CallByAddress(None), CallByAddress(bool)


@kernel
def number_of(address, x):
    return number_by_address(address, x) + 1.0


@kernel
def change(address, numbers):
    nothing_by_address(address, numbers)


@kernel
def truth_of(address, rng, least):
    return truth_by_address(address, rng, least)


def test_kernels_are_called_by_their_address():
    """The arguments are numbers, arrays and streams, for each type of result."""
    assert number_of(doubled.address(float, 1.5), 1.5) == 4.0
    numbers = np.zeros(1, np.int64)
    change(without_result.address(None, numbers), numbers)
    assert numbers[0] == 7
    stream = Stream(3)
    address = drawn.address(bool, stream, 0.0)
    assert truth_of(address, stream, 0.0)
    assert not truth_of(address, stream, 1.0)
    assert stream.random() == np.random.Generator(np.random.PCG64(3)).random(3)[2]


def test_errors_propagate_through_calls_by_address():
    address = failing.address(float, 3)
    with pytest.raises(ValueError, match="too large"):
        number_of(address, 9)


@pytest.mark.parametrize(
    ("broken", "arguments"), [(unknown_member, (1,)), (doubled, ("text",)), (doubled, ()), (drawn, (1, 2))]
)
def test_kernel_that_does_not_compile_is_named(broken, arguments):
    with pytest.raises(KernelError) as raised:
        broken.address(float, *arguments)
    assert f"{broken.__module__}.{broken.__qualname__}" in str(raised.value)
    assert "\n" not in str(raised.value)


class Pair(NamedTuple):
    """Two numbers."""

    first: float
    second: float


@kernel
def pair_of(x):
    return Pair(x, 2.0 * x)


@kernel
def sum_of_pair(x):
    pair = pair_of(x)
    return pair.first + pair.second


@kernel
def two_of(x):
    return x, 2.0 * x


def test_only_kernels_get_named_tuples_of_kernels():
    """Ctrl-C would crash the process where Numba makes one for Python."""
    assert sum_of_pair(1.0) == 3.0
    assert two_of(1.0) == (1.0, 2.0)
    for _ in range(2):
        with pytest.raises(KernelError, match=r"pair_of cannot be compiled: it returns a named tuple"):
            pair_of(1.0)


def test_kernels_are_pickled_and_copied_as_functions():
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    assert copy.copy(doubled) is doubled
    inner = kernel(lambda x: x)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(inner)


def test_arguments_by_name_and_defaults_are_those_of_the_function():

    @kernel
    def shifted(x, by=3):
        return x + by

    assert [shifted(1), shifted(1, 2), shifted(x=1), shifted(1, by=4), shifted(by=5, x=1)] == [4, 3, 4, 5, 6]


PLAIN = """
import sys
import numpy as np
from plb.compiler import CallByAddress, Stream, kernel, uniform
from plb.errors import PlbError

call = CallByAddress(float)

@kernel
def f(x):
    return [x, "a list, which no kernel can return"]

@kernel
def twice(x):
    return 2.0 * x

@kernel
def g(address, x, rng):
    return call(address, x) + uniform(rng)

def run():
    return f(1), g(twice.address(float, 1.0), 3.0, Stream(1)) - np.random.Generator(np.random.PCG64(1)).random()
"""


def test_kernels_without_compilation_are_plain_python(processes, tmp_path):
    modules = write(tmp_path / "modules", example=PLAIN)
    ran = processes.run("example:run", cache=tmp_path / "cache", path=[modules], NUMBA_DISABLE_JIT="1")
    assert ran == Ran([[1, "a list, which no kernel can return"], 6.0], [], [])
    assert not (tmp_path / "cache").exists()
