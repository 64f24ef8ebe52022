"""Placed replicas that may move: a packing with the applications on each node.

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing, take

NOTHING = -1


class Standing(NamedTuple):
    """The places of each node, each of which has so many replicas of an application (`Packing`)."""

    head: Int32
    """(N,) the first place of a node; `NOTHING`: nobody is there."""
    next: Int32
    """(R,) the next place on the node."""
    previous: Int32
    """(R,) the one before."""
    owner: Int32
    """(R,) application of a place."""


def nobody_standing(packing: Packing) -> Standing:
    """Return the replicas of an empty packing."""
    replicas = np.diff(packing.start)
    return Standing(
        head=np.full(len(packing.free), NOTHING, np.int32),
        next=np.full(len(packing.node), NOTHING, np.int32),
        previous=np.full(len(packing.node), NOTHING, np.int32),
        owner=np.repeat(np.arange(len(replicas), dtype=np.int32), replicas),
    )


@kernel
def place_of(standing: Standing, application: int, node: int) -> int:
    """Return the place of an application on a node, or `NOTHING`."""
    place = int(standing.head[node])
    while place != NOTHING and standing.owner[place] != application:
        place = int(standing.next[place])
    return place


@kernel
def add(packing: Packing, standing: Standing, demand: Int32, application: int, node: int, count: int) -> None:
    """Place replicas on a node without checks of capacity."""
    place = place_of(standing, application, node)
    if place == NOTHING:
        place = packing.start[application] + packing.places[application]
        packing.places[application] += 1
        packing.node[place], packing.placed[place] = node, 0
        _link(standing, place, node)
    packing.placed[place] += count
    take(packing, demand, application, node, count)


@kernel
def remove(packing: Packing, standing: Standing, demand: Int32, application: int, node: int, count: int) -> None:
    """Remove replicas, at most as many as there are, from a node."""
    place = place_of(standing, application, node)
    packing.placed[place] -= count
    take(packing, demand, application, node, -count)
    if packing.placed[place] > 0:
        return
    _unlink(standing, place, node)
    packing.places[application] -= 1
    last = packing.start[application] + packing.places[application]
    if place != last:  # places of an application are consecutive
        other = packing.node[last]
        _unlink(standing, last, other)
        packing.node[place], packing.placed[place] = other, packing.placed[last]
        _link(standing, place, other)


@kernel
def _link(standing: Standing, place: int, node: int) -> None:
    first = standing.head[node]
    standing.next[place], standing.previous[place] = first, NOTHING
    if first != NOTHING:
        standing.previous[first] = place
    standing.head[node] = place


@kernel
def _unlink(standing: Standing, place: int, node: int) -> None:
    before, after = standing.previous[place], standing.next[place]
    if before == NOTHING:
        standing.head[node] = after
    else:
        standing.next[before] = after
    if after != NOTHING:
        standing.previous[after] = before


@kernel
def add_all(packing: Packing, standing: Standing, demand: Int32, application: Int32, node: Int32, count: Int32) -> None:
    """Place replicas on given nodes: application, node and number, (P,)."""
    for row in range(len(application)):
        add(packing, standing, demand, application[row], node[row], count[row])
