"""Errors planted into terms, constraints and risk models are found, each by the invariant that it breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from plb.extensions.configuration import TERMS
from plb.testing import Invariant, counterexample
from tests.machines import short_machine_of

from . import planted
from .conftest import first_failure

UNITS = {"without": [Invariant.SCALE]}
"""Crowding counts in units of load."""
INCREMENT, UNDO, NODES = Invariant.INCREMENT, Invariant.UNDO, Invariant.NODES
PLANTED = {
    planted.WrongSign: {INCREMENT},
    planted.StaleSums: {INCREMENT},
    planted.LaterMetrics: {INCREMENT},
    planted.OneDrawLess: {INCREMENT},
    planted.FloatDrift: {INCREMENT},
    planted.NarrowIntegers: {INCREMENT},
    planted.ForgottenDeparture: {INCREMENT},
    planted.DoubleSwap: {INCREMENT},
    planted.IgnoredExchange: {INCREMENT},
    planted.NodeNumbers: {NODES},
    planted.ReplicaNumbers: {Invariant.REPLICAS},
    planted.CachedTotal: {UNDO},
    planted.NowhereIsANode: {INCREMENT},
    planted.DepartingLoad: {INCREMENT},
    planted.PathDependent: {INCREMENT, Invariant.ORDER},
    planted.ForgottenDomain: {INCREMENT},
    planted.IdleNodesThatAreDown: {INCREMENT},
    planted.ForgottenProperty: {INCREMENT},
    planted.ClassOfTenants: {INCREMENT},
    planted.TrialNotTakenBack: {Invariant.ASKING},
}
SHRUNK_QUICKLY = (planted.TrialNotTakenBack,)

TestCrowding = short_machine_of(planted.Crowding(), **UNITS)
TestPeaks = short_machine_of(planted.Peaks())
TestUpgradeDomains = short_machine_of(planted.UpgradeDomains())


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_built_in_terms_keep_every_invariant(term):
    case: Any = short_machine_of(term)
    run_state_machine_as_test(case.machine, settings=case.settings)


def test_valid_term_has_no_counterexample():
    assert counterexample(TERMS[0]) is None


@pytest.mark.parametrize("term", PLANTED, ids=lambda term: term.__name__)
def test_planted_error_is_found_by_the_invariant_it_breaks(term):
    assert first_failure(term(), **UNITS) in PLANTED[term]


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(term, marks=[] if term in SHRUNK_QUICKLY else pytest.mark.slow, id=term.__name__)
        for term in PLANTED
    ],
)
def test_counterexample_is_shrunk_to_a_few_steps(term):
    text = counterexample(term(), **UNITS)
    assert text is not None
    assert any(text.splitlines()[-1].startswith(f"BrokenInvariantError: {one.value}") for one in PLANTED[term]), text
    lines = [line for line in text.splitlines() if line.startswith("state.") and not line.startswith("state.begin")]
    assert len(lines) <= 4, text
