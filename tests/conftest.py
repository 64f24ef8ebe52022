"""Profiles of Hypothesis, signals and memory for all tests, and shared fixtures."""

from __future__ import annotations

import gc
import signal

import pytest
from hypothesis import settings

from plb.testing import Cluster
from tests.engine.stories import three_nodes

settings.register_profile("usual", deadline=None)
settings.load_profile("usual")
"""Without a deadline: the first example may compile kernels, and other processes may have the processor."""
settings.register_profile("few", deadline=None, max_examples=10)
"""A tenth of the examples, for kernels as plain Python, which are a hundred times slower."""


def pytest_configure() -> None:
    """Deliver Ctrl-C to processes that tests start, even if the shell ignores it for background jobs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection from garbage collection, because they stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def small_cluster() -> Cluster:
    """Return three nodes, a stateful partition of two replicas, two instances, and a history of four repetitions."""
    return three_nodes()
