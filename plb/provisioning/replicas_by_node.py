"""Placed replicas that may move: the applications on each node, and the nodes that replicas come from.

L applications, N nodes, R replicas in all, H pairs of an application and one of its original nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing, take

NOTHING = -1
"""Stands for no place."""
ANY_MOVES = 2**62
"""Stands for no limit of moves."""


class ReplicasByNode(NamedTuple):
    """The places of each node; a place has replicas of one application (`Packing`)."""

    head: Int32
    """(N,) the first place of a node; `NOTHING`: nobody is there."""
    next: Int32
    """(R,) the next place on the node."""
    previous: Int32
    """(R,) the previous place on the node."""
    owner: Int32
    """(R,) application of a place."""


def no_replicas(packing: Packing) -> ReplicasByNode:
    """Return the replicas of an empty packing."""
    replicas = np.diff(packing.start)
    return ReplicasByNode(
        head=np.full(len(packing.free), NOTHING, np.int32),
        next=np.full(len(packing.node), NOTHING, np.int32),
        previous=np.full(len(packing.node), NOTHING, np.int32),
        owner=np.repeat(np.arange(len(replicas), dtype=np.int32), replicas),
    )


@kernel
def place_of(by_node: ReplicasByNode, application: int, node: int) -> int:
    """Return the place of an application on a node, or `NOTHING`."""
    place = int(by_node.head[node])
    while place != NOTHING and by_node.owner[place] != application:
        place = int(by_node.next[place])
    return place


@kernel
def add(packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int) -> None:
    """Place replicas on a node without checks of capacity."""
    place = place_of(by_node, application, node)
    if place == NOTHING:
        place = packing.start[application] + packing.places[application]
        packing.places[application] += 1
        packing.node[place], packing.placed[place] = node, 0
        _link(by_node, place, node)
    packing.placed[place] += count
    take(packing, application, node, count)


@kernel
def remove(packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int) -> None:
    """Remove replicas, at most as many as there are, from a node."""
    place = place_of(by_node, application, node)
    packing.placed[place] -= count
    take(packing, application, node, -count)
    if packing.placed[place] > 0:
        return
    _unlink(by_node, place, node)
    packing.places[application] -= 1
    last = packing.start[application] + packing.places[application]
    if place != last:  # places of an application are consecutive
        last_node = packing.node[last]
        _unlink(by_node, last, last_node)
        packing.node[place], packing.placed[place] = last_node, packing.placed[last]
        _link(by_node, place, last_node)


@kernel
def _link(by_node: ReplicasByNode, place: int, node: int) -> None:
    first = by_node.head[node]
    by_node.next[place], by_node.previous[place] = first, NOTHING
    if first != NOTHING:
        by_node.previous[first] = place
    by_node.head[node] = place


@kernel
def _unlink(by_node: ReplicasByNode, place: int, node: int) -> None:
    before, after = by_node.previous[place], by_node.next[place]
    if before == NOTHING:
        by_node.head[node] = after
    else:
        by_node.next[before] = after
    if after != NOTHING:
        by_node.previous[after] = before


@kernel
def add_all(packing: Packing, by_node: ReplicasByNode, application: Int32, node: Int32, count: Int32) -> None:
    """Place replicas on given nodes: application, node and number, (P,)."""
    for row in range(len(application)):
        add(packing, by_node, application[row], node[row], count[row])


class OriginalNodes(NamedTuple):
    """The original nodes of replicas: the pairs of application i are in ``start[i]:start[i + 1]``."""

    start: Int
    """(L + 1,)"""
    node: Int32
    """(H,)"""
    replicas: Int32
    """(H,) number of replicas that were there."""
    away: Int
    """(1,) number of replicas that have left."""
    most: Int
    """(1,) largest number of replicas that may leave."""


def no_original_nodes(applications: int) -> OriginalNodes:
    """Return none for any application."""
    empty = np.zeros(0, np.int32)
    return original_nodes_of(empty, empty, empty, applications, ANY_MOVES)


def original_nodes_of(application: Int32, node: Int32, count: Int32, applications: int, most: int) -> OriginalNodes:
    """Return the original nodes of counted replicas, (H,), before any is placed; at most `most` of them may leave."""
    order = np.argsort(application, kind="stable")
    return OriginalNodes(
        start=np.searchsorted(application[order], np.arange(applications + 1)).astype(np.int64),
        node=node[order].astype(np.int32),
        replicas=count[order].astype(np.int32),
        away=np.full(1, int(count.sum()), np.int64),
        most=np.full(1, most, np.int64),
    )


@kernel
def vacant(original: OriginalNodes, packing: Packing, by_node: ReplicasByNode, application: int, node: int) -> int:
    """Return how many replicas have left an original node; 0 if it has more than before."""
    return max(0, _original_replicas(original, application, node) - _placed(packing, by_node, application, node))


@kernel
def count_moved(
    original: OriginalNodes, packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int
) -> None:
    """Update the count after `count` replicas were added to a node, or removed if it is negative."""
    before = _original_replicas(original, application, node)
    if before > 0:
        placed = _placed(packing, by_node, application, node)
        original.away[0] += max(0, before - placed) - max(0, before - (placed - count))


@kernel
def _original_replicas(original: OriginalNodes, application: int, node: int) -> int:
    """Return how many replicas of an application were on a node."""
    for pair in range(original.start[application], original.start[application + 1]):
        if original.node[pair] == node:
            return int(original.replicas[pair])
    return 0


@kernel
def _placed(packing: Packing, by_node: ReplicasByNode, application: int, node: int) -> int:
    """Return how many replicas of an application are on a node."""
    place = place_of(by_node, application, node)
    return int(packing.placed[place]) if place != NOTHING else 0
