"""Interrupts by the user while a kernel is compiled or calls Python, and while an engine changes."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # eight times as fast as `signal`, and changes are frequent
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

CTRL_C = int(signal.SIGINT)
Handler = Callable[[int, FrameType | None], object]


class _Noted:
    """A handler that notes the first Ctrl-C; `second`: what handles a second one, or None to wait, too."""

    def __init__(self, second: Handler | None = None) -> None:
        self.received: tuple[int, FrameType | None] | None = None
        self._second = second

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note it."""
        if self.received is not None and self._second is not None:
            self._second(number, frame)
        self.received = self.received or (number, frame)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C take effect at the end of the context, also after an error; a second one takes effect at once.

    An exception in the middle of LLVM's bindings leaves objects with two owners, and the process crashes when both free
    them; one at the beginning of a callback is lost. Only the main thread of Python is interrupted, so others need
    nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler) or _is_deferring(handler):
        yield
        return
    noted = _Noted(handler)
    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted.received is not None:
            handler(*noted.received)


def uninterrupted(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a call that Ctrl-C, however often it is pressed, does not stop halfway: it takes effect at the end.

    The signal is not masked, because the system would then deliver it by another thread.
    """

    @wraps(change)
    def changing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        handler = _signal.getsignal(CTRL_C)
        if not callable(handler) or _is_deferring(handler):
            return change(*args, **kwargs)
        noted = _Noted()
        try:
            _signal.signal(CTRL_C, noted)
        except ValueError:  # another thread
            return change(*args, **kwargs)
        try:
            return change(*args, **kwargs)
        finally:
            _signal.signal(CTRL_C, handler)
            if noted.received is not None:
                handler(*noted.received)

    return changing


def _is_deferring(handler: object) -> bool:
    """Return whether a handler is that of an outer context or call."""
    return getattr(handler, "__module__", None) == __name__
