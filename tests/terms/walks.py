"""Random walks with terms, and the best placement of a small case by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.energy_terms import CompiledTerm, apply_proposal_of_terms, begin, take_back
from plb.extensions.kernel_data import difference
from plb.testing import Cluster, configuration_of, walks

NODES = ("n0", "n1", "n2")
CAPACITIES = {"cpu": 10, "disk": 20}


def assert_sums_follow(term: CompiledTerm, cluster: Cluster, data: st.DataObject) -> None:
    """Walk, and compare the sums with those from scratch after each proposal; the way back restores the first ones."""
    configuration = configuration_of(cluster.engine())
    begin(term, configuration)
    done = []
    for proposal in data.draw(walks(configuration)):
        done.append((proposal, apply_proposal_of_terms((term,), configuration, proposal)))
        assert difference(term.sums, term.checked_sums(configuration)) is None
    for proposal, back in reversed(done):
        take_back((term,), configuration, proposal, back)
        assert difference(term.sums, term.checked_sums(configuration)) is None


def engine_with(
    term: CompiledTerm, loads: list[tuple[int, int]], services: list[str], *others: CompiledTerm, checks: str = "off"
) -> PlacementAndLoadBalancing:
    """Return an engine whose energy is a term, or the sum of several: replicas without siblings, all on the first node.

    `loads`, `services`: of each replica the load of both metrics, and the service.
    """
    metrics = [Metric(name, quantum=1.0, violation_threshold=1.0) for name in CAPACITIES]
    config = PlbConfig(
        metrics=metrics,
        w_imbalance=0.0,
        w_failovers=0.0,
        w_overload=0.0,
        ignore_cost_in_scoring=True,
        max_percentage_to_move=1.0,
        threads=1,
        checks=checks,
    )
    engine = PlacementAndLoadBalancing(config, seed=1, extension_terms=[term, *others])
    for name in NODES:
        engine.update_node(Node(name, capacities=CAPACITIES, fault_domain=f"fd:/{name}"))
    for name in dict.fromkeys(services):
        engine.update_service(Service(name, stateful=False))
    for index, (load, service) in enumerate(zip(loads, services, strict=True)):
        engine.update_partition(Partition(f"p{index}", service=service, replicas=[Replica(Role.INSTANCE, NODES[0])]))
        engine.report_load(f"p{index}", NODES[0], dict(zip(CAPACITIES, load, strict=True)))
    return engine


def all_placements(loads: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Yield the node of each replica, and the loads of the nodes, for every placement within the capacities."""
    for nodes in product(range(len(NODES)), repeat=len(loads)):
        sums = [
            (
                sum(load[0] for load, node in zip(loads, nodes, strict=True) if node == this),
                sum(load[1] for load, node in zip(loads, nodes, strict=True) if node == this),
            )
            for this in range(len(NODES))
        ]
        if all(cpu <= CAPACITIES["cpu"] and disk <= CAPACITIES["disk"] for cpu, disk in sums):
            yield nodes, sums


def least(loads: list[tuple[int, int]], cost: Callable[[tuple[int, ...], list[tuple[int, int]]], float]) -> float:
    return min(cost(nodes, sums) for nodes, sums in all_placements(loads))
