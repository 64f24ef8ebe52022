"""Where replicas stood before planning anew, and how many of them stand there no more.

L applications, H pairs of an application and a node that it stood on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing
from plb.provisioning.standing import NOTHING, Standing, place_of

ANY_MOVES = 2**62
"""Stands for no limit on moves."""


class Homes(NamedTuple):
    """The pairs of each application, those of application i in ``start[i]:start[i + 1]``."""

    start: Int
    """(L + 1,)"""
    node: Int32
    """(H,)"""
    stood: Int32
    """(H,) how many replicas stood there."""
    away: Int
    """(1,) how many of them stand there no more."""
    most: Int
    """(1,) how many of them may."""


def nobody_home(applications: int) -> Homes:
    """Return the homes of applications that stood nowhere."""
    empty = np.zeros(0, np.int32)
    return homes_of(empty, empty, empty, applications, ANY_MOVES)


def homes_of(application: Int32, node: Int32, count: Int32, applications: int, most: int) -> Homes:
    """Return homes where nobody is at home yet.

    Parameters
    ----------
    application, node, count
        (H,) so many replicas of an application stood on a node.
    applications
        L
    most
        How many of them may be away.
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
    """Return how many replicas that stood on a node stand there no more; 0 where more do."""
    return max(0, _home(homes, application, node) - _placed(packing, standing, application, node))


@kernel
def note_away(homes: Homes, packing: Packing, standing: Standing, application: int, node: int, count: int) -> None:
    """Count who is away, after `count` replicas came to a node, or left it where it is negative."""
    home = _home(homes, application, node)
    if home > 0:
        placed = _placed(packing, standing, application, node)
        homes.away[0] += max(0, home - placed) - max(0, home - (placed - count))


@kernel
def _home(homes: Homes, application: int, node: int) -> int:
    """Return how many replicas of an application stood on a node."""
    for pair in range(homes.start[application], homes.start[application + 1]):
        if homes.node[pair] == node:
            return int(homes.stood[pair])
    return 0


@kernel
def _placed(packing: Packing, standing: Standing, application: int, node: int) -> int:
    """Return how many replicas of an application stand on a node."""
    place = place_of(standing, application, node)
    return int(packing.placed[place]) if place != NOTHING else 0
