"""Strategies for clusters in which there is much to do."""

from __future__ import annotations

from random import Random

import attrs
from hypothesis import strategies as st

from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.testing.cluster import Cluster
from plb.testing.cluster_strategies import CONSTRAINTS, METRICS, clusters, settings_of_engines
from plb.testing.histories import CLASSES, peak_columns


@st.composite
def busy_clusters(draw: st.DrawFn) -> Cluster:
    """Generate clusters with much work: uneven, tight, with replicas that swap, move and are not placed.

    Hypothesis generates sizes and settings; loads and places come from one generated seed, because values that are
    generated individually are mostly small and similar, and such clusters have no work.
    """
    random = draw(st.builds(Random, st.integers(0, 2**20)))
    step, parts = draw(st.sampled_from([(None, 4), (1.0, 1)]))  # whole loads reach limits exactly more often
    metrics = tuple(Metric(name, quantum=step) for name in METRICS[: draw(st.integers(1, 3))])
    cluster_nodes = _busy_nodes(draw, random, metrics)
    cluster_services = _busy_services(draw, random, metrics)
    complete = draw(st.booleans())
    made = tuple(
        _busy_partition(random, cluster_nodes, random.choice(cluster_services), f"p{index}", complete)
        for index in range(draw(st.integers(3, 10)))
    )
    loads = {
        (p.name, r.node): {
            metric.name: random.randint(0, 12 * parts) / parts * (3 if r.role is Role.PRIMARY else 1)
            for metric in metrics
        }
        for p in made
        for r in p.replicas
    }
    weights = {
        "w_imbalance": 1000.0,
        "move_cost_offset": 10.0,
        "max_percentage_to_move": draw(st.sampled_from([0.3, 1.0])),
    }
    return Cluster(
        metrics=metrics,
        config={**draw(settings_of_engines()), **weights},
        nodes=cluster_nodes,
        services=cluster_services,
        partitions=made,
        loads=loads,
        history=draw(peak_columns(len(metrics))) if draw(st.booleans()) else None,
        seed=draw(st.integers(0, 3)),
    )


def _busy_nodes(draw: st.DrawFn, random: Random, metrics: tuple[Metric, ...]) -> tuple[Node, ...]:
    """Draw nodes of one or another tightness, with or without nested fault domains, a few of them down."""
    racks = draw(st.sampled_from(["none", "flat", "nested"]))
    tight = draw(st.sampled_from([200, 60, 30]))
    return tuple(
        Node(
            f"n{index}",
            capacities={metric.name: random.randint(tight // 2, tight) for metric in metrics},
            fault_domain={"none": None, "flat": f"fd:/{index % 3}", "nested": f"fd:/{index % 2}/{index % 4}"}[racks],
            upgrade_domain=f"ud{index % 3}" if draw(st.booleans()) else None,
            properties={"zone": f"z{index % 4}", "ssd": "true" if index % 2 else "false"},
            up=random.random() < 0.9,
        )
        for index in range(draw(st.integers(3, 8)))
    )


def _busy_services(draw: st.DrawFn, random: Random, metrics: tuple[Metric, ...]) -> tuple[Service, ...]:
    """Generate services of all kinds, most of them without a placement constraint, whose replicas have load."""
    described = tuple(
        Service(
            f"s{index}",
            stateful=draw(st.booleans()),
            tenant_class=random.choice(CLASSES),
            target_replicas=draw(st.integers(1, 4)),
            placement_constraint=random.choice(["", "", "", *CONSTRAINTS]),
            move_cost=random.choice(list(MoveCost)),
            max_moves=draw(st.sampled_from([None, None, None, 1, 2])),
        )
        for index in range(draw(st.integers(1, 3)))
    )
    return tuple(
        attrs.evolve(
            service,
            default_load={
                role: {metric.name: random.randint(1, 12) for metric in metrics}
                for role in ([Role.PRIMARY, Role.SECONDARY] if service.stateful else [Role.INSTANCE])
            },
        )
        for service in described
    )


def _busy_partition(
    random: Random, cluster_nodes: tuple[Node, ...], service: Service, name: str, complete: bool
) -> Partition:
    """Return a partition on nodes at the front of the cluster rather than at its end."""
    most = min(service.target_replicas, len(cluster_nodes) - 1)
    standing = most if complete else random.randint(0, most)
    front = sorted(cluster_nodes, key=lambda node: random.random() * (1 + int(node.name[1:])))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3] if service.stateful else [Role.INSTANCE] * 4
    replicas = [
        Replica(role, node.name, pinned=random.random() < 0.1)
        for role, node in zip(roles, front[:standing], strict=False)
    ]
    if standing and random.random() < 0.1:
        replicas.append(Replica(replicas[-1].role, front[standing].name, leaving=True))
    return Partition(name, service=service.name, replicas=replicas, created=-float(random.randint(0, 20)))


def all_clusters() -> st.SearchStrategy[Cluster]:
    """Return a strategy of clusters of every kind and busy ones, about as many of each."""
    return st.booleans().flatmap(lambda busy: busy_clusters() if busy else clusters())
