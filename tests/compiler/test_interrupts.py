"""Signals while a kernel is compiled wait for the end, and a second Ctrl-C does not; during a change all wait."""

from __future__ import annotations

import signal
import threading

import pytest

from plb.compiler.interrupts import SIGNALS, interrupts_deferred, uninterrupted


@pytest.fixture(autouse=True)
def usual_handler():
    """Let Ctrl-C raise `KeyboardInterrupt`, as in a new process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_interrupt_waits_for_the_end(depth):
    """Contexts within contexts end without it, and it comes once, at the end of the first one."""
    done = []

    def compile_at(level):
        with interrupts_deferred():
            if level == depth:
                interrupt()
            else:
                compile_at(level + 1)
            done.append(level)
        if level > 1:
            done.append("after")

    with pytest.raises(KeyboardInterrupt):
        compile_at(1)
    assert [one for one in done if one != "after"] == [*range(depth, 0, -1)]
    assert done.count("after") == depth - 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_interrupt_takes_effect_at_once():
    done = []

    def compile_interrupted_twice():
        with interrupts_deferred():
            interrupt()
            done.append("first")
            interrupt()
            done.append("second")

    with pytest.raises(KeyboardInterrupt):
        compile_interrupted_twice()
    assert done == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("presses", [1, 2])
def test_change_ends_before_any_interrupt(presses):
    done = []

    @uninterrupted
    def change(depth):
        """Change something."""
        if depth:
            change(depth - 1)
        for _ in range(presses):
            interrupt()
        done.append(depth)
        if depth == 2:
            raise ValueError("of the change")

    with pytest.raises(KeyboardInterrupt) as raised:
        change(2)
    assert done == [0, 1, 2]
    assert isinstance(raised.value.__context__, ValueError)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (change.__name__, change.__doc__) == ("change", "Change something.")


@pytest.mark.parametrize("held", [lambda change: uninterrupted(change)(), lambda change: in_context(change)])
def test_all_signals_whose_handlers_raise_wait(held):
    """A limit of time, or a request to end, may raise as Ctrl-C does. None is lost, and the handlers return."""
    done, handled = [], []

    def handler(number, _):
        handled.append(number)
        raise TimeoutError(number)

    def change():
        for number in SIGNALS:
            signal.raise_signal(number)
        done.append("whole")

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        with pytest.raises(TimeoutError):
            held(change)
        assert {signal.getsignal(number) for number in SIGNALS} == {handler}
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
    assert done == ["whole"]
    assert sorted(handled) == sorted(SIGNALS)


def in_context(change):
    with interrupts_deferred():
        change()


def test_context_without_an_interrupt_changes_nothing():
    with pytest.raises(ValueError, match="of the compiler"), interrupts_deferred():
        raise ValueError("of the compiler")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_is_not_lost_in_an_error():
    """Who catches the error of a failed compilation still gets the interrupt, with the error as its context."""

    def fail():
        with interrupts_deferred():
            interrupt()
            raise ValueError("of the compiler")

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()
    assert isinstance(raised.value.__context__, ValueError)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_handlers_that_are_no_functions_stay(handler):
    signal.signal(signal.SIGINT, handler)
    with interrupts_deferred():
        assert signal.getsignal(signal.SIGINT) is handler
    assert uninterrupted(signal.getsignal)(signal.SIGINT) is handler


def test_other_threads_need_nothing():
    """Only the main thread is interrupted, and only it may set handlers."""
    seen = []

    @uninterrupted
    def change():
        seen.append(signal.getsignal(signal.SIGINT))

    def in_thread():
        with interrupts_deferred():
            seen.append(signal.getsignal(signal.SIGINT))
        change()

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler] * 2
