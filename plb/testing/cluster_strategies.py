"""Strategies for whole small clusters: nodes in domains, services, partitions, loads and settings.

`walks` is the strategy for sequences of proposals from a configuration.
"""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal
from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.settings.extensions import NEIGHBOURHOODS
from plb.testing.cluster import Cluster
from plb.testing.histories import peak_columns

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


@st.composite
def nodes(draw: st.DrawFn, metrics: tuple[Metric, ...], *, down: bool = True) -> tuple[Node, ...]:
    """One to eight nodes; fault domains absent, flat, nested or of uneven depth; upgrade domains absent or shared."""
    count = draw(st.integers(1, 8))
    style = draw(st.sampled_from(["none", "flat", "nested", "uneven"]))
    paths: dict[str, st.SearchStrategy[str | None]] = {
        "none": st.none(),
        "flat": st.sampled_from(["fd:/a", "fd:/b", "fd:/c"]),
        "nested": st.sampled_from(["fd:/a/1", "fd:/a/2", "fd:/b/1", "fd:/b/2", "fd:/b/3"]),
        "uneven": st.sampled_from(["fd:/a", "fd:/b/1", "fd:/b/2", "fd:/c/1/x", "fd:/c/1/y"]),
    }
    upgrades = draw(st.sampled_from([st.none(), st.sampled_from(["ud0", "ud1", "ud2"])]))
    some = st.lists(st.sampled_from([metric.name for metric in metrics]), unique=True)
    return tuple(
        Node(
            f"n{index}",
            capacities={name: draw(capacities) for name in draw(some)},
            fault_domain=draw(paths[style]),
            upgrade_domain=draw(upgrades),
            properties=draw(st.sampled_from([{}, {"zone": "z0"}, {"zone": "z1"}, {"zone": "z0", "ssd": "true"}])),
            up=not down or draw(st.sampled_from([True, True, True, False])),
        )
        for index in range(count)
    )


@st.composite
def services(draw: st.DrawFn, metrics: tuple[Metric, ...]) -> tuple[Service, ...]:
    """One to three services, stateful or not, of one to four replicas."""
    loads = st.fixed_dictionaries({}, optional={metric.name: quantities for metric in metrics})
    made = []
    for index in range(draw(st.integers(1, 3))):
        stateful = draw(st.booleans())
        roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
        made.append(
            Service(
                f"s{index}",
                stateful=stateful,
                tenant_class=draw(st.sampled_from([None, "gold", "silver", "unheard-of"])),
                target_replicas=draw(st.integers(1, 4)),
                default_load={role: draw(loads) for role in roles},
                placement_constraint=draw(st.sampled_from(["", "", *CONSTRAINTS])),
                move_cost=draw(st.sampled_from(MoveCost)),
                max_moves=draw(st.sampled_from([None, None, 0, 1, 2])),
            )
        )
    return tuple(made)


@st.composite
def partitions(draw: st.DrawFn, cluster_nodes: tuple[Node, ...], service: Service, name: str) -> Partition:
    """Draw a partition with some of its replicas placed, some pinned, perhaps one on its way out."""
    free = list(draw(st.permutations([node.name for node in cluster_nodes])))
    standing = draw(st.integers(0, min(service.target_replicas, len(free))))
    replicas = []
    for index in range(standing):
        first = Role.PRIMARY if index == 0 else Role.SECONDARY
        role = first if service.stateful else Role.INSTANCE
        replicas.append(Replica(role, free.pop(), pinned=draw(st.sampled_from([False, False, False, True]))))
    if free and standing and draw(st.sampled_from([False, False, True])):
        replicas.append(Replica(replicas[-1].role, free.pop(), leaving=True))
    return Partition(name, service=service.name, replicas=replicas, created=float(draw(st.integers(-20, 0))))


@st.composite
def settings_of_engines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings that change what energy and constraints mean, and weights that make moves worth their while."""
    return {
        "combination": draw(st.sampled_from(["additive", "service_fabric"])),
        "capacity_limit": draw(st.sampled_from(["threshold", "capacity"])),
        "w_failovers": draw(st.sampled_from([0.0, 0.1, 5.0])),
        "w_overload": draw(st.sampled_from([0.0, 1.0, 100.0])),
        "w_imbalance": draw(st.sampled_from([1.0, 100.0])),
        "w_fragmentation": draw(st.sampled_from([0.0, 1.0, 30.0])),
        "move_cost_offset": draw(st.sampled_from([1000.0, 10.0])),
        "held_out_nodes": draw(st.integers(0, 3)),
        "use_move_cost_reports": draw(st.booleans()),
        "fault_domain_constraint_priority": draw(st.sampled_from([0, 0, 1, -1])),
        "upgrade_domain_constraint_priority": draw(st.sampled_from([1, 1, 0, -1])),
        "swap_primary_probability": draw(st.sampled_from([0.3, 0.0, 0.6])),
        "exchange_probability": draw(st.sampled_from([0.1, 0.0, 0.4])),
        "similar_exchange_share": draw(st.sampled_from([0.0, 0.5])),
        "exchange_moved_replicas": draw(st.booleans()),
        "larger_neighbourhood_share": draw(st.sampled_from([0.0, 0.5])),
        "larger_neighbourhoods": draw(st.sampled_from([NEIGHBOURHOODS, ("node", "partition"), ("service",)])),
        "cooling": draw(st.sampled_from(["by_round", "by_budget"])),
        "restarts": draw(st.sampled_from([0, 0, 1])),
        "max_percentage_to_move": draw(st.sampled_from([0.3, 1.0, 0.5])),
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
            weight=draw(st.sampled_from([1.0, 0.5, 0.0])),
            violation_threshold=draw(st.sampled_from([0.95, 1, 0.5])),
            quantum=draw(st.sampled_from([None, 0.25])),
            transient=draw(st.sampled_from([False, False, True])),
        )
        for name in METRICS[: draw(st.integers(1, 3))]
    )
    cluster_nodes = draw(nodes(metrics, down=down))
    cluster_services = draw(services(metrics))
    made = tuple(
        draw(partitions(cluster_nodes, draw(st.sampled_from(cluster_services)), f"p{index}"))
        for index in range(draw(st.integers(1, 5)))
    )
    if complete:
        made = tuple(p for p in made if p.replicas)
        cluster_services = tuple(attrs.evolve(s, target_replicas=1) for s in cluster_services)
    load = st.fixed_dictionaries({metric.name: quantities for metric in metrics})
    loads = {(p.name, replica.node): draw(load) for p in made for replica in p.replicas}
    has_history = draw(st.booleans()) if with_history is None else with_history
    return Cluster(
        metrics=metrics,
        config=draw(settings_of_engines() if config is None else config),
        nodes=cluster_nodes,
        services=cluster_services,
        partitions=made,
        loads=loads,
        history=draw(peak_columns(len(metrics))) if has_history else None,
        seed=draw(st.integers(0, 3)),
    )


@st.composite
def walks(
    draw: st.DrawFn, configuration: Configuration, *, steps: int = 12, usable_only: bool = False
) -> list[Proposal]:
    """Proposals for a walk from `configuration`; they are random, so that they may break every rule.

    Moves, swaps, exchanges, and rows removed from their node; rows that are leaving stay on their nodes.
    """
    problem = configuration.problem
    node = configuration.solution.node.copy()
    rows = configuration.rows.tolist()
    places = [int(n) for n in problem.targets] if usable_only else list(range(len(problem.limit)))
    walk: list[Proposal] = []
    for _ in range(draw(st.integers(0, steps)) if rows and places else 0):
        row = draw(st.sampled_from(rows))
        partner = draw(st.sampled_from([NOWHERE, NOWHERE, *rows]))
        target = draw(st.sampled_from(places if usable_only else [*places, NOWHERE]))
        if partner != NOWHERE:
            target = int(node[partner])
            if NOWHERE in (node[row], target) or (usable_only and target not in places):
                continue
        if partner == row or target == node[row]:
            continue
        if partner != NOWHERE:
            node[partner] = node[row]
        node[row] = target
        walk.append(Proposal(row, target, partner))
    return walk
