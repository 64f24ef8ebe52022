"""A process runs what earlier processes have compiled, unless an input of the machine code has changed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from plb.compiler import kernel
from plb.errors import InvalidValueError
from tests.compiler.processes import ROOT, Ran, write

CHAIN = '''
"""Kernels that call each other."""
from typing import NamedTuple
import numpy as np
from plb.compiler import by_pointer, kernel

LIMIT = 100

class Sums(NamedTuple):
    total: np.ndarray
    number: np.ndarray

@kernel(inline=True)
def deep(x: int) -> int:
    """Add what is fixed."""
    return x + LIMIT

@kernel
def caller(x: int) -> int:
    """Call another one."""
    return deep(x) * 2

@kernel
def other(x: int) -> int:
    """Call none."""
    return x - 1

@kernel
def first(sums: Sums) -> int:
    """Read a member."""
    return sums.total[0]

def run():
    return [caller(1), other(1)]

def run_on_floats():
    return [caller(0.5), other(0.5)]

def run_on_sums():
    return int(first(Sums(total=np.ones(1, np.int64), number=np.zeros(1, np.int64))))
'''


class VersionRunner:
    """Runs versions of a module in separate processes with one cache."""

    def __init__(self, processes, folder):
        self.processes = processes
        self.folder = folder

    def run(self, source, function="run") -> Ran:
        write(self.folder / "modules", example=source)
        return self.processes.run(f"example:{function}", cache=self.folder / "cache", path=[self.folder / "modules"])


@pytest.fixture
def runner(processes, tmp_path):
    return VersionRunner(processes, tmp_path)


def test_only_changed_kernels_are_compiled_again(runner):
    assert runner.run(CHAIN) == Ran([202, 0], ["example.caller", "example.other"], [])
    edited = (
        CHAIN.replace("Kernels that call each other.", "Some kernels.")
        .replace('    """Add what is fixed."""\n', "\n\n    # a comment\n")
        .replace("def other(x: int) -> int:", "def other(x):")
        .replace("LIMIT = 100", "UNUSED = 1\nLIMIT = 100\ndef more(): return 7\n")
    )
    assert runner.run(edited) == Ran([202, 0], [], [])
    assert runner.run(CHAIN.replace("LIMIT = 100", "LIMIT = 200")) == Ran([402, 0], ["example.caller"], [])
    assert runner.run(CHAIN.replace("x + LIMIT", "x - LIMIT")) == Ran([-198, 0], ["example.caller"], [])
    assert runner.run(CHAIN, "run_on_floats") == Ran([201.0, -0.5], ["example.caller", "example.other"], [])
    assert runner.run(CHAIN) == Ran([202, 0], [], []), "the first entries are still there"


def test_function_edited_after_it_was_loaded_is_kept_as_it_was_loaded(runner):
    """A file may change while a process runs, whose code is not that of the file then."""
    source = f"""{CHAIN}
def run_after_an_edit():
    import pathlib
    file = pathlib.Path(__file__)
    file.write_text(file.read_text().replace("LIMIT = 100", "LIMIT = 300"))
    return caller(1)
"""
    assert runner.run(source, "run_after_an_edit").result == 202
    assert runner.run(source.replace("LIMIT = 100", "LIMIT = 300")).result == [602, 0]
    assert runner.run(source) == Ran([202, 0], [], [])


SHARED = """
from plb.compiler import kernel

@kernel(shared=True)
def g(x):
    return x + {0}

@kernel(shared=True)
def h(x):
    return g(x) + 1000

@kernel
def f(x):
    return h(x) * 10

@kernel
def alone(x):
    return x

def run():
    return [f(1), alone(1)]
"""


def test_change_of_a_shared_kernel_compiles_no_caller_again(runner):
    """The callers run its new code, at any depth; if the type of its result changes, they are compiled again."""
    everything = ["example.alone", "example.f", "example.g", "example.h"]
    assert runner.run(SHARED.format("1")) == Ran([10020, 1], everything, [])
    assert runner.run(SHARED.format("1")) == Ran([10020, 1], [], [])
    assert runner.run(SHARED.format("2")) == Ran([10030, 1], ["example.g"], [])
    assert runner.run(SHARED.format("2.5")) == Ran([10035.0, 1], ["example.f", "example.g", "example.h"], [])
    assert runner.run(SHARED.format("2.5").replace("+ 1000", "+ 2000.5")) == Ran([20040.0, 1], ["example.h"], [])
    assert runner.run(SHARED.format("1")).result == [10020, 1], "the first entries fit the present callers"


REACHED_INLINE = """
from plb.compiler import kernel

@kernel
def below(x):
    return x + {0}

@kernel(shared=True)
def shared(x):
    return below(x)

@kernel(inline=True)
def between(x):
    return shared(x) + 1

@kernel
def entry(x):
    return between(x) * 2

def run():
    return entry(1)
"""


def test_change_below_a_shared_kernel_that_an_inlined_one_calls_compiles_no_caller_again(runner):
    assert runner.run(REACHED_INLINE.format("1")) == Ran(6, ["example.entry", "example.shared"], [])
    assert runner.run(REACHED_INLINE.format("5")) == Ran(14, ["example.shared"], [])


SHARED_ON_A_RECORD = """
import numba
from plb.compiler import Record, kernel

class Count(Record):
    number: int

@kernel(shared=True)
def add(count, x):
    count.number += x + {0}

@kernel
def f(count, x):
    add(count, x)
    return count.number

def run():
    [numba.types.UniTuple(numba.int64, size) for size in range({1})]  # takes the next numbers of types
    return f(Count.new(), 1)
"""


def test_symbol_of_a_shared_kernel_does_not_depend_on_the_process(runner):
    """Numba numbers the types of records as they are made, here earlier or later."""
    assert runner.run(SHARED_ON_A_RECORD.format(0, 0)) == Ran(1, ["example.add", "example.f"], [])
    assert runner.run(SHARED_ON_A_RECORD.format(5, 40)) == Ran(6, ["example.add"], [])


def test_lost_shared_kernel_is_compiled_again(runner):
    runner.run(SHARED.format("1"))
    for entry in (runner.folder / "cache").glob("example.[gh]-*"):
        entry.unlink()
    assert runner.run(SHARED.format("1")) == Ran([10020, 1], ["example.g", "example.h"], [])


def test_shared_kernels_are_refused_within_a_function():

    def g(x):
        return x

    with pytest.raises(InvalidValueError, match=r"shared.*False within a function"):
        kernel(shared=True)(g)


def test_kernel_that_becomes_shared_is_compiled_again(runner):
    """Its callers need the symbol of a shared kernel, which the old entry does not have."""
    by_itself = SHARED.replace("(shared=True)", "").replace("[f(1)", "[g(1), f(1)")
    assert runner.run(by_itself.format("1")).result == [2, 10020, 1]
    assert runner.run(SHARED.format("1")).result == [10020, 1]
    assert runner.run(SHARED.format("2")) == Ran([10030, 1], ["example.g"], [])


def test_redefined_shared_kernel_runs_its_new_code(runner):
    """A notebook runs a cell again, or a host calls `importlib.reload`."""
    source = """
        import importlib, sys
        from plb.compiler import kernel
        NUMBER = getattr(sys, "number", 1)
        @kernel(shared=True)
        def g(x):
            return x + NUMBER
        @kernel
        def f(x):
            return g(x) * 10
        def run():
            first = f(1)
            sys.number = 2
            again = importlib.reload(sys.modules["example"])
            return [first, again.f(1), again.g(1)]
    """
    assert runner.run(source).result == [20, 30, 3]


def test_code_with_a_changed_frozen_value_is_not_kept(runner):
    source = (
        CHAIN
        + """
def run_with_another_limit():
    global LIMIT
    caller(1)
    LIMIT = 300
    return caller(0.5)
"""
    )
    runner.run(source, "run_with_another_limit")
    assert runner.run(source) == Ran([202, 0], ["example.other"], [])
    assert runner.run(source, "run_on_floats") == Ran([201.0, -0.5], ["example.caller", "example.other"], [])


SWAPPED = ("    total: np.ndarray\n    number: np.ndarray\n", "    number: np.ndarray\n    total: np.ndarray\n")


@pytest.mark.parametrize("decorated", ["class Sums", "@by_pointer\nclass Sums"])
def test_swapped_members_of_a_tuple_are_found(runner, decorated):
    """Machine code reads a member by its position; another tuple of the same name and types is another type."""
    source = CHAIN.replace("class Sums", decorated)
    assert runner.run(source, "run_on_sums").result == 1
    again = runner.run(source.replace(*SWAPPED), "run_on_sums")
    assert again.result == 1
    assert "example.first" in again.compiled


@pytest.mark.parametrize("decorated", ["", "@by_pointer"])
def test_tuples_of_two_classes_of_one_name_are_distinguished(runner, decorated):
    shape = "class Sums(NamedTuple):\n    {0}: int\n    {1}: int\n"
    one, other = shape.format("total", "number"), shape.format("number", "total")
    head = f"from typing import NamedTuple\nfrom plb.compiler import by_pointer\n{decorated}\n"
    modules = runner.folder / "modules"
    write(modules, one=head + one, other=head + other)
    source = """
        import one, other
        from plb.compiler import kernel
        @kernel
        def total(sums):
            return sums.total
        @kernel
        def part(sums):
            return sums.total
        @kernel(shared=True)
        def shared(sums):
            return sums.total
        @kernel
        def both(sums, others):
            return part(sums) + 10 * part(others) + 100 * shared(sums) + 1000 * shared(others)
        def run():
            sums = [module.Sums(total=1, number=2) for module in (one, other)]
            return [*map(total, sums), both(*sums)]
    """
    assert runner.run(source).result == [1, 1, 1111]


@pytest.mark.parametrize("decorated", ["class Sums", "@by_pointer\n    class Sums"])
def test_tuples_of_a_class_within_a_function_are_compiled(runner, decorated):
    source = f"""
from typing import NamedTuple
from plb.compiler import by_pointer, kernel
def run():
    {decorated}(NamedTuple):
        total: int
    @kernel
    def f(sums):
        return sums.total
    return f(Sums(3))
"""
    assert [runner.run(source).result for _ in range(2)] == [3, 3]


@pytest.mark.parametrize("names", ['{"__name__": "typed_in", "kernel": kernel}', '{"kernel": kernel}'])
def test_kernels_defined_by_exec_run_in_every_process(runner, names):
    source = f"""
from plb.compiler import kernel
def run():
    names = {names}
    exec("@kernel\\ndef f(x):\\n    return x + 1\\n", names)
    return names["f"](3)
"""
    assert [runner.run(source).result for _ in range(2)] == [4, 4]


HEAD = """
import operator
from typing import NamedTuple
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, overload_method
from plb.compiler import kernel
"""
EDITS = {
    "names_of_kernels": (
        """
LESS, MORE = kernel(lambda x: x - 1), kernel(lambda x: x + 1)
one, two, third = LESS, MORE, LESS
ALL = (LESS, MORE, LESS)
@kernel
def f(x):
    return one(x) * 100 + two(x) * 10 + third(x)
@kernel
def g(x):
    return ALL[0](x) * 100 + ALL[1](x) * 10 + ALL[2](x)
def run():
    return [f(5), g(5)]
""",
        ("MORE, LESS", "MORE, MORE"),
        ([464, 464], [466, 466]),
    ),
    "default_of_a_shared_kernel": (
        """
@kernel(shared=True)
def g(x, y=1):
    return (x + y) * 10
@kernel
def f(x):
    return g(x)
def run():
    return f(1)
""",
        ("y=1", "y=2"),
        (20, 30),
    ),
    "order_of_the_arguments_of_a_shared_kernel": (
        """
@kernel(shared=True)
def g(a, b):
    return a - b
@kernel
def f(x):
    return g(a=x, b=1)
def run():
    return f(10)
""",
        ("g(a, b)", "g(b, a)"),
        (9, 9),
    ),
    "further_argument_of_a_shared_kernel": (
        """
@kernel(shared=True)
def g(a):
    return a
@kernel
def f(x):
    return g(x)
def run():
    return f(10)
""",
        ("g(a):\n    return a", "g(a, b=5):\n    return a + b"),
        (10, 15),
    ),
    "members_of_a_tuple_that_a_shared_kernel_may_return": (
        """
class Sums(NamedTuple):
    total: int
    number: int
@kernel(shared=True)
def made(x):
    if x > 5:
        return None
    return Sums(total=x, number=x + 1)
@kernel
def f(x):
    sums = made(x)
    return 0 if sums is None else sums.total * 10
def run():
    return f(1)
""",
        ("    total: int\n    number: int\n", "    number: int\n    total: int\n"),
        (10, 10),
    ),
    "name_of_a_tuple_that_a_shared_kernel_takes": (
        """
class Sums(NamedTuple):
    total: int
@kernel
def made(x):
    return Sums(x)
@kernel(shared=True)
def g(sums):
    return sums.total + 0
@kernel
def f(x):
    return g(made(x))
def run():
    return f(4)
""",
        ("Sums", "Totals"),
        (4, 4),
    ),
    "code_and_name_of_a_kernel_given_as_an_argument": (
        """
@kernel
def g(x):
    return x + 1
@kernel
def h(x):
    return x + 7
@kernel
def f(called, x):
    return called(x)
def run():
    return [f(g, 5), f(h, 5)]
""",
        ("x + 1", "x + 2"),
        ([6, 12], [7, 12]),
    ),
    "layout_of_an_array": (
        """
TABLE = np.zeros((3, 2), order="C")
@kernel
def f(x):
    return TABLE.strides[0] + x
def run():
    return f(0)
""",
        ('"C"', '"F"'),
        (16, 8),
    ),
    "intrinsics_and_overloads": (
        """
@intrinsic
def number(context, x):
    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.IntType(64), 0 + 1000)
    return types.int64(x), generate
@kernel
def constant(x):
    return number(x)
@overload(abs)
def absolute(x):
    if isinstance(x, types.UniTuple):
        return lambda x: x[0] + 1000
@overload(operator.sub)
def difference(x, y):
    if isinstance(x, types.UniTuple):
        return lambda x, y: x[0] + 1000
@overload_method(types.Array, "first_plus")
def first_plus(array):
    return lambda array: array[0] + 1000
@kernel
def function(x):
    return abs((x, x))
@kernel
def operation(x):
    return (x, x) - (x, x)
@kernel
def method(array):
    return array.first_plus()
def run():
    return [function(1), operation(1), int(method(np.ones(2))), constant(1)]
""",
        ("+ 1000", "+ 2000"),
        ([1001, 1001, 1001, 1000], [2001, 2001, 2001, 2000]),
    ),
}
"""Changes of modules: the source of each, the edit, and the results of both versions."""
EXAMPLE = f"""
from importlib import import_module
def run():
    return [import_module(name).run() for name in {list(EDITS)}]
"""


def test_edited_modules_run_their_new_code(runner):
    befores, afters = zip(*(results for _, _, results in EDITS.values()), strict=True)
    modules = runner.folder / "modules"
    write(modules, **{name: HEAD + source for name, (source, _, _) in EDITS.items()})
    assert runner.run(EXAMPLE).result == [*befores]
    assert runner.run(EXAMPLE) == Ran([*befores], [], [])
    write(modules, **{name: HEAD + source.replace(*edit) for name, (source, edit, _) in EDITS.items()})
    again = runner.run(EXAMPLE)
    assert again.result == [*afters]
    assert {name.partition(".")[0] for name in again.compiled} == {*EDITS}
    write(modules, **{name: HEAD + source for name, (source, _, _) in EDITS.items()})
    assert runner.run(EXAMPLE).result == [*befores]


def test_kernels_of_the_same_code_are_separate(runner):
    """One caller has two functions of the same code, and callers differ in the order of their calls."""
    source = (
        HEAD
        + """
def adder(number):
    return kernel(lambda x: x + number)
def combined(a, b, c):
    return kernel(lambda x: a(x) * 100 + b(x) * 10 + c(x))
def run():
    none, one, again = adder(0), adder(1), adder(1)
    return [combined(*three)(1) for three in ((one, again, one), (none, one, none), (none, one, one))]
"""
    )
    assert runner.run(source).result == [222, 121, 122]


def test_shared_kernel_has_a_symbol_for_each_type_of_result(runner):
    """A call by address may get a float where callers get an integer."""
    source = (
        HEAD
        + """
from plb.compiler import CallByAddress
call = CallByAddress(float)
@kernel(shared=True)
def g(x):
    return x * 2
@kernel
def by_address(address, x):
    return call(address, x)
@kernel
def f(x):
    return g(x) + 1
@kernel
def h(x):
    return g(x) + 100
def run():
    return [g(3), f(3), by_address(g.address(float, 3), 3), h(3)]
"""
    )
    assert runner.run(source).result == [6, 7, 6.0, 106]


def test_class_in_another_module_is_another_class(runner):
    modules = runner.folder / "modules"
    sums = "from typing import NamedTuple\nclass Sums(NamedTuple):\n    total: int\n"
    source = "from {0} import Sums\nfrom plb.compiler import kernel\n@kernel\ndef f(x):\n    return Sums(x)\n"
    source += "@kernel\ndef total(x):\n    return f(x).total\n"
    source += "def run():\n    return [total(3), Sums.__module__]\n"
    write(modules, here=sums)
    assert runner.run(source.format("here")).result == [3, "here"]
    write(modules, here="", there=sums)
    assert runner.run(source.format("there")).result == [3, "there"]


@pytest.mark.parametrize("first", ["tuple", "address"])
def test_keys_do_not_depend_on_earlier_calls(runner, first):
    """A process that first passes a tuple by pointer, or an address, finds the entries of others."""
    source = (
        HEAD
        + """
from plb.compiler import CallByAddress, by_pointer
@by_pointer
class Sums(NamedTuple):
    total: np.ndarray
@kernel
def f(x):
    return x + 1
@kernel
def total(sums):
    return sums.total[0]
def run():
    return f(1)
def run_tuple():
    return [int(total(Sums(np.ones(1)))), f(1)][1]
def run_address():
    return [f.address(float, 1), f(1)][1]
"""
    )
    runner.run(source)
    again = runner.run(source, f"run_{first}")
    assert again.result == 2
    assert again.compiled.count("example.f") == (first == "address"), "only the kernel for the address is compiled"
    assert runner.run(source, f"run_{first}") == Ran(2, [], [])
    assert runner.run(source) == Ran(2, [], [])


SCRIPT = """
import sys
from plb.compiler import kernel
STEP = int(sys.argv[1])
def made(number):
    inner = kernel(lambda x: x * number)
    @kernel
    def outer(x):
        return inner(x) + STEP
    return outer
print([made(number)(1) for number in (2, 3)])
"""


def test_scripts_run_their_present_code(tmp_path):
    """The script runs again, with another number, and after an edit; other files next to it do not matter."""
    (tmp_path / "not_a_file.py").mkdir()
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    environment = {
        **os.environ,
        "PLB_CACHE_DIR": str(cache),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": str(ROOT),
    }

    def run(source, step):
        script.write_text(source)
        command = [sys.executable, str(script), str(step)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), sorted(path.name for path in cache.glob("*.kernel"))

    printed, kept = run(SCRIPT, 10)
    assert printed == "[12, 13]"
    assert len(kept) == 2
    assert run(SCRIPT, 10) == (printed, kept), "the second run finds the entries of the first"
    assert run(SCRIPT.replace("x * number", "x - number"), 20)[0] == "[19, 18]"
