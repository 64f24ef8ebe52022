"""PrV-BestFit and PrV-WorstFit: fits among the nodes on which a violation is unlikely ([1] algorithms 2 and 3).

Where the algorithms are undefined as printed, they are read so:

- Delta, the growth of the probability of a violation, is taken of every node that is offered. It is needed only where
  all of them are at theta or above, and there line 7 (line 11) sets it for all of them.
- Where the least Delta is 1 and there is no candidate, all nodes that are offered are candidates. As 1 is the largest
  Delta, they are then the nodes of least Delta; among several of these, the fit decides.
- Line 18 of algorithm 3 makes candidates of all held-out nodes; the text means the acceptable ones, HeldOut_Cand.

A node that is being deactivated has no probability. It is chosen only if no other is offered. A replica that
leaves a node is not offered that node, so its probability there is not needed. Without a demand history, or
if ``w_failovers`` and ``w_overload`` are 0, every probability is 0, and the fit alone decides.
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int
from plb.extensions.configuration import Configuration
from plb.policies.fits import emptiest, fullest
from plb.policies.weighting import Weighting, lasting, weighted
from plb.validation import check_count, check_member, check_name, check_number


@attrs.frozen(kw_only=True)
class PrvBestFit:
    """The fullest node after placement among those where a violation is less likely than theta (algorithm 2).

    Where there is none, the node where the placement raises the probability least; ties go to the fullest, then to the
    lowest index.

    Parameters
    ----------
    theta
        Probability from which on a violation is too likely, in [0, 1] ([1] section 8.3: 0.01).
    weighting
        Which W the fit compares ([1] section 8.3: W_Max).
    name
        Name of the policy.
    """

    theta: float = 0.01
    weighting: Weighting = Weighting.MAX
    name: str = "prv_best_fit"

    def __attrs_post_init__(self) -> None:
        item = f"policy {check_name('policy', self.name)}"
        object.__setattr__(self, "theta", check_number(item, "theta", self.theta, high=1.0))
        object.__setattr__(self, "weighting", check_member(item, "weighting", self.weighting, Weighting))

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the node."""
        nodes = lasting(configuration, nodes)
        probability = configuration.violation_probabilities_with(row)[nodes]
        candidates = nodes[probability < self.theta]
        if not len(candidates):
            candidates = _least_raised(configuration, nodes, probability)
        return fullest(self.weighting, configuration, row, candidates)


@attrs.frozen(kw_only=True)
class PrvWorstFit(PrvBestFit):
    """The emptiest node after placement among those with a probability of a violation below theta (algorithm 3).

    Held-out nodes are used after all others with a probability below theta. They are the M nodes of least W
    among those that are up, computed for each placement as in the algorithm, with the W of the policy. Those
    of `PlbConfig.held_out_nodes`, which belong to the energy and are fixed at the start of a phase, are not used.
    If the probability is too high on every node, the node with the least increase is chosen; ties go to
    the emptiest, then to the lowest index.

    Parameters
    ----------
    theta, weighting, name
        See `PrvBestFit`.
    held_out
        M, the number of held-out nodes ([1] section 8.3: 3).
    """

    name: str = "prv_worst_fit"
    held_out: int = 3

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        object.__setattr__(self, "held_out", check_count(f"policy {self.name}", "held_out", self.held_out))

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the node."""
        nodes = lasting(configuration, nodes)
        probability = configuration.violation_probabilities_with(row)[nodes]
        acceptable = probability < self.theta
        for preferred in (acceptable & ~self._held_out(configuration)[nodes], acceptable):
            if preferred.any():
                return emptiest(self.weighting, configuration, row, nodes[preferred])
        return emptiest(self.weighting, configuration, row, _least_raised(configuration, nodes, probability))

    def _held_out(self, configuration: Configuration) -> Bool:
        """Return whether each node is held out, (N,); ties go to the lowest index."""
        up = np.flatnonzero(configuration.problem.counted)
        weights = weighted(self.weighting, configuration, configuration.shares[up])
        held_out = np.zeros(configuration.nodes, np.bool_)
        held_out[up[weights.argsort(kind="stable")[: self.held_out]]] = True
        return held_out


def _least_raised(configuration: Configuration, nodes: Int, probability: Float) -> Int:
    """Return the nodes of least Delta; `probability` is that of a violation on each node after placement."""
    # equal differences of multiples of 1/K need not be equal floats
    delta = (probability - configuration.violation_probabilities[nodes]).round(12)
    return np.asarray(nodes[delta == delta.min()], np.int64)
