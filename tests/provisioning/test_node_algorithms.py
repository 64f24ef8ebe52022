"""Node-centric algorithms, matching and Medea's NodeCandidates equal their text, replica by replica."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.provisioning import Instance, Rules
from plb.provisioning.instance import degrees
from plb.provisioning.node_centric import Score, empty_filling, empty_matches, match
from plb.provisioning.solver_context import SolverContext, order_of
from tests.provisioning import naive, naive_nodes
from tests.provisioning.strategies import instances
from tests.provisioning.test_algorithms import nodes_of, planned

score_kinds = st.sampled_from(list(Score))

pytestmark = pytest.mark.kernels


@given(instance=instances(counted=True, kinds=3), score=score_kinds)
def test_node_takes_the_application_with_the_highest_score(instance: Instance, score: Score) -> None:
    assert planned(instance, f"NCD-{score}") == nodes_of(naive_nodes.fill_nodes(instance, score))


@given(instance=instances(time_points=1, kinds=1, least_demand=1), score=score_kinds)
def test_the_released_programs_walk_through_a_list(instance: Instance, score: Score) -> None:
    """They use one pass of bubble sort before each application, and shares as whole numbers."""
    expected = nodes_of(naive_nodes.fill_in_turn(instance, score))
    assert planned(instance, f"NCD-{score}", Rules.RELEASED) == expected


@given(instance=instances(kinds=1), score=score_kinds, nodes=st.integers(1, 6))
def test_matching_takes_the_best_pair(instance: Instance, score: Score, nodes: int) -> None:
    """Among equal pairs it takes the first node, then the first application; replicas without a place are counted."""
    context = SolverContext(instance)
    packing = context.packing_of_first(nodes)
    filling = empty_filling(score, np.arange(len(instance.applications)), packing, context.capacity)
    lost = match(packing, filling, empty_matches(packing))
    expected, missing = naive_nodes.match(instance, score, nodes)
    assert lost == missing
    assert naive.placement_in(packing) == expected


@given(instance=instances(kinds=1))
def test_the_application_with_fewest_candidates_is_next(instance: Instance) -> None:
    """A node is excluded after an application with a shared limit is placed there; the most limited one comes first."""
    neighbours = instance.affinity.neighbours(len(instance.applications))
    order = order_of(degrees(neighbours)).tolist()
    expected = nodes_of(naive_nodes.fewest_candidates(instance, order))
    assert planned(instance, "Medea-NodeCandidates") == expected
