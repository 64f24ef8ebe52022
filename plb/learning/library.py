"""PyTorch, or a word on how to get it: every module of learning that computes with it takes it from here."""

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
    """Let PyTorch compute with one thread meanwhile: sums then have one order, and workers do not crowd one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
