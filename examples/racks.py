"""A new energy term, from its first version to one that a search can use: see docs/property-testing.md.

Run it with `.venv/bin/python examples/racks.py`.
"""

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.energy_terms import EnergyTerm
from plb.testing import counterexample, verify


class BusyRacks:
    """Number of racks (fault domains) with any load; the others could be switched off."""

    name = "busy_racks"

    def total(self, configuration: Configuration) -> float:
        """Count the racks with a loaded node."""
        loaded = (configuration.loads > 0).any(axis=1)
        return float(len({rack_of(configuration, node) for node in range(configuration.nodes) if loaded[node]}))


class HastyBusyRacks(BusyRacks):
    """A wrong version with a fast delta, which ignores that the old rack may become empty."""

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return 1 if a replica reaches a rack without load."""
        loaded = (configuration.loads > 0).any(axis=1)
        busy = {rack_of(configuration, node) for node in range(configuration.nodes) if loaded[node]}
        return float(rack_of(configuration, proposal.target) not in busy)


def rack_of(configuration: Configuration, node: int) -> str:
    """Return the rack of a node; a node without a fault domain is its own rack."""
    described = configuration.node(node)
    return described.fault_domain or described.name


def main() -> None:
    """Verify the term, find the fault of the wrong version, and balance with the correct one."""
    racks = [Node(f"n{i}", fault_domain=f"fd:/rack{i // 2}") for i in range(4)]
    facts = verify(BusyRacks()).given(nodes=racks, replicas=[(0, 4), (2, 2)])
    facts.totals(2).moves((1, 1)).changes_by(-1)
    print("one fact holds")

    print(counterexample(HastyBusyRacks()))
    print("the plain term:", counterexample(BusyRacks()) or "no counterexample")

    print("without the term", *plan_of(), sep="\n  ")
    print("with the term", *plan_of(BusyRacks()), sep="\n  ")


def plan_of(*terms: EnergyTerm) -> list[str]:
    """Return the plan of balancing for four replicas on three racks, with terms of weight 50."""
    weights = {term.name: 50.0 for term in terms}
    config = PlbConfig(metrics=[Metric("cpu")], max_percentage_to_move=1.0, extension_terms=weights)
    engine = PlacementAndLoadBalancing(config, seed=1, extension_terms=terms)
    for index in range(6):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 20}, fault_domain=f"fd:/rack{index // 2}"))
    engine.update_service(Service("web", stateful=False, target_replicas=1))
    for index, node in enumerate(("n0", "n2", "n4", "n4")):
        engine.update_partition(Partition(f"web/{index}", service="web", replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(f"web/{index}", node, {"cpu": 3})
    plan = engine.balance()
    return [f"{move}: {move.reason}" for move in plan.moves] + [str(plan.energy_after.terms)]


if __name__ == "__main__":
    main()
