"""Scores of all nodes for a replica: those of the alternatives, which place the replica on each node in turn."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.array_types import NOWHERE
from plb.testing import all_clusters
from tests.engine.strategies import examples
from tests.engine.twins import check_same_arrays


def engine_of_three() -> PlacementAndLoadBalancing:
    """Return three nodes, a partition on the first, and one that waits for a place."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    for name, capacity, zone in (("n0", 10, "a"), ("n1", 4, "a"), ("n2", 10, "b")):
        engine.update_node(Node(name, capacities={"cpu": capacity}, properties={"zone": zone}))
    engine.update_service(
        Service("s", stateful=False, default_load={"instance": {"cpu": 5}}, placement_constraint="zone == a")
    )
    engine.update_partition(Partition("p", service="s"))
    return engine


def test_each_node_has_an_energy_or_the_rule_that_rules_it_out():
    """The replica fits on the first node alone."""
    scores = engine_of_three().score("p")
    assert scores.nodes == ("n0", "n1", "n2")
    assert [scores.reason(node) for node in scores.nodes] == [None, "capacity", "placement"]
    assert scores.fits.tolist() == [True, False, False]
    assert scores.best == "n0"
    assert json.loads(json.dumps(scores.as_json()))["ruled_out_by"] == [None, "capacity", "placement"]


def test_a_partition_without_a_missing_replica_has_no_scores():
    """The message names it; so does that of an unknown node."""
    engine = engine_of_three()
    scores = engine.score("p")
    with pytest.raises(UnknownNameError, match="node 'n9'"):
        scores.reason("n9")
    engine.apply(engine.place("p"))
    with pytest.raises(ConflictError, match="partition p: misses no replica"):
        engine.score("p")
    with pytest.raises(UnknownNameError, match="partition"):
        engine.score("q")


@examples(80)
@given(all_clusters())
def test_scores_are_those_of_the_alternatives(cluster):
    """Energies, probabilities and the nodes that fit are equal, and a question changes nothing."""
    engine, twin = cluster.engine(w_failovers=0.1), cluster.engine(w_failovers=0.1)
    for partition in cluster.partitions:
        waiting = [one for one in twin.alternatives(partition.name, now=5.0) if one.standing is None]
        if not any(engine._state.rows.node[row] == NOWHERE for row in engine._state.partitions[partition.name].rows):
            continue
        scores = engine.score(partition.name, now=5.0)
        for one in waiting:
            if one.index != scores.index:
                continue
            places = {place.node: place for place in one.places}
            open_nodes = {
                node for node, fits, soft in zip(scores.nodes, scores.fits, scores.soft, strict=True) if fits or soft
            }
            assert open_nodes == set(places)
            for index, node in enumerate(scores.nodes):
                assert (scores.reason(node) is None) == bool(scores.fits[index])
                if scores.fits[index]:
                    assert scores.energy[index] == pytest.approx(places[node].energy.total, rel=1e-12, abs=1e-9)
                    assert scores.violation_probability[index] == places[node].violation_probability
            if scores.fits.any():
                assert scores.best == scores.nodes[int(np.argmin(scores.energy))]
    assert engine.place(now=5.0, budget=60).moves == twin.place(now=5.0, budget=60).moves


@examples(80)
@given(all_clusters(), st.floats(0, 8).map(lambda load: load / 4))
def test_scores_of_a_new_partition_are_those_after_it_was_added_and_leave_no_trace(cluster, load):
    """The snapshot has the same bytes, and the arrays and the next plan are those of an engine that was not asked."""
    asked, twin, other = (cluster.engine(w_failovers=0.1) for _ in range(3))
    service = cluster.services[0]
    loads = {asked.config.metric_names[0]: load}
    role = "primary" if service.stateful else "instance"
    new = Partition("a new one", service=service.name, created=5.0)
    asked.place(now=5.0, budget=0), twin.place(now=5.0, budget=0), other.place(now=5.0, budget=0)
    before, rows = asked.snapshot(), asked._state.rows.capacity
    if service.on_every_node:
        with pytest.raises(ConflictError, match="misses no replica"):
            asked.score_new(new, loads=loads, now=5.0)
    else:
        scores = asked.score_new(new, loads=loads, now=5.0)
        other.update_partition(attrs.evolve(new, missing=1))
        other.report_role_load(new.name, role, loads)
        assert scores.as_json() == other.score(new.name, now=5.0).as_json()
    if asked._state.rows.capacity == rows:
        assert asked.snapshot().to_bytes() == before.to_bytes()
        check_same_arrays(asked, twin, 5.0)
    for engine in (asked, twin):
        engine.update_partition(Partition("later", service=service.name))
    check_same_arrays(asked, twin, 6.0)
    assert asked.place(now=6.0, budget=60) == twin.place(now=6.0, budget=60)


def test_a_new_partition_is_scored_only_if_it_can_be_added():
    """Errors leave nothing behind, and the first load of a metric does not fix its quantum."""
    engine = engine_of_three()
    before = engine.snapshot()
    with pytest.raises(ConflictError, match="partition p: exists"):
        engine.score_new(Partition("p", service="s"))
    with pytest.raises(UnknownNameError, match="service 't'"):
        engine.score_new(Partition("q", service="t"))
    with pytest.raises(UnknownNameError, match="gpu"):
        engine.score_new(Partition("q", service="s"), loads={"gpu": 1})
    assert engine.score_new(Partition("q", service="s"), loads={"cpu": 0.1}).reason("n1") is None
    assert engine.snapshot().to_bytes() == before.to_bytes()


class Faulty:
    """A term, and a constraint that tries each proposal; both fail while they are told to."""

    name = "faulty"
    fails = False

    def total(self, configuration):
        """Return 0, or not a number with every replica on a node."""
        placed = (configuration.solution.node[configuration.rows] >= 0).all()
        return float("nan") if Faulty.fails and placed else 0.0

    def refuses(self, configuration, proposal):
        """Refuse nothing, after a trial."""
        back = configuration.apply(proposal)
        if Faulty.fails:
            raise RuntimeError("the constraint fails")
        configuration.apply(back)
        return False

    def broken(self, _):
        """Return no replica."""
        return []


@pytest.mark.parametrize("chosen", [{"extension_terms": [Faulty()]}, {"extension_constraints": [Faulty()]}])
def test_an_extension_that_fails_leaves_no_trial_replica(monkeypatch, chosen):
    """Loads of nodes, scores and plans are then those of an engine that was never asked."""

    def two_of_three():
        engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), **chosen)
        for name in ("n0", "n1", "n2"):
            engine.update_node(Node(name, capacities={"cpu": 100}))
        engine.update_service(Service("s", default_load={"primary": {"cpu": 60}}))
        engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.PRIMARY, "n1")]))
        engine.update_partition(Partition("q", service="s"))
        return engine

    engine, other = two_of_three(), two_of_three()
    before = engine.node_loads()
    monkeypatch.setattr(Faulty, "fails", True)
    with pytest.raises(Exception, match=r"faulty|the constraint fails"):
        engine.score("q")
    monkeypatch.setattr(Faulty, "fails", False)
    assert engine.node_loads() == before
    assert engine.score("q").energy.tolist() == other.score("q").energy.tolist()
    assert engine.place(budget=60).moves == other.place(budget=60).moves
