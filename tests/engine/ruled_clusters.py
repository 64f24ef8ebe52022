"""Clusters under many rules: nested domains, quorums, parents and children, standbys, builds, budgets."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from plb import Application, Metric, Node, Partition, PlacementAndLoadBalancing, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState
from plb.model.rules import ALL_RULES, JOINING, Rule
from plb.testing import Cluster, configuration_of

from .oracle import ring
from .strategies import KEEP_CAPACITY_FREE

METRICS = ("cpu", "memory")
APPLICATIONS = ("a0", "a1")
FAULT_DOMAINS = ("fd:/a/1", "fd:/a/2", "fd:/b/1", "fd:/b/2", "fd:/c/1")
DOMAIN_COUNTS = (4, 4, 5, 2)
"""Number of domains of a cluster: two parents with two each are enough for levels that disagree."""
PLACEMENT_CONSTRAINTS = ("", "", "", "", "", "ssd == true", "zone ^P z0", "FDPolicy ~ Ignore", "FDPolicy ~ Nonpacking")

enforced_rules = st.one_of(
    st.sampled_from([ALL_RULES, ALL_RULES | JOINING, 0]),
    st.sampled_from([1 << rule for rule in Rule]),
    st.integers(0, ALL_RULES),
    st.integers(0, ALL_RULES).map(lambda rules: rules | JOINING),
)
"""Bit masks over `plb.model.rules.Rule`, with and without the bit for joining a parent."""


@st.composite
def ruled_clusters(draw: st.DrawFn) -> Cluster:
    """Draw a rather full cluster of three services, the second and third possibly children of the first.

    In a third of the clusters all services belong to applications that are full, and many replicas leave.
    """
    random = Random(draw(st.integers(0, 2**32 - 1)))
    full = random.random() < 0.33
    metrics = tuple(
        Metric(
            name,
            quantum=1.0,
            **random.choice([{}, {}, *KEEP_CAPACITY_FREE]),
            transient=random.random() < (0.4 if full else 0.2),
        )
        for name in METRICS[: random.randint(1 + full, 2)]
    )
    domains = FAULT_DOMAINS[: random.choice(DOMAIN_COUNTS)]
    nodes = tuple(_node(random, f"n{index}", metrics, domains) for index in range(random.randint(3, 8)))
    services = tuple(_service(random, index, metrics, full) for index in range(3))
    leaving = 0.25 if full else 0.05
    partitions = [_partition(random, "p0", services[0], nodes, leaving)]
    for index in range(1, random.randint(2, 4)):
        among = services[0 if random.random() < 0.1 else 1 :]
        partitions.append(_partition(random, f"p{index}", random.choice(among), nodes, leaving))
    return Cluster(
        metrics=metrics,
        config=_settings(random),
        nodes=nodes,
        services=services,
        partitions=tuple(partitions),
        loads={
            (partition.name, replica.node): {metric.name: random.randint(0, 9) for metric in metrics}
            for partition in partitions
            for replica in partition.replicas
        },
        history=None,
        seed=0,
        applications=_applications(random, metrics, full),
    )


@st.composite
def visited_engines(draw: st.DrawFn) -> tuple[PlacementAndLoadBalancing, Configuration]:
    """Draw an engine and a configuration that a search may reach by proposals that the unconditional rules allow."""
    engine = draw(ruled_clusters()).engine()
    engine.update_upgraded_domains(draw(st.sampled_from([[], ["u0"], ["u1", "u2"]])))
    configuration = configuration_of(engine)
    random = Random(draw(st.integers(0, 2**32 - 1)))
    for _ in range(draw(st.sampled_from([0, 6, 25]))):
        proposal = _some_proposal(random, configuration)
        if proposal is not None and configuration.refusal(proposal, random.choice([0, 0, ALL_RULES])) is None:
            configuration.apply(proposal)
    return engine, configuration


def visited_configurations() -> st.SearchStrategy[Configuration]:
    return visited_engines().map(lambda drawn: drawn[1])


@st.composite
def scattered_engines(draw: st.DrawFn) -> tuple[PlacementAndLoadBalancing, Configuration]:
    """Draw an engine and a configuration with replicas on any nodes, against all rules, often on those of siblings."""
    engine, configuration = draw(visited_engines())
    random = Random(draw(st.integers(0, 2**32 - 1)))
    rows = [row for row in configuration.rows.tolist() if configuration.problem.movable[row]]
    for _ in range(draw(st.sampled_from([0, 4, 12])) if rows else 0):
        row = random.choice(rows)
        beside = [configuration.node_of(other) for other in ring(configuration.problem, row)]
        target = random.choice([*beside, *range(configuration.nodes), NOWHERE])
        if target != configuration.node_of(row):
            configuration.apply(Proposal(row, target))
    return engine, configuration


def exchanges(configuration: Configuration) -> list[Proposal]:
    """Return every exchange of two replicas on different nodes, and every swap of roles."""
    problem, rows = configuration.problem, configuration.rows.tolist()
    places = {row: configuration.node_of(row) for row in rows}
    return [
        Proposal(row, places[partner], partner)
        for row in rows
        for partner in rows
        if places[row] != places[partner] and NOWHERE not in (places[row], places[partner]) and problem.movable[row]
    ]


def _some_proposal(random: Random, configuration: Configuration) -> Proposal | None:
    """Return a move or an exchange of movable replicas, or a move off a node; None if there is none."""
    rows = [row for row in configuration.rows.tolist() if configuration.problem.movable[row]]
    if not rows:
        return None
    if random.random() < 0.4:
        found = [one for one in exchanges(configuration) if {one.row, one.partner} <= set(rows)]
        return random.choice(found) if found else None
    row = random.choice(rows)
    others = sorted(set(range(configuration.nodes)) - {configuration.node_of(row)})
    return Proposal(row, random.choice(others)) if others else None


def _node(random: Random, name: str, metrics: tuple[Metric, ...], domains: tuple[str, ...]) -> Node:
    return Node(
        name,
        capacities={metric.name: random.randint(6, 30) for metric in metrics if random.random() < 0.8},
        fault_domain=random.choice(domains),
        upgrade_domain=random.choice(["u0", "u1", "u2"]),
        properties={
            "zone": random.choice(["z0", "z1"]),
            "ssd": random.choice(["true", "true", "false"]),
            "NodeType": random.choice(["small", "large"]),
        },
        up=random.random() < 0.95,
        deactivation_intent=random.choice([*[DeactivationIntent.NONE] * 40, *DeactivationIntent]),
        deactivation_status=random.choice(list(DeactivationStatus)),
    )


def _service(random: Random, index: int, metrics: tuple[Metric, ...], full: bool) -> Service:
    stateful = random.random() < 0.7
    roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
    return Service(
        f"s{index}",
        stateful=stateful,
        target_replicas=random.choice([1, 2, 3, 3, 4, 5]),
        default_load={role: {metric.name: random.randint(0, 9) for metric in metrics} for role in roles},
        placement_constraint=random.choice(PLACEMENT_CONSTRAINTS),
        max_moves=random.choice([*[None] * 5, 1, 2]),
        affinity_to="s0" if index and random.random() < 0.5 else None,
        aligned=random.random() < 0.5,
        application=random.choice([*[None] * (0 if full else 2), *APPLICATIONS]),
        blocked_nodes=frozenset(random.choice([(), (), ("n1",)])),
    )


def _applications(random: Random, metrics: tuple[Metric, ...], full: bool) -> tuple[Application, ...]:
    if random.random() < 0.3 and not full:
        return ()

    def amounts(low: int, high: int) -> dict[str, int]:
        return {
            metric.name: random.randint(low, high) for metric in metrics if random.random() < (0.9 if full else 0.6)
        }

    return tuple(
        Application(
            name,
            most_nodes=random.choice([None, 1, 2, 3]),
            total_capacity=amounts(10, 40),
            node_capacity=amounts(5 if full else 10, 15),
            node_reservation=amounts(0, 5 if full else 10),
            upgrade_in_progress=random.random() < 0.3,
            completed_upgrade_domains=random.choice([(), ("u0",), ("u1", "u2")]),
        )
        for name in APPLICATIONS
    )


def _partition(random: Random, name: str, service: Service, nodes: tuple[Node, ...], leaving_share: float) -> Partition:
    front = sorted(nodes, key=lambda node: random.random() * (1 + int(node.name[1:])))
    standing = random.randint(0, min(len(nodes), service.target_replicas + 1))
    with_primary = random.random() < 0.85
    replicas = []
    for index, node in enumerate(front[:standing]):
        first = Role.PRIMARY if index == 0 and with_primary else Role.SECONDARY
        role = first if service.stateful else Role.INSTANCE
        states = [*[ReplicaState.READY] * 6, ReplicaState.IN_BUILD, *[ReplicaState.STANDBY] * (role == Role.SECONDARY)]
        leaving = random.random() < leaving_share
        state = ReplicaState.READY if leaving or role == Role.PRIMARY else random.choice(states)
        replicas.append(Replica(role, node.name, state=state, leaving=leaving, pinned=random.random() < 0.05))
    return Partition(name, service=service.name, replicas=replicas)


def _settings(random: Random) -> dict[str, Any]:
    chance = random.random
    return {
        "capacity_limit": random.choice(["threshold", "capacity"]),
        "prevent_transient_overcommit": chance() < 0.4,
        "maximum_in_build_replicas_per_node": random.choice([{}, {"small": 1, "large": 2}, {"large": 1}]),
        "throttling_constraint_priority": 0,
        "throttle_placement_phase": True,
        "allow_chained_moves": chance() < 0.5,
        "preferred_location_constraint_priority": random.choice([-1, 2]),
        "prefer_existing_replica_locations": chance() < 0.5,
        "prefer_upgraded_uds": chance() < 0.5,
        "quorum_based_replica_distribution_per_fault_domains": chance() < 0.3,
        "quorum_based_replica_distribution_per_upgrade_domains": chance() < 0.3,
        "quorum_based_logic_auto_switch": chance() < 0.3,
        "allow_higher_child_target_replica_count_for_affinity": chance() < 0.6,
        "place_child_without_parent": chance() < 0.6,
        "max_moves": random.choice([*[None] * 5, 1, 2, 3]),
        "in_build_throttling_enabled": random.random() < 0.2,
        "in_build_throttling_global_max_value": random.randint(0, 3),
        "swap_primary_throttling_enabled": random.random() < 0.2,
        "swap_primary_throttling_global_max_value": random.randint(0, 1),
        "max_moves_per_node": random.choice([None, None, None, 1, 2]),
        "repetitions": 1,
        "chains": 1,
        "threads": 1,
    }
