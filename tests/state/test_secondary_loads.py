"""Loads of secondaries reported node by node (docs/service-fabric.md, Loads)."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
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
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

NODES = ("n0", "n1", "n2", "n3")


def engine_with_secondaries(**settings) -> PlacementAndLoadBalancing:
    """Return an engine with a primary on n0 and secondaries on n1, n2 and n3."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=0.25), Metric("disk")], **settings))
    for name in NODES:
        engine.update_node(Node(name))
    engine.update_service(Service("db", target_replicas=5, default_load={Role.SECONDARY: {"cpu": 1, "disk": 7}}))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3]
    replicas = [Replica(role, node) for role, node in zip(roles, NODES, strict=True)]
    engine.update_partition(Partition("p", service="db", replicas=replicas))
    return engine


def loads_of(engine, metric: int = 0) -> dict[str | None, float]:
    """Return the load of each replica by its node, None for the replica without a node."""
    table, quanta = engine._state.rows, engine._state.quanta.quanta
    return {replica.node: float(table.load[replica.index, metric] * quanta[metric]) for replica in engine.replicas("p")}


reports = st.lists(st.dictionaries(st.sampled_from(NODES[1:]), st.integers(0, 50), min_size=1), min_size=1, max_size=3)


@examples(60)
@given(reports, st.booleans())
def test_new_secondaries_have_the_rounded_mean(updates, separate):
    """A secondary has the last report for its node, or else its old load; a new one has the mean of present ones."""
    engine = engine_with_secondaries(use_separate_secondary_load=separate)
    said = {}
    for update in updates:
        engine.report_secondary_loads("p", {node: {"cpu": load} for node, load in update.items()})
        said.update(update)
    present = [said.get(node, 1) for node in NODES[1:]] if separate else [*said.values()]
    average = math.floor(sum(present) / len(present) + 0.5)
    expected = {node: said.get(node, 1) if separate else average for node in NODES[1:]}
    assert loads_of(engine) == {"n0": 0, **expected, None: average}
    assert loads_of(engine, 1) == {"n0": 0, "n1": 7, "n2": 7, "n3": 7, None: 7}, "the other metric does not change"


def test_later_secondary_has_the_mean():
    """A secondary without a report keeps its load."""
    engine = engine_with_secondaries()
    engine.report_secondary_loads("p", {"n1": {"cpu": 4}, "n2": {"cpu": 7}})
    engine.update_service(Service("db", target_replicas=6))
    replicas = [Replica(Role.PRIMARY, "n0"), *(Replica(Role.SECONDARY, name) for name in NODES[1:])]
    engine.update_partition(Partition("p", service="db", replicas=replicas))
    assert loads_of(engine) == {"n0": 0, "n1": 4, "n2": 7, "n3": 1, None: 4}


def test_primary_keeps_its_load():
    """A report for the node of the primary does not count."""
    engine = engine_with_secondaries()
    engine.report_secondary_loads("p", {"n0": {"cpu": 8}, "n1": {"cpu": 2}})
    assert loads_of(engine) == {"n0": 0, "n1": 2, "n2": 1, "n3": 1, None: 1}


@pytest.mark.parametrize("everywhere", [False, True])
def test_instances_report_by_node_as_secondaries_do(*, everywhere: bool):
    """A new instance has the mean; the settings may exclude services on every node."""
    metrics = [Metric("cpu", quantum=1)]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, use_default_load_for_service_on_every_node=True))
    for name in NODES:
        engine.update_node(Node(name))
    service = Service("web", stateful=False, target_replicas=3, default_load={"instance": {"cpu": 1}})
    engine.update_service(attrs.evolve(service, on_every_node=everywhere))
    replicas = [Replica(Role.INSTANCE, name) for name in ("n0", "n1")]
    engine.update_partition(Partition("p", service="web", replicas=replicas))
    engine.report_secondary_loads("p", {"n0": {"cpu": 4}, "n1": {"cpu": 7}})
    engine.apply(engine.place())
    later = {load for node, load in loads_of(engine).items() if node in ("n2", "n3")}
    assert later == ({1} if everywhere else {6})


BAD = [
    ({"n9": {"cpu": 1}}, UnknownNameError, "unknown node 'n9'"),
    ({"n1": {"cpu": 1}, "n2": {"cp": 1}}, UnknownNameError, "unknown metric 'cp'"),
    ({"n1": {"cpu": 1}, "n2": {"cpu": -1}}, InvalidValueError, r"loads\[n2\]\[cpu\] = -1"),
]


@pytest.mark.parametrize(("loads", "error", "message"), BAD)
def test_bad_report_changes_nothing(loads, error, message):
    """The call is refused as a whole, with the name in the message."""
    engine = engine_with_secondaries()
    before = loads_of(engine)
    with pytest.raises(error, match=message):
        engine.report_secondary_loads("p", loads)
    assert loads_of(engine) == before
    engine.report_secondary_loads("p", {"n3": {"cpu": 4}})
    assert loads_of(engine) == {"n0": 0, "n1": 1, "n2": 1, "n3": 4, None: 2}
