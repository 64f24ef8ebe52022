"""The term of racks.py with kernels, so that searches with it run at full speed: see docs/property-testing.md.

Run it with `python examples/swift_racks.py`.
"""

from typing import NamedTuple

import numpy as np
from racks import BusyRacks, plan_of, rack_of

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.energy_terms import CompiledTerm
from plb.state.arrays import Problem, Solution
from plb.testing import counterexample


@kernel
def loaded(problem: Problem, row: int) -> int:
    """Return 1 for a replica with load, else 0. NOWHERE is no replica."""
    for metric in range(problem.load.shape[1]):
        if row != NOWHERE and problem.load[row, metric] > 0:
            return 1
    return 0


class Racks(NamedTuple):
    """Data, which are constant in a plan."""

    rack: Int
    """(N,) rack of each node."""


class Replicas(NamedTuple):
    """Sums, which follow the replicas."""

    loaded: Int
    """(racks,) replicas with load."""


@kernel
def change(problem: Problem, _solution: Solution, data: Racks, sums: Replicas, proposal: Proposal) -> int:
    """Return the change of the number of busy racks by a proposal."""
    gain = loaded(problem, proposal.row) - loaded(problem, proposal.partner)
    there = data.rack[proposal.target]
    here = data.rack[proposal.source] if proposal.source != NOWHERE else NOWHERE
    if here == there:
        return 0
    more = int(sums.loaded[there] + gain > 0) - int(sums.loaded[there] > 0)
    if here == NOWHERE:
        return more
    return more + int(sums.loaded[here] - gain > 0) - int(sums.loaded[here] > 0)


@kernel
def keep(problem: Problem, _solution: Solution, data: Racks, sums: Replicas, proposal: Proposal) -> None:
    """Update the number of replicas with load in each rack."""
    gain = loaded(problem, proposal.row) - loaded(problem, proposal.partner)
    if proposal.source != NOWHERE:
        sums.loaded[data.rack[proposal.source]] -= gain
    if proposal.target != NOWHERE:
        sums.loaded[data.rack[proposal.target]] += gain


class SwiftBusyRacks(CompiledTerm):
    """Number of racks with any load."""

    name = "swift_busy_racks"
    total = BusyRacks.total
    change = change
    keep = keep

    def new_data(self, configuration: Configuration) -> Racks:
        """Return the rack of each node."""
        names = [rack_of(configuration, node) for node in range(configuration.nodes)]
        return Racks(np.unique(names, return_inverse=True)[1])

    def new_sums(self, configuration: Configuration) -> Replicas:
        """Return the number of replicas with load in each rack."""
        rack = self.new_data(configuration).rack
        replicas = np.zeros(configuration.nodes, np.int64)
        for row in configuration.rows:
            if configuration.node_of(row) != NOWHERE:
                replicas[rack[configuration.node_of(row)]] += configuration.load_of(row).any()
        return Replicas(replicas)


if __name__ == "__main__":
    print("with kernels:", counterexample(SwiftBusyRacks()) or "no counterexample")
    print(*plan_of(SwiftBusyRacks()), sep="\n")
