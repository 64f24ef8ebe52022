"""Placed replicas that may move: the applications on each node, and the nodes that replicas come from.

L applications, N nodes, R replicas in all, H pairs of an application and one of its original nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing, take_capacity

NOTHING = -1
"""Stands for no slot, and elsewhere for no node or application."""
ANY_MOVES = 2**62
"""Stands for no limit of moves."""


class ReplicasByNode(NamedTuple):
    """The slots (`plb.provisioning.packing`) of each node, as lists with links in both directions."""

    head: Int32
    """(N,) the first slot of a node; `NOTHING`: it has no replicas."""
    next: Int32
    """(R,) the next slot on the node of a slot; `NOTHING`: there is none."""
    previous: Int32
    """(R,) the previous slot on the node of a slot; `NOTHING`: there is none."""
    owner: Int32
    """(R,) application of a slot."""


def no_replicas(packing: Packing) -> ReplicasByNode:
    """Return the lists of an empty packing: no node has a slot."""
    replicas = np.diff(packing.start)
    return ReplicasByNode(
        head=np.full(len(packing.free), NOTHING, np.int32),
        next=np.full(len(packing.node), NOTHING, np.int32),
        previous=np.full(len(packing.node), NOTHING, np.int32),
        owner=np.repeat(np.arange(len(replicas), dtype=np.int32), replicas),
    )


@kernel
def slot_of(by_node: ReplicasByNode, application: int, node: int) -> int:
    """Return the slot with the replicas of an application on a node, or `NOTHING`."""
    slot = int(by_node.head[node])
    while slot != NOTHING and by_node.owner[slot] != application:
        slot = int(by_node.next[slot])
    return slot


@kernel
def add(packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int) -> None:
    """Place `count` replicas of an application on a node without checks of capacity."""
    slot = slot_of(by_node, application, node)
    if slot == NOTHING:
        slot = packing.start[application] + packing.slots[application]
        packing.slots[application] += 1
        packing.node[slot], packing.placed[slot] = node, 0
        _link(by_node, slot, node)
    packing.placed[slot] += count
    take_capacity(packing, application, node, count)


@kernel
def remove(packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int) -> None:
    """Remove `count` replicas of an application, at most as many as there are, from a node."""
    slot = slot_of(by_node, application, node)
    packing.placed[slot] -= count
    take_capacity(packing, application, node, -count)
    if packing.placed[slot] > 0:
        return
    _unlink(by_node, slot, node)
    packing.slots[application] -= 1
    last = packing.start[application] + packing.slots[application]
    if slot != last:  # slots of an application are consecutive
        last_node = packing.node[last]
        _unlink(by_node, last, last_node)
        packing.node[slot], packing.placed[slot] = last_node, packing.placed[last]
        _link(by_node, slot, last_node)


@kernel
def _link(by_node: ReplicasByNode, slot: int, node: int) -> None:
    """Insert `slot`, which is in no list, at the head of the list of slots of `node`."""
    first = by_node.head[node]
    by_node.next[slot], by_node.previous[slot] = first, NOTHING
    if first != NOTHING:
        by_node.previous[first] = slot
    by_node.head[node] = slot


@kernel
def _unlink(by_node: ReplicasByNode, slot: int, node: int) -> None:
    """Remove `slot` from the list of slots of `node`."""
    before, after = by_node.previous[slot], by_node.next[slot]
    if before == NOTHING:
        by_node.head[node] = after
    else:
        by_node.next[before] = after
    if after != NOTHING:
        by_node.previous[after] = before


@kernel
def add_all(packing: Packing, by_node: ReplicasByNode, application: Int32, node: Int32, count: Int32) -> None:
    """Place `count` replicas of `application` on `node`, each (P,), row by row."""
    for row in range(len(application)):
        add(packing, by_node, application[row], node[row], count[row])


class OriginalNodes(NamedTuple):
    """The original nodes of replicas: the pairs of application i are in ``start[i]:start[i + 1]``."""

    start: Int
    """(L + 1,) bounds of the pairs of each application."""
    node: Int32
    """(H,) node of each pair."""
    replicas: Int32
    """(H,) how many replicas of the application its original node had."""
    away: Int
    """(1,) number of replicas that are not on their original node."""
    most: Int
    """(1,) largest number of replicas that may leave their original nodes."""


def no_original_nodes(applications: int) -> OriginalNodes:
    """Return the state in which no application has original nodes."""
    empty = np.zeros(0, np.int32)
    return original_nodes_of(empty, empty, empty, applications, ANY_MOVES)


def original_nodes_of(application: Int32, node: Int32, count: Int32, applications: int, most: int) -> OriginalNodes:
    """Return original nodes: `count` replicas of `application` were on `node`, (H,) each; none is placed yet.

    `applications`: L; `most`: replicas that may leave their original nodes.
    """
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
    """Return how many replicas of an application its original node has less than originally, at least 0."""
    return max(0, _original_replicas(original, application, node) - _placed(packing, by_node, application, node))


@kernel
def count_moved(
    original: OriginalNodes, packing: Packing, by_node: ReplicasByNode, application: int, node: int, count: int
) -> None:
    """Update `original.away` after `count` replicas of an application were added to a node (negative: removed)."""
    originally = _original_replicas(original, application, node)
    if originally > 0:
        placed = _placed(packing, by_node, application, node)
        original.away[0] += max(0, originally - placed) - max(0, originally - (placed - count))


@kernel
def _original_replicas(original: OriginalNodes, application: int, node: int) -> int:
    """Return how many replicas of an application a node had originally."""
    for pair in range(original.start[application], original.start[application + 1]):
        if original.node[pair] == node:
            return int(original.replicas[pair])
    return 0


@kernel
def _placed(packing: Packing, by_node: ReplicasByNode, application: int, node: int) -> int:
    """Return how many replicas of an application are on a node."""
    slot = slot_of(by_node, application, node)
    return int(packing.placed[slot]) if slot != NOTHING else 0
