"""Small clusters in one line, for tests with explicit examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.engine_extensions import among
from plb.testing import Cluster

if TYPE_CHECKING:
    from plb.planning.phases import PhaseRun

CPU = Metric("cpu", quantum=1.0, violation_threshold=1.0)


def engine_with(
    nodes: Mapping[str, float | None] | list[Node],
    replicas: Mapping[str, tuple[str, float]],
    *,
    metric: Metric = CPU,
    original: Mapping[str, Any] | None = None,
    objects: Sequence[Any] = (),
    **settings: Any,
) -> PlacementAndLoadBalancing:
    """Return an engine with instances on nodes.

    `nodes`: the capacity of each, None: unlimited; or the nodes themselves. `replicas`: node and load of each partition
    of one instance. `original`: settings under Service Fabric's names; the others then have its defaults. `objects`:
    extensions that the settings may name.
    """
    defaults = {"capacity_limit": "capacity", "w_imbalance": 1000.0, "max_percentage_to_move": 1.0}
    if original is None:
        config = PlbConfig(metrics=[metric], **{**defaults, **settings})
    else:
        config = PlbConfig.from_service_fabric(original, metrics=[metric], **settings)
    engine = PlacementAndLoadBalancing(config, seed=3, **among(objects, config))
    if isinstance(nodes, Mapping):
        nodes = [Node(name, capacities={} if c is None else {metric.name: c}) for name, c in nodes.items()]
    for node in nodes:
        engine.update_node(node, now=-1e6)
    engine.update_service(Service("web", stateful=False))
    for name, (node_name, load) in replicas.items():
        engine.update_partition(Partition(name, service="web", replicas=[Replica(Role.INSTANCE, node_name)]))
        engine.report_load(name, node_name, {metric.name: load})
    return engine


def engine_on(
    *nodes: Node | str, metrics: str = "cpu", objects: Sequence[Any] = (), **settings: Any
) -> PlacementAndLoadBalancing:
    """Return an engine with these nodes; a plain name is a node without limits.

    `objects`: extensions that the settings may name.
    """
    config = PlbConfig(metrics=[Metric(name) for name in metrics.split()], **settings)
    engine = PlacementAndLoadBalancing(config, **among(objects, config))
    for node in nodes:
        engine.update_node(Node(node) if isinstance(node, str) else node)
    return engine


def three_nodes() -> Cluster:
    """Return a cluster with a stateful partition of two replicas, two instances and a history of four repetitions."""
    return Cluster(
        metrics=(Metric("cpu"), Metric("memory")),
        config={"repetitions": 4, "held_out_nodes": 1, "w_imbalance": 100.0, "chains": 2, "threads": 1},
        nodes=tuple(Node(f"n{i}", capacities={"cpu": 20, "memory": 40}) for i in range(3)),
        services=(
            Service("db", target_replicas=2, tenant_class="gold"),
            Service("web", stateful=False, tenant_class="silver"),
        ),
        partitions=(
            Partition("db/0", service="db", replicas=[Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]),
            Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n0")]),
            Partition("web/1", service="web", replicas=[Replica(Role.INSTANCE, "n0")]),
        ),
        loads={
            ("db/0", "n0"): {"cpu": 4, "memory": 10},
            ("db/0", "n1"): {"cpu": 1, "memory": 10},
            ("web/0", "n0"): {"cpu": 5, "memory": 2},
            ("web/1", "n0"): {"cpu": 6, "memory": 3},
        },
        history={
            "tenant_class": ["gold", "gold", "silver", "silver"],
            "role": [Role.PRIMARY, Role.SECONDARY, Role.INSTANCE, Role.INSTANCE],
            "lifetime": [100] * 4,
            "level": [[8, 12], [2, 12], [9, 4], [7, 6]],
            "initial": [[0, 0]] * 4,
            "growth": [[0, 0]] * 4,
            "maximum": [[8, 12], [2, 12], [9, 4], [7, 6]],
        },
        seed=1,
    )


def four_nodes(
    places: Sequence[str | None] = ("n0", "n1", "n2", "n3", None),
    *,
    nodes: int = 4,
    load: float = 3,
    extensions: Mapping[str, Any] | None = None,
    objects: Sequence[Any] = (),
    **settings: Any,
) -> PlacementAndLoadBalancing:
    """Return nodes of capacity 20, and partitions of one replica with this load at these places.

    `extensions`: arguments of the engine; without any, `objects`: extensions that the settings may name.
    """
    config = PlbConfig(metrics=[Metric("cpu")], **{"max_percentage_to_move": 1.0, "chains": 2, **settings})
    engine = PlacementAndLoadBalancing(config, seed=3, **(extensions or among(objects, config)))
    for index in range(nodes):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 20}))
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": load}}))
    for index, place in enumerate(places):
        replicas = [] if place is None else [Replica(Role.INSTANCE, place)]
        engine.update_partition(Partition(f"web/{index}", service="web", replicas=replicas))
    return engine


def places_of(engine: PlacementAndLoadBalancing) -> list[str | None]:
    return [engine.replicas(f"web/{index}")[0].node for index in range(5)]


def add_partition(engine: PlacementAndLoadBalancing, name: str, *replicas: Replica, **fields: Any) -> None:
    """Report a partition to the engine; the part of its name before the slash names its service."""
    engine.update_partition(Partition(name, service=name.partition("/")[0], replicas=replicas, **fields))


def add_instance(engine: PlacementAndLoadBalancing, load: float, *, name: str = "new", instances: int = 1) -> None:
    """Report a partition without replicas, of a new service with the same metric."""
    metric = engine.config.metric_names[0]
    engine.update_service(
        Service(
            f"{name}-service",
            stateful=False,
            target_replicas=instances,
            default_load={Role.INSTANCE: {metric: load}},
        )
    )
    engine.update_partition(Partition(name, service=f"{name}-service"))


def search_of(engine: PlacementAndLoadBalancing) -> PhaseRun:
    from plb.search.budget import Budget

    return engine._planner.search(None, 0.0, Budget(), [])
