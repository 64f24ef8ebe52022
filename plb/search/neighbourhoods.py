"""The neighbourhoods of a chain, and how often each is searched: as often as it pays.

A single proposal moves a replica or exchanges two; a step in a larger neighbourhood moves several. A step costs about
as many proposals as take as long: each node that it asks for and each move that it tries counts as one. Each
neighbourhood has a share of the steps, which follows the energy that it has won for its cost. These are the adaptive
weights of Ropke and Pisinger, "An Adaptive Large Neighborhood Search Heuristic for the Pickup and Delivery Problem with
Time Windows", Transportation Science 40(4), 2006, section 3.4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int
from plb.compiler import Stream, kernel, uniform
from plb.evaluation.proposals import TALLY_SIZE

SINGLE, EJECTION_CHAIN, PARTITION, NODE, SERVICE = range(5)
NEIGHBOURHOODS = ("ejection_chain", "partition", "node", "service")
"""Names of the larger neighbourhoods, in the order of their numbers, which follow that of single proposals."""
MOST_EJECTED = 4
"""Largest number of replicas that make room in one ejection chain."""
MOST_DESTROYED = 5
"""Largest number of replicas that leave their nodes together."""
TARGETS_TRIED = 6
"""Random nodes that are compared for a replica, besides those that replicas have left."""
VICTIMS_TRIED = 4
"""Replicas of a node that are tried one after the other."""
MOST_ASKED = 100
"""Largest number of proposals that a step counts as: a chain near the end of its budget makes single proposals only."""
FIRST_SHARE = 0.01
"""Share of each larger neighbourhood at first."""
LEAST_SHARE = 0.0005
"""Least share of a larger neighbourhood, so that one that did not pay is tried again later."""
LEAST_SINGLE = 0.1
"""Least share of single proposals."""
STRETCH = 5000
"""Cost after which the shares are adapted."""
REACTION = 0.3
"""How far a share goes to that which the last stretch deserves; the rest stays."""


class Scratch(NamedTuple):
    """Arrays that mean nothing between two steps."""

    scored: Int
    """(TALLY_SIZE,) tally of the nodes that are compared within a step."""
    order: Int
    """(MOST_DESTROYED,) order in which replicas are placed again."""
    asked: Int
    """(1,) number of nodes that the step has asked for."""


class Neighbourhoods(NamedTuple):
    """Shares and counts of L neighbourhoods in one chain. All arrays are empty where only single proposals are made."""

    share: Float
    """(L,) probability that a step is drawn from each; the sum is 1."""
    won: Float
    """(L,) energy that accepted steps have lowered in this stretch."""
    cost: Int
    """(L,) cost of the steps in this stretch, in proposals."""
    steps: Int
    """(L,) steps in this stretch."""
    tried: Int
    """(L,) steps in all stretches."""
    accepted: Int
    """(L,) accepted steps in all stretches."""
    scratch: Scratch


def new_neighbourhoods(larger: int) -> Neighbourhoods:
    """Return the neighbourhoods of a chain: single proposals and a number of larger ones; 0: empty arrays."""
    count = 1 + larger if larger else 0
    share = np.full(count, FIRST_SHARE)
    share[:1] = 1.0 - FIRST_SHARE * larger
    sizes = (count, count, count, count, TALLY_SIZE, MOST_DESTROYED, 1)
    cost, steps, tried, accepted, scored, order, asked = (np.zeros(size, np.int64) for size in sizes)
    return Neighbourhoods(share, np.zeros(count), cost, steps, tried, accepted, Scratch(scored, order, asked))


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
def note_step(neighbourhoods: Neighbourhoods, number: int, cost: int, before: float, after: float) -> None:
    """Count a step in a neighbourhood that took the energy from `before` to `after`."""
    neighbourhoods.steps[number] += 1
    neighbourhoods.cost[number] += cost
    neighbourhoods.won[number] += max(0.0, before - after)


@kernel
def adapt_shares(neighbourhoods: Neighbourhoods) -> None:
    """At the end of a stretch, bring the shares closer to those that it deserves, and begin the next one.

    The cost that a neighbourhood deserves is proportional to the energy won for its cost.
    """
    if neighbourhoods.cost.sum() < STRETCH:
        return
    total = 0.0
    for number in range(neighbourhoods.share.shape[0]):
        if neighbourhoods.steps[number] > 0:
            cost = float(neighbourhoods.cost[number])
            neighbourhoods.won[number] *= neighbourhoods.steps[number] / (cost * cost)
            total += neighbourhoods.won[number]
    if total > 0.0:
        _approach(neighbourhoods, total)
    neighbourhoods.won[:] = 0.0
    neighbourhoods.cost[:] = 0
    neighbourhoods.steps[:] = 0


@kernel
def _approach(neighbourhoods: Neighbourhoods, total: float) -> None:
    """Bring the shares closer to `won` as shares of its `total`; neighbourhoods without a step keep theirs."""
    share = neighbourhoods.share
    whole = 0.0
    for number in range(share.shape[0]):
        if neighbourhoods.steps[number] > 0:
            share[number] += REACTION * (neighbourhoods.won[number] / total - share[number])
        share[number] = max(share[number], LEAST_SINGLE if number == SINGLE else LEAST_SHARE)
        whole += share[number]
    for number in range(share.shape[0]):
        share[number] /= whole
