"""Load that leaves a node counts there until the plan is executed, if that is set."""

from __future__ import annotations

import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import Rule
from plb.testing import configuration_of
from tests.engine.stories import engine_on

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(("load", "refused"), [(3, None), (4, Rule.CAPACITY)])
def test_departed_and_departing_load_count_until_the_plan_is_executed(load, refused):
    """Of 10 units, 3 are departing and 4 leave in the same plan: a new replica of 3 fits, and one of 4 does not."""
    configuration = _node_that_a_replica_left(departing=3, left=4, new=load)
    assert configuration.refusal(Proposal(_new_row(configuration), 1), 1 << Rule.CAPACITY) is refused


def test_smallest_growth_counts_with_departed_load():
    """The node has 3 units departing and 7 that leave in the same plan: not even a quantum more fits."""
    configuration = _node_that_a_replica_left(departing=3, left=7, new=2.0**-16)  # the quantum of a capacity of 10
    assert configuration.refusal(Proposal(_new_row(configuration), 1), 1 << Rule.CAPACITY) is Rule.CAPACITY


@pytest.mark.parametrize(
    ("replica", "sibling"), [((1, 2), (0, 1)), ((0, 1), (1, 2))], ids=["sibling comes", "sibling goes on"]
)
def test_only_a_sibling_that_changed_places_with_a_replica_replaces_its_load(replica, sibling):
    """A chain of moves over three nodes leaves the whole load of the first replica behind."""
    engine = engine_on("n0", "n1", "n2", "n3", prevent_transient_overcommit=True, allow_chained_moves=True)
    engine.update_service(Service("db", target_replicas=2))
    copies = [Replica(Role.PRIMARY, f"n{replica[0]}"), Replica(Role.SECONDARY, f"n{sibling[0]}")]
    engine.update_partition(Partition("p", service="db", replicas=copies))
    for copy in copies:
        engine.report_load("p", copy.node, {"cpu": 5})
    configuration = configuration_of(engine)
    rows = {int(configuration.solution.node[row]): row for row in configuration.rows.tolist()}
    for (_, target), row in ((sibling, rows[sibling[0]]), (replica, rows[replica[0]])):
        configuration.apply(Proposal(row, target))
    assert configuration.solution.departed[replica[0], 0] == configuration.problem.load[rows[replica[0]], 0] > 0
    configuration.check()


def _node_that_a_replica_left(*, departing: float, left: float, new: float) -> Configuration:
    """Return two nodes of 10 units: a replica has left n1 for n0, another one is departing from n1, and one is new."""
    engine = engine_on(
        *(Node(f"n{index}", capacities={"cpu": 10}) for index in range(2)),
        prevent_transient_overcommit=True,
        capacity_limit="capacity",
    )
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": new}}))
    engine.update_partition(Partition("moved", service="web", replicas=[Replica(Role.INSTANCE, "n1")]))
    ends = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1", leaving=True)]
    engine.update_partition(Partition("moving", service="web", replicas=ends))
    engine.update_partition(Partition("new", service="web"))
    engine.report_load("moved", "n1", {"cpu": left})
    engine.report_load("moving", "n0", {"cpu": 0})
    engine.report_load("moving", "n1", {"cpu": departing})
    configuration = configuration_of(engine)
    (moved,) = (row for row in configuration.rows.tolist() if configuration.partition_of(row) == "moved")
    configuration.apply(Proposal(moved, 0))
    return configuration


def _new_row(configuration: Configuration) -> int:
    """Return the row of the replica without a node."""
    return next(row for row in configuration.rows.tolist() if configuration.node_of(row) == NOWHERE)


@pytest.mark.parametrize(
    ("needs", "refused"),
    [
        ({}, None),
        ({"cpu": 3}, None),
        ({"memory": 3}, Rule.CAPACITY),
        ({"cpu": 3, "memory": 3}, Rule.CAPACITY),
        ({"disk": 3}, Rule.CAPACITY),
        ({"cpu": 3, "disk": 3}, Rule.CAPACITY),
        ({"memory": 2, "disk": 2}, None),
    ],
)
def test_departed_load_counts_for_each_metric_for_which_that_is_set(needs, refused):
    """Of 10 units of cpu, memory and disk, 8 leave in the same plan; only those of cpu are free at once."""
    metrics = [Metric(name, quantum=1.0, transient=name != "cpu") for name in ("cpu", "memory", "disk")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, capacity_limit="capacity"))
    names = [metric.name for metric in metrics]
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities=dict.fromkeys(names, 10)))
    engine.update_service(Service("old", stateful=False, default_load={Role.INSTANCE: dict.fromkeys(names, 8)}))
    engine.update_service(
        Service("new", stateful=False, default_load={Role.INSTANCE: {**dict.fromkeys(names, 0), **needs}})
    )
    engine.update_partition(Partition("moved", service="old", replicas=[Replica(Role.INSTANCE, "n1")]))
    engine.update_partition(Partition("new", service="new"))
    configuration = configuration_of(engine)
    (moved,) = (row for row in configuration.rows.tolist() if configuration.partition_of(row) == "moved")
    configuration.apply(Proposal(moved, 0))
    assert configuration.refusal(Proposal(_new_row(configuration), 1), 1 << Rule.CAPACITY) is refused
