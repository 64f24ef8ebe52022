"""Interrupts by the user while a kernel is compiled or calls Python, and while an engine changes."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # eight times as fast as `signal`, and changes are frequent
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

NAMES = ("SIGINT", "SIGTERM", "SIGALRM")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))
"""Ctrl-C, and the other signals whose handlers raise in some programs, such as at the end of a time limit."""
Handler = Callable[[int, FrameType | None], object]


class _Noted:
    """A handler that notes the first signal; `second`: what handles a second one, or None to wait, too."""

    def __init__(self, second: Handler | None = None) -> None:
        self.received: tuple[int, FrameType | None] | None = None
        self._second = second

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; the handler `_second`, if there is one, gets every signal after the first at once."""
        if self.received is not None and self._second is not None:
            self._second(number, frame)
        self.received = self.received or (number, frame)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let signals take effect at the end of the context, also after an error; a second Ctrl-C takes effect at once.

    An exception in the middle of LLVM's bindings leaves objects with two owners, and the process crashes when both free
    them; one at the beginning of a callback is lost. Only the main thread of Python is interrupted, so others need
    nothing.
    """
    with ExitStack() as deferred:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                deferred.enter_context(_deferred(number))
        yield


@contextmanager
def _deferred(number: int) -> Iterator[None]:
    """Let a signal take effect at the end of the context."""
    handler = signal.getsignal(number)
    if not callable(handler) or _is_deferring(handler):
        yield
        return
    noted = _Noted(handler)
    signal.signal(number, noted)
    try:
        yield
    finally:
        signal.signal(number, handler)
        if noted.received is not None:
            handler(*noted.received)


def uninterrupted(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a call that no signal, however often it comes, stops halfway: its handler is called at the end.

    The signals are not masked, because the system would then deliver them by another thread.
    """

    @wraps(change)
    def changing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        call = change
        for number in SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and not _is_deferring(handler):
                call = _holding(call, number, handler)
        return call(*args, **kwargs)

    return changing


def _holding(change: Callable[Arguments, Result], number: int, handler: Handler) -> Callable[Arguments, Result]:
    """Return a change during which the signal `number` waits; `handler`, its present handler, then gets the signal."""

    def held(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        noted = _Noted()
        try:
            _signal.signal(number, noted)
        except ValueError:  # only the main thread may set handlers, and only the main thread is interrupted
            return change(*args, **kwargs)
        try:
            return change(*args, **kwargs)
        finally:
            _signal.signal(number, handler)
            if noted.received is not None:
                handler(*noted.received)

    return held


def _is_deferring(handler: object) -> bool:
    """Return whether a handler is one of this module, which defers the signal already."""
    return getattr(handler, "__module__", None) == __name__
