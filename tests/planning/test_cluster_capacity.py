"""An application or a service that needs more than the cluster has left is refused, if the settings ask for it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    InsufficientCapacityError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from tests.engine.fingerprint import snapshot
from tests.engine.strategies import examples

CHECKED = {"refuse_applications_without_capacity": True, "refuse_services_without_capacity": True}


def engine_of(capacities: list[float], **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with a node for each capacity, which it fills to the capacity."""
    config = PlbConfig(metrics=[Metric("cpu", quantum=1.0)], capacity_limit="capacity", **{**CHECKED, **settings})
    engine = PlacementAndLoadBalancing(config)
    for index, capacity in enumerate(capacities):
        engine.update_node(Node(f"n{index}", capacities={"cpu": capacity}))
    return engine


def put_replica(engine: PlacementAndLoadBalancing, name: str, node: str, load: float, application: str | None) -> None:
    """Add a replica with a load; nothing is checked."""
    checked = engine.config
    engine.configure(attrs.evolve(checked, refuse_services_without_capacity=False))
    engine.update_service(
        Service(name, stateful=False, application=application, default_load={Role.INSTANCE: {"cpu": load}})
    )
    engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, node)]))
    engine.configure(checked)


amounts = st.integers(0, 20)


@examples(100)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    amounts,
    amounts,
    st.tuples(st.integers(0, 3), amounts),
    st.tuples(st.integers(0, 3), amounts),
    st.tuples(st.integers(0, 3), amounts),
)
def test_increase_of_a_reservation_is_compared_with_what_is_left(capacities, own, foreign, other, before, after):
    """Left is the capacity less loads and unused reservations; what an application uses is part of its reservation."""
    engine = engine_of(capacities, refuse_applications_without_capacity=False)
    put_replica(engine, "own", "n0", own, "a")
    put_replica(engine, "foreign", "n0", foreign, "b")
    for name, (nodes, reserved) in (("b", other), ("a", before)):
        engine.update_application(Application(name, minimum_nodes=nodes, node_reservation={"cpu": reserved}))
    engine.configure(attrs.evolve(engine.config, refuse_applications_without_capacity=True))
    unused = [max(0, nodes * each - used) for (nodes, each), used in ((before, own), (after, own), (other, foreign))]
    left = sum(capacities) - own - foreign - unused[0] - unused[2]
    needed = unused[1] - unused[0]
    new = Application("a", minimum_nodes=after[0], node_reservation={"cpu": after[1]})
    if needed > 0 and needed > left:
        known = engine.applications
        with pytest.raises(InsufficientCapacityError) as refused:
            engine.update_application(new)
        assert (refused.value.metric, refused.value.needed, refused.value.left) == ("cpu", needed, left)
        assert str(refused.value) == f"application a: needs {needed:g} cpu, but the cluster has {left:g} left"
        assert engine.applications == known
    else:
        engine.update_application(new)
        assert new in engine.applications


def test_nodes_out_of_service_and_buffers_do_not_count():
    """Of two nodes with 10 one is down, and a tenth of the other is a buffer: 9 are left."""
    config = PlbConfig(
        metrics=[Metric("cpu", quantum=1.0, node_buffer_percentage=0.1)], capacity_limit="capacity", **CHECKED
    )
    engine = PlacementAndLoadBalancing(config)
    engine.update_node(Node("n0", capacities={"cpu": 10.0}))
    engine.update_node(Node("n1", capacities={"cpu": 10.0}, up=False))
    engine.update_application(Application("fits", minimum_nodes=1, node_reservation={"cpu": 9.0}))
    with pytest.raises(InsufficientCapacityError, match="application large: needs 1 cpu, but the cluster has 0 left"):
        engine.update_application(Application("large", minimum_nodes=1, node_reservation={"cpu": 1.0}))


def test_metric_without_a_capacity_on_some_node_is_never_short():
    """One node has no capacity for the metric, so that it takes any load."""
    engine = engine_of([1.0])
    engine.update_node(Node("free"))
    engine.update_application(Application("a", minimum_nodes=3, node_reservation={"cpu": 1000.0}))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 10000.0}}))


def test_new_service_needs_the_default_loads_of_a_partition():
    """A primary of 4 and two secondaries of 3 need 10; 9 are left, or 10 with the reservation of its application."""
    engine = engine_of([10.0, 10.0])
    engine.update_application(Application("a", minimum_nodes=1, node_reservation={"cpu": 11.0}))
    loads = {Role.PRIMARY: {"cpu": 4.0}, Role.SECONDARY: {"cpu": 3.0}}
    service = Service("s", target_replicas=3, default_load=loads)
    with pytest.raises(InsufficientCapacityError, match="service s: needs 10 cpu, but the cluster has 9 left"):
        engine.update_service(service)
    engine.update_service(attrs.evolve(service, application="a"))
    engine.update_service(attrs.evolve(service, target_replicas=9))  # it is known, so that nothing is checked


def test_service_on_every_node_needs_its_load_on_each():
    """Three nodes with 2 each: a service on every node with 3 needs 9."""
    engine = engine_of([2.0, 2.0, 2.0])
    service = Service("s", stateful=False, on_every_node=True, default_load={Role.INSTANCE: {"cpu": 3.0}})
    with pytest.raises(InsufficientCapacityError, match="service s: needs 9 cpu, but the cluster has 6 left"):
        engine.update_service(service)


def test_cluster_without_nodes_has_nothing_left():
    """Nothing is refused without the settings."""
    engine = engine_of([])
    application = Application("a", minimum_nodes=1, node_reservation={"cpu": 1.0})
    with pytest.raises(InsufficientCapacityError, match="has 0 left"):
        engine.update_application(application)
    engine.configure(attrs.evolve(engine.config, refuse_applications_without_capacity=False))
    engine.update_application(application)
    assert engine.applications == (application,)


def test_refusal_tells_user_units_and_changes_nothing():
    """Also where no quantum is fixed yet, and where the engine has answered no query before."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], capacity_limit="capacity", **CHECKED))
    for left in ("0", "5"):
        before = snapshot(engine)
        with pytest.raises(
            InsufficientCapacityError, match=f"application a: needs 6 cpu, but the cluster has {left} left"
        ):
            engine.update_application(Application("a", minimum_nodes=2, node_reservation={"cpu": 3.0}))
        with pytest.raises(InsufficientCapacityError, match=f"service s: needs 7 cpu, but the cluster has {left} left"):
            engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 7.0}}))
        assert snapshot(engine) == before
        engine.update_node(Node("n0", capacities={"cpu": 5.0}))
