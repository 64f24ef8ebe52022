"""Replicas of a partition share no node, also while the moves of a plan are under way."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Partition, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.constraints.exclusion import is_broken
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import NO_REFUSAL, Rule
from plb.testing import configuration_of
from tests.engine.breaches_by_pass import has_to_leave_by_hand
from tests.engine.refusals_by_hand import by_hand
from tests.engine.ruled_clusters import exchanges, scattered_engines
from tests.engine.stories import engine_on
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@st.composite
def siblings_on_their_way(draw: st.DrawFn) -> Configuration:
    """Draw a partition of up to four replicas on five nodes after allowed moves, often to origins, and swaps."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    engine = engine_on(*(f"n{index}" for index in range(5)), allow_chained_moves=draw(st.booleans()))
    engine.update_service(Service("db", target_replicas=4))
    names = random.sample([f"n{index}" for index in range(5)], draw(st.integers(2, 4)))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3]
    replicas = [Replica(role, name) for role, name in zip(roles, names, strict=False)]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    configuration = configuration_of(engine)
    rows = configuration.rows.tolist()
    targets = [*configuration.problem.origin[rows].tolist() * 2, *range(5)]
    for _ in range(draw(st.integers(0, 12))):
        proposal = Proposal(random.choice(rows), random.choice([node for node in targets if node != NOWHERE]))
        if random.random() < 0.3:
            proposal = random.choice(exchanges(configuration))
        stays = proposal.target == configuration.node_of(proposal.row)
        if not stays and configuration.refusal(proposal, 0) is None:
            configuration.apply(proposal)
    return configuration


@examples(120)
@given(siblings_on_their_way())
def test_moves_and_swaps_of_siblings_always_have_an_order(configuration):
    """Every step is refused exactly if its plan would have no order, or if two replicas would share a node."""
    right = by_hand(configuration, 0)
    for row in configuration.rows.tolist():
        for node in set(range(5)) - {configuration.node_of(row)}:
            found = configuration.refusal(Proposal(row, node), 0)
            assert (NO_REFUSAL if found is None else found) == right.refusal(Proposal(row, node))
    for proposal in exchanges(configuration):
        found = configuration.refusal(proposal, 0)
        assert (NO_REFUSAL if found is None else found) == right.refusal(proposal)


@pytest.mark.parametrize("nodes", list(itertools.permutations(range(3))))
def test_three_replicas_may_not_change_places_in_a_circle(nodes):
    """The first gives way, and each takes the place of the next; the last step would leave no move to begin with."""
    engine = engine_on(*(f"n{index}" for index in range(4)), allow_chained_moves=True)
    engine.update_service(Service("db", target_replicas=3))
    roles = [Role.PRIMARY, Role.SECONDARY, Role.SECONDARY]
    replicas = [Replica(role, f"n{node}") for role, node in zip(roles, nodes, strict=True)]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    configuration = configuration_of(engine)
    row_on = {configuration.node_of(row): row for row in configuration.rows.tolist()}
    first, second, third = (row_on[node] for node in nodes)
    for row, target in ((first, 3), (third, nodes[0]), (second, nodes[2])):
        assert configuration.refusal(Proposal(row, target), 0) is None
        configuration.apply(Proposal(row, target))
    assert configuration.refusal(Proposal(first, nodes[1]), 0) is Rule.EXCLUSION


@examples(120)
@given(scattered_engines())
def test_all_replicas_of_a_shared_node_but_one_have_to_leave(drawn):
    """One that may not move stays, else the primary, else the first; leaving replicas and standbys do not count."""
    _, configuration = drawn
    for row in configuration.rows.tolist():
        placed = configuration.node_of(row) != NOWHERE
        if placed:
            found = is_broken(configuration.problem, configuration.solution, row)
            assert found == has_to_leave_by_hand(configuration, row)
