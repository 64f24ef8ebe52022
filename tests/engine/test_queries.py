"""What an engine says of loads and capacities."""

from __future__ import annotations

import pytest

from plb import (
    ConflictError,
    InvalidValueError,
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
from plb.model import ReplicaState


@pytest.fixture
def engine() -> PlacementAndLoadBalancing:
    """Return an engine with a partition of a primary and two secondaries, one of them in build."""
    made = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu"), Metric("memory")]))
    for index in range(4):
        made.update_node(Node(f"n{index}", capacities={"cpu": 10 + index}))
    made.update_service(Service("db", target_replicas=3, default_load={"primary": {"cpu": 4}, "secondary": {"cpu": 1}}))
    replicas = [
        Replica(Role.PRIMARY, "n0"),
        Replica(Role.SECONDARY, "n1"),
        Replica(Role.SECONDARY, "n2", state=ReplicaState.IN_BUILD),
    ]
    made.update_partition(Partition("db/0", service="db", replicas=replicas))
    return made


def test_replicas_have_their_loads_and_their_state(engine):
    """A reported load replaces the default one, of one metric at a time."""
    engine.report_load("db/0", "n1", {"memory": 8})
    loads = {one.node: one.load for one in engine.replicas("db/0")}
    assert loads == {
        "n0": {"cpu": 4, "memory": 0},
        "n1": {"cpu": 1, "memory": 8},
        "n2": {"cpu": 1, "memory": 0},
    }
    assert [one.node for one in engine.replicas("db/0") if one.in_build] == ["n2"]


def test_partitions_on_a_node_are_those_with_a_replica_there(engine):
    engine.update_partition(Partition("db/1", service="db", replicas=[Replica(Role.PRIMARY, "n0")]))
    names = {node.name: engine.partitions_on(node.name) for node in engine.nodes}
    assert names == {"n0": ("db/0", "db/1"), "n1": ("db/0",), "n2": ("db/0",), "n3": ()}
    with pytest.raises(UnknownNameError):
        engine.partitions_on("n4")


def test_indices_of_replicas_on_nodes_are_those_of_the_replicas(engine):
    engine.update_partition(Partition("db/1", service="db", replicas=[Replica(Role.PRIMARY, "n0")]))
    placed = [(name, one) for name in ("db/1", "db/0") for one in engine.replicas(name) if one.node is not None]
    partitions, nodes = [name for name, _ in placed], [one.node for _, one in placed]
    assert engine.replica_indices(partitions, nodes).tolist() == [one.index for _, one in placed]
    assert engine.replica_indices([], []).tolist() == []
    with pytest.raises(ConflictError, match="partition db/1 has no replica on node n4"):
        engine.replica_indices(["db/0", "db/1"], ["n0", "n4"])
    with pytest.raises(UnknownNameError):
        engine.replica_indices(["db/9"], ["n0"])


def test_replicas_are_values(engine):
    """They may be members of a set, and their loads cannot be changed."""
    replicas = engine.replicas("db/0")
    assert len({*replicas, *engine.replicas("db/0")}) == len(replicas)
    with pytest.raises(TypeError):
        replicas[0].load["cpu"] = 1.0


def test_the_next_replica_is_expected_to_have_the_reported_mean(engine):
    """Without a report, it has the default load of its role."""
    assert engine.expected_load("db/0", "secondary") == {"cpu": 1, "memory": 0}
    engine.report_secondary_loads("db/0", {"n1": {"cpu": 3}, "n2": {"cpu": 6}})
    assert engine.expected_load("db/0", Role.SECONDARY) == {"cpu": 5, "memory": 0}
    assert engine.expected_load("db/0", Role.PRIMARY) == {"cpu": 4, "memory": 0}
    with pytest.raises(InvalidValueError, match="partition db/0: role"):
        engine.expected_load("db/0", Role.INSTANCE)


def test_total_capacities_are_those_of_the_nodes_in_service(engine):
    """Neither a node that is down nor a deactivated one counts."""
    assert engine.total_capacities() == {"cpu": 10 + 11 + 12 + 13, "memory": 0}
    engine.update_node(Node("n0", capacities={"cpu": 10}, up=False))
    engine.update_node(Node("n1", capacities={"cpu": 11, "memory": 3}, deactivation_intent="pause"))
    assert engine.total_capacities() == {"cpu": 12 + 13, "memory": 0}
