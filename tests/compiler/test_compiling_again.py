"""What one process has compiled the next one runs, unless something that the machine code is made of has changed."""

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


class Tried:
    """A module whose versions are run one after the other, each in a process of its own, with one cache."""

    def __init__(self, processes, folder):
        self.processes = processes
        self.folder = folder

    def run(self, source, function="run") -> Ran:
        """Run a function of a version of the module."""
        write(self.folder / "modules", story=source)
        return self.processes.run(f"story:{function}", cache=self.folder / "cache", path=[self.folder / "modules"])


@pytest.fixture
def tried(processes, tmp_path):
    """Return what runs versions of a module."""
    return Tried(processes, tmp_path)


def test_only_what_has_changed_is_compiled_again(tried):
    """Whatever else is edited in a file, and whatever is compiled already."""
    assert tried.run(CHAIN) == Ran([202, 0], ["story.caller", "story.other"], [])
    edited = (
        CHAIN.replace("Kernels that call each other.", "Some kernels.")
        .replace('    """Add what is fixed."""\n', "\n\n    # a comment\n")
        .replace("def other(x: int) -> int:", "def other(x):")
        .replace("LIMIT = 100", "UNUSED = 1\nLIMIT = 100\ndef more(): return 7\n")
    )
    assert tried.run(edited) == Ran([202, 0], [], [])
    assert tried.run(CHAIN.replace("LIMIT = 100", "LIMIT = 200")) == Ran([402, 0], ["story.caller"], [])
    assert tried.run(CHAIN.replace("x + LIMIT", "x - LIMIT")) == Ran([-198, 0], ["story.caller"], [])
    assert tried.run(CHAIN, "run_on_floats") == Ran([201.0, -0.5], ["story.caller", "story.other"], [])
    assert tried.run(CHAIN) == Ran([202, 0], [], []), "the first entries are still there"


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


def test_a_change_in_a_shared_kernel_compiles_none_of_its_callers_again(tried):
    """They run its new code, at any depth; where the type of its result changes, they are compiled again."""
    everything = ["story.alone", "story.f", "story.g", "story.h"]
    assert tried.run(SHARED.format("1")) == Ran([10020, 1], everything, [])
    assert tried.run(SHARED.format("1")) == Ran([10020, 1], [], [])
    assert tried.run(SHARED.format("2")) == Ran([10030, 1], ["story.g"], [])
    assert tried.run(SHARED.format("2.5")) == Ran([10035.0, 1], ["story.f", "story.g", "story.h"], [])
    assert tried.run(SHARED.format("2.5").replace("+ 1000", "+ 2000.5")) == Ran([20040.0, 1], ["story.h"], [])
    assert tried.run(SHARED.format("1")).result == [10020, 1], "entries of before, whose callers are those of now"


def test_a_shared_kernel_that_is_lost_is_made_again_for_its_callers(tried):
    """Only itself: who has it from another machine, or has it removed, waits for no more."""
    tried.run(SHARED.format("1"))
    for entry in (tried.folder / "cache").glob("story.[gh]-*"):
        entry.unlink()
    assert tried.run(SHARED.format("1")) == Ran([10020, 1], ["story.g", "story.h"], [])


def test_shared_kernels_are_refused_within_a_function():
    """Others find them by their names."""

    def g(x):
        return x

    with pytest.raises(InvalidValueError, match=r"shared.*False within a function"):
        kernel(shared=True)(g)


def test_a_kernel_that_becomes_shared_is_compiled_as_one(tried):
    """Its callers look for it by the symbol of a shared kernel, which that of before does not have."""
    by_itself = SHARED.replace("(shared=True)", "").replace("[f(1)", "[g(1), f(1)")
    assert tried.run(by_itself.format("1")).result == [2, 10020, 1]
    assert tried.run(SHARED.format("1")).result == [10020, 1]
    assert tried.run(SHARED.format("2")) == Ran([10030, 1], ["story.g"], [])


def test_a_redefined_shared_kernel_runs_its_new_code(tried):
    """As in a notebook, where a cell is run again, or by `importlib.reload`."""
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
            again = importlib.reload(sys.modules["story"])
            return [first, again.f(1), again.g(1)]
    """
    assert tried.run(source).result == [20, 30, 3]


def test_what_is_compiled_after_a_frozen_value_has_changed_is_not_kept(tried):
    """It is neither what the first value gives throughout, nor what the second one gives."""
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
    tried.run(source, "run_with_another_limit")
    assert tried.run(source) == Ran([202, 0], ["story.other"], [])
    assert tried.run(source, "run_on_floats") == Ran([201.0, -0.5], ["story.caller", "story.other"], [])


SWAPPED = ("    total: np.ndarray\n    number: np.ndarray\n", "    number: np.ndarray\n    total: np.ndarray\n")


@pytest.mark.parametrize("decorated", ["class Sums", "@by_pointer\nclass Sums"])
def test_members_of_a_tuple_that_change_places_are_found(tried, decorated):
    """Machine code reads a member by its place; another tuple of the same name and types is another type."""
    source = CHAIN.replace("class Sums", decorated)
    assert tried.run(source, "run_on_sums").result == 1
    again = tried.run(source.replace(*SWAPPED), "run_on_sums")
    assert again.result == 1
    assert "story.first" in again.compiled


def test_members_of_a_shared_result_that_change_places_are_found(tried):
    """The same of what a shared kernel returns: its callers read by place, too."""
    source = (
        CHAIN
        + """
@kernel(shared=True)
def made(x):
    return Sums(total=x, number=x + 1)

@kernel
def total_of_made(x):
    return made(x).total

def run_made():
    return total_of_made(1)
"""
    )
    assert tried.run(source, "run_made").result == 1
    assert tried.run(source.replace(*SWAPPED), "run_made").result == 1


@pytest.mark.parametrize("decorated", ["", "@by_pointer"])
def test_tuples_of_two_classes_of_one_name_are_distinguished(tried, decorated):
    """In one process: each has its own places."""
    shape = "class Sums(NamedTuple):\n    {0}: int\n    {1}: int\n"
    one, other = shape.format("total", "number"), shape.format("number", "total")
    head = f"from typing import NamedTuple\nfrom plb.compiler import by_pointer\n{decorated}\n"
    modules = tried.folder / "modules"
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
    assert tried.run(source).result == [1, 1, 1111]


@pytest.mark.parametrize("decorated", ["class Sums", "@by_pointer\n    class Sums"])
def test_tuples_of_a_class_within_a_function_are_compiled(tried, decorated):
    """Their code can be kept or not; the call gives its result."""
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
    assert [tried.run(source).result for _ in range(2)] == [3, 3]


@pytest.mark.parametrize("names", ['{"__name__": "typed_in", "kernel": kernel}', '{"kernel": kernel}'])
def test_kernels_that_are_typed_in_run_in_every_process(tried, names):
    """Their module cannot be imported."""
    source = f"""
from plb.compiler import kernel
def run():
    names = {names}
    exec("@kernel\\ndef f(x):\\n    return x + 1\\n", names)
    return names["f"](3)
"""
    assert [tried.run(source).result for _ in range(2)] == [4, 4]


@pytest.mark.parametrize("given", ["g", "h"])
def test_a_kernel_that_is_handed_over_is_the_one_that_is_called(tried, given):
    """Whichever was handed over by an earlier process."""
    source = """
from plb.compiler import kernel
@kernel
def g(x):
    return x + 1
@kernel
def h(x):
    return x + 2
@kernel
def f(one, x):
    return one(x)
def run():
    return f({0}, 5)
"""
    assert [tried.run(source.format(name)).result for name in (given, "g", "h")] == [5 + 1 + (given == "h"), 6, 7]


def test_code_that_numba_takes_from_elsewhere_counts(tried):
    """Intrinsics, and what stands in for a function within kernels."""
    source = """
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic, overload
        from plb.compiler import kernel
        @intrinsic
        def number(context, x):
            def generate(context, builder, signature, arguments):
                return ir.Constant(ir.IntType(64), {0})
            return types.int64(x), generate
        def stood_in(x):
            raise NotImplementedError
        @overload(stood_in)
        def typed(x):
            def implementation(x):
                return x + {1}
            return implementation
        @kernel
        def f(x):
            return number(x)
        @kernel
        def g(x):
            return stood_in(x)
        def run():
            return [f(1), g(1)]
    """
    assert tried.run(source.format(7, 70)) == Ran([7, 71], ["story.f", "story.g"], [])
    assert tried.run(source.format(7, 70)) == Ran([7, 71], [], [])
    assert tried.run(source.format(8, 70)) == Ran([8, 71], ["story.f"], [])
    assert tried.run(source.format(8, 80)) == Ran([8, 81], ["story.g"], [])


EDITS = {
    "the kernel that a name leads to": (
        """
LESS, MORE = kernel(lambda x: x - 1), kernel(lambda x: x + 1)
one, two, third = LESS, MORE, LESS
@kernel
def f(x):
    return one(x) * 100 + two(x) * 10 + third(x)
def run():
    return f(5)
""",
        ("MORE, LESS\n", "MORE, MORE\n"),
        (464, 466),
    ),
    "the kernels in a tuple": (
        """
LESS, MORE = kernel(lambda x: x - 1), kernel(lambda x: x + 1)
ALL = (LESS, MORE, LESS)
@kernel
def f(x):
    return ALL[0](x) * 100 + ALL[1](x) * 10 + ALL[2](x)
def run():
    return f(5)
""",
        ("MORE, LESS)", "MORE, MORE)"),
        (464, 466),
    ),
    "the default of a shared kernel": (
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
    "the order of a shared kernel's arguments": (
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
    "a further argument of a shared kernel": (
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
    "the members of a tuple that a shared kernel may return": (
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
    "the name of a tuple that a shared kernel takes": (
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
    "a kernel that is handed over": (
        """
@kernel
def g(x):
    return x + 1
@kernel
def f(one, x):
    return one(x)
def run():
    return f(g, 5)
""",
        ("x + 1", "x + 2"),
        (6, 7),
    ),
    "the layout of an array": (
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
    "what stands in for a function of Python": (
        """
@overload(abs)
def absolute(x):
    if isinstance(x, types.UniTuple):
        return lambda x: x[0] + 1000
@kernel
def f(x):
    return abs((x, x))
def run():
    return f(1)
""",
        ("+ 1000", "+ 2000"),
        (1001, 2001),
    ),
    "what stands in for an operator": (
        """
@overload(operator.sub)
def difference(x, y):
    if isinstance(x, types.UniTuple):
        return lambda x, y: x[0] + 1000
@kernel
def f(x):
    return (x, x) - (x, x)
def run():
    return f(1)
""",
        ("+ 1000", "+ 2000"),
        (1001, 2001),
    ),
    "a method that Numba has been taught": (
        """
@overload_method(types.Array, "first_plus")
def first_plus(array):
    return lambda array: array[0] + 1000
@kernel
def f(array):
    return array.first_plus()
def run():
    return int(f(np.ones(2)))
""",
        ("+ 1000", "+ 2000"),
        (1001, 2001),
    ),
}
"""What can be changed in a module: its source, what is replaced by what, and what both versions give."""
HEAD = """
import operator
from typing import NamedTuple
import numpy as np
from numba import types
from numba.extending import overload, overload_method
from plb.compiler import kernel
"""


@pytest.mark.parametrize(("source", "edit", "results"), EDITS.values(), ids=EDITS)
def test_an_edited_module_runs_its_new_code(tried, source, edit, results):
    """Nothing is compiled again where nothing has changed, and something where it has."""
    old, new = edit
    assert old in source
    assert tried.run(HEAD + source).result == results[0]
    assert tried.run(HEAD + source) == Ran(results[0], [], [])
    again = tried.run(HEAD + source.replace(old, new))
    assert again.result == results[1]
    assert again.compiled
    assert tried.run(HEAD + source).result == results[0]


def test_kernels_of_one_code_stand_side_by_side(tried):
    """Two functions that do the same, in one caller; and callers that differ by which of two they call where."""
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
    assert tried.run(source).result == [222, 121, 122]


def test_a_shared_kernel_has_a_symbol_for_each_type_of_result(tried):
    """One by its address may give a float where callers get a whole number."""
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
    assert tried.run(source).result == [6, 7, 6.0, 106]


def test_a_class_that_moves_is_another_one(tried):
    """Machine code holds the class itself, found by its module."""
    modules = tried.folder / "modules"
    sums = "from typing import NamedTuple\nclass Sums(NamedTuple):\n    total: int\n"
    source = "from {0} import Sums\nfrom plb.compiler import kernel\n@kernel\ndef f(x):\n    return Sums(x)\n"
    source += "def run():\n    return [f(3).total, Sums.__module__]\n"
    write(modules, here=sums)
    assert tried.run(source.format("here")).result == [3, "here"]
    write(modules, here="", there=sums)
    assert tried.run(source.format("there")).result == [3, "there"]


@pytest.mark.parametrize("first", ["tuple", "address"])
def test_keys_do_not_depend_on_what_a_process_did_first(tried, first):
    """A process that first takes a tuple by pointer, or an address, finds what others have compiled."""
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
    tried.run(source)
    again = tried.run(source, f"run_{first}")
    assert again.result == 2
    assert again.compiled.count("story.f") == (first == "address"), "the one for the address, but not the other"
    assert tried.run(source, f"run_{first}") == Ran(2, [], [])
    assert tried.run(source) == Ran(2, [], [])


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


def test_scripts_run_what_they_say_whatever_the_cache_holds(tmp_path):
    """One that is run again, that freezes another number, and that is edited; what lies beside it does not matter."""
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

    said, kept = run(SCRIPT, 10)
    assert said == "[12, 13]"
    assert len(kept) == 2
    assert run(SCRIPT, 10) == (said, kept), "the second run finds what the first has kept"
    assert run(SCRIPT.replace("x * number", "x - number"), 20)[0] == "[19, 18]"
