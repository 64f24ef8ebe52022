"""Applications bind placement, repair and balancing, and their sums are exact whatever a search does."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    ConflictError,
    InvalidValueError,
    Metric,
    MoveKind,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    ReplicaState,
    ReservationViolation,
    Role,
    Service,
    UnknownNameError,
)
from plb.array_types import NOWHERE
from plb.constraints.application_capacity import is_full, refuses_exchange
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import ALL_RULES, Rule
from plb.state.tables import MOST_REMOVED
from tests.engine.applications_by_hand import exceeds_application_capacity, sums_of_applications
from tests.engine.ruled_clusters import exchanges, visited_configurations
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

POLICIES = ("annealing", "first_fit")


def assert_sums_are_exact(configuration: Configuration) -> None:
    solution = configuration.solution
    for name, values in sums_of_applications(configuration.problem, solution.node.tolist()).items():
        assert getattr(solution, name).tolist() == values, name


@examples(150)
@given(visited_configurations(), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.booleans()), max_size=8))
def test_sums_follow_proposals_and_return_when_they_are_undone(configuration, steps):
    """Proposals are moves, exchanges and rows taken off; each is applied, and the last ones are undone first."""
    before = configuration.solution.copy()
    rows, undone = configuration.rows.tolist(), []
    for row, node, exchange in steps if rows else ():
        found = exchanges(configuration) if exchange else []
        target = node % (configuration.nodes + 1)
        move = Proposal(rows[row % len(rows)], NOWHERE if target == configuration.nodes else target)
        proposal = found[row % len(found)] if found else move
        if proposal.target != configuration.node_of(proposal.row):
            undone.append(configuration.apply(proposal))
            assert_sums_are_exact(configuration)
    for back in reversed(undone):
        configuration.apply(back)
    assert_sums_are_exact(configuration)
    for name in ("application_load", "application_replicas", "application_total", "application_nodes", "reserved"):
        assert np.array_equal(getattr(configuration.solution, name), getattr(before, name)), name


@examples(80)
@given(visited_configurations())
def test_node_is_full_for_a_replica_beyond_the_capacity_of_its_application_there(configuration):
    """It is so for no replica without an application, and for none where the rule is given up."""
    problem, solution, places = configuration.problem, configuration.solution, configuration.solution.node.tolist()
    for row in configuration.rows.tolist():
        for node in range(configuration.nodes):
            right = exceeds_application_capacity(problem, places, row, NOWHERE, node)
            assert is_full(problem, solution, 1 << Rule.APPLICATION_CAPACITY, row, node) == right
            assert not is_full(problem, solution, ALL_RULES & ~(1 << Rule.APPLICATION_CAPACITY), row, node)


@examples(80)
@given(visited_configurations())
def test_exchange_exceeds_a_capacity_by_what_the_application_gains_on_one_of_the_nodes(configuration):
    """A replica of another application gives way to nothing."""
    problem, places = configuration.problem, configuration.solution.node.tolist()
    for proposal in exchanges(configuration):
        row, partner, target, source = proposal.row, proposal.partner, proposal.target, places[proposal.row]
        ends = ((row, partner, target), (partner, row, source))
        right = any(exceeds_application_capacity(problem, places, *end) for end in ends)
        whole = configuration.from_its_node(proposal)
        assert refuses_exchange(problem, configuration.solution, 1 << Rule.APPLICATION_CAPACITY, whole) == right


# placement, repair and balancing


def engine_of(capacities: dict[str, float], **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with these nodes, which it fills to their capacity."""
    defaults = {"capacity_limit": "capacity", "max_percentage_to_move": 1.0, "checks": "step"}
    engine = PlacementAndLoadBalancing(
        PlbConfig(metrics=[Metric("cpu", quantum=1.0)], **{**defaults, **settings}), seed=1
    )
    for name, capacity in capacities.items():
        engine.update_node(Node(name, capacities={"cpu": capacity}))
    return engine


def put(
    engine: PlacementAndLoadBalancing, name: str, loads: dict[str, float], application: str | None, missing: int = 0
) -> None:
    """Add a service, with a partition of one instance for each node and load, and with missing ones of load 2."""
    load = {Role.INSTANCE: {"cpu": 2.0}}
    engine.update_service(Service(name, stateful=False, application=application, default_load=load))
    for index, (node, value) in enumerate(loads.items()):
        engine.update_partition(Partition(f"{name}/{index}", service=name, replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(f"{name}/{index}", node, {"cpu": value})
    for index in range(len(loads), len(loads) + missing):
        engine.update_partition(Partition(f"{name}/{index}", service=name))


def nodes_of(engine: PlacementAndLoadBalancing, service: str) -> list[str | None]:
    count = sum(name.startswith(f"{service}/") for name in engine._state.partitions)
    return [engine.replicas(f"{service}/{index}")[0].node for index in range(count)]


def test_repair_leaves_a_node_wholly_or_not_at_all():
    """The node with one replica cannot be left, because it is pinned; so the next smallest is."""
    engine = engine_of(dict.fromkeys(("n0", "n1", "n2"), 20.0))
    put(engine, "x", {"n0": 1.0, "n1": 1.0}, "a")
    put(engine, "y", {"n0": 1.0, "n1": 1.0}, "a")
    put(engine, "z", {"n0": 1.0}, "a")
    engine.update_service(Service("pinned", stateful=False, application="a"))
    replica = Replica(Role.INSTANCE, "n2", pinned=True)
    engine.update_partition(Partition("pinned/0", service="pinned", replicas=[replica]))
    engine.update_application(Application("a", most_nodes=2))
    assert {(move.partition, move.source) for move in engine.repair().moves} == {("x/1", "n1"), ("y/1", "n1")}


@pytest.mark.parametrize("policy", POLICIES)
def test_application_leaves_a_node_together_where_one_replica_frees_nothing(policy):
    """A node of 10 has 5 of others, which cannot move, and 2 replicas of 1 with a reservation of 8."""
    engine = engine_of({"n0": 10.0, "n1": 8.0}, policy=policy)
    engine.update_service(Service("others", stateful=False, default_load={Role.INSTANCE: {"cpu": 5.0}}))
    replica = Replica(Role.INSTANCE, "n0", pinned=True)
    engine.update_partition(Partition("others/0", service="others", replicas=[replica]))
    for name in ("x", "y"):
        put(engine, name, {"n0": 1.0}, "a")
    engine.update_application(Application("a", node_reservation={"cpu": 8.0}))
    assert engine.violations() == (ReservationViolation("n0", "cpu", 7.0, 6.0, 10.0, ("a",)),)
    plan = engine.repair()
    assert {(move.partition, move.target) for move in plan.moves} == {("x/0", "n1"), ("y/0", "n1")}
    reason = "cpu of node n0 is 7, with 6 more reserved for applications, above its limit of 10"
    assert {str(move.reason) for move in plan.moves} == {reason}
    engine.apply(plan)
    assert engine.violations() == ()


def test_eviction_makes_way_for_a_reservation():
    """The only node that the application may use has 4 of others; they move, as 8 are to be kept free."""
    engine = engine_of({"n0": 10.0, "n1": 10.0})
    put(engine, "others", {"n0": 4.0}, None)
    engine.update_application(Application("a", node_reservation={"cpu": 8.0}))
    load = {Role.INSTANCE: {"cpu": 1.0}}
    engine.update_service(
        Service("web", stateful=False, application="a", default_load=load, blocked_nodes=frozenset({"n1"}))
    )
    engine.update_partition(Partition("web/0", service="web"))
    engine.apply(engine.place())
    assert (nodes_of(engine, "web"), nodes_of(engine, "others")) == (["n0"], ["n1"])


def test_balancing_leaves_a_broken_limit_and_does_not_exceed_it_further():
    """An application on three of two nodes gets no fourth, although that would balance the loads."""
    engine = engine_of(dict.fromkeys(("n0", "n1", "n2", "n3"), 40.0), w_imbalance=1000.0)
    for name in ("x", "y", "z"):
        put(engine, name, {"n0": 3.0, "n1": 2.0, "n2": 1.0}, "a")
    engine.update_application(Application("a", most_nodes=2))
    engine.apply(engine.balance())
    used = {node for name in ("x", "y", "z") for node in nodes_of(engine, name)}
    assert used <= {"n0", "n1", "n2"}


@pytest.mark.parametrize("replicas", [1, 2])
def test_last_replica_on_a_node_may_leave_for_a_node_not_in_use(replicas):
    """Then the application uses as many nodes as before; while another replica stays there, it would use more."""
    engine = engine_of(dict.fromkeys(("n0", "n1"), 40.0), w_imbalance=1000.0)
    put(engine, "others", {"n0": 9.0}, None)
    for name in ("x", "y")[:replicas]:
        put(engine, name, {"n0": 9.0 / replicas}, "a")
    engine.update_service(Service("others", stateful=False, blocked_nodes=frozenset({"n1"})))
    engine.update_application(Application("a", most_nodes=1))
    engine.apply(engine.balance())
    assert nodes_of(engine, "x") == ["n1" if replicas == 1 else "n0"]


def test_balancing_moves_an_application_above_its_limit_to_other_nodes():
    """It uses two nodes where it may use one; it may leave one of them for a third, as this makes nothing worse."""
    engine = engine_of(dict.fromkeys(("n0", "n1", "n2"), 40.0), w_imbalance=1000.0)
    put(engine, "others", {"n0": 6.0}, None)
    put(engine, "x", {"n0": 6.0}, "a")
    put(engine, "y", {"n1": 6.0}, "a")
    engine.update_service(Service("others", stateful=False, blocked_nodes=frozenset({"n1", "n2"})))
    engine.update_application(Application("a", most_nodes=1))
    engine.apply(engine.balance())
    assert (nodes_of(engine, "x"), nodes_of(engine, "y")) == (["n2"], ["n1"])


def test_standby_gives_way_to_a_replica_whose_load_it_makes_up_for():
    """The total capacity is used up with a standby; only its node takes the new secondary."""
    engine = engine_of({"n0": 20.0, "n1": 20.0, "n2": 20.0})
    engine.update_application(Application("a", total_capacity={"cpu": 6.0}))
    load = {role: {"cpu": 3.0} for role in (Role.PRIMARY, Role.SECONDARY)}
    engine.update_service(Service("db", target_replicas=2, application="a", default_load=load))
    standby = Replica(Role.SECONDARY, "n2", state=ReplicaState.STANDBY)
    engine.update_partition(Partition("db/0", service="db", replicas=[Replica(Role.PRIMARY, "n0"), standby]))
    assert [(move.role, move.target) for move in engine.place().moves] == [(Role.SECONDARY, "n2")]


def test_repair_swaps_roles_where_no_replica_of_an_application_may_leave():
    """Two primaries of 2 exceed 3 on n0; the application uses all its nodes, so one swaps with its secondary of 1."""
    engine = engine_of(dict.fromkeys(("n0", "n1", "n2"), 20.0))
    engine.update_application(Application("a", most_nodes=2, node_capacity={"cpu": 3.0}))
    load = {Role.PRIMARY: {"cpu": 2.0}, Role.SECONDARY: {"cpu": 1.0}}
    for name in ("x", "y"):
        engine.update_service(Service(name, target_replicas=2, application="a", default_load=load))
        replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
        engine.update_partition(Partition(f"{name}/0", service=name, replicas=replicas))
    (move,) = engine.repair().moves
    assert (move.kind, move.source, move.target) == (MoveKind.SWAP, "n0", "n1")


@pytest.mark.parametrize("of_application", [True, False])
def test_repair_moves_a_replica_to_a_standby_whose_load_it_replaces(of_application):
    """Two primaries of 3 exceed a limit of 5 on n0; n1 is full with their standbys, of which one gives way."""
    engine = engine_of({"n0": 20.0, "n1": 20.0} if of_application else {"n0": 5.0, "n1": 5.0})
    engine.update_application(Application("a", node_capacity={"cpu": 5.0} if of_application else {}))
    for name, standby in (("x", 3.0), ("y", 2.0)):
        load = {Role.PRIMARY: {"cpu": 3.0}, Role.SECONDARY: {"cpu": standby}}
        engine.update_service(Service(name, target_replicas=1, application="a", default_load=load))
        replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1", state=ReplicaState.STANDBY)]
        engine.update_partition(Partition(f"{name}/0", service=name, replicas=replicas))
    assert [(move.partition, move.target) for move in engine.repair().moves] == [("x/0", "n1")]


def test_services_of_an_application_with_limits_share_a_domain():
    """So do those with a metric that it reserves; an application without limits binds none together."""
    metrics = [Metric(name) for name in ("cpu", "disk", "memory")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics))
    for name, metric, application in (("x", "cpu", "a"), ("y", "disk", "a"), ("z", "memory", None)):
        engine.update_service(Service(name, metrics={metric: 1.0}, application=application))
    domains = [{"x"}, {"y"}, {"z"}]
    for application, expected in (
        (Application("a"), domains),
        (Application("a", most_nodes=1), [{"x", "y"}, {"z"}]),
        (Application("a", node_reservation={"memory": 1.0}), [{"x", "y", "z"}]),
        (Application("a", node_reservation={"memory": 0.0}), domains),
    ):
        engine.update_application(application)
        assert [{*domain.services} for domain in engine.service_domains()] == expected
    engine.remove_application("a")
    assert [{*domain.services} for domain in engine.service_domains()] == domains


def test_application_may_be_described_after_its_services_and_removed_before():
    """The limits hold from the description to the removal, whatever the order of the calls."""
    engine = engine_of({"n0": 9.0, "n1": 9.0})
    put(engine, "x", {"n0": 1.0, "n1": 1.0}, "a")
    assert engine.violations() == ()
    engine.update_application(Application("a", most_nodes=1))
    assert len(engine.violations()) == 1
    engine.update_service(Service("x", stateful=False, application="b"))
    assert engine.violations() == ()
    engine.update_service(Service("x", stateful=False, application="a"))
    assert len(engine.violations()) == 1
    engine.remove_application("a")
    assert (engine.violations(), engine.applications) == ((), ())


def test_no_service_joins_a_removed_application_until_it_is_made_again():
    """The refused service changes nothing; one that already belongs to it may change, also in a copy of the engine."""
    engine = engine_of({"n0": 9.0})
    engine.update_application(Application("a"))
    for name, application in (("old", "a"), ("other", "b")):
        engine.update_service(Service(name, stateful=False, application=application))
    engine.remove_application("a")
    copied = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    for each in (engine, copied):
        before = each.snapshot()
        for name in ("new", "other"):
            with pytest.raises(ConflictError, match=f"service {name}: application a was removed; make it again first"):
                each.update_service(Service(name, stateful=False, application="a"))
        assert each.snapshot() == before
        each.update_service(Service("old", stateful=False, application="a", target_replicas=2))
        each.update_application(Application("a"))
        each.update_service(Service("new", stateful=False, application="a"))


def test_applications_that_come_and_go_leave_a_bounded_number_of_names():
    """The names that were removed last are known, also in a copy; a snapshot does not grow with the others."""
    engine = engine_of({"n0": 9.0})
    sizes = []
    for number in range(2 * MOST_REMOVED):
        engine.update_application(Application(f"a{number:04}"))
        engine.remove_application(f"a{number:04}")
        if (number + 1) % MOST_REMOVED == 0:
            sizes.append(len(engine.snapshot().to_bytes()))
    assert abs(sizes[1] - sizes[0]) < 100
    copied = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    for each in (engine, copied):
        each.update_service(Service("of an old one", application=f"a{MOST_REMOVED - 1:04}"))
        for number in (MOST_REMOVED, 2 * MOST_REMOVED - 1):
            with pytest.raises(ConflictError, match="was removed"):
                each.update_service(Service("new", application=f"a{number:04}"))
    assert engine.snapshot() == copied.snapshot()


def test_upgraded_domains_of_an_application_are_preferred_by_its_replicas():
    """A new replica of it goes to the upgraded domain; one of another application may go anywhere."""
    engine = PlacementAndLoadBalancing(
        PlbConfig(
            metrics=[Metric("cpu")], preferred_location_constraint_priority=2, upgrade_domain_constraint_priority=-1
        )
    )
    for index in range(4):
        engine.update_node(Node(f"n{index}", upgrade_domain=f"u{index % 2}"))
    engine.update_application(Application("a", upgrade_in_progress=True, completed_upgrade_domains=["u1"]))
    put_in = {"web": "a", "other": None}
    for name, application in put_in.items():
        engine.update_service(Service(name, stateful=False, application=application))
        engine.update_partition(Partition(f"{name}/0", service=name))
    scores = {name: engine.score(f"{name}/0") for name in put_in}
    refused = {name: [int(rule) >= 0 for rule in score.rule] for name, score in scores.items()}
    assert refused == {"web": [True, False, True, False], "other": [False] * 4}
    engine.update_application(Application("a", completed_upgrade_domains=["u1"]))
    assert [int(rule) >= 0 for rule in engine.score("web/0").rule] == [False] * 4


def test_alternatives_say_what_must_change_on_each_closed_node():
    """Of two nodes in use one lacks 2 of the capacity of the application; a third would be one too many."""
    engine = engine_of(dict.fromkeys(("n0", "n1", "n2"), 20.0))
    engine.update_application(Application("a", most_nodes=2, node_capacity={"cpu": 5.0}))
    put(engine, "web", {"n0": 5.0, "n1": 2.0}, "a", missing=1)
    (found,) = engine.alternatives("web/2")
    assert [place.node for place in found.places] == ["n1"]
    closed = {one.node: one for one in found.closed}
    assert {name: one.distance for name, one in closed.items()} == {"n0": 1.0, "n2": 1.0}
    assert [str(change) for change in closed["n0"].changes] == [
        "application a must have 2 less cpu on n0 (2 cpu needed; application a has 5 of 5 on n0)"
    ]
    assert [str(change) for change in closed["n2"].changes] == [
        "n2 must have a replica of application a, or it must use fewer nodes "
        "(application a may use 2 nodes, and its replicas use n0, n1)"
    ]
    engine.report_load("web/0", "n0", {"cpu": 4.0})
    (found,) = engine.alternatives("web/2")
    assert {one.node: one.distance for one in found.closed} == {"n0": 0.5, "n2": 1.0}


# the description


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"most_nodes": -1}, InvalidValueError),
        ({"minimum_nodes": 1.5}, InvalidValueError),
        ({"total_capacity": {"cpu": -1.0}}, InvalidValueError),
        ({"node_reservation": {"cpu": float("nan")}}, InvalidValueError),
        ({"upgrade_in_progress": 1}, InvalidValueError),
        ({"completed_upgrade_domains": "u0"}, InvalidValueError),
        ({"most_nodes": 1, "minimum_nodes": 2}, ConflictError),
        ({"node_capacity": {"cpu": 1.0}, "node_reservation": {"cpu": 2.0}}, ConflictError),
        ({"total_capacity": {"cpu": 1.0}, "node_reservation": {"cpu": 2.0}}, ConflictError),
    ],
)
def test_description_is_checked(fields, error):
    with pytest.raises(error, match=f"application.*{[*fields][-1]}"):
        Application("shop", **fields)


def test_refused_update_changes_nothing():
    engine = engine_of({"n0": 9.0})
    known = Application("a", most_nodes=3)
    engine.update_application(known)
    for wrong in (
        {"node_reservation": {"gpu": 1.0}},
        {"node_capacity": {"gpu": 1.0}},
        {"total_capacity": {"gpu": 1.0}},
    ):
        with pytest.raises(UnknownNameError, match="gpu"):
            engine.update_application(Application("a", **wrong))
    with pytest.raises(InvalidValueError, match=r"node_reservation\[cpu\]"):
        engine.update_application(Application("a", node_reservation={"cpu": 1e12}))
    with pytest.raises(UnknownNameError, match="application 'b'"):
        engine.remove_application("b")
    assert engine.applications == (known,)


def test_no_limit_of_nodes_may_be_written_as_0():
    assert attrs.evolve(Application("a", most_nodes=0)) == Application("a")
