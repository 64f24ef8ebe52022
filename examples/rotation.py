"""A neighbourhood as an extension, in Python and with a kernel: it rotates replicas of three full nodes.

Run it with `.venv/bin/python examples/rotation.py`. See docs/extending/neighbourhood.md.
"""

from collections.abc import Iterable

import numpy as np

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel, uniform
from plb.energy.node_sums import random_row_on
from plb.extensions.configuration import Configuration
from plb.extensions.kernel_data import Values
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, ProposedMoves
from plb.state.arrays import Problem, Solution


class Rotation:
    """Moves a replica to a second node, one of that node to a third one, and one of that to where the first one was."""

    name = "rotation"

    def propose(self, configuration: Configuration, row: int, random: np.random.Generator) -> Iterable[tuple[int, int]]:
        """Yield the three moves; none if a node has no replica."""
        first = configuration.node_of(row)
        second, third = random.choice(configuration.nodes, 2, replace=False)
        others = [configuration.rows_on(node) for node in (second, third)]
        if all(len(rows) for rows in others):
            yield row, second
            yield random.choice(others[0]), third
            yield random.choice(others[1]), first


@kernel
def rotate(problem: Problem, solution: Solution, _data: Values, row: int, rng: Stream, moves: ProposedMoves) -> int:
    """Write the three moves and return their number; 0 if a node has no replica that may move."""
    first = solution.node[row]
    for number in range(2):
        moves.row[number] = row
        moves.target[number] = problem.targets[int(uniform(rng) * problem.targets.shape[0])]
        row = random_row_on(problem, solution, moves.target[number], rng)
        if row == NOWHERE:
            return 0
    moves.row[2], moves.target[2] = row, first
    return 3


class SwiftRotation(CompiledNeighbourhood):
    """The same with a kernel, so that the search stays compiled."""

    name = "swift_rotation"
    propose = rotate


def full_nodes(*neighbourhoods: AnyNeighbourhood) -> PlacementAndLoadBalancing:
    """Return three nodes full of CPU whose replicas may each go to the next one only.

    The first one has more memory in use than the others, part of which cannot leave.
    """
    config = PlbConfig(
        metrics=[Metric("cpu"), Metric("memory")],
        w_imbalance=1000.0,
        capacity_limit="capacity",
        max_percentage_to_move=1.0,
        larger_neighbourhood_share=0.5,
        larger_neighbourhoods=[one.name for one in neighbourhoods] or ["partition", "node", "service"],
    )
    engine = PlacementAndLoadBalancing(config, seed=1, extension_neighbourhoods=neighbourhoods)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}, properties={"zone": str(index)}))
    for index, memory in enumerate((30, 0, 0)):
        zones = f"zone == {index} || zone == {(index + 1) % 3}"
        engine.update_service(Service(f"s{index}", stateful=False, placement_constraint=zones))
        partition = Partition(f"p{index}", service=f"s{index}", replicas=[Replica(Role.INSTANCE, f"n{index}")])
        engine.update_partition(partition)
        engine.report_load(f"p{index}", f"n{index}", {"cpu": 6, "memory": memory})
    engine.update_service(Service("fixed", stateful=False))
    engine.update_partition(Partition("fixed", service="fixed", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)]))
    engine.report_load("fixed", "n0", {"cpu": 0, "memory": 30})
    return engine


def main() -> None:
    """Balance without a rotation, and with one in Python and one with a kernel."""
    for neighbourhoods in ([], [Rotation()], [SwiftRotation()]):
        engine = full_nodes(*neighbourhoods)
        plan = engine.balance(budget=4000)
        accepted = plan.proposals.accepted_by_neighbourhood
        print(f"{', '.join(engine.config.larger_neighbourhoods)}: accepted {accepted}", *plan.moves, sep="\n  ")


if __name__ == "__main__":
    main()
