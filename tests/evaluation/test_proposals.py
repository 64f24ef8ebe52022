"""Early rejection saves work and never changes a result."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.evaluation.proposals import ACCEPTED, GENERATED, REACHED_MONTE_CARLO, REJECTED, SCORED, evaluate
from plb.extensions.configuration import TERMS, Configuration
from plb.model.rules import Rule
from plb.search.result import new_tally
from plb.state.arrays import SCRATCH
from plb.testing import all_clusters, clusters, configuration_of, walks
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@examples(150)
@given(all_clusters(), st.data())
def test_evaluation_returns_the_exact_energy_if_it_is_low_enough(cluster, data):
    """For any threshold it returns the energy of a full evaluation up to the threshold, otherwise a rejection."""
    configuration = configuration_of(cluster.engine(local_domain_weight=data.draw(st.sampled_from([0.0, 0.0, 0.25]))))
    problem = configuration.problem
    for proposal in data.draw(walks(configuration, usable_only=True)):
        whole = Configuration(problem, configuration.solution.copy())
        whole.apply(proposal)
        energy, present = whole.energy, configuration.energy
        least = min(energy, present)
        thresholds = [energy, math.nextafter(energy, -math.inf), present, least - 1.0, math.inf, 0.0]
        thresholds.append(data.draw(st.floats(least - 10.0, max(energy, present) + 10.0)))
        for highest in thresholds:
            tally = new_tally()
            whole_proposal = configuration.from_its_node(proposal)
            result = evaluate(problem, configuration.solution, highest, whole_proposal, tally)
            assert result == (energy if energy <= highest else REJECTED)
            assert tally[SCORED] == 1
            assert tally[REACHED_MONTE_CARLO] <= 1
            assert tally[GENERATED] == tally[ACCEPTED] == 0
            assert len(tally) == 4 + len(Rule) + len(TERMS)
            assert tally.sum() - tally[SCORED] - tally[REACHED_MONTE_CARLO] == (result == REJECTED), "one term named"
        configuration.apply(proposal)


@examples(60)
@given(clusters(with_history=True), st.data())
def test_evaluation_changes_nothing(cluster, data):
    configuration = configuration_of(cluster.engine())
    before = configuration.solution.copy()
    for proposal in data.draw(walks(configuration, steps=1, usable_only=True)):
        evaluate(
            configuration.problem,
            configuration.solution,
            configuration.energy,
            configuration.from_its_node(proposal),
            new_tally(),
        )
        for name in set(before._fields) - set(SCRATCH):
            assert getattr(before, name).tobytes() == getattr(configuration.solution, name).tobytes(), name


@examples(60)
@given(clusters(with_history=True), st.data())
def test_weight_of_zero_skips_the_monte_carlo_term(cluster, data):
    configuration = configuration_of(cluster.engine(w_failovers=0.0, w_overload=0.0))
    for proposal in data.draw(walks(configuration, usable_only=True)):
        tally = new_tally()
        result = evaluate(
            configuration.problem,
            configuration.solution,
            math.inf,
            configuration.from_its_node(proposal),
            tally,
        )
        configuration.apply(proposal)
        assert result == configuration.energy
        assert tally[REACHED_MONTE_CARLO] == 0
