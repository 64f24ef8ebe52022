"""The state machines of extensions with the usual number of examples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from plb.testing.state_machines import SETTINGS, ConfigurationMachine
from tests.extensions import test_compiled_terms, test_extension_constraints, test_kernel_data
from tests.rules import test_least_domains, test_same_domain
from tests.terms import test_metric_balance, test_most_moved_service, test_move_costs, test_safety_capacity

from . import test_machines, test_planted

MODULES = (
    test_compiled_terms,
    test_extension_constraints,
    test_kernel_data,
    test_least_domains,
    test_machines,
    test_metric_balance,
    test_most_moved_service,
    test_move_costs,
    test_planted,
    test_safety_capacity,
    test_same_domain,
)
CASES = {
    f"{module.__name__}.{name}": case
    for module in MODULES
    for name, case in vars(module).items()
    if issubclass(getattr(case, "machine", object), ConfigurationMachine)
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_invariant_holds_in_many_more_runs(case: Any):
    run_state_machine_as_test(case.machine, settings=SETTINGS)
