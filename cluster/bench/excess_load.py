"""The load above the safety capacities of nodes, an extension term with a kernel: an objective of `plb bench search`.

It is the load cost of the machine reassignment problem of the ROADEF/EURO challenge of 2012: linear in the load of a
node above its safety capacity, which is below its capacity, and 0 otherwise.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal


@kernel
def excess_load_change(problem: Problem, solution: Solution, sums: Int, proposal: Proposal) -> float:
    """Return the change of the load above the safety capacities by a proposal, in quanta.

    Parameters
    ----------
    sums
        (N·R,) safety capacities of the nodes, metric by metric; they stay as they are.
    """
    metrics = problem.load.shape[1]
    source, target = proposal.source, proposal.target
    change = 0
    for metric in range(metrics):
        gain = problem.load[proposal.row, metric]
        if proposal.partner != NOWHERE:
            gain -= problem.load[proposal.partner, metric]
        above = solution.node_load[target, metric] - sums[target * metrics + metric]
        change += max(0, above + gain) - max(0, above)
        if source != NOWHERE:
            above = solution.node_load[source, metric] - sums[source * metrics + metric]
            change += max(0, above - gain) - max(0, above)
    return float(change)


class ExcessLoad(CompiledTerm):
    """The load above the safety capacities of nodes.

    Parameters
    ----------
    safety
        (N, R) safety capacities in units, of nodes in their order in the engine. The quantum of each metric is a unit.
    """

    name = "excess_load"
    change = excess_load_change

    def __init__(self, safety: Int) -> None:
        super().__init__()
        self.safety = safety

    def total(self, configuration: Configuration) -> float:
        """Return the load above the safety capacities."""
        above: Float = configuration.loads - self.safety
        return float(np.maximum(0.0, above).sum())

    def new_sums(self, configuration: Configuration) -> Int:  # noqa: ARG002  # they do not depend on the placement
        """Return the safety capacities, (N·R,)."""
        return self.safety.ravel()
