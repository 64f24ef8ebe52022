"""The ready-made terms with a cost of nodes: the costs of all nodes add up to the term."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.extensions.energy_terms import apply_proposal_of_terms, begin, cost_at_node
from plb.ready_made import MetricBalance, SafetyCapacity
from plb.testing import configuration_of, small_clusters, walks
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@examples(60)
@given(small_clusters(), st.floats(0.0, 1.0), st.data())
def test_costs_of_nodes_add_up_to_the_term(cluster, share, data):
    names = [metric.name for metric in cluster.metrics]
    terms = [SafetyCapacity({names[0]: [(0.5 * share, 1.0), (share + 0.1, 4.0)], names[-1]: share})]
    if len(names) > 1:
        terms.append(MetricBalance(names[0], names[1], 0.5 + share))
    configuration = configuration_of(cluster.engine())
    for term in terms:
        begin(term, configuration)
    for proposal in data.draw(walks(configuration)):
        apply_proposal_of_terms(tuple(terms), configuration, proposal)
        for term in terms:
            costs = [cost_at_node(term, configuration, node) for node in range(configuration.nodes)]
            assert sum(costs) == pytest.approx(term.total(configuration), rel=1e-9, abs=1e-9)
