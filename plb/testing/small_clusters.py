"""A strategy for clusters so small that a counterexample is readable: few choices, so that it shrinks fast."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st

from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.testing.cluster import Cluster
from plb.testing.cluster_strategies import METRICS
from plb.testing.histories import CLASSES

Fields: TypeAlias = st.SearchStrategy[dict[str, Any]]
_CAPACITY = st.sampled_from([None, 20, 10])
_DOMAIN = st.sampled_from([None, "fd:/a", "fd:/b"])
_TRAITS: Fields = st.sampled_from(
    [{}, {"upgrade_domain": "ud0"}, {"upgrade_domain": "ud1"}, {"properties": {"ssd": "true"}}, {"up": False}]
)
"""Further properties of a node; one at a time, because few choices shrink fast."""
_HABITS: Fields = st.sampled_from(
    [{}, {"tenant_class": CLASSES[1]}, {"move_cost": MoveCost.HIGH}, {"move_cost": MoveCost.ZERO}]
)
"""Further properties of a service."""
_UNIT = st.sampled_from([1, 10_000])
"""Factors of loads and capacities; squares of the larger ones are beyond 32 bits."""


@attrs.frozen
class _Group:
    """A partition in a few numbers: its replicas are on consecutive nodes."""

    stateful: bool
    first: int
    loads: list[tuple[int, ...]]
    waiting: int
    leaving: bool
    habits: dict[str, Any]


def _groups(metrics: int, unit: int, services: Fields) -> st.SearchStrategy[list[_Group]]:
    load = st.tuples(*[st.integers(0, 12).map(lambda units: units * unit)] * metrics)
    group = st.builds(
        _Group,
        stateful=st.booleans(),
        first=st.integers(0, 4),
        loads=st.lists(load, min_size=1, max_size=3),
        waiting=st.integers(0, 1),
        leaving=st.booleans(),
        habits=services,
    )
    return st.lists(group, min_size=2, max_size=4)


@st.composite
def small_clusters(draw: st.DrawFn, *, nodes: Fields = _TRAITS, services: Fields = _HABITS) -> Cluster:
    """Generate two to five nodes, two to four partitions, one to three metrics, and perhaps a history.

    Parameters
    ----------
    nodes
        Strategy of fields of a `Node`, such as the ``properties`` that the data of an extension are about; they replace
        what is drawn otherwise.
    services
        Strategy of fields of a `Service`, likewise, but not of ``stateful``, which its partition has to fit.
    """
    names = METRICS[: draw(st.integers(1, 3))]
    unit = draw(_UNIT)
    capacities = draw(st.lists(st.tuples(_CAPACITY, _DOMAIN, nodes), min_size=2, max_size=5))
    made_nodes = tuple(
        _node(f"n{i}", {} if capacity is None else dict.fromkeys(names, capacity * unit), domain, traits)
        for i, (capacity, domain, traits) in enumerate(capacities)
    )
    groups = draw(_groups(len(names), unit, services))
    made = [_partition(group, f"p{i}", made_nodes) for i, group in enumerate(groups)]
    history = draw(st.none() | _peaks(len(names), unit))
    return Cluster(
        metrics=tuple(Metric(name) for name in names),
        config={} if history is None else {"repetitions": draw(st.integers(1, 4))},
        nodes=made_nodes,
        services=tuple(_service(group, f"s{i}", names, len(made_nodes)) for i, group in enumerate(groups)),
        partitions=tuple(made),
        loads={
            (partition.name, replica.node): dict(zip(names, load, strict=True))
            for group, partition in zip(groups, made, strict=True)
            for load, replica in zip([*group.loads, group.loads[0]], partition.replicas, strict=False)
        },
        history=history,
        seed=0,
    )


def _node(name: str, capacities: dict[str, float], domain: str | None, traits: dict[str, Any]) -> Node:
    return Node(name, **{"capacities": capacities, "fault_domain": domain, **traits})


def _service(group: _Group, name: str, metrics: tuple[str, ...], nodes: int) -> Service:
    load = dict(zip(metrics, group.loads[0], strict=True))
    roles = [Role.PRIMARY, Role.SECONDARY] if group.stateful else [Role.INSTANCE]
    target = min(len(group.loads), nodes) + group.waiting
    fields: dict[str, Any] = {
        "stateful": group.stateful,
        "target_replicas": target,
        "default_load": dict.fromkeys(roles, load) if group.waiting else {},
        "tenant_class": CLASSES[0],
    }
    return Service(name, **{**fields, **group.habits})


def _partition(group: _Group, name: str, nodes: tuple[Node, ...]) -> Partition:
    others = Role.SECONDARY if group.stateful else Role.INSTANCE
    standing = min(len(group.loads), len(nodes))
    places = [nodes[(group.first + i) % len(nodes)].name for i in range(len(nodes))]
    roles = [Role.PRIMARY if group.stateful else others, *[others] * standing]
    replicas = [Replica(role, place) for role, place in zip(roles, places[:standing], strict=False)]
    if group.leaving and standing < len(nodes):
        replicas.append(Replica(replicas[-1].role, places[standing], leaving=True))
    return Partition(name, service=f"s{name[1:]}", replicas=replicas)


@st.composite
def _peaks(draw: st.DrawFn, metrics: int, unit: int) -> dict[str, Any]:
    """Columns of a history of a few traces that are at their peak from the start."""
    trace = st.tuples(st.sampled_from(list(Role)), st.tuples(*[st.integers(0, 16)] * metrics))
    traces = draw(st.lists(trace, min_size=1, max_size=4))
    level = [[units * unit for units in peak] for _, peak in traces]
    still = [[0] * metrics for _ in traces]
    return {
        "tenant_class": [CLASSES[0]] * len(traces),
        "role": [role for role, _ in traces],
        "lifetime": [10] * len(traces),
        "level": level,
        "initial": still,
        "growth": still,
        "maximum": level,
    }
