"""Short state machines of extensions; tests/testing/test_long_machines.py runs them for a longer time."""

from __future__ import annotations

import unittest
from typing import Any

from hypothesis import settings

from plb.testing import machine_of

FEW_EXAMPLES = 30
"""Each has up to fifty steps, after all proposals that are possible at first."""


def short_machine_of(subject: Any, **options: Any) -> type[unittest.TestCase]:
    """Return the test case of `machine_of` with fewer examples."""
    case: Any = machine_of(subject, **options)
    case.settings = settings(case.settings, max_examples=FEW_EXAMPLES)
    return case  # type: ignore[no-any-return]
