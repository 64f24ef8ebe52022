"""Speed of searches with extension terms. The figures are in docs/property-testing.md.

40 nodes in ten racks, 400 replicas of one metric, one chain on one thread that uses its whole budget: balancing with
the built-in energy, with the term of examples/swift_racks.py, and with that of examples/racks.py, in plain Python.

    python benchmarks/extension_terms.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from racks import BusyRacks
from swift_racks import SwiftBusyRacks

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.energy_terms import EnergyTerm

PROPOSALS = {"built-in": 2_000_000, "compiled": 2_000_000, "python": 4_000}
TERMS = {"built-in": [], "compiled": [SwiftBusyRacks()], "python": [BusyRacks()]}
WEIGHT = 0.1


def crowded_engine(terms: Sequence[EnergyTerm]) -> PlacementAndLoadBalancing:
    """Return an engine whose first nodes have most of the replicas."""
    config = PlbConfig(
        metrics=[Metric("cpu")],
        extension_terms={term.name: WEIGHT for term in terms},
        chains=1,
        max_percentage_to_move=1.0,
        cooling="by_budget",
    )
    engine = PlacementAndLoadBalancing(config, seed=5, extension_terms=terms)
    for index in range(40):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 400}, fault_domain=f"fd:/rack{index // 4}"))
    engine.update_service(Service("web", stateful=False))
    random = np.random.default_rng(5)
    for index, load in enumerate(random.integers(1, 20, 400).tolist()):
        node = f"n{int(40 * random.random() ** 2)}"
        engine.update_partition(Partition(f"web/{index}", service="web", replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(f"web/{index}", node, {"cpu": load})
    return engine


def proposals_per_second(kind: str) -> float:
    """Return the number of proposals per second of a search, without compilation."""
    engine = crowded_engine(TERMS[kind])
    engine.balance(budget=100)
    begun = time.perf_counter()
    generated = engine.balance(budget=PROPOSALS[kind]).proposals.generated
    return generated / (time.perf_counter() - begun)


def main() -> None:
    """Print one line per kind of term."""
    for kind in PROPOSALS:
        print(f"{kind:>10}  {proposals_per_second(kind):>12,.0f} proposals a second")


if __name__ == "__main__":
    main()
