"""Which proposals a rule has to refuse, from what is broken before and after them."""

from __future__ import annotations

from itertools import combinations

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal


def all_proposals(configuration: Configuration) -> list[Proposal]:
    rows, nodes = configuration.rows.tolist(), [*range(configuration.nodes), NOWHERE]
    found = [Proposal(row, node) for row in rows for node in nodes if node != configuration.node_of(row)]
    for row, partner in combinations(rows, 2):
        here, there = configuration.node_of(row), configuration.node_of(partner)
        if NOWHERE not in (here, there) and here != there:
            found.append(Proposal(row, there, partner))
    return found


def has_to_refuse(oracle, group_of, configuration: Configuration, proposal: Proposal) -> bool:
    """Return whether a proposal breaks something new, or moves a replica that is broken afterwards.

    An exchange in one group only changes which of its replicas are broken, so that only new ones count.
    """
    moved = [one.row for one in configuration.relocations(proposal)]
    before = oracle(configuration)
    back = configuration.apply(proposal)
    after = oracle(configuration)
    configuration.apply(back)
    alike = len(moved) > 1 and group_of(moved[0]) == group_of(moved[1])
    return bool(after - before) or (not alike and not after.isdisjoint(moved))


def check_every_proposal(rule, oracle, group_of, configuration: Configuration) -> int:
    """Compare the answers of a rule with those from what is broken; return how many proposals it refuses."""
    assert set(rule.broken(configuration)) == oracle(configuration)
    refused = 0
    for proposal in all_proposals(configuration):
        right = has_to_refuse(oracle, group_of, configuration, proposal)
        assert rule.refuses(configuration, proposal) == right, (configuration.solution.node, proposal)
        refused += right
    return refused


def domain_of(node, level) -> object:
    if level == "node":
        return node.name
    if level == "upgrade_domain":
        return node.upgrade_domain or node.name + " alone"
    if isinstance(level, str):
        return node.properties.get(level.removeprefix("property:"), node.name + " alone")
    return node.name + " alone" if node.fault_domain is None else tuple(node.fault_domain.split("/")[1 : 1 + level])


RACKS = [Node(f"n{i}", fault_domain=f"fd:/{rack}", upgrade_domain="u") for i, rack in enumerate("aabbc")]


def engine_with(rule, **standing: tuple[list[str], int]) -> PlacementAndLoadBalancing:
    """Return an engine with racks a, a, b, b, c, a rule, and services: nodes of its instances, and how many miss."""
    settings = {"fault_domain_constraint_priority": -1, "upgrade_domain_constraint_priority": -1, "checks": "step"}
    config = PlbConfig(metrics=[Metric("cpu")], **settings)
    engine = PlacementAndLoadBalancing(config, seed=1, extension_constraints=[rule])
    for node in RACKS:
        engine.update_node(node)
    for name, (nodes, missing) in standing.items():
        engine.update_service(Service(name, stateful=False, target_replicas=len(nodes) + missing))
        replicas = [Replica(Role.INSTANCE, node) for node in nodes]
        engine.update_partition(Partition(f"{name}/0", service=name, replicas=replicas))
    return engine


def racks_of(engine: PlacementAndLoadBalancing, partition: str) -> list[str]:
    racks = {node.name: node.fault_domain for node in RACKS}
    return sorted(str(racks[one.node])[-1] for one in engine.replicas(partition) if one.node is not None)
