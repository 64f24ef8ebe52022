"""Short state machines and tests of extensions; tests/testing/test_long_machines.py runs them for a longer time."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from hypothesis import Phase, settings

from plb.testing import machine_of, policy_test

FEW_EXAMPLES = 30
"""Each has up to fifty steps, after all proposals that are possible at first."""


def short_machine_of(subject: Any, **options: Any) -> type[unittest.TestCase]:
    """Return the test case of `machine_of` with fewer examples."""
    case: Any = machine_of(subject, **options)
    case.settings = settings(case.settings, max_examples=FEW_EXAMPLES)
    return case  # type: ignore[no-any-return]


def short_policy_test(policy: Any) -> Callable[[], None]:
    """Return the test of `policy_test` with fewer examples, which does not shrink a counterexample."""
    test: Any = policy_test(policy)
    usual = test._hypothesis_internal_use_settings
    phases = [phase for phase in usual.phases if phase is not Phase.shrink]
    test._hypothesis_internal_use_settings = settings(usual, max_examples=FEW_EXAMPLES, phases=phases)
    return test  # type: ignore[no-any-return]
