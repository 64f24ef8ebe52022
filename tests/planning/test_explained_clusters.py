"""Violations and explanations of random clusters, compared with rules in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Apart,
    Misplaced,
    Node,
    NodeViolation,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    Replica,
    Role,
    Service,
    UnevenSpread,
)
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState
from plb.testing import CONSTRAINTS, Cluster, all_clusters
from tests.engine.oracle import domain_groups
from tests.engine.strategies import examples

PRIMARY = Role.PRIMARY

TESTS = {
    **CONSTRAINTS,
    "FDPolicy ~ Nonpacking": lambda _: True,
    "FDPolicy ~ Ignore && zone == z0": CONSTRAINTS["zone == z0"],
}
"""Placement constraints with domain policies, and their meaning for a node."""


@st.composite
def varied_clusters(draw: st.DrawFn) -> Cluster:
    """Draw clusters with deactivated nodes, block lists, domain policies, quorums, children, standbys and builds."""
    cluster = draw(all_clusters())
    if draw(st.booleans()):
        cluster = with_one_partition(cluster, "s0")
    intents = st.sampled_from([*[DeactivationIntent.NONE] * 8, *DeactivationIntent])
    nodes = tuple(
        attrs.evolve(
            node, deactivation_intent=draw(intents), deactivation_status=draw(st.sampled_from(DeactivationStatus))
        )
        for node in cluster.nodes
    )
    names = st.sampled_from([node.name for node in nodes])
    services = tuple(
        attrs.evolve(
            service,
            placement_constraint=draw(st.sampled_from(["", "", *TESTS])),
            blocked_nodes=draw(st.frozensets(names, max_size=1)),
            on_every_node=draw(st.sampled_from([False, False, False, True])),
            affinity_to="s0" if index and draw(st.booleans()) else None,
            aligned=draw(st.booleans()),
        )
        for index, service in enumerate(cluster.services)
    )
    states = st.sampled_from([*[ReplicaState.READY] * 3, ReplicaState.STANDBY, ReplicaState.IN_BUILD])
    partitions = tuple(
        attrs.evolve(
            partition,
            replicas=[
                r if r.leaving or r.role is PRIMARY else attrs.evolve(r, state=draw(states)) for r in partition.replicas
            ],
        )
        for partition in cluster.partitions
    )
    quorum = {f"quorum_based_replica_distribution_per_{kind}_domains": draw(st.booleans()) for kind in KINDS}
    others = {
        "upgrade_domain_constraint_priority": draw(st.sampled_from([0, 1, -1])),
        "prevent_transient_overcommit": draw(st.booleans()),
        "partially_place_services": draw(st.booleans()),
    }
    config = {**cluster.config, **quorum, **others}
    return attrs.evolve(cluster, nodes=nodes, services=services, partitions=partitions, config=config)


def with_one_partition(cluster: Cluster, service: str) -> Cluster:
    """Return the cluster with only the first partition of a service, so that it can be a parent."""
    others = [p.name for p in cluster.partitions if p.service == service][1:]
    return attrs.evolve(
        cluster,
        partitions=tuple(p for p in cluster.partitions if p.name not in others),
        loads={(name, node): load for (name, node), load in cluster.loads.items() if name not in others},
    )


KINDS = ("fault", "upgrade")


def standing(partition: Partition) -> list[Replica]:
    """Return the replicas that count for constraints: neither leaving nor standbys."""
    return [r for r in partition.replicas if not r.leaving and r.state is not ReplicaState.STANDBY]


def is_allowed(service: Service, node: Node) -> bool:
    """Return whether a service allows a node, up or not."""
    return node.name not in service.blocked_nodes and TESTS[service.placement_constraint](node.properties)


def takes_new(node: Node) -> bool:
    """Return whether a node accepts new replicas (docs/constraints/node.md)."""
    checking = node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    comes_back = node.deactivation_intent in (DeactivationIntent.PAUSE, DeactivationIntent.RESTART)
    return node.up and (node.deactivation_intent is DeactivationIntent.NONE or (comes_back and checking))


def overloads_by_hand(cluster: Cluster) -> list[tuple[str, str, Fraction]]:
    """Return node, metric and load for each node in service at or above f·c."""
    found = []
    for node in cluster.nodes:
        if not node.up or node.deactivation_intent is not DeactivationIntent.NONE:
            continue
        for metric in cluster.metrics:
            load = sum(
                Fraction(cluster.loads[p.name, r.node].get(metric.name, 0))
                for p in cluster.partitions
                for r in p.replicas
                if r.node == node.name and not r.leaving
            )
            capacity = node.capacities.get(metric.name)
            if capacity is not None and 0 < load >= Fraction(str(metric.violation_threshold)) * Fraction(capacity):
                found.append((node.name, metric.name, load))
    return found


def misplaced_by_hand(cluster: Cluster) -> list[tuple[str, str, bool]]:
    """Return partition, node and whether the block list excludes it, for replicas on nodes not allowed for them."""
    nodes = {node.name: node for node in cluster.nodes}
    return [
        (p.name, r.node, r.node in cluster.service_of(p.name).blocked_nodes)
        for p in cluster.partitions
        for r in standing(p)
        if not is_allowed(cluster.service_of(p.name), nodes[r.node])
    ]


def uneven_by_hand(cluster: Cluster, kind: str) -> list[tuple[str, int, str, int, int, int]]:
    """Return partition, level, domain, count, least and most of each domain with too many or too few replicas."""
    found = []
    for partition in cluster.partitions:
        service = cluster.service_of(partition.name)
        fitting = {node.name for node in cluster.nodes if is_allowed(service, node)}
        usable = {node.name for node in cluster.nodes if takes_new(node) and node.name in fitting}
        levels = domain_groups(cluster, kind)
        counts = []
        for groups in levels:
            domains = dict.fromkeys((groups[name] for name in groups if name in usable), 0)
            for replica in standing(partition):
                if groups[replica.node] in domains:
                    domains[groups[replica.node]] += 1
            counts.append(domains)
        for level, most in limits_by_hand(cluster, kind, service, [len(domains) for domains in counts]):
            domains = dict(counts[level])
            for replica in standing(partition) if most is not None else ():
                domain = levels[level][replica.node]
                if domain not in counts[level] and replica.node in fitting:
                    domains[domain] = domains.get(domain, 0) + 1
            for parent in {above for above, _ in domains}:
                inside = {domain: count for (above, domain), count in domains.items() if above == parent}
                mean = Fraction(sum(inside.values()), len(inside))
                low, high = (math.floor(mean), math.ceil(mean)) if most is None else (0, most)
                found += [
                    (partition.name, level + 1, name_of(domain), count, low, high)
                    for domain, count in inside.items()
                    if not low <= count <= high and sum(inside.values())
                ]
    return found


def limits_by_hand(cluster: Cluster, kind: str, service: Service, domains: list[int]) -> list[tuple[int, int | None]]:
    """Return the levels that bind a service, with the most replicas of a domain; None: an even spread."""
    if service.on_every_node or cluster.config[f"{kind}_domain_constraint_priority"] < 0 or not domains:
        return []
    if kind == "fault" and "Ignore" in service.placement_constraint:
        return []
    if kind == "fault" and "Nonpacking" in service.placement_constraint:
        return [(0, 1)]
    if not cluster.config[f"quorum_based_replica_distribution_per_{kind}_domains"]:
        return [(level, None) for level in range(len(domains))]
    first = next((level for level, count in enumerate(domains) if count >= 2), None)
    if first is None:
        return []
    target = service.target_replicas
    most = max(target - (target // 2 + 1), 1)
    return [(first, most + 1 if domains[first] * most < target else most)]


def name_of(domain: tuple[str, ...] | str) -> str:
    return domain if isinstance(domain, str) else "fd:/" + "/".join(domain)


def apart_by_hand(cluster: Cluster, engine: PlacementAndLoadBalancing) -> list[tuple[str, str]]:
    """Return partition and node of the children that are apart from their parent."""
    found = []
    for child in cluster.partitions:
        service = cluster.service_of(child.name)
        parents = [p for p in cluster.partitions if p.service == service.affinity_to]
        if not parents:
            continue
        if len(parents) > 1 or not engine.replicas(parents[0].name):
            found += [(child.name, r.node) for r in standing(child)]
            continue
        beside = {r.node: r.role for r in standing(parents[0])}
        slots = [engine.replicas(p.name) for p in (child, parents[0])]
        aligned = service.aligned and all(any(r.role is PRIMARY for r in of) for of in slots)
        larger = service.target_replicas > cluster.service_of(parents[0].name).target_replicas
        for replica in standing(child):
            others = {r.node for r in standing(child) if r is not replica}
            if replica.node in beside:
                wrong = aligned and (replica.role is PRIMARY) != (beside[replica.node] is PRIMARY)
            else:
                wrong = not (larger and beside.keys() <= others)
            if wrong:
                found.append((child.name, replica.node))
    return found


def check_violations(cluster: Cluster) -> None:
    """Compare the violations of a cluster with those of plain rules; soft rules are told only on request."""
    engine = cluster.engine()
    found = engine.violations(soft=True)
    hard = tuple(one for one in found if isinstance(one, NodeViolation) or one.priority == 0)
    assert engine.violations() == hard
    assert all(str(one) and one.rule and dict(one.numbers) is not None for one in found)
    of = {kind: [one for one in found if isinstance(one, kind)] for kind in (NodeViolation, Misplaced, Apart)}
    assert [(v.node, v.metric, Fraction(v.load)) for v in of[NodeViolation]] == overloads_by_hand(cluster)
    misplaced = sorted((m.partition, m.node, m.constraint is None) for m in of[Misplaced])
    assert misplaced == sorted(misplaced_by_hand(cluster))
    for kind in KINDS:
        uneven = sorted(
            (u.partition, u.level, u.domain, u.replicas, u.least, u.most)
            for u in found
            if isinstance(u, UnevenSpread) and u.rule == f"{kind}_domain"
        )
        assert uneven == sorted(uneven_by_hand(cluster, kind))
    assert sorted((a.partition, a.node) for a in of[Apart]) == sorted(apart_by_hand(cluster, engine))


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_violations_equal_those_of_plain_rules(count):
    """Nodes, replicas, domains and children are exactly those that break the rules in plain Python."""

    @examples(count)
    @given(varied_clusters())
    def check(cluster):
        check_violations(cluster)

    check()


CALLS = {
    "place": lambda engine: engine.place(budget=120),
    "repair": lambda engine: engine.repair(budget=120),
    "balance": lambda engine: engine.balance(budget=120),
    "refresh": lambda engine: engine.refresh(0.0, budget=120),
}


@pytest.mark.parametrize("domains", [False, True], ids=["all at once", "one action per domain"])
@pytest.mark.parametrize("call", CALLS)
@examples(60)
@given(cluster=st.one_of(all_clusters(), varied_clusters()))
def test_every_partition_has_an_explanation(call, domains, cluster):
    """An explanation is never an error and never empty; its nodes and domains exist."""
    engine = cluster.engine(one_action_per_refresh=domains)
    plan = CALLS[call](engine)
    for partition in cluster.partitions:
        text = plan.explain(partition.name)
        assert partition.name in text
        assert text.endswith(".")
    names = {node.name for node in cluster.nodes}
    known = {
        name_of(domain[1]) for kind in KINDS for groups in domain_groups(cluster, kind) for domain in groups.values()
    }
    for move in plan.moves:
        assert move.reason.node is None or move.reason.node in names
        assert move.reason.domain is None or move.reason.domain in known
    for refusal in plan.unplaced:
        assert refusal.fitting + sum(refusal.ruled_out.values()) == len(names)
        assert refusal.fitting >= 0
        assert len({one.rule for one in refusal.diagnosis}) == len(refusal.diagnosis)
        for one in refusal.diagnosis:
            check_diagnosis(one, names, known)
    assert {name for one in plan.outcomes for name in one.partitions} == {p.name for p in cluster.partitions}
    assert all({*one.phases, *one.idle} == set(Phase) for one in plan.outcomes)


def check_diagnosis(one: Any, nodes: set[str], domains: set[str]) -> None:
    """Assert that the numbers of one rule agree with its count, and that its names exist."""
    assert 0 < one.nodes <= len(nodes)
    if one.rule == "node":
        assert sum(one.states.values()) == one.nodes
        assert "up" not in one.states
    elif one.rule == "exclusion":
        assert len(one.names) == one.nodes
        assert set(one.names) <= nodes
    elif one.rule == "placement":
        assert one.blocked + one.unfit == one.nodes
    elif one.rule in ("fault_domain", "upgrade_domain"):
        assert one.domains
        assert all(full.domain in domains and full.replicas >= full.most for full in one.domains)
    elif one.rule == "capacity":
        assert sum(short.nodes for short in one.shortages) >= one.nodes
        assert all(short.free < short.needed and short.emptiest in nodes for short in one.shortages)
    elif one.rule == "affinity":
        assert set(one.together_on) <= nodes
