"""A notice announces each compilation, and no measured time includes it."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.compiler.clock import COMPILATION, CompilationClock, CompilationNotice, working_time
from tests.compiler.processes import write
from tests.engine.strategies import examples

EXAMPLE = """
import logging, time
from plb.compiler import kernel, working_time
from plb.compiler.clock import COMPILATION

@kernel
def f(x):
    return x + 1

@kernel
def g(x):
    return x + 2

@kernel
def bad(x):
    return x.nothing

def run_unconfigured():
    logger = logging.getLogger("plb")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    f(1), f(1.0), g(1)

def slowed(name):
    '''Let a function of the compiler take half a second.'''
    from plb.compiler import compilation
    def slow(*arguments, original=getattr(compilation, name)):
        time.sleep(0.5)
        return original(*arguments)
    setattr(compilation, name, slow)

def measured(call):
    '''Return how long a call takes by the clock on the wall, and by that of the work.'''
    wall, work = time.perf_counter(), working_time()
    try:
        call()
    except Exception:
        pass
    return time.perf_counter() - wall, working_time() - work

def run_slowly(name):
    f(1)
    slowed(name)
    first, second = measured(lambda: g(1)), measured(lambda: time.sleep(0.1))
    failed, after = measured(lambda: bad(1)), measured(lambda: time.sleep(0.1))
    return first, second, failed, after, COMPILATION.seconds
"""


@pytest.fixture
def example(tmp_path):
    return write(tmp_path / "modules", example=EXAMPLE)


def test_first_compilation_of_a_process_is_a_warning_and_later_ones_are_information(caplog):
    notice = CompilationNotice()
    with caplog.at_level(logging.INFO, "plb"):
        notice.announce("plb.search.annealing.chain.anneal", 102)
        notice.announce("plb.planning.service_domains.mark", 1)
        notice.announce("plb.planning.service_domains.sum", 30)
    first, *later = caplog.records
    assert {record.name for record in caplog.records} == {"plb"}
    assert first.levelno == logging.WARNING
    for words in ("plb.search.annealing.chain.anneal", "about 30 s", "`plb warmup`", "once for this version of plb"):
        assert words in first.getMessage()
    assert [record.levelno for record in later] == [logging.INFO] * 2
    assert [record.getMessage() for record in later] == [
        "Compiling plb.planning.service_domains.mark, about 1 s",
        "Compiling plb.planning.service_domains.sum, about 3 s",
    ]


def test_without_a_handler_the_warning_reaches_standard_error(processes, example, tmp_path):
    printed = []
    for _ in range(2):
        started = processes.start("example:run_unconfigured", cache=tmp_path / "cache", path=[example])
        started.wait()
        printed.append((started.out / "stderr").read_text())
    (line,) = printed[0].splitlines()
    assert line.startswith("Compiling example.f and other kernels, up to about 1 s")
    assert printed[1] == ""


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall(monkeypatch):
    """Return the wall clock, which is constant until it is set."""
    clock = Wall()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


blocks = st.recursive(
    st.integers(0, 5).map(float), lambda inner: st.tuples(st.booleans(), st.lists(inner, max_size=3)), max_leaves=12
)


@examples(100)
@given(nested_blocks=st.lists(blocks, max_size=5))
def test_seconds_in_nested_blocks_count_once(nested_blocks):
    """A block may end with an error; the oracle sums the seconds that pass in any block."""
    wall, clock = Wall(), CompilationClock()
    expected = 0.0

    def run_block(one, within):
        nonlocal expected
        if isinstance(one, float):
            wall.now += one
            expected += one * within
            return
        fails, inner = one
        try:
            with clock.running():
                for part in inner:
                    run_block(part, True)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "perf_counter", wall)
        for one in nested_blocks:
            run_block(one, False)
    assert clock.seconds == expected


def test_working_time_is_constant_during_a_compilation(wall):
    readings = [working_time()]
    with COMPILATION.running():
        wall.now += 30.0
        readings.append(working_time())
        with COMPILATION.running():
            wall.now += 30.0
            readings.append(working_time())
    readings.append(working_time())
    assert readings == [readings[0]] * 4


@pytest.mark.parametrize("slow", ["_make", "_load"])
def test_working_time_excludes_compiling_and_loading(processes, example, tmp_path, slow):
    """A failed compilation takes none either; work after one is measured again."""
    given = {"cache": tmp_path / "cache", "path": [example]}
    if slow == "_load":
        processes.run("example:run_slowly", "_make", **given)
    first, second, failed, after, seconds = processes.run("example:run_slowly", slow, **given).result
    for wall_seconds, work in (first, failed):
        assert wall_seconds > 0.5
        assert work < wall_seconds - 0.45
    for wall_seconds, work in (second, after):
        assert work == pytest.approx(wall_seconds, abs=0.01)
    assert seconds > 1.0
