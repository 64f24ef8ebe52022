"""The identity of a kernel depends on the inputs of its machine code, and on nothing else."""

from __future__ import annotations

import enum
import math
import os
import platform
import struct
import subprocess
import sys
import threading
from functools import partial
from textwrap import dedent
from types import ModuleType
from typing import NamedTuple

import llvmlite
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import registry

from plb.compiler import identity, kernel
from plb.compiler.identity import compiled_with, has_changed, identity_of, key_of
from tests.compiler.processes import ROOT
from tests.engine.strategies import examples


@pytest.fixture(autouse=True)
def _separate_names(monkeypatch):
    """Let shared kernels of different tests have the same names, as in separate processes."""
    monkeypatch.setattr(identity, "_SHARED", {})


def function_in(source, **around):
    """Return the function f of a source text, defined by exec, with these names in its module."""
    names = {"__name__": "typed_in", "kernel": kernel, "np": np, "enum": enum, "NamedTuple": NamedTuple, **around}
    exec(compile(dedent(source), "<stdin>", "exec"), names)
    return getattr(names["f"], "py_func", names["f"])


def identity_in(source, **around):
    return identity_of(function_in(source, **around))


def adding(number, inner=None):
    """Return a function that uses values of its closure."""

    def f(x):
        return x + number if inner is None else inner(x)

    return f


WRITTEN = {
    "constant": "def f(x):\n    return x + {0}\n",
    "constant tuple": "def f(x):\n    return x in (5, {0})\n",
    "constant set": "def f(x):\n    return x in {{5, {0}}}\n",
    "default": "def f(x, y={0}):\n    return x + y\n",
    "class": "class Names:\n    LIMIT = {0}\ndef f(x):\n    return x + Names.LIMIT\n",
    "default of a member": "class Sides(NamedTuple):\n    left: int = {0}\ndef f(x):\n    return Sides().left\n",
    "called": "@kernel\ndef g(x):\n    return x + {0}\n@kernel\ndef f(x):\n    return g(x)\n",
}
"""Sources with a number in them."""
READ = {
    "global": "NUMBER",
    "global, read by a function within": "(lambda y: y + NUMBER)(x)",
    "tuple": "NUMBERS[1]",
    "tuple in a tuple": "NESTED[1][0]",
    "array": "ARRAY[0]",
    "attribute of a module": "around.NUMBER",
    "attribute of a module of a module": "around.further.NUMBER",
    "attribute that has the name of a global": "OTHER + around.OTHER",
    "class": "Names.LIMIT",
    "base class": "Heirs.LIMIT",
    "kernel of a module": "around.g(x)",
    "kernel in a tuple": "KERNELS[0](x)",
}
"""Expressions that read a number from outside a function."""


def reading(number, expression):
    """Return a function that reads a number by an expression."""
    names = type("Names", (), {"LIMIT": number})
    g = kernel(adding(number))
    return function_in(
        f"def f(x):\n    return x + {expression}\n",
        NUMBER=number,
        NUMBERS=(0, number),
        NESTED=(0, (number,)),
        ARRAY=np.array([number]),
        Names=names,
        Heirs=type("Heirs", (names,), {}),
        KERNELS=(g,),
        OTHER=0,
        around=module_with(NUMBER=number, OTHER=number, g=g, further=module_with(NUMBER=number)),
    )


def enumerated(number):
    """Return a function that reads the member of an enumeration."""
    return function_in(
        "def f(x):\n    return x + Colour.RED\n", Colour=enum.IntEnum("Colour", {"RED": number, "BLUE": 7})
    )


FROZEN = (
    {name: partial(lambda text, number: function_in(text.format(number)), text) for name, text in WRITTEN.items()}
    | {f"{name}, read": partial(lambda text, number: reading(number, text), text) for name, text in READ.items()}
    | {
        "member of an enumeration": enumerated,
        "closure": adding,
        "closure of a kernel": lambda number: adding(0, kernel(adding(number))),
        "closure of a kernel of a kernel": lambda number: adding(0, kernel(adding(0, kernel(adding(number))))),
    }
)
"""Functions that freeze a number, created from the number."""


def module_with(**names):
    module = type(sys)("around")
    vars(module).update(names)
    return module


def same_machine_word(one, other):
    """Return whether two numbers are equal to a compiler: in type and in every bit."""
    return type(one) is type(other) and struct.pack("d", one) == struct.pack("d", other)


finite = st.sampled_from([0, False, 0.0, -0.0, 1, True, 1.0, -1, -1.0, 2, 2.0, 2**53, 2.0**53])
numbers = finite | st.sampled_from([math.nan, math.inf, -math.inf])
whole = st.integers(-3, 3)


@pytest.mark.parametrize("name", FROZEN)
@examples(15)
@given(data=st.data())
def test_numbers_count_by_type_and_bits(name, data):
    """They count even if they compare equal, like 1, 1.0 and True, or do not equal themselves."""
    drawn = whole if name == "member of an enumeration" else finite if name in WRITTEN else numbers
    one, other = data.draw(drawn), data.draw(drawn)
    make = FROZEN[name]
    assert (identity_of(make(one)) == identity_of(make(other))) == same_machine_word(one, other)


class Sides(NamedTuple):
    """A tuple of two names."""

    left: int
    right: int


class OtherSides(NamedTuple):
    """The same tuple with the names in reverse order."""

    right: int
    left: int


OtherSides.__qualname__ = OtherSides.__name__ = "Sides"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1, 2]), np.array([1, 3])),
        (np.zeros((3, 2), order="C"), np.zeros((3, 2), order="F")),
        (np.array([1, 2]), np.array([1.0, 2.0])),
        (np.array([1, 2]), np.array([[1, 2]])),
        (np.array([1, 2], np.int32), np.array([1, 2], np.uint32)),
        (np.array([0.0]), np.array([-0.0])),
        (np.float32(1), np.float64(1)),
        (np.int8(1), np.int64(1)),
        (np.int64(1), 1),
        (1j, complex(-0.0, 1)),
        ("1", 1),
        (b"1", "1"),
        (None, 0),
        ((1, (2, 3)), ((1, 2), 3)),
        (Sides(1, 2), OtherSides(1, 2)),
        (np.int64, np.int32),
    ],
    ids=repr,
)
def test_values_around_a_function_count_by_type_shape_and_content(one, other):
    source = "def f(x):\n    return VALUE\n"
    assert identity_in(source, VALUE=one) != identity_in(source, VALUE=other)


BODIES = [
    "return x + y",
    "return y + x",
    "return x - y",
    "return x * y",
    "return x + y + x",
    "return x if x < y else y",
    "return x if x <= y else y",
    "return abs(x)",
    "return min(x, y)",
    "return max(x, y)",
    "x += y; return x",
    "return x.real",
    "return x.imag",
    "for x in range(y): pass\n    return x",
    "while x < y: x += 1\n    return x",
]


def test_code_of_a_kernel_counts():
    identities = [identity_in(f"def f(x, y):\n    {body}\n") for body in BODIES]
    assert len(set(identities)) == len(BODIES)
    assert identity_in("def f(y, x):\n    return x + y\n") not in identities, "the order of arguments"


def test_docstring_is_no_constant():
    """It shifts the constants after it, which stay the same; a text that is returned is a constant."""
    source = "def f(x):\n    {0}\n    return x + 1000 if x > 2000 else 'A.'\n"
    assert identity_in(source.format("")) == identity_in(source.format("'What it does.'"))
    assert identity_in(source.format("'A.'")) == identity_in(source.format("'B.'"))
    assert identity_in(source.format("'A.'")) != identity_in(source.format("'A.'").replace("else 'A.'", "else 'B.'"))


def test_flags_that_a_profiler_changes_do_not_count():
    """Flags of docstrings and of future imports do not count either; further arguments do."""
    f = function_in("def f(x):\n    return x + 1\n")
    before = identity_of(f)
    other = type(f)(f.__code__.replace(co_flags=f.__code__.co_flags ^ 0x5000001), f.__globals__, "f")
    other.__module__ = f.__module__
    assert identity_of(other) == before
    assert identity_in("def f(*x):\n    return x\n") != identity_in("def f(x):\n    return x\n")


def test_called_kernels_are_compiled_with_a_kernel():
    """They come at any depth, each once, in the order of the calls; other code of the file does not."""
    source = """
        @kernel
        def bottom(x): return x
        @kernel
        def left(x): return bottom(x)
        @kernel
        def right(x): return bottom(x) + left(x)
        @kernel
        def beside(x): return left(x)
        @kernel(shared=True)
        def shared(x): return beside(x)
        @kernel
        def f(x): return left(x) + right(abs(x)) + np.sqrt(x) + shared(x)
    """
    assert [one.__name__ for one in compiled_with(function_in(source))] == ["f", "left", "right", "bottom"]


@pytest.mark.parametrize("name", ["builtins", "test", "code.kernels"])
def test_functions_in_modules_with_names_of_python_count(name):
    source = "@kernel\ndef g(x):\n    return x + {0}\n@kernel\ndef f(x):\n    return g(x)\n"
    one, other = (identity_in(source.format(number), __name__=name) for number in (1, 2))
    assert one != other


def test_name_of_a_function_counts():
    source = "def made():\n    def {0}(x): return x\n    return {0}\nf = made()\n"
    assert identity_in(source.format("one")) != identity_in(source.format("two"))
    assert identity_in("def f(x): return x\n", __name__="here") != identity_in("def f(x): return x\n", __name__="there")


IDENTITIES = """
from plb.compiler.identity import identity_of
from plb.search.annealing import chain
from plb.energy.imbalance import imbalance
from plb.compiler import kernel, by_pointer, uniform, Peek, CallByAddress, fetch
from plb.compiler.handles import packer_of
NAMES = ("a", "b", "c", frozenset({1, 2}))
ahead, call = Peek(2), CallByAddress(float)
@kernel
def f(x):
    if x in {"left", "right", "up", "down", "none"} and NAMES[0]:
        return ahead(x) + uniform(x) + call(x) + fetch(x)
    return x
print([identity_of(one.py_func) for one in (f, imbalance, chain.anneal, packer_of(tuple))])
"""


def identities(seed, first=""):
    """Return the identities of some kernels in a process with another order of sets, which does something first."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{IDENTITIES}"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_identity_is_the_same_in_every_process():
    """The order of sets and imports and the addresses of objects do not matter."""
    # an import of the older name leads `numba.types` to another module
    assert identities(1) == identities(2, first="import numba.types")


class Quiet(enum.IntEnum):
    """An enumeration that does not show its numbers."""

    def __repr__(self):
        return self.name


def test_members_of_enumerations_count_by_their_numbers():
    source = "def f(x):\n    return x + Colour.RED\n"
    one, other = (Quiet("Colour", {"RED": number}) for number in (1, 2))
    assert identity_in(source, Colour=one) != identity_in(source, Colour=other)


def test_values_of_a_module_count_although_it_has_a_function_like_those_of_numba():
    """Functions of Numba have an attribute `py_func`; a module may have one, too."""
    modules = [ModuleType("settings") for _ in range(2)]
    for scale, module in enumerate(modules):
        vars(module).update(SCALE=scale, py_func=dedent)
    source = "def f(x):\n    return x * settings.SCALE\n"
    assert len({identity_in(source, settings=module) for module in modules}) == 2


EXTENSION = """
def register():
    import fractions
    from numba.extending import overload
    overload(fractions.Fraction)(lambda x: None)
"""


def test_overloads_of_installed_packages_count_before_the_first_compilation(tmp_path):
    """Numba loads them when it compiles first; the key of that kernel has to know them."""
    (tmp_path / "fractional.py").write_text(EXTENSION)
    metadata = tmp_path / "fractional-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fractional\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[numba_extensions]\ninit = fractional:register\n")
    code = "from plb.compiler.identity import overloads; print('Fraction' in repr(overloads()))"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "True\n"


def test_functions_of_numba_count_with_their_options_and_types():
    """A function that kernels call may be a function of Numba with its own options and types."""

    def half(x):
        return x / 2

    source = "def f(x):\n    return g(x)\n"
    made = [numba.njit(half), numba.njit("int64(int64)")(half), numba.njit(fastmath=True)(half)]
    assert len({identity_in(source, g=one) for one in made}) == len(made)


def test_values_that_cannot_be_pickled_are_unknown():
    f = function_in("def f(x):\n    return LOCK\n", LOCK=threading.Lock())
    assert identity_of(f) == identity_of(f)
    assert has_changed(f)
    assert not has_changed(function_in("def f(x):\n    return x\n"))


@kernel
def halved(x):
    return x / 2


def test_key_depends_on_function_argument_types_and_result_type():
    one = key_of(halved.py_func, ("int64",), "None")
    assert one == key_of(halved.py_func, ("int64",), "None")
    others = [
        key_of(halved.py_func, ("float64",), "None"),
        key_of(halved.py_func, ("int64", "int64"), "None"),
        key_of(halved.py_func, (), "None"),
        key_of(halved.py_func, ("int64",), "float64"),
        key_of(test_environment_of_a_kernel_counts, ("int64",), "None"),
    ]
    assert len({one, *others}) == 6


class OtherProcessor:
    """A target whose processor has another name."""

    @staticmethod
    def codegen():
        return OtherProcessor

    @staticmethod
    def magic_tuple():
        return ("x", "y", "z")


class OtherTarget:
    """A target like Numba's, for another processor."""

    target_context = OtherProcessor


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (platform, "python_version", lambda: "3.11.99"),
        (numba, "__version__", "0.68.99"),
        (llvmlite, "__version__", "0.50.99"),
        (np, "__version__", "2.1.99"),
        (numba.config, "BOUNDSCHECK", 1),
        (numba.config, "OPT", 0),
        (numba.config, "DEBUGINFO_DEFAULT", 1),
        (registry, "cpu_target", OtherTarget),
        (identity, "modules_in", lambda _: {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_environment_of_a_kernel_counts(monkeypatch, place, name, value):
    before = identity._surroundings.__wrapped__()
    assert identity._surroundings.__wrapped__() == before
    monkeypatch.setattr(place, name, value)
    assert identity._surroundings.__wrapped__() != before
