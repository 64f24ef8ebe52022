"""Strategies for whole small clusters: nodes in domains, services, partitions, loads and settings.

`walks` is the strategy for sequences of proposals from a configuration.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal
from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.settings.config import NEIGHBOURHOODS
from plb.testing.cluster import Cluster
from plb.testing.histories import CLASSES, choice, peak_columns

METRICS = ("cpu", "memory", "disk")
CONSTRAINTS = {
    "": lambda _: True,
    "zone == z0": lambda p: p.get("zone") == "z0",
    "zone != z0 || ssd == true": lambda p: "zone" in p and (p["zone"] != "z0" or p.get("ssd") == "true"),
}
"""Placement constraints and their meaning in plain Python, for the properties that `nodes` generates."""


quantities = st.integers(0, 12) | st.integers(0, 48).map(lambda quarters: quarters / 4)
"""Loads and levels: zero, whole numbers and quarters, all of them whole numbers of quanta."""
capacities = st.integers(8, 40) | st.just(0)
"""Capacities of a node, in user units."""
_PROPERTIES = st.sampled_from([{}, {"zone": "z0"}, {"zone": "z1"}, {"zone": "z0", "ssd": "true"}])


@st.composite
def nodes(draw: st.DrawFn, metrics: tuple[Metric, ...], *, down: bool = True) -> tuple[Node, ...]:
    """One to eight nodes; fault domains absent, flat, nested or of uneven depth; upgrade domains absent or shared."""
    count = draw(st.integers(1, 8))
    style = draw(choice("none", "flat", "nested", "uneven"))
    paths: dict[str, tuple[str | None, ...]] = {
        "none": (None,),
        "flat": ("fd:/a", "fd:/b", "fd:/c"),
        "nested": ("fd:/a/1", "fd:/a/2", "fd:/b/1", "fd:/b/2", "fd:/b/3"),
        "uneven": ("fd:/a", "fd:/b/1", "fd:/b/2", "fd:/c/1/x", "fd:/c/1/y"),
    }
    upgrades = draw(choice((None,), ("ud0", "ud1", "ud2")))
    some_metrics = st.lists(choice(*(metric.name for metric in metrics)), unique=True)
    return tuple(
        Node(
            f"n{index}",
            capacities={name: draw(capacities) for name in draw(some_metrics)},
            fault_domain=draw(choice(*paths[style])),
            upgrade_domain=draw(choice(*upgrades)),
            properties=draw(_PROPERTIES),
            up=not down or draw(choice(True, True, True, False)),
        )
        for index in range(count)
    )


@st.composite
def services(draw: st.DrawFn, metrics: tuple[Metric, ...]) -> tuple[Service, ...]:
    """One to three services, stateful or not, of one to four replicas."""
    loads = st.fixed_dictionaries({}, optional={metric.name: quantities for metric in metrics})
    drawn = []
    for index in range(draw(st.integers(1, 3))):
        stateful = draw(st.booleans())
        roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
        drawn.append(
            Service(
                f"s{index}",
                stateful=stateful,
                tenant_class=draw(choice(None, "gold", "silver", "unheard-of")),
                target_replicas=draw(st.integers(1, 4)),
                default_load={role: draw(loads) for role in roles},
                placement_constraint=draw(choice("", "", *CONSTRAINTS)),
                move_cost=draw(choice(*MoveCost)),
                max_moves=draw(choice(None, None, 0, 1, 2)),
            )
        )
    return tuple(drawn)


@st.composite
def partitions(draw: st.DrawFn, cluster_nodes: tuple[Node, ...], service: Service, name: str) -> Partition:
    """Draw a partition of a service: some replicas are on nodes of the cluster, some pinned, and one may be leaving."""
    free = list(draw(st.permutations([node.name for node in cluster_nodes])))
    placed = draw(st.integers(0, min(service.target_replicas, len(free))))
    replicas = []
    for index in range(placed):
        first_role = Role.PRIMARY if index == 0 else Role.SECONDARY
        role = first_role if service.stateful else Role.INSTANCE
        replicas.append(Replica(role, free.pop(), pinned=draw(choice(False, False, False, True))))
    if free and placed and draw(choice(False, False, True)):
        replicas.append(Replica(replicas[-1].role, free.pop(), leaving=True))
    return Partition(name, service=service.name, replicas=replicas, created=float(draw(st.integers(-20, 0))))


@st.composite
def settings_of_engines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings that change what energy and constraints mean, and weights that make moves worth their while."""
    return {
        "combination": draw(choice("additive", "service_fabric")),
        "capacity_limit": draw(choice("threshold", "capacity")),
        "w_failovers": draw(choice(0.0, 0.1, 5.0)),
        "w_overload": draw(choice(0.0, 1.0, 100.0)),
        "w_imbalance": draw(choice(1.0, 100.0)),
        "w_fragmentation": draw(choice(0.0, 1.0, 30.0)),
        "move_cost_offset": draw(choice(1000.0, 10.0)),
        "held_out_nodes": draw(st.integers(0, 3)),
        "use_move_cost_reports": draw(st.booleans()),
        "fault_domain_constraint_priority": draw(choice(0, 0, 1, -1)),
        "upgrade_domain_constraint_priority": draw(choice(1, 1, 0, -1)),
        "swap_primary_probability": draw(choice(0.3, 0.0, 0.6)),
        "exchange_probability": draw(choice(0.1, 0.0, 0.4)),
        "similar_exchange_share": draw(choice(0.0, 0.5)),
        "exchange_moved_replicas": draw(st.booleans()),
        "larger_neighbourhood_share": draw(choice(0.0, 0.5)),
        "larger_neighbourhoods": draw(choice(NEIGHBOURHOODS, ("node", "partition"), ("service",))),
        "cooling": draw(choice("by_round", "by_budget")),
        "restarts": draw(choice(0, 0, 1)),
        "max_percentage_to_move": draw(choice(0.3, 1.0, 0.5)),
        "repetitions": draw(st.integers(1, 12)),
        "max_simulated_annealing_iterations": 6,
        "simulated_annealing_iterations_per_round": 40,
        "chains": 2,
        "threads": 1,
    }


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    down: bool = True,
    complete: bool = False,
    with_history: bool | None = None,
    config: st.SearchStrategy[dict[str, Any]] | None = None,
) -> Cluster:
    """Small clusters of every kind.

    Parameters
    ----------
    down
        Whether nodes may be down.
    complete
        True: no replica is missing, because every partition has one and each service has a target of at most one.
    with_history
        Whether there is a demand history; None: random.
    config
        Settings of the engine; None: `settings_of_engines`.
    """
    metrics = tuple(
        Metric(
            name,
            weight=draw(choice(1.0, 0.5, 0.0)),
            violation_threshold=draw(choice(0.95, 1, 0.5)),
            quantum=draw(choice(None, 0.25)),
            transient=draw(choice(False, False, True)),
        )
        for name in METRICS[: draw(st.integers(1, 3))]
    )
    cluster_nodes = draw(nodes(metrics, down=down))
    cluster_services = draw(services(metrics))
    cluster_partitions = tuple(
        draw(partitions(cluster_nodes, draw(st.sampled_from(cluster_services)), f"p{index}"))
        for index in range(draw(st.integers(1, 5)))
    )
    if complete:
        cluster_partitions = tuple(p for p in cluster_partitions if p.replicas)
        cluster_services = tuple(attrs.evolve(s, target_replicas=1) for s in cluster_services)
    load = st.fixed_dictionaries({metric.name: quantities for metric in metrics})
    loads = {(p.name, replica.node): draw(load) for p in cluster_partitions for replica in p.replicas}
    has_history = draw(st.booleans()) if with_history is None else with_history
    return Cluster(
        metrics=metrics,
        config=draw(settings_of_engines() if config is None else config),
        nodes=cluster_nodes,
        services=cluster_services,
        partitions=cluster_partitions,
        loads=loads,
        history=draw(peak_columns(len(metrics))) if has_history else None,
        seed=draw(st.integers(0, 3)),
    )


@st.composite
def walks(
    draw: st.DrawFn, configuration: Configuration, *, steps: int = 12, usable_only: bool = False
) -> list[Proposal]:
    """Random proposals, at most `steps`, to be applied in turn from `configuration`; they may break every rule.

    They are moves, swaps, exchanges and removals. With `usable_only`, targets are nodes that may have replicas.
    """
    problem = configuration.problem
    node = configuration.solution.node.copy()
    rows = configuration.rows.tolist()
    usable_nodes = [int(n) for n in problem.targets] if usable_only else list(range(len(problem.limit)))
    walk: list[Proposal] = []
    for _ in range(draw(st.integers(0, steps)) if rows and usable_nodes else 0):
        row = draw(st.sampled_from(rows))
        partner = draw(st.sampled_from([NOWHERE, NOWHERE, *rows]))
        target = draw(st.sampled_from(usable_nodes if usable_only else [*usable_nodes, NOWHERE]))
        if partner != NOWHERE:
            target = int(node[partner])
            if NOWHERE in (node[row], target) or (usable_only and target not in usable_nodes):
                continue
        if partner == row or target == node[row]:
            continue
        if partner != NOWHERE:
            node[partner] = node[row]
        node[row] = target
        walk.append(Proposal(row, target, partner))
    return walk


@st.composite
def busy_clusters(draw: st.DrawFn) -> Cluster:
    """Generate clusters with much work: uneven, tight, with replicas that swap, move and are not placed.

    Hypothesis generates sizes and settings; loads and places come from one generated seed, because values that are
    generated individually are mostly small and similar, and such clusters have no work.
    """
    random = draw(st.builds(Random, st.integers(0, 2**20)))
    step, parts_of_unit = draw(choice((None, 4), (1.0, 1)))  # whole loads reach limits exactly more often
    metrics = tuple(Metric(name, quantum=step) for name in METRICS[: draw(st.integers(1, 3))])
    cluster_nodes = _busy_nodes(draw, random, metrics)
    cluster_services = tuple(
        _busy_service(draw, random, metrics, f"s{index}") for index in range(draw(st.integers(1, 3)))
    )
    complete = draw(st.booleans())
    cluster_partitions = tuple(
        _busy_partition(random, cluster_nodes, random.choice(cluster_services), f"p{index}", complete)
        for index in range(draw(st.integers(3, 10)))
    )
    loads = {
        (p.name, r.node): {
            metric.name: random.randint(0, 12 * parts_of_unit) / parts_of_unit * (3 if r.role is Role.PRIMARY else 1)
            for metric in metrics
        }
        for p in cluster_partitions
        for r in p.replicas
    }
    weights = {
        "w_imbalance": 1000.0,
        "move_cost_offset": 10.0,
        "max_percentage_to_move": draw(choice(0.3, 1.0)),
    }
    return Cluster(
        metrics=metrics,
        config={**draw(settings_of_engines()), **weights},
        nodes=cluster_nodes,
        services=cluster_services,
        partitions=cluster_partitions,
        loads=loads,
        history=draw(peak_columns(len(metrics))) if draw(st.booleans()) else None,
        seed=draw(st.integers(0, 3)),
    )


def _busy_nodes(draw: st.DrawFn, random: Random, metrics: tuple[Metric, ...]) -> tuple[Node, ...]:
    """Draw nodes with large or small capacities, with or without nested fault domains, a few of them down."""
    racks = draw(choice("none", "flat", "nested"))
    tight = draw(choice(200, 60, 30))
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


def _busy_service(draw: st.DrawFn, random: Random, metrics: tuple[Metric, ...], name: str) -> Service:
    """Generate a service of any kind, mostly without a placement constraint, whose replicas have load."""
    stateful = draw(st.booleans())
    roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
    return Service(
        name,
        stateful=stateful,
        tenant_class=random.choice(CLASSES),
        target_replicas=draw(st.integers(1, 4)),
        default_load={role: {metric.name: random.randint(1, 12) for metric in metrics} for role in roles},
        placement_constraint=random.choice(["", "", "", *CONSTRAINTS]),
        move_cost=random.choice(list(MoveCost)),
        max_moves=draw(choice(None, None, None, 1, 2)),
    )


def _busy_partition(
    random: Random, cluster_nodes: tuple[Node, ...], service: Service, name: str, complete: bool
) -> Partition:
    """Return a partition mostly on the first nodes of the cluster; `complete`: no replica is missing."""
    most = min(service.target_replicas, len(cluster_nodes) - 1)
    placed = most if complete else random.randint(0, most)
    front = sorted(cluster_nodes, key=lambda node: random.random() * (1 + int(node.name[1:])))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3] if service.stateful else [Role.INSTANCE] * 4
    replicas = [
        Replica(role, node.name, pinned=random.random() < 0.1)
        for role, node in zip(roles, front[:placed], strict=False)
    ]
    if placed and random.random() < 0.1:
        replicas.append(Replica(replicas[-1].role, front[placed].name, leaving=True))
    return Partition(name, service=service.name, replicas=replicas, created=-float(random.randint(0, 20)))


def all_clusters() -> st.SearchStrategy[Cluster]:
    """Return a strategy of clusters of every kind and busy ones, about as many of each."""
    return st.booleans().flatmap(lambda busy: busy_clusters() if busy else clusters())


Fields: TypeAlias = st.SearchStrategy[dict[str, Any]]
_CAPACITY = st.sampled_from([None, 20, 10])
_DOMAIN = st.sampled_from([None, "fd:/a", "fd:/b"])
_NODE_FIELDS: Fields = st.sampled_from(
    [{}, {"upgrade_domain": "ud0"}, {"upgrade_domain": "ud1"}, {"properties": {"ssd": "true"}}, {"up": False}]
)
"""Further properties of a node; one at a time, because few choices shrink fast."""
_SERVICE_FIELDS: Fields = st.sampled_from(
    [{}, {"tenant_class": CLASSES[1]}, {"move_cost": MoveCost.HIGH}, {"move_cost": MoveCost.ZERO}]
)
"""Further properties of a service."""
_UNIT = st.sampled_from([1, 10_000])
"""Factors of loads and capacities; squares of the larger ones are beyond 32 bits."""


@attrs.frozen
class _Group:
    """A partition, with its service, in a few numbers: its replicas are on consecutive nodes."""

    stateful: bool
    """Whether the service is stateful."""
    first: int
    """Index of the node of the first replica."""
    loads: list[tuple[int, ...]]
    """Load of each placed replica, by metric."""
    waiting: int
    """Number of missing replicas."""
    leaving: bool
    """Whether a further replica leaves a node."""
    service_fields: dict[str, Any]
    """Further fields of the service."""


def _groups(metrics: int, unit: int, services: Fields) -> st.SearchStrategy[list[_Group]]:
    """Two to four groups, with a number of metrics and loads in multiples of `unit`.

    `services` draws further fields.
    """
    load = st.tuples(*[st.integers(0, 12).map(lambda units: units * unit)] * metrics)
    group = st.builds(
        _Group,
        stateful=st.booleans(),
        first=st.integers(0, 4),
        loads=st.lists(load, min_size=1, max_size=3),
        waiting=st.integers(0, 1),
        leaving=st.booleans(),
        service_fields=services,
    )
    return st.lists(group, min_size=2, max_size=4)


@st.composite
def small_clusters(draw: st.DrawFn, *, nodes: Fields = _NODE_FIELDS, services: Fields = _SERVICE_FIELDS) -> Cluster:
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
        Node(
            f"n{i}",
            **{
                "capacities": {} if capacity is None else dict.fromkeys(names, capacity * unit),
                "fault_domain": domain,
                **node_fields,
            },
        )
        for i, (capacity, domain, node_fields) in enumerate(capacities)
    )
    groups = draw(_groups(len(names), unit, services))
    made_partitions = [_partition(group, f"p{i}", made_nodes) for i, group in enumerate(groups)]
    history = draw(st.none() | _peaks(len(names), unit))
    return Cluster(
        metrics=tuple(Metric(name) for name in names),
        config={} if history is None else {"repetitions": draw(st.integers(1, 4))},
        nodes=made_nodes,
        services=tuple(_service(group, f"s{i}", names, len(made_nodes)) for i, group in enumerate(groups)),
        partitions=tuple(made_partitions),
        loads={
            (partition.name, replica.node): dict(zip(names, load, strict=True))
            for group, partition in zip(groups, made_partitions, strict=True)
            for load, replica in zip([*group.loads, group.loads[0]], partition.replicas, strict=False)
        },
        history=history,
        seed=0,
    )


def _service(group: _Group, name: str, metrics: tuple[str, ...], nodes: int) -> Service:
    """Return the service of a group in a cluster with a number of nodes."""
    load = dict(zip(metrics, group.loads[0], strict=True))
    roles = [Role.PRIMARY, Role.SECONDARY] if group.stateful else [Role.INSTANCE]
    target = min(len(group.loads), nodes) + group.waiting
    fields: dict[str, Any] = {
        "stateful": group.stateful,
        "target_replicas": target,
        "default_load": dict.fromkeys(roles, load) if group.waiting else {},
        "tenant_class": CLASSES[0],
    }
    return Service(name, **{**fields, **group.service_fields})


def _partition(group: _Group, name: str, nodes: tuple[Node, ...]) -> Partition:
    """Return the partition of a group, whose name ends with the number of its service."""
    other_role = Role.SECONDARY if group.stateful else Role.INSTANCE
    placed = min(len(group.loads), len(nodes))
    node_names = [nodes[(group.first + i) % len(nodes)].name for i in range(len(nodes))]
    roles = [Role.PRIMARY if group.stateful else other_role, *[other_role] * placed]
    replicas = [Replica(role, node_name) for role, node_name in zip(roles, node_names[:placed], strict=False)]
    if group.leaving and placed < len(nodes):
        replicas.append(Replica(replicas[-1].role, node_names[placed], leaving=True))
    return Partition(name, service=f"s{name[1:]}", replicas=replicas)


@st.composite
def _peaks(draw: st.DrawFn, metrics: int, unit: int) -> dict[str, Any]:
    """Columns of a history of a few traces that are at their peak from the start, in multiples of `unit`."""
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
