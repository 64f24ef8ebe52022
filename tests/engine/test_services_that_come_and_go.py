"""Services that come and go leave nothing behind: neither in the engine nor in its snapshots, nor in its plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service, Snapshot
from tests.engine.kept_arrays import check_kept
from tests.engine.strategies import examples

METRICS, NAMES = ("cpu", "memory"), "abcdef"
SERVICES = st.builds(
    Service,
    st.sampled_from(NAMES),
    target_replicas=st.integers(1, 3),
    default_load=st.fixed_dictionaries(
        {"primary": st.fixed_dictionaries({name: st.integers(1, 6) for name in METRICS})}
    ),
    metrics=st.sampled_from([None, {"cpu": 1.0}, {"memory": 2.0}]),
    affinity_to=st.sampled_from([None, None, "g"]),
    placement_constraint=st.sampled_from(["", "ssd == true"]),
    blocked_nodes=st.sampled_from([(), ("n0",), ("n1",), ("n2", "n9")]),
    move_cost=st.sampled_from(["low", "high"]),
)


def engine_of(config: PlbConfig) -> PlacementAndLoadBalancing:
    """Return an engine with four nodes and a service that stays."""
    engine = PlacementAndLoadBalancing(config, seed=3)
    for index in range(4):
        engine.update_node(
            Node(f"n{index}", capacities=dict.fromkeys(METRICS, 40), properties={"ssd": str(index < 3).lower()})
        )
    engine.update_service(Service("g", target_replicas=2, metrics={"memory": 1.0}))
    engine.update_partition(Partition("g", service="g", replicas=[Replica(Role.PRIMARY, "n0")]))
    return engine


def check_plans(one_action: bool, changes: list[tuple[Service, int]], data: st.DataObject) -> None:
    """Compare an engine that uses indices again with one that does not, and what it keeps with that from scratch."""
    config = PlbConfig(
        metrics=[Metric(name, quantum=1.0) for name in METRICS],
        one_action_per_refresh=one_action,
        use_move_cost_reports=True,
        chains=1,
        threads=1,
    )
    again, ever_new = engine_of(config), engine_of(config)
    living: dict[str, int] = {}
    for now, (service, partitions) in enumerate(changes):
        gone = service.name if service.name in living else data.draw(st.sampled_from([None, *living]))
        plans: list[Any] = []
        for engine in (again, ever_new):
            if gone is not None:
                for index in range(living[gone]):
                    engine.remove_partition(f"{gone}/{index}")
                engine.remove_service(gone)
            if engine is ever_new:
                engine._state.free_services.clear()
            engine.update_service(service)
            for index in range(partitions):
                engine.update_partition(Partition(f"{service.name}/{index}", service=service.name, created=float(now)))
            plans.append(engine.refresh(700.0 * now, budget=80))
            engine.apply(plans[-1])
        living.pop(gone, None)
        living[service.name] = partitions
        assert plans[0] == plans[1]
        assert again.service_domains() == ever_new.service_domains()
        assert len(again._state.services) <= 1 + len(NAMES)
        check_kept(again)
    twin = PlacementAndLoadBalancing.from_snapshot(Snapshot.from_bytes(again.snapshot().to_bytes()))
    assert twin.snapshot() == again.snapshot()
    for engine in (again, twin, ever_new):
        engine.update_service(Service("last", target_replicas=1, metrics={"cpu": 3.0}))
        engine.update_partition(Partition("last", service="last"))
    plans = [engine.refresh(1e5, budget=80) for engine in (again, twin, ever_new)]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("one_action", [False, True])
def test_plans_do_not_depend_on_the_indices_of_services(one_action, count):
    """An engine that uses indices again makes the plans of one that does not, and all that it keeps is right."""

    @examples(count)
    @given(st.lists(st.tuples(SERVICES, st.integers(0, 3)), min_size=1, max_size=12), st.data())
    def check(changes, data):
        check_plans(one_action, changes, data)

    check()


def kept(engine: PlacementAndLoadBalancing) -> dict[str, int]:
    """Return how many entries an engine keeps in what could grow with the services that ever were."""
    planner, state = engine._planner, engine._state
    scheduler = planner.scheduler
    sizes = {"tables": planner._tables, "ends": planner._fixed_point._ends, "loads": state.default_loads}
    sizes |= {"services": state.services, "names": state.service_index, "partitions": state.service_partitions}
    sizes |= {"classes": state.feasibility_classes, "keys of classes": state.feasibility_class_index}
    sizes |= {"records": scheduler.records, "events": scheduler.node_events, "moves": scheduler.moved}
    return {name: len(entries) for name, entries in sizes.items()} | {"capacity": state.service_table.capacity}


@pytest.mark.parametrize("one_action", [False, True])
def test_fortieth_service_leaves_as_much_as_the_third(one_action):
    """Tables, records, events of nodes and moves, and what a snapshot holds."""
    config = PlbConfig(
        metrics=[Metric(name, quantum=1.0) for name in METRICS],
        one_action_per_refresh=one_action,
        threads=1,
        max_moves=1,
    )
    engine, sizes, lengths = engine_of(config), [], []
    for turn in range(40):
        now = 1000.0 * turn
        load, blocked = {"primary": {"cpu": 6}}, [f"n{4 + turn}"]
        engine.update_service(Service(f"s{turn}", metrics={"cpu": 1.0}, default_load=load, blocked_nodes=blocked))
        for index in range(4):
            replicas = [Replica(Role.PRIMARY, "n0")]
            engine.update_partition(Partition(f"p{index}", service=f"s{turn}", replicas=replicas, created=now))
        engine.update_node(Node("n3", capacities=dict.fromkeys(METRICS, 40), up=turn % 2 == 0), now=now)
        engine.apply(engine.refresh(now, budget=60))
        engine.apply(engine.refresh(now + 700.0, budget=60))
        for index in range(4):
            engine.remove_partition(f"p{index}")
        engine.remove_service(f"s{turn}")
        sizes.append(kept(engine))
        lengths.append(len(engine.snapshot().document))
    assert sizes[39] == sizes[3]
    assert lengths[39] < lengths[3] + 100


def test_service_keeps_what_a_node_told_it_after_another_has_gone():
    """The events of a node that delay balancing belong to the services of that time, not to their indices."""
    config = PlbConfig(
        metrics=[Metric("cpu", quantum=1.0)], one_action_per_refresh=True, balancing_delay_after_new_node=1e6, threads=1
    )
    engine = PlacementAndLoadBalancing(config)
    engine.update_node(Node("n0", capacities={"cpu": 40}))
    engine.update_service(Service("old"))
    engine.update_node(Node("n1", capacities={"cpu": 40}), now=0.0)
    scheduler = engine._planner.scheduler
    assert scheduler.is_delayed([0], 1.0)
    engine.remove_service("old")
    engine.update_service(Service("new"))
    assert engine._state.service_index == {"new": 0}
    assert not scheduler.is_delayed([0], 1.0)
