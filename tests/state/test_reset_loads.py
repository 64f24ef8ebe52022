"""Reports that are reset: the engine is as if there had been none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    ReplicaState,
    Role,
    Service,
    UnknownNameError,
)
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels
NODES = ("n0", "n1", "n2", "n3", "n4")
REPLICAS = (
    Replica(Role.PRIMARY, "n0"),
    Replica(Role.SECONDARY, "n1"),
    Replica(Role.SECONDARY, "n2", leaving=True),
    Replica(Role.SECONDARY, "n3", state=ReplicaState.STANDBY),
    Replica(Role.SECONDARY, "n4", state=ReplicaState.DROPPED),
)


def engine_of(estimator: str) -> PlacementAndLoadBalancing:
    """Return an engine with a partition of all kinds of replicas that misses one, and another partition beside it."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=1.0)], estimator=estimator), seed=1)
    for name in NODES:
        engine.update_node(Node(name, capacities={"cpu": 100}))
    load = {Role.PRIMARY: {"cpu": 7}, Role.SECONDARY: {"cpu": 3}}
    engine.update_service(Service("db", target_replicas=3, default_load=load))
    for number in range(2):
        engine.update_partition(Partition(f"db/{number}", service="db", replicas=REPLICAS))
    return engine


REPORT = st.one_of(
    st.tuples(st.just("report_load"), st.sampled_from(NODES[:4]), st.fixed_dictionaries({"cpu": st.integers(0, 20)})),
    st.tuples(
        st.just("report_role_load"),
        st.sampled_from([Role.PRIMARY, Role.SECONDARY]),
        st.fixed_dictionaries({"cpu": st.integers(0, 20)}),
    ),
    st.tuples(
        st.just("report_secondary_loads"),
        st.fixed_dictionaries({"n1": st.fixed_dictionaries({"cpu": st.integers(0, 20)})}),
    ),
)


@examples(40)
@given(st.lists(REPORT, max_size=5), st.sampled_from(["monte-carlo", "gaussian"]))
def test_reset_loads_are_those_of_an_engine_without_reports(reports, estimator):
    """Replicas, loads of nodes, the load of the next replica, violations and energy are equal."""
    engine, fresh = engine_of(estimator), engine_of(estimator)
    for verb, *arguments in reports:
        getattr(engine, verb)("db/0", *arguments)
    engine.reset_load("db/0")
    for partition in ("db/0", "db/1"):
        assert engine.replicas(partition) == fresh.replicas(partition)
        assert engine.expected_load(partition, Role.SECONDARY) == fresh.expected_load(partition, Role.SECONDARY)
    assert engine.node_loads() == fresh.node_loads()
    assert engine.violation_probabilities(1.0) == fresh.violation_probabilities(1.0)
    assert engine.place(now=1.0).energy_before == fresh.place(now=1.0).energy_before


def test_reports_of_an_unknown_partition_cannot_be_reset():
    """The error names it."""
    with pytest.raises(UnknownNameError, match="unknown partition 'none'"):
        engine_of("monte-carlo").reset_load("none")
