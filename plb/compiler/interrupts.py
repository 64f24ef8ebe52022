"""Interrupts by the user while a kernel is compiled, or calls Python."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
    received: list[tuple[int, FrameType | None]] = []

    def defer(number: int, frame: FrameType | None) -> None:
        if received:
            handler(number, frame)
        received.append((number, frame))

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])


def _is_deferring(handler: object) -> bool:
    """Return whether a handler is that of an outer context."""
    return getattr(handler, "__module__", None) == __name__
