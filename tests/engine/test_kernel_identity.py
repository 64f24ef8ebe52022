"""Machine code from the cache is never that of another function than the one that is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from plb.compiler import _cache_directory, kernel
from plb.compiler.identity import identity_of
from plb.search.transition import present_energy


def function_in(source, **around):
    """Return the function f of a source text, typed in, with these names around it."""
    names = {"__name__": "typed_in", "kernel": kernel, **around}
    exec(compile(dedent(source), "<stdin>", "exec"), names)
    return getattr(names["f"], "py_func", names["f"])


def adding(number, inner=None):
    """Return a function that uses what is around it."""

    def f(x):
        return x + number if inner is None else inner(x)

    return f


CALLING = "@kernel\ndef g(x):\n    return x + {0}\n@kernel\ndef f(x):\n    return g(x)\n"
NAMING = "class Names:\n    LIMIT = {0}\ndef f(x):\n    return x + Names.LIMIT\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda number: function_in(f"def f(x):\n    return x + {number}\n"),
        lambda number: function_in(f"def f(x, y={number}):\n    return x + y\n"),
        lambda number: function_in("def f(x):\n    return x + NUMBER\n", NUMBER=number),
        lambda number: function_in("def f(x):\n    return x + NUMBERS[1]\n", NUMBERS=(0, number)),
        lambda number: function_in(CALLING.format(number)),
        lambda number: function_in(NAMING.format(number)),
        adding,
        lambda number: adding(0, kernel(adding(number))),
        lambda number: adding(0, kernel(adding(0, kernel(adding(number))))),
    ],
    ids=[
        "constant",
        "default",
        "global",
        "tuple",
        "called",
        "class",
        "closure",
        "closure of a kernel",
        "and of another",
    ],
)
def test_functions_of_other_machine_code_are_told_apart(make):
    """By all that Numba freezes; a function that was only made again is the same."""
    assert identity_of(make(1)) == identity_of(make(1))
    assert identity_of(make(1)) != identity_of(make(2))


def test_array_around_a_function_counts_by_its_numbers():
    """It is frozen, too."""
    one, same, other = (function_in("def f(x):\n    return T[x]\n", T=np.array(t)) for t in ([1, 2], [1, 2], [1, 3]))
    assert identity_of(one) == identity_of(same) != identity_of(other)


def test_kernels_of_plb_are_known_by_its_sources():
    """They need no identity of their own."""
    assert identity_of(present_energy.py_func) == ""


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
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }

    def run(source, step):
        script.write_text(source)
        command = [sys.executable, str(script), str(step)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), sorted(path.name for path in cache.rglob("*.nbc"))

    said, kept = run(SCRIPT, 10)
    assert said == "[12, 13]"
    assert run(SCRIPT, 10) == (said, kept), "the second run finds what the first has kept"
    assert run(SCRIPT, 20)[0] == "[22, 23]"
    assert run(SCRIPT.replace("x * number", "x - number"), 20)[0] == "[19, 18]"


def test_without_a_home_nothing_is_kept(monkeypatch):
    """As in a container whose user is not known; kernels are compiled by each process then."""

    def without_home(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PLB_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", without_home)
    assert _cache_directory.__wrapped__() is None
