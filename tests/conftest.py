"""Profiles of Hypothesis for all tests."""

from __future__ import annotations

import gc

from hypothesis import settings

settings.register_profile("few", deadline=None, max_examples=10)
"""A tenth of the examples, for kernels as plain Python, which run a hundred times slower."""


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what collection has loaded: it stays until the end anyway."""
    gc.collect()
    gc.freeze()
