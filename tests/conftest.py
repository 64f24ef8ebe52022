"""Profiles of Hypothesis, signals and memory for all tests, and fixtures that several packages use."""

from __future__ import annotations

import gc
import signal

import pytest
from hypothesis import settings

from plb.testing import Cluster
from tests.engine.stories import three_nodes

settings.register_profile("few", deadline=None, max_examples=10)
"""A tenth of the examples, for kernels as plain Python, which run a hundred times slower."""


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes that tests start, also where a shell that runs the tests as a job ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what collection has loaded: it stays until the end anyway."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def small_cluster() -> Cluster:
    """Return three nodes, a stateful partition of two replicas, two instances, and a history of four repetitions."""
    return three_nodes()
