"""Inner product: the node whose free capacity is best aligned with the demand ([1] section 8.3)."""

from __future__ import annotations

import numpy as np

from plb.array_types import Int
from plb.extensions.configuration import Configuration
from plb.policies.weighting import metric_weights


class InnerProduct:
    """Chooses the node with the largest weighted inner product of demand and free capacity, else the lowest index.

    It is the alignment score of Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, section
    3.2: the sum over metrics of w_j·demand·free, both as shares of the capacity of the node. [1] does not state
    the weights; here they are those of its equation (3). Free is the free capacity before the placement. A
    metric of which a node has no capacity does not count there.
    """

    name = "inner_product"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the node."""
        problem = configuration.problem
        demand = problem.load[row] * problem.inverse_capacity[nodes]
        free = 1.0 - configuration.shares[nodes]
        return int(nodes[np.asarray(metric_weights(configuration) * demand * free).sum(axis=1).argmax()])
