"""Provisioning before a cluster runs: the number of nodes for some services, and the nodes of their replicas.

Run it with `.venv/bin/python examples/provisioning.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import numpy as np

from plb.provisioning import Affinity, Instance, lower_bound, moves_between, provision, replan
from workloads.provisioning import NodeSpec, build_instance, read_plan, write_plan


def services() -> Instance:
    """Return a shop. Three of its services have their peaks at different times of the day."""
    day = np.sin(np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False))
    cores = np.stack([6.0 + 4.0 * day, 6.0 - 4.0 * day, np.full(24, 3.0), np.full(24, 2.0)]).round(2)
    memory = np.repeat([[24.0], [16.0], [8.0], [32.0]], 24, axis=1)
    return build_instance(
        name="shop",
        resources=("cores", "memory"),
        applications=("web", "batch", "search", "cache"),
        replicas=np.array([12, 12, 20, 6], np.int32),
        demand=np.stack([cores, memory], axis=1),
        affinity=Affinity.from_columns(source=[3, 3, 0], target=[3, 1, 2], most=[1, 0, 2], applications=4),
        nodes=[NodeSpec("small", (16.0, 64.0))],
    )


def main() -> None:
    """Plan the shop with several algorithms, write and read the best plan, and replan the growing shop."""
    shop = services()
    print(f"at least {lower_bound(shop)} nodes")
    for algorithm in ("FF", "SpreadWFD-Avg-BinSearch", "auto"):
        plan = provision(shop, algorithm)
        print(f"{algorithm:23} {plan.nodes} nodes, {plan.deviation_percent:.1f} % above; faults: {len(plan.faults())}")

    with tempfile.TemporaryDirectory() as folder:
        write_plan(Path(folder) / "plan.csv", plan)
        again = read_plan(Path(folder) / "plan.csv", shop)
    names, node = again.node_names(), again.node
    for application, count in zip(again.application[node == 0], again.count[node == 0], strict=True):
        print(f"{names[0]} takes {count} of {shop.applications[application]}")

    larger = attrs.evolve(shop, replicas=shop.replicas + np.array([2, 0, 4, 0], np.int32))
    before = attrs.evolve(provision(shop, "FF"), instance=larger)
    for most_moves in (0, 5):
        after = replan(before, most_moves=most_moves)
        moves = moves_between(before, after)
        print(f"{after.nodes} nodes after {moves.moved} moves and {moves.placed} new replicas")


if __name__ == "__main__":
    main()
