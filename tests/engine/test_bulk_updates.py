"""Updates of many nodes and partitions at once: as one by one, and all or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PartitionColumns,
    PlacementAndLoadBalancing,
    PlbConfig,
    PlbError,
    Replica,
    Role,
    Service,
    UnknownNameError,
)

from .fingerprint import snapshot
from .strategies import examples
from .twins import check_same_state
from .whole_strategies import NODES, PARTITIONS, SERVICES, whole_metrics, whole_nodes, whole_partitions, whole_services

PRIMARY, SECONDARY, INSTANCE = Role


def pair_of_engines(data: st.DataObject) -> tuple[PlacementAndLoadBalancing, PlacementAndLoadBalancing, list[Service]]:
    """Return two engines with the same nodes, one by one and at once, and the same services."""
    metrics = data.draw(whole_metrics())
    one, two = (PlacementAndLoadBalancing(PlbConfig(metrics=metrics)) for _ in range(2))
    for count in (4, len(NODES)):
        nodes = [data.draw(whole_nodes(name, metrics)) for name in NODES[:count]]
        for node in nodes:
            one.update_node(node, now=5.0)
        two.update_nodes(nodes, now=5.0)
    services = [
        data.draw(whole_services(name, metrics, stateful=index % 2 == 0, child=index > 0))
        for index, name in enumerate(SERVICES)
    ]
    for service in services:
        one.update_service(service)
        two.update_service(service)
    return one, two, services


def rows_of(engine: PlacementAndLoadBalancing, names: list[str]) -> list[int]:
    return [replica.index for name in names for replica in engine.replicas(name)]


@examples(30)
@given(data=st.data())
def test_many_at_once_equal_one_by_one(data: st.DataObject) -> None:
    """New and known partitions of every description: the same state, and the indices of `replicas`."""
    one, two, services = pair_of_engines(data)
    places = {name: services[index % len(services)] for index, name in enumerate(PARTITIONS)}
    for count in (5, len(PARTITIONS)):
        names = data.draw(st.permutations(PARTITIONS[:count]))
        partitions = [data.draw(whole_partitions(name, places[name], NODES)) for name in names]
        for partition in partitions:
            one.update_partition(partition)
        rows = two.update_partitions(iter(partitions))
        assert rows.tolist() == rows_of(one, names)
        check_same_state(one, two)


@examples(30)
@given(data=st.data())
def test_columns_equal_partitions(data: st.DataObject) -> None:
    """A row of columns is the partition with the replicas whose nodes are named."""
    one, two, services = pair_of_engines(data)
    stateful = data.draw(st.booleans())
    service = services[0 if stateful else 1]
    width = data.draw(st.integers(0, 4))
    rows = [data.draw(st.permutations([*NODES, None, ""]))[:width] for _ in PARTITIONS]
    roles = [PRIMARY, *[SECONDARY] * 3][:width] if stateful else data.draw(st.sampled_from([INSTANCE, "instance"]))
    created = np.arange(len(PARTITIONS)) / 2
    columns = PartitionColumns(PARTITIONS, service=service.name, nodes=rows, roles=roles, created=created)
    assert two.update_partitions(columns).tolist() == one.update_partitions([*columns]).tolist()
    check_same_state(one, two)
    assert [partition.created for partition in columns[2:4]] == [1.0, 1.5]
    assert columns[-1].replicas == tuple(
        Replica(columns.roles[-1][at], node) for at, node in enumerate(rows[-1]) if node
    )


@examples(30)
@given(data=st.data())
def test_slots_of_plain_partitions_are_those_of_described_ones(data: st.DataObject) -> None:
    """A new partition has the rows of one that says how many replicas are missing, which are matched one by one."""
    one, two, services = pair_of_engines(data)
    partitions = []
    for index, name in enumerate(PARTITIONS):
        service = services[index % len(services)]
        drawn = data.draw(whole_partitions(name, service, NODES))
        replicas = [Replica(replica.role, replica.node) for replica in drawn.replicas]
        partitions.append(Partition(name, service=service.name, replicas=replicas, created=drawn.created))
    two.update_partitions(partitions)
    for index, partition in enumerate(partitions):
        missing = max(0, services[index % len(services)].target_replicas - len(partition.replicas))
        one.update_partition(attrs.evolve(partition, missing=missing))
    tables = [engine._state.rows for engine in (one, two)]
    for name, values in tables[0]._arrays().items():
        np.testing.assert_array_equal(values, tables[1]._arrays()[name], name)
    assert tables[0]._free == tables[1]._free


def small_engine() -> PlacementAndLoadBalancing:
    """Return an engine with two nodes, a partition, and a service whose default load is too large since then."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_service(Service("big", default_load={PRIMARY: {"cpu": 2**30}}))
    engine.update_nodes([Node("n0", capacities={"cpu": 8}), Node("n1")])
    engine.update_service(Service("db", target_replicas=2))
    engine.update_service(Service("web", stateful=False))
    engine.update_partition(Partition("db/0", service="db"))
    return engine


def db(name: str, *replicas: Replica, service: str = "db") -> Partition:
    return Partition(name, service=service, replicas=replicas)


GOOD = [db("db/0", Replica(PRIMARY, "n0")), db("db/1"), db("db/2", Replica(SECONDARY, "n1"), Replica(PRIMARY, "n0"))]
REFUSED: list[tuple[Partition, type[PlbError], str]] = [
    (db("x", service="dbs"), UnknownNameError, "partition x: unknown service 'dbs'"),
    (db("x", Replica(PRIMARY, "n0"), Replica(SECONDARY, "n9")), UnknownNameError, "partition x: unknown node 'n9'"),
    (db("x", Replica(INSTANCE, "n0")), InvalidValueError, "partition x: replicas = INSTANCE is not allowed; expected"),
    (db("db/0", service="web"), ConflictError, "partition db/0: belongs to service db; it cannot change"),
    (db("db/1"), ConflictError, "partition db/1: is described twice"),
    (db("x", service="big"), InvalidValueError, "service big: default_load[PRIMARY][cpu] = 1073741824"),
]


@pytest.mark.parametrize("at", [0, 2, 3])
@pytest.mark.parametrize(("bad", "error", "message"), REFUSED)
def test_an_error_of_one_partition_changes_nothing(bad, error, message, at):
    """It is named, wherever it is among the others."""
    engine = small_engine()
    before = snapshot(engine)
    partitions = [partition for partition in GOOD if partition.name != "db/0" or bad.name != "db/0"]
    with pytest.raises(error, match=re.escape(message.replace("INSTANCE", repr(INSTANCE)))):
        engine.update_partitions([*partitions[:at], bad, *partitions[at:]])
    assert snapshot(engine) == before


BAD_NODES: list[tuple[list[Any], type[PlbError], str]] = [
    ([Node("n2"), Node("n3", capacities={"gpu": 1})], UnknownNameError, "node n3: capacities: unknown metric 'gpu'"),
    ([Node("n2"), Node("n3", capacities={"cpu": 2**30})], InvalidValueError, "node n3: capacities[cpu] = 1073741824"),
    ([Node("n2"), Node("n0"), Node("n2")], ConflictError, "node n2: is described twice"),
    ([Node("n2"), "n3"], InvalidValueError, "update_nodes: nodes = 'n3' is not allowed; expected a Node"),
]


@pytest.mark.parametrize(("nodes", "error", "message"), BAD_NODES)
def test_an_error_of_one_node_changes_nothing(nodes, error, message):
    engine = small_engine()
    before = snapshot(engine)
    with pytest.raises(error, match=re.escape(message)):
        engine.update_nodes(nodes)
    assert snapshot(engine) == before


def columns(**fields: Any) -> Callable[[], PartitionColumns]:
    """Return what makes columns of two partitions, one of them with a replica."""
    usual = {"names": ["a", "b"], "service": "db", "nodes": [["n0", None], [None, None]], "roles": PRIMARY}
    return lambda: PartitionColumns(**{**usual, **fields})


BAD_COLUMNS: list[tuple[Callable[[], PartitionColumns], type[PlbError], str]] = [
    (columns(names="ab"), InvalidValueError, "partition columns: names = 'ab'"),
    (columns(names=["a", ""]), InvalidValueError, "partition: name = ''"),
    (
        columns(service=["db"]),
        InvalidValueError,
        "service = 1 is not allowed; expected a name, or 2 names",
    ),
    (columns(service=["db", 3]), InvalidValueError, "partition columns: service = 3"),
    (columns(nodes=[["n0"]]), InvalidValueError, "partition columns: nodes = 1 is not allowed; expected 2 rows"),
    (columns(nodes=[["n0"], []]), InvalidValueError, "expected rows of r names of nodes"),
    (columns(nodes=np.array([[0, 1], [2, 3]])), InvalidValueError, "expected rows of r names of nodes"),
    (columns(roles="boss"), InvalidValueError, "partition columns: roles = 'boss'"),
    (columns(roles=[PRIMARY] * 3), InvalidValueError, "partition columns: roles.shape = (3,)"),
    (columns(created=[0.0, float("inf")]), InvalidValueError, "partition columns: created = inf"),
    (columns(created="today"), InvalidValueError, "partition columns: created = 'today'"),
    (
        columns(created="5"),
        InvalidValueError,
        "partition columns: created = '5' is not allowed; expected a finite number",
    ),
    (columns(created=[5, True]), InvalidValueError, "partition columns: created = True"),
    (columns(created=np.array([False, True])), InvalidValueError, "partition columns: created = False"),
    (columns(created=10**400), InvalidValueError, "... is not allowed; expected a finite number"),
    (columns(created=[[0.0], [0.0, 1.0]]), InvalidValueError, "partition columns: created = "),
    (columns(nodes=[["", ""], ["n0", "n1"]]), ConflictError, "partition b: two primaries, on nodes n0 and n1"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD_COLUMNS)
def test_columns_that_do_not_fit_are_refused(make, error, message):
    """A column names itself, a value of a partition names the partition."""
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_columns_name_what_the_engine_does_not_know():
    """As partitions do; nothing is changed."""
    engine = small_engine()
    before = snapshot(engine)
    with pytest.raises(UnknownNameError, match="partition b: unknown node 'n9'"):
        engine.update_partitions(columns(nodes=[["n0"], ["n9"]])())
    with pytest.raises(UnknownNameError, match="partition a: unknown service 'dbs'"):
        engine.update_partitions(columns(service=["dbs", "db"])())
    assert snapshot(engine) == before


@examples(60)
@given(st.one_of(st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.none(), st.just(10**400)))
def test_columns_accept_the_times_that_partitions_accept(created: Any) -> None:
    """As the time of all, in a list and in an array; the error has the same field and range."""
    forms = created, [0.0, created], np.array([0.0, created], object)
    expected = time_or_refusal(lambda: Partition("a", service="db", created=created).created)
    for form in forms:
        assert time_or_refusal(lambda form=form: columns(created=form)().created[-1]) == expected


def time_or_refusal(make: Callable[[], float]) -> float | tuple[str, str]:
    """Return a time, or field and range of the error."""
    try:
        return make()
    except InvalidValueError as error:
        return error.field, error.allowed


def test_columns_keep_their_own_arrays():
    """A change of an array that they were made of changes nothing, and theirs are read-only."""
    nodes, created = np.array([["n0"], ["n1"]], object), np.zeros(2)
    made = columns(nodes=nodes, created=created)()
    nodes[0, 0], created[0] = "n1", 7.0
    assert made[0] == Partition("a", service="db", replicas=(Replica(PRIMARY, "n0"),))
    for array in (made.nodes, made.roles, made.created):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_nothing_at_once_changes_nothing():
    engine = small_engine()
    before = snapshot(engine)
    engine.update_nodes([])
    assert engine.update_partitions([]).tolist() == []
    assert engine.update_partitions(PartitionColumns([], service="db", nodes=[], roles=PRIMARY)).tolist() == []
    assert snapshot(engine) == before
