"""Hypothesis strategies for whole small clusters, shared by the tests of the engine.

A `Cluster` is what a user would say, as plain values: it can be built into any number of engines, and oracles read it
without looking at the engine's arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st

from plb import Metric, MoveCost, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.configuration import Configuration, Proposal
from plb.problem import start_solution
from plb.risk import DemandHistory

METRICS = ("cpu", "memory", "disk")
CLASSES = ("gold", "silver")
CONSTRAINTS = {
    "": lambda _: True,
    "zone == z0": lambda p: p.get("zone") == "z0",
    "zone != z0 || ssd == true": lambda p: "zone" in p and (p["zone"] != "z0" or p.get("ssd") == "true"),
}
"""Placement constraints and what they mean, in plain Python, for the properties that `nodes` draws."""


def examples(count: int) -> settings:
    """Return settings of a property: no deadline, since the first example compiles kernels."""
    return settings(deadline=None, max_examples=count)


@attrs.frozen
class Cluster:
    """A cluster as its user describes it; loads in user units, by partition and node."""

    metrics: tuple[Metric, ...]
    config: Mapping[str, Any]
    nodes: tuple[Node, ...]
    services: tuple[Service, ...]
    partitions: tuple[Partition, ...]
    loads: Mapping[tuple[str, str], Mapping[str, float]]
    history: Mapping[str, Any] | None
    seed: int

    def engine(self, **changes: Any) -> PlacementAndLoadBalancing:
        """Return an engine that knows this cluster; `changes` go to its configuration."""
        config = PlbConfig(metrics=self.metrics, **{**self.config, **changes})
        names = [metric.name for metric in self.metrics]
        history = None if self.history is None else DemandHistory.from_columns(names, **self.history)
        engine = PlacementAndLoadBalancing(config, seed=self.seed, history=history)
        for node in self.nodes:
            engine.update_node(node)
        for service in self.services:
            engine.update_service(service)
        for partition in self.partitions:
            engine.update_partition(partition)
        for (partition, node), load in self.loads.items():
            engine.report_load(partition, node, load)
        return engine

    def partition_of(self, name: str) -> Partition:
        """Return a partition by name."""
        return next(p for p in self.partitions if p.name == name)

    def service_of(self, partition: str) -> Service:
        """Return the service of a partition by name."""
        name = next(p.service for p in self.partitions if p.name == partition)
        return next(service for service in self.services if service.name == name)

    def load_of(self, partition: str, role: Role, node: str | None) -> dict[str, Fraction]:
        """Return the load of a replica: as reported for `node`, else the default of its service."""
        default = self.service_of(partition).default_load.get(role, {})
        load = default if node is None else self.loads[partition, node]
        return {metric.name: Fraction(load.get(metric.name, 0)) for metric in self.metrics}


def configuration_of(engine: PlacementAndLoadBalancing, now: float = 0.0) -> Configuration:
    """Return the engine's present configuration, on arrays of its own."""
    problem = engine._planner.problem(now)
    return Configuration(problem, start_solution(problem))


quantities = st.integers(0, 12) | st.integers(0, 48).map(lambda quarters: quarters / 4)
"""Loads and levels: zero, whole numbers and quarters, all of them whole numbers of steps."""
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
def history_columns(draw: st.DrawFn, metrics: int) -> dict[str, Any]:
    """Columns of a history of 2 to 20 traces."""
    traces = draw(st.integers(2, 20))
    row = st.lists(st.integers(0, 16), min_size=metrics, max_size=metrics)
    level = [draw(row) for _ in range(traces)]
    return {
        "tenant_class": [draw(st.sampled_from(CLASSES)) for _ in range(traces)],
        "role": [draw(st.sampled_from(list(Role))) for _ in range(traces)],
        "lifetime": [draw(st.integers(0, 40)) for _ in range(traces)],
        "level": level,
        "initial": [[value // 2 for value in values] for values in level],
        "growth": [[0] * metrics] * traces,
        "maximum": level,
    }


@st.composite
def settings_of_engines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings that change what energy and constraints mean, and weights that make moves worth their while."""
    return {
        "combination": draw(st.sampled_from(["additive", "service_fabric"])),
        "capacity_limit": draw(st.sampled_from(["threshold", "capacity"])),
        "w_failovers": draw(st.sampled_from([0.0, 0.1, 5.0])),
        "w_imbalance": draw(st.sampled_from([1.0, 100.0])),
        "w_fragmentation": draw(st.sampled_from([0.0, 1.0, 30.0])),
        "move_cost_offset": draw(st.sampled_from([1000.0, 10.0])),
        "held_out_nodes": draw(st.integers(0, 3)),
        "use_move_cost_reports": draw(st.booleans()),
        "fault_domain_constraint_priority": draw(st.sampled_from([0, 0, 1, -1])),
        "upgrade_domain_constraint_priority": draw(st.sampled_from([1, 1, 0, -1])),
        "swap_primary_probability": draw(st.sampled_from([0.3, 0.0, 0.6])),
        "exchange_probability": draw(st.sampled_from([0.1, 0.0, 0.4])),
        "max_percentage_to_move": draw(st.sampled_from([0.3, 1.0, 0.5])),
        "repetitions": draw(st.integers(1, 12)),
        "max_simulated_annealing_iterations": 6,
        "simulated_annealing_iterations_per_round": 40,
        "chains": 2,
        "threads": 1,
    }


@st.composite
def clusters(
    draw: st.DrawFn, *, down: bool = True, complete: bool = False, with_history: bool | None = None
) -> Cluster:
    """Small clusters of every kind.

    Parameters
    ----------
    down
        Whether nodes may be down.
    complete
        True: no replica is missing, since each service aims at what stands.
    with_history
        Whether there is a demand history; None: perhaps.
    """
    metrics = tuple(
        Metric(
            name,
            weight=draw(st.sampled_from([1.0, 0.5, 0.0])),
            violation_threshold=draw(st.sampled_from([0.95, 1, 0.5])),
            step=draw(st.sampled_from([None, 0.25])),
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
        made = tuple(attrs.evolve(p, replicas=p.replicas) for p in made if p.replicas)
        aims = {p.service: 1 for p in made}
        cluster_services = tuple(attrs.evolve(s, target_replicas=aims.get(s.name, 1)) for s in cluster_services)
    load = st.fixed_dictionaries({metric.name: quantities for metric in metrics})
    loads = {(p.name, replica.node): draw(load) for p in made for replica in p.replicas}
    has_history = draw(st.booleans()) if with_history is None else with_history
    return Cluster(
        metrics=metrics,
        config=draw(settings_of_engines()),
        nodes=cluster_nodes,
        services=cluster_services,
        partitions=made,
        loads=loads,
        history=draw(history_columns(len(metrics))) if has_history else None,
        seed=draw(st.integers(0, 3)),
    )


@st.composite
def walks(
    draw: st.DrawFn, configuration: Configuration, *, steps: int = 12, usable_only: bool = False
) -> list[Proposal]:
    """Proposals for a walk from `configuration`; they are drawn blindly, so that they may break every rule.

    Moves, swaps, exchanges, and rows taken off their node; rows that are leaving stay where they are.
    """
    problem = configuration.problem
    node = configuration.solution.node.copy()
    rows = [row for row in range(len(node)) if row in _used(configuration) and not problem.leaving[row]]
    places = [int(n) for n in problem.targets] if usable_only else list(range(len(problem.limit)))
    walk: list[Proposal] = []
    for _ in range(draw(st.integers(0, steps)) if rows and places else 0):
        row = draw(st.sampled_from(rows))
        partner = draw(st.sampled_from([-1, -1, *rows]))
        target = draw(st.sampled_from(places if usable_only else [*places, -1]))
        if partner != -1:
            target = int(node[partner])
            if -1 in (node[row], target) or (usable_only and target not in places):
                continue
        if partner == row or target == node[row]:
            continue
        if partner != -1:
            node[partner] = node[row]
        node[row] = target
        walk.append(Proposal(row, target, partner))
    return walk


def _used(configuration: Configuration) -> set[int]:
    """Return the rows that stand, wait or leave: all that a service has given load, a ring or a place."""
    problem = configuration.problem
    return {row for row in range(len(problem.origin)) if problem.movable[row] or problem.origin[row] >= 0}


@st.composite
def busy_clusters(draw: st.DrawFn) -> Cluster:
    """Draw clusters in which there is much to do: uneven, tight, with replicas that swap, move and find no place.

    Hypothesis draws sizes and settings; loads and places come from one drawn seed, since values that are drawn one by
    one are mostly small and alike, and such clusters are at rest.
    """
    random = draw(st.builds(Random, st.integers(0, 2**20)))
    step, parts = draw(st.sampled_from([(None, 4), (1.0, 1)]))  # whole loads meet limits exactly more often
    metrics = tuple(Metric(name, step=step) for name in METRICS[: draw(st.integers(1, 3))])
    cluster_nodes = _busy_nodes(draw, random, metrics)
    cluster_services = _busy_services(draw, random, metrics)
    complete = draw(st.booleans())
    made = tuple(
        _busy_partition(random, cluster_nodes, random.choice(cluster_services), f"p{index}", complete)
        for index in range(draw(st.integers(3, 10)))
    )
    loads = {
        (p.name, r.node): {
            metric.name: random.randint(0, 12 * parts) / parts * (3 if r.role == Role.PRIMARY else 1)
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
        history=draw(history_columns(len(metrics))) if draw(st.booleans()) else None,
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
    """Draw services of all kinds, most of them without a placement constraint, whose replicas carry some load."""
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
