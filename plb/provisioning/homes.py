"""The original nodes of replicas, and how many replicas have left them.

L applications, H pairs of an application and one of its original nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing
from plb.provisioning.standing import NOTHING, Standing, place_of

ANY_MOVES = 2**62
"""No limit of moves."""


class Homes(NamedTuple):
    """The pairs of each application, those of application i in ``start[i]:start[i + 1]``."""

    start: Int
    """(L + 1,)"""
    node: Int32
    """(H,)"""
    stood: Int32
    """(H,) number of replicas that were there."""
    away: Int
    """(1,) number of replicas that have left."""
    most: Int
    """(1,) largest number of replicas that may leave."""


def nobody_home(applications: int) -> Homes:
    """Return the homes of applications without original nodes."""
    empty = np.zeros(0, np.int32)
    return homes_of(empty, empty, empty, applications, ANY_MOVES)


def homes_of(application: Int32, node: Int32, count: Int32, applications: int, most: int) -> Homes:
    """Return homes without replicas.

    Parameters
    ----------
    application, node, count
        (H,) number of replicas of an application that were on a node.
    applications
        L
    most
        Largest number of replicas that may leave.
    """
    order = np.argsort(application, kind="stable")
    return Homes(
        start=np.searchsorted(application[order], np.arange(applications + 1)).astype(np.int64),
        node=node[order].astype(np.int32),
        stood=count[order].astype(np.int32),
        away=np.full(1, int(count.sum()), np.int64),
        most=np.full(1, most, np.int64),
    )


@kernel
def vacant(homes: Homes, packing: Packing, standing: Standing, application: int, node: int) -> int:
    """Return how many replicas have left an original node; 0 if it has more than before."""
    return max(0, _home(homes, application, node) - _placed(packing, standing, application, node))


@kernel
def note_away(homes: Homes, packing: Packing, standing: Standing, application: int, node: int, count: int) -> None:
    """Update the count after `count` replicas were added to a node, or removed if it is negative."""
    home = _home(homes, application, node)
    if home > 0:
        placed = _placed(packing, standing, application, node)
        homes.away[0] += max(0, home - placed) - max(0, home - (placed - count))


@kernel
def _home(homes: Homes, application: int, node: int) -> int:
    """Return how many replicas of an application were on a node."""
    for pair in range(homes.start[application], homes.start[application + 1]):
        if homes.node[pair] == node:
            return int(homes.stood[pair])
    return 0


@kernel
def _placed(packing: Packing, standing: Standing, application: int, node: int) -> int:
    """Return how many replicas of an application are on a node."""
    place = place_of(standing, application, node)
    return int(packing.placed[place]) if place != NOTHING else 0
