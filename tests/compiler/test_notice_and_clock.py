"""Who waits for a compilation is told, and no measured time contains it."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.compiler.clock import COMPILATION, CompilationClock, working_time
from plb.compiler.notice import CompilationNotice
from tests.compiler.processes import write
from tests.engine.strategies import examples

STORY = """
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
def story(tmp_path):
    """Return where the story is."""
    return write(tmp_path / "modules", story=STORY)


def test_the_first_compilation_of_a_process_is_a_warning_and_later_ones_are_information(caplog):
    """It names the kernel, about how long it takes, and how to compile ahead."""
    notice = CompilationNotice()
    with caplog.at_level(logging.INFO, "plb"):
        notice.announce("plb.search.chain.anneal", 102)
        notice.announce("plb.planning.pending_work.mark", 1)
        notice.announce("plb.planning.pending_work.sum", 30)
    first, *later = caplog.records
    assert {record.name for record in caplog.records} == {"plb"}
    assert first.levelno == logging.WARNING
    for words in ("plb.search.chain.anneal", "about 30 s", "`plb warmup`", "once for this version of plb"):
        assert words in first.getMessage()
    assert [record.levelno for record in later] == [logging.INFO] * 2
    assert [record.getMessage() for record in later] == [
        "Compiling plb.planning.pending_work.mark, about 1 s",
        "Compiling plb.planning.pending_work.sum, about 3 s",
    ]


def test_where_no_handler_is_configured_the_warning_reaches_standard_error(processes, story, tmp_path):
    """Once, however many kernels are compiled; and nothing where nothing is compiled."""
    said = []
    for _ in range(2):
        started = processes.start("story:run_unconfigured", cache=tmp_path / "cache", path=[story])
        started.wait()
        said.append((started.out / "stderr").read_text())
    (line,) = said[0].splitlines()
    assert line.startswith("Compiling story.f and other kernels, up to about 1 s")
    assert said[1] == ""


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return what the test has set."""
        return self.now


@pytest.fixture
def wall(monkeypatch):
    """Return the clock on the wall, which stands until it is set."""
    clock = Wall()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


blocks = st.recursive(
    st.integers(0, 5).map(float), lambda inner: st.tuples(st.booleans(), st.lists(inner, max_size=3)), max_leaves=12
)


@examples(100)
@given(nested_blocks=st.lists(blocks, max_size=5))
def test_seconds_within_a_block_count_once_however_deep_it_is(nested_blocks):
    """Also where a block ends with an error: the oracle adds up the seconds that pass in any block."""
    wall, clock = Wall(), CompilationClock()
    expected = 0.0

    def live(one, within):
        nonlocal expected
        if isinstance(one, float):
            wall.now += one
            expected += one * within
            return
        fails, inner = one
        try:
            with clock.running():
                for part in inner:
                    live(part, True)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "perf_counter", wall)
        for one in nested_blocks:
            live(one, False)
    assert clock.seconds == expected


def test_working_time_goes_on_but_for_compilation(wall):
    """Differences are durations of the work."""
    before = working_time()
    wall.now += 2.0
    assert working_time() - before == pytest.approx(2.0)
    with COMPILATION.running():
        wall.now += 30.0
    assert working_time() - before == pytest.approx(2.0)
    wall.now += 1.0
    assert working_time() - before == pytest.approx(3.0)


def test_working_time_stands_still_within_a_compilation(wall):
    """Another thread that reads it meanwhile never sees it go back."""
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
def test_compiling_and_loading_take_none_of_the_working_time(processes, story, tmp_path, slow):
    """Nor does a compilation that fails; what comes after one is measured again."""
    given = {"cache": tmp_path / "cache", "path": [story]}
    if slow == "_load":
        processes.run("story:run_slowly", "_make", **given)
    first, second, failed, after, seconds = processes.run("story:run_slowly", slow, **given).result
    for wall_seconds, work in (first, failed):
        assert wall_seconds > 0.5
        assert work < wall_seconds - 0.45
    for wall_seconds, work in (second, after):
        assert work == pytest.approx(wall_seconds, abs=0.01)
    assert seconds > 1.0
