"""Oracle for placement policies: the quantities of [1], computed row by row as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from plb.array_types import NOWHERE
from plb.model.quanta import UNLIMITED
from plb.policies.fits import Weighting


class Counted:
    """A configuration whose quantities are computed row by row."""

    def __init__(self, configuration):
        problem, place = configuration.problem, configuration.solution.node.tolist()
        self.problem = problem
        self.metrics, self.repetitions = range(problem.load.shape[1]), range(problem.peak.shape[2])
        self.on = {node: [] for node in range(len(problem.limit))}
        for row, node in enumerate(place):
            if node != NOWHERE and not problem.leaving[row]:
                self.on[node].append(row)
        self.up = [node for node in self.on if problem.counted[node]]

    def share(self, node, rows):
        """Return the load of `rows` as a share of the capacity of a node, by metric; 0 where the node has none."""
        capacity = [int(value) for value in self.problem.capacity[node]]
        load = [sum(int(self.problem.load[row, metric]) for row in rows) for metric in self.metrics]
        return [
            Fraction(load[metric], capacity[metric]) if 0 < capacity[metric] < UNLIMITED else Fraction(0)
            for metric in self.metrics
        ]

    def shares_of_up(self):
        """Return the load of every node that is up, as shares of its capacity."""
        return [self.share(node, self.on[node]) for node in self.up]

    def mean_usage(self):
        """Return w_j of equation (3)."""
        shares = [self.share(node, [row]) for node, rows in self.on.items() for row in rows]
        return [sum(share[metric] for share in shares) / max(1, len(shares)) for metric in self.metrics]

    def w(self, weighting, node, rows):
        """Return W of `rows` on a node."""
        share = self.share(node, rows)
        if weighting is Weighting.MAX:
            return max(share)
        return sum(weight * one for weight, one in zip(self.mean_usage(), share, strict=True))

    def probability(self, node, rows):
        """Return the share of the repetitions in which `rows` on a node are in violation."""
        if node not in self.up or not self.repetitions:
            return Fraction(0)
        peak, threshold = self.problem.peak, self.problem.threshold
        violations = sum(
            any(sum(int(peak[row, metric, k]) for row in rows) >= threshold[node, metric] for metric in self.metrics)
            for k in self.repetitions
        )
        return Fraction(violations, len(self.repetitions))

    def equal_nodes(self, one, other):
        """Return whether two nodes are equal to a policy that compares loads."""
        return self.share(one, self.on[one]) == self.share(other, self.on[other]) and np.array_equal(
            self.problem.capacity[one], self.problem.capacity[other]
        )


def assert_is_least(counted, chosen, values):
    """Assert that a node has the least of the values by node, and is the first of equal nodes."""
    least = min(values.values())
    assert abs(values[chosen] - least) <= Fraction(1, 10**9) * (1 + abs(least))
    assert not [node for node in values if node < chosen and counted.equal_nodes(node, chosen)]
