"""Exchanges of similar replicas: which they are, compared with all distances, and that exchanges are with these."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.search.annealing import move_generation
from plb.search.annealing.move_generation import ACCURACY, Choice, relative_sizes, similar_partners
from plb.testing import busy_clusters, configuration_of
from tests.engine.strategies import examples
from tests.search.random_proposals import random_proposals

SIMILAR = {"similar_exchange_share": 1.0, "exchange_probability": 1.0}


@examples(60)
@given(busy_clusters(), st.integers(1, 4))
def test_partners_are_about_the_nearest_of_the_movable_rows(cluster, partners):
    """No partner is as much farther than the nearest ones as the search may miss; none is the row itself, or twice."""
    engine = cluster.engine(**SIMILAR)
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    with patch.object(move_generation, "PARTNERS", partners):
        fields = similar_partners(problem, solution, movable, engine.config)
    if len(movable) < 2:
        assert not fields
        return
    sizes = relative_sizes(problem, solution, movable)
    distance = np.abs(sizes[:, None] - sizes[None]).max(axis=2)
    known = min(partners, len(movable) - 1)
    assert fields["similar"].shape == (len(movable), known)
    for place, row in enumerate(movable.tolist()):
        others = fields["similar"][fields["place"][row]].tolist()
        assert len({row, *others}) == 1 + known
        nearest = np.sort(np.delete(distance[place], place))[known - 1]
        found = distance[place, np.searchsorted(movable, others)]
        assert found.max() <= (1 + ACCURACY) * nearest + 1e-9


@examples(60)
@given(busy_clusters(), st.integers(0, 2**32 - 1))
def test_all_exchanges_are_with_similar_replicas_if_the_settings_say_so(cluster, seed):
    """Also where the plan before has moved most of them."""
    engine = cluster.engine(**SIMILAR)
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    with patch.object(move_generation, "PARTNERS", 2):
        fields = similar_partners(problem, solution, movable, engine.config)
    if len(movable) < 2:
        return
    choice = Choice(movable[:0], movable, len(movable), 0, 0.0, 1.0, **fields)
    for row, target, partner in random_proposals(configuration, choice, seed, 50):
        if row != NOWHERE:
            assert partner in fields["similar"][fields["place"][row]]
            assert target == solution.node[partner]


def test_a_full_metric_counts_more_than_one_with_much_room():
    """The nodes are full of CPU: what is similar in CPU is similar, however much memory it uses."""
    config = PlbConfig(metrics=[Metric("cpu"), Metric("memory")], capacity_limit="capacity", **SIMILAR)
    engine = PlacementAndLoadBalancing(config)
    for name in ("a", "b"):
        engine.update_node(Node(name, capacities={"cpu": 11, "memory": 1000}))
    engine.update_service(Service("web", stateful=False))
    loads = {"same_cpu": ("a", 4, 9), "same_memory": ("a", 6, 1), "this": ("b", 4, 1), "other": ("b", 6, 9)}
    for name, (node, cpu, memory) in loads.items():
        engine.update_partition(Partition(name, service="web", replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(name, node, {"cpu": cpu, "memory": memory})
    configuration = configuration_of(engine)
    row = {name: engine.replicas(name)[0].index for name in loads}
    movable = np.flatnonzero(configuration.problem.movable)
    with patch.object(move_generation, "PARTNERS", 1):
        fields = similar_partners(configuration.problem, configuration.solution, movable, config)
    assert fields["similar"][fields["place"][row["this"]]].tolist() == [row["same_cpu"]]
