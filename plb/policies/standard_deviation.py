"""Standard deviation: the node after which loads are most even over nodes ([1] section 8.3)."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.extensions.configuration import Configuration
from plb.policies.weighting import lasting


class StandardDeviation:
    """Takes the node that leaves the least sum over metrics of the standard deviation of node load.

    Load is a share of the capacity of the node itself, over all nodes that are up; one without a capacity of a metric
    counts with 0, as in `Configuration.shares`. A node that is being deactivated comes last; ties go to the lowest
    index.
    """

    name = "standard_deviation"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the node."""
        nodes = lasting(configuration, nodes)
        problem, here = configuration.problem, configuration.node_of(row)
        shares, counted = configuration.shares, problem.counted
        if here != NOWHERE:
            shares[here] -= problem.load[row] * problem.inverse_capacity[here]
        up = max(1, int(counted.sum()))
        # distances from the mean without the replica; what it adds to them follows for all nodes at once
        distance = (shares - shares[counted].sum(axis=0) / up) * counted[:, None]
        added = problem.load[row] * problem.inverse_capacity[nodes] * counted[nodes, None]
        squares = (distance**2).sum(axis=0) + (2 * distance[nodes] + added) * added - added**2 / up
        return int(nodes[np.sqrt(np.maximum(squares, 0.0)).sum(axis=1).argmin()])
