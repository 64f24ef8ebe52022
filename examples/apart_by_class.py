"""A placement policy as an extension: it separates tenants of one class, which grow together. See docs/policies.md.

Run it with `python examples/apart_by_class.py`. The scenario examples/extension_policy.toml uses it.
"""

import numpy as np

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Role, Service
from plb.extensions.configuration import Configuration


class ApartByClass:
    """Chooses a node with the fewest replicas of the same tenant class, and then with most free capacity."""

    name = "apart_by_class"

    def choose(self, configuration: Configuration, row: int, nodes: np.ndarray) -> int:
        """Return the node."""
        fullest = configuration.shares.max(axis=1)
        return min(nodes, key=lambda node: (alike(configuration, row, node), fullest[node]))


def alike(configuration: Configuration, row: int, node: int) -> int:
    """Count the replicas of the tenant class of `row` on a node."""
    mine = configuration.service_of(row).tenant_class
    return sum(configuration.service_of(other).tenant_class == mine for other in configuration.rows_on(node))


def main() -> None:
    """Verify the policy, and place the same tenants with two engines."""
    from plb.testing import policy_test

    policy_test(ApartByClass())()
    print("verified")
    for policy in ("first_fit", "apart_by_class"):
        print(policy, placed_by(policy), sep=": ")


def placed_by(policy: str) -> dict[str, str]:
    """Return the nodes of tenants of two classes."""
    own = ApartByClass() if policy == ApartByClass.name else None
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy=policy), extension_policy=own)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 20}))
    for tenant_class in ("gold", "blue"):
        load = {Role.INSTANCE: {"cpu": 4 if tenant_class == "gold" else 2}}
        engine.update_service(
            Service(tenant_class, stateful=False, tenant_class=tenant_class, default_load=load),
        )
        for index in range(3):
            engine.update_partition(Partition(f"{tenant_class}/{index}", service=tenant_class))
    return {move.partition: move.target for move in engine.place().moves}


if __name__ == "__main__":
    main()
