"""Applications and upgrades under the rules of Service Fabric, and the order of the phases."""

from __future__ import annotations

import pytest

from plb import InsufficientCapacityError
from tests.service_fabric.small import Fabric, limits, nodes, targets

every_seed = pytest.mark.parametrize("seed", range(3))


# scale-out


@every_seed
def test_application_uses_no_more_nodes_than_it_may(seed: int) -> None:
    """While fewer are in use, a new replica may take another; from there on it takes those."""
    fabric = Fabric(nodes(5), seed=seed)
    fabric.application("shop", most_nodes=2)
    fabric.service("web", stateful=False, application="shop")
    fabric.service("api", stateful=False, application="shop")
    fabric.partitions(web0="I3")
    fabric.partitions(1, web1="", web2="", api0="", api1="")
    actions = fabric.refresh()
    assert len(actions) == 4
    assert len({"3"} | set(targets(actions))) == 2


# capacities and reservations


@every_seed
def test_application_has_no_more_load_on_a_node_than_it_may(seed: int) -> None:
    """The capacity of the node does not matter; a repair takes away what is too much."""
    fabric = Fabric(nodes(3, capacities=limits(99, 99, 99)), seed=seed)
    fabric.application("shop", node_capacity={"load": 4})
    fabric.service("web", 2, stateful=False, application="shop")
    fabric.service("other", 9, stateful=False)
    fabric.partitions(other0="I1=", other1="I2=")
    fabric.partitions(web0="I0", web1="I0", web2="I0")
    assert len(fabric.refresh()) == 1
    fabric.partitions(1, web3="", web4="", web5="", web6="", web7="")
    assert sorted(action[-1] for action in fabric.refresh(20.0)) == ["1", "1", "2", "2"]


@pytest.mark.parametrize(("reserved", "accepted"), [(6, True), (7, False)])
def test_application_is_refused_if_its_reservation_does_not_fit(reserved: float, *, accepted: bool) -> None:
    """Three nodes have 20 and use 2. A refusal changes nothing, and a decrease is never refused."""
    fabric = Fabric(nodes(3, capacities=limits(10, 5, 5)))
    fabric.service("web", 2, stateful=False)
    fabric.partitions(web0="I0")
    fabric.application("shop", minimum_nodes=3, node_reservation={"load": 4})
    before = fabric.engine.applications
    if accepted:
        fabric.application("shop", minimum_nodes=3, node_reservation={"load": reserved})
    else:
        with pytest.raises(InsufficientCapacityError):
            fabric.application("shop", minimum_nodes=3, node_reservation={"load": reserved})
        assert fabric.engine.applications == before
    fabric.application("shop", minimum_nodes=1, node_reservation={"load": 4})


def test_role_returns_to_the_marked_secondary() -> None:
    fabric = Fabric(nodes(4))
    fabric.service("db")
    fabric.partition("db0", "P0 S1^ S2", upgrading=True)
    assert fabric.refresh() == ["db0 swap P 0>1"]
    fabric.partition("db0", "P0 D3_ S2", missing=1, upgrading=True)
    assert fabric.refresh(20.0) == ["db0 add S >3"]


# upgrades


def test_single_replica_gets_a_second_one_before_its_upgrade() -> None:
    fabric = Fabric(nodes(2))
    fabric.service("db", target_replicas=1)
    fabric.partition("db0", "P0/", missing=1, upgrading=True)
    assert fabric.refresh() == ["db0 add S >1"]
    fabric.partition("db0", "P0/ S1", missing=0, upgrading=True)
    assert fabric.refresh(20.0) == ["db0 swap P 0>1"]


@pytest.mark.parametrize("upgrading", [True, False])
def test_balancing_leaves_a_partition_in_an_upgrade_alone(*, upgrading: bool) -> None:
    fabric = Fabric(nodes(2))
    fabric.service("web", 4, stateful=False)
    fabric.partition("web0", "I0", upgrading=upgrading)
    fabric.partition("web1", "I0=")
    assert fabric.refresh() == ([] if upgrading else ["web0 move I 0>1"])


# phases


def test_phase_waits_for_its_interval() -> None:
    fabric = Fabric(nodes(2), MinPlacementInterval=30)
    fabric.service("web", stateful=False)
    fabric.partitions(1, web0="")
    assert fabric.refresh(10.0)
    fabric.partitions(1, web1="")
    assert fabric.refresh(39.0) == []
    assert fabric.refresh(41.0)


@pytest.mark.parametrize(
    ("switched_off", "order"),
    [
        ({}, ["NewReplicaPlacement", "ConstraintCheck", "LoadBalancing"]),
        ({"ConstraintCheckEnabled": False}, ["NewReplicaPlacement", "LoadBalancing", "NoActionNeeded"]),
        ({"LoadBalancingEnabled": False}, ["NewReplicaPlacement", "ConstraintCheck", "NoActionNeeded"]),
    ],
    ids=str,
)
def test_refresh_runs_one_phase_a_domain_in_order(switched_off: dict[str, bool], order: list[str]) -> None:
    """A new replica comes first, then a broken rule, then balance; a phase may be switched off."""
    fabric = Fabric(nodes(3), **switched_off)
    fabric.service("web", 2, stateful=False)
    fabric.service("fixed", 1, stateful=False, placement_constraint="NodeName == 1")
    fabric.partitions(web0="I0", web1="I0", web2="I0", fixed0="I0")
    fabric.partitions(1, fixed1="")
    actions = []
    for turn in range(3):
        fabric.refresh(20.0 * turn)
        fabric.engine.apply(fabric.plan)
        actions += fabric.last_actions()
    assert actions == order
