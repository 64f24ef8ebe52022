"""Errors that are planted into terms, constraints and risk models are found, each by the invariant that it breaks."""

from __future__ import annotations

import pytest

from plb.energy.terms import TERMS
from plb.testing import Invariant, counterexample, machine_of

from . import planted

UNITS = {"without": [Invariant.SCALE]}
"""Crowding counts in units of load."""
INCREMENT, UNDO, NODES = Invariant.INCREMENT, Invariant.UNDO, Invariant.NODES

TestCrowding = machine_of(planted.Crowding(), **UNITS)
TestPeaks = machine_of(planted.Peaks())


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_built_in_terms_keep_every_invariant(term):
    """Nothing is found in the terms of the engine."""
    assert counterexample(term) is None


@pytest.mark.parametrize(
    ("term", "broken"),
    [
        (planted.WrongSign, {INCREMENT}),
        (planted.StaleSums, {INCREMENT}),
        (planted.ForgottenMetric, {INCREMENT}),
        (planted.OneDrawLess, {INCREMENT}),
        (planted.FloatDrift, {INCREMENT}),
        (planted.ForgottenDeparture, {INCREMENT}),
        (planted.DoubleSwap, {INCREMENT}),
        (planted.IgnoredExchange, {INCREMENT}),
        (planted.NodeNumbers, {NODES}),
        (planted.ReplicaNumbers, {Invariant.REPLICAS}),
        (planted.CachedTotal, {UNDO}),
        (planted.NowhereIsANode, {INCREMENT}),
        (planted.DepartingLoad, {INCREMENT}),
        (planted.PathDependent, {INCREMENT, Invariant.ORDER}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_error_is_caught_by_the_invariant_it_breaks(term, broken):
    """Within the default number of examples, and shrunk to a story of at most four steps after the start."""
    story = counterexample(term(), **UNITS)
    assert story is not None
    assert any(invariant.value in story for invariant in broken), story
    steps = [line for line in story.splitlines() if line.startswith("state.") and not line.startswith("state.begin")]
    assert len(steps) <= 4, story
