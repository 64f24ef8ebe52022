"""Profiles of Hypothesis, signals and memory for all tests, and shared fixtures."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from enum import EnumType
from typing import Any

import pytest
from hypothesis import settings
from matplotlib.figure import Figure

from plb.testing import Cluster
from tests.engine.stories import three_nodes

settings.register_profile("full", deadline=None)
"""Without a deadline: the first example may compile kernels, and other processes may have the processor."""
settings.register_profile("usual", deadline=None, max_examples=60)
settings.load_profile("usual")
"""Three fifths of the examples; they differ from run to run, so that all runs together have any number."""
settings.register_profile("few", deadline=None, max_examples=10)
"""A tenth of the examples, for kernels as plain Python, which are a hundred times slower."""


MEMBERS_IN_NUMPY: list[str] = []
"""Where the engine has handed a member of an enumeration to an operator of NumPy."""
_attribute_of = getattr(EnumType, "__getattr__", None)


def _note_members_in_numpy(enumeration: EnumType, name: str) -> Any:
    """Look up an attribute that an enumeration lacks; only NumPy's operators ask members for the noted one."""
    caller = sys._getframe(1)
    if name == "__array_ufunc__" and caller.f_globals.get("__name__", "").startswith("plb."):
        MEMBERS_IN_NUMPY.append(f"{caller.f_code.co_filename}:{caller.f_lineno}")
    if _attribute_of is None:  # since Python 3.12
        raise AttributeError(name)
    return _attribute_of(enumeration, name)


def pytest_configure() -> None:
    """Deliver Ctrl-C to processes that tests start, even if the shell ignores it for background jobs.

    Garbage is collected less often, as Hypothesis makes many short-lived objects.
    """
    gc.set_threshold(20_000, 20, 20)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.environ.get("NUMBA_DISABLE_JIT"):  # kernels may compare as they like
        EnumType.__getattr__ = _note_members_in_numpy  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection from garbage collection, because they stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def compares_with_plain_numbers() -> Iterator[None]:
    """Fail where the engine compares a NumPy value with a member of an enumeration: Python 3.11 then loses Ctrl-C."""
    MEMBERS_IN_NUMPY.clear()
    yield
    assert not MEMBERS_IN_NUMPY


DRAW = Figure.draw


@pytest.fixture(scope="session", autouse=True)
def blank_figures() -> Iterator[None]:
    """Write figures without drawing them, which takes longer than most runs; `test_plot_images` draws each plot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "draw", lambda _figure, _renderer: None)
        yield


@pytest.fixture
def drawn_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the figures of a test."""
    monkeypatch.setattr(Figure, "draw", DRAW)


@pytest.fixture
def small_cluster() -> Cluster:
    """Return three nodes, a stateful partition of two replicas, two instances, and a history of four repetitions."""
    return three_nodes()
