"""The larger neighbourhoods of a chain, and which of them is searched: the one that pays.

A step in a larger neighbourhood moves several replicas. Each neighbourhood has a share of these steps, at first the
same. After each round the shares follow the energy that each has won for each move that it tried: the adaptive weights
of Ropke and Pisinger, "An Adaptive Large Neighborhood Search Heuristic for the Pickup and Delivery Problem with Time
Windows", Transportation Science 40(4), 2006, section 3.4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int
from plb.compiler import Stream, kernel, uniform
from plb.evaluation.proposals import TALLY_SIZE

EJECTION_CHAIN, PARTITION, NODE, SERVICE = range(4)
NEIGHBOURHOODS = ("ejection_chain", "partition", "node", "service")
"""Names of the built-in neighbourhoods, in the order of their numbers."""
MOST_EJECTED = 4
"""Largest number of replicas that make room in one ejection chain."""
MOST_DESTROYED = 5
"""Largest number of replicas that leave their nodes together."""
MOST_TRIED = 2 * max(MOST_EJECTED + 1, MOST_DESTROYED)
"""Largest number of moves in one step: each replica leaves its node and reaches another one."""
LEAST_SHARE = 0.05
"""Least share of a neighbourhood, so that one that did not pay is tried again later."""
REACTION = 0.1
"""How far a share goes to that of the last round; the rest stays."""


class Scratch(NamedTuple):
    """Arrays that mean nothing between two steps."""

    scored: Int
    """(TALLY_SIZE,) tally of the nodes that are compared within a step."""
    order: Int
    """(MOST_DESTROYED,) order in which replicas are placed again."""


class Neighbourhoods(NamedTuple):
    """Shares and counts of L neighbourhoods in one chain."""

    share: Float
    """(L,) probability that a step is drawn from each; the sum is 1."""
    won: Float
    """(L,) energy that accepted steps have lowered in this round."""
    spent: Int
    """(L,) moves that have been tried in this round."""
    tried: Int
    """(L,) steps in all rounds."""
    accepted: Int
    """(L,) accepted steps in all rounds."""
    scratch: Scratch


def new_neighbourhoods(count: int) -> Neighbourhoods:
    """Return `count` neighbourhoods with equal shares."""
    share, won = np.full(count, 1.0 / max(1, count)), np.zeros(count)
    sizes = (count, count, count, TALLY_SIZE, MOST_DESTROYED)
    spent, tried, accepted, scored, order = (np.zeros(size, np.int64) for size in sizes)
    return Neighbourhoods(share, won, spent, tried, accepted, Scratch(scored, order))


@kernel
def random_neighbourhood(neighbourhoods: Neighbourhoods, rng: Stream) -> int:
    """Return a random neighbourhood by the shares."""
    left = uniform(rng)
    last = neighbourhoods.share.shape[0] - 1
    for number in range(last):
        left -= neighbourhoods.share[number]
        if left < 0.0:
            return number
    return int(last)


@kernel
def adapt_shares(neighbourhoods: Neighbourhoods) -> None:
    """Bring the shares closer to the energy won for each move tried in this round, and begin the next round."""
    count = neighbourhoods.share.shape[0]
    total = 0.0
    for number in range(count):
        neighbourhoods.won[number] /= max(1, neighbourhoods.spent[number])
        total += neighbourhoods.won[number]
    for number in range(count):
        if total > 0.0:
            deserved = LEAST_SHARE + (1.0 - count * LEAST_SHARE) * neighbourhoods.won[number] / total
            neighbourhoods.share[number] += REACTION * (deserved - neighbourhoods.share[number])
        neighbourhoods.won[number] = 0.0
        neighbourhoods.spent[number] = 0
