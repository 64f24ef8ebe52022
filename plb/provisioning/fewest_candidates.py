"""Medea's NodeCandidates as in [3] section 5.1: the application that fewest nodes can take is placed next.

L applications, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Bool, Int, UInt8
from plb.compiler import kernel
from plb.provisioning.application_centric import place_first
from plb.provisioning.packing import NO_CAPACITY, STOPPED, Packing, drop_full, fitting


class Struck(NamedTuple):
    """Nodes that an application has lost as candidates."""

    order: Int
    """(L,) applications, those not placed yet behind."""
    lost: Int
    """(L,) how many nodes an application has lost."""
    placed: Bool
    """(L,)"""
    nodes: UInt8
    """(L, N / 8, rounded up) which ones, a bit for each."""


def nothing_struck(order: Int, nodes: int) -> Struck:
    """Return the state before the first application; `order` is (L,)."""
    applications = len(order)
    return Struck(
        order.copy(),
        np.zeros(applications, np.int64),
        np.zeros(applications, np.bool_),
        np.zeros((applications, (nodes + 7) // 8), np.uint8),
    )


@kernel
def fewest_candidates(packing: Packing, struck: Struck) -> int:
    """Place application after application by First Fit, next the one with the fewest candidate nodes (equation 5).

    As in the programs of the authors of [3], candidate nodes of an application are updated when one that shares
    a limit with it is placed, and one pass of bubble sort moves the application with the fewest candidates to the
    front, which moves others as well. The first in `struck.order` begins.

    Returns
    -------
    0; `NO_CAPACITY`: there are too few nodes; `STOPPED`: time ran out.
    """
    live, full = 0, 0
    for number in range(len(struck.order)):
        if packing.stop[0]:
            return STOPPED
        application = struck.order[number]
        live = place_first(packing, application, live)
        if live == NO_CAPACITY:
            return NO_CAPACITY
        struck.placed[application] = True
        _strike_neighbours(packing, struck, application)
        for place in range(len(struck.order) - 1, number + 1, -1):
            one, other = struck.order[place], struck.order[place - 1]
            if struck.lost[one] > struck.lost[other]:
                struck.order[place], struck.order[place - 1] = other, one
        live, full = drop_full(packing, application, live, full)
    return 0


@kernel
def _strike_neighbours(packing: Packing, struck: Struck, application: int) -> None:
    """Strike the nodes of an application that those with which it shares a limit cannot go to any more."""
    neighbours, first = packing.neighbours, packing.start[application]
    for place in range(first, first + packing.places[application]):
        node, count = packing.node[place], packing.placed[place]
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            _strike(packing, struck, neighbours.out_other[arc], node, neighbours.out_most[arc] == 0)
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
            _strike(packing, struck, neighbours.in_other[arc], node, count > neighbours.in_most[arc])


@kernel
def _strike(packing: Packing, struck: Struck, application: int, node: int, excluded: bool) -> None:
    bit = 1 << (node % 8)
    if struck.placed[application] or struck.nodes[application, node // 8] & bit:
        return
    if excluded or fitting(packing, node, application, 1) == 0:
        struck.nodes[application, node // 8] |= bit
        struck.lost[application] += 1
