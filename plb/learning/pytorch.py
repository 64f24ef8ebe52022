"""PyTorch, or an error that says how to install it: every module of learning that needs it imports it from here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plb.errors import MissingExtraError

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtraError("torch") from error

__all__ = ["one_thread", "torch"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread in the block: sums have one order, and workers do not share processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
