"""Profiles of Hypothesis for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("few", deadline=None, max_examples=10)
"""A tenth of the examples, for kernels as plain Python, which run a hundred times slower."""
