"""Keys of entries depend on versions, processor, settings and the compiler's modules as well as on the kernel."""

from __future__ import annotations

import importlib
import platform
import sys
from textwrap import dedent

import llvmlite
import numba
import numpy as np
import pytest

from plb.compiler import compilation, kernel, keys, modules
from plb.compiler.identity import code_of_modules
from plb.compiler.keys import MAKES_CODE, key_of
from tests.compiler.processes import ROOT


@kernel
def halved(x):
    """Return the half."""
    return x / 2


def test_key_depends_on_function_argument_types_and_result_type():
    """Each combination has its own entry."""
    one = key_of(halved.py_func, ("int64",), "None")
    assert one == key_of(halved.py_func, ("int64",), "None")
    others = [
        key_of(halved.py_func, ("float64",), "None"),
        key_of(halved.py_func, ("int64", "int64"), "None"),
        key_of(halved.py_func, (), "None"),
        key_of(halved.py_func, ("int64",), "float64"),
        key_of(test_names_of_the_modules_that_make_code, ("int64",), "None"),
    ]
    assert len({one, *others}) == 6


class OtherProcessor:
    """A target whose processor has another name."""

    @staticmethod
    def codegen():
        """Return the class that has the name."""
        return OtherProcessor

    @staticmethod
    def magic_tuple():
        """Return triple, processor and features."""
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
        (keys, "cpu_target", OtherTarget),
        (modules, "LEVEL", 1),
        (compilation, "OPTIONS", compilation.OPTIONS | {"error_model": "python"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_environment_of_a_kernel_counts(monkeypatch, place, name, value):
    """They are versions, processor, bounds checks and options of the compiler."""
    before = keys._surroundings.__wrapped__()
    assert keys._surroundings.__wrapped__() == before
    monkeypatch.setattr(place, name, value)
    assert keys._surroundings.__wrapped__() != before


def test_names_of_the_modules_that_make_code():
    """They are all modules of the compiler that use LLVM or Numba's types, except for those that only list names."""
    folder = ROOT / "plb" / "compiler"
    knowing = [
        path for path in folder.glob("*.py") if "import numba" in (text := path.read_text()) or "llvmlite" in text
    ]
    known = {f"plb.compiler.{path.stem}" for path in knowing} - {"plb.compiler.numba_api", "plb.compiler.__init__"}
    assert known <= set(MAKES_CODE)


SOURCE = '''
"""A module."""
from __future__ import annotations
import attrs

LEVEL = 2
NAMES = ("a", 1.0, frozenset({"b", "c"}))

def first(x: int) -> int:
    """Add."""
    return x + 1  # because

@attrs.frozen
class Kind:
    """A kind."""
    size: int = 3

    def second(self) -> int:
        """Multiply."""
        def third(y: int) -> int:
            """Multiply."""
            return y * LEVEL
        return third(self.size)
'''


@pytest.fixture
def code_of(tmp_path, monkeypatch):
    """Return a function that gives the code of a module of this source."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def of(source, name="made"):
        (tmp_path / f"{name}.py").write_text(dedent(source))
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)
        return code_of_modules([name])

    return of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', ""),
        ('"""A module."""', '"""Another text."""'),
        ('    """Add."""\n', ""),
        ('    """Add."""\n', '    """Add one."""\n'),
        ('    """A kind."""\n', ""),
        ('            """Multiply."""\n            return', "            return"),
        ("  # because", ""),
        ("def first(x: int) -> int:", "def first(x):"),
        ("import attrs\n", "import attrs\n\n\n# two lines further down\n"),
    ],
)
def test_text_for_people_in_the_compiler_does_not_count(code_of, old, new):
    """An edited docstring of the compiler compiles nothing again."""
    assert old in SOURCE
    assert code_of(SOURCE) == code_of(SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVEL = 2", "LEVEL = 3"),
        ("LEVEL = 2", "LEVEL = 2.0"),
        ('"b"', '"d"'),
        ("x + 1", "x + 2"),
        ("x + 1", "x - 1"),
        ("y * LEVEL", "y + LEVEL"),
        ("third(self.size)", "third(self.size) + 1"),
    ],
)
def test_functions_and_constants_of_the_compiler_count(code_of, old, new):
    """They may change the machine code."""
    assert old in SOURCE
    assert code_of(SOURCE) != code_of(SOURCE.replace(old, new))
