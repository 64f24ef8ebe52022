"""A part of a plan that is cleared and filled again: its replicas, and the undo log of a change.

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.affinity import ANY_NUMBER
from plb.provisioning.measures import Measure, Residual, left, residual_of
from plb.provisioning.packing import Packing, fitting, is_full
from plb.provisioning.replicas_by_node import NOTHING, OriginalNodes, ReplicasByNode, add, count_moved, remove, vacant

MOST_CLEARED = 4
"""Nodes that are cleared at a time, at the most."""


class ClearedPart(NamedTuple):
    """The present part of the plan that is cleared, and its undo log."""

    used: Int32
    """(N,) the nodes in use; `nodes` is their number."""
    nodes: Int
    """(1,)"""
    cleared: Int32
    """(MOST_CLEARED,) nodes, by their number in `used`; the first is to stay empty."""
    waiting: Int32
    """(L,) applications with replicas that wait for a place."""
    missing: Int32
    """(L,) how many."""
    urgency: Float
    """(L,) in the order of which they get one."""
    size: Float
    """(L,) replicas of an application without a node."""
    tolerates: Int32
    """(L,) limit of others for the present application; `ANY_NUMBER` between applications."""
    tolerated: Int32
    """(L,) limit of the present application for others; `ANY_NUMBER` between applications."""
    left: Float
    """(N,) free capacity of a node (`plb.provisioning.measures.left`), kept current."""
    full: Bool
    """(N,) whether a node is full, kept current."""
    moved: Int32
    """(3, 2R) undo log: application, node and count of what was placed; negative if it was removed."""
    original: OriginalNodes
    """The original nodes of replicas."""


class SearchState(NamedTuple):
    """A packing, and the data of the search for a better one."""

    packing: Packing
    by_node: ReplicasByNode
    neighbourhood: ClearedPart
    residual: Residual
    """The measure of free capacity, with constant weights."""


def search_state_of(
    packing: Packing, by_node: ReplicasByNode, used: Int, size: Float, original: OriginalNodes, capacity: Int32
) -> SearchState:
    """Return a packing with space for neighbourhoods.

    Parameters
    ----------
    packing, by_node
        The present packing.
    used
        The nodes in use.
    size
        (L,) of a replica of each application.
    original
        The original nodes of replicas.
    capacity
        (D,) of the largest node.
    """
    nodes, replicas, applications = len(packing.free), len(packing.node), len(size)
    neighbourhood = ClearedPart(
        used=np.zeros(nodes, np.int32),
        nodes=np.full(1, len(used), np.int64),
        cleared=np.zeros(MOST_CLEARED, np.int32),
        waiting=np.zeros(applications, np.int32),
        missing=np.zeros(applications, np.int32),
        urgency=np.zeros(applications),
        size=size,
        tolerates=np.full(applications, ANY_NUMBER, np.int32),
        tolerated=np.full(applications, ANY_NUMBER, np.int32),
        left=np.zeros(nodes),
        full=np.zeros(nodes, np.bool_),
        moved=np.zeros((3, 2 * replicas), np.int32),
        original=original,
    )
    neighbourhood.used[: len(used)] = used
    search = SearchState(packing, by_node, neighbourhood, residual_of(Measure.AVERAGE, capacity))
    _update_all(search)
    return search


@kernel
def _update_all(search: SearchState) -> None:
    """Note how each node is."""
    for node in range(len(search.neighbourhood.left)):
        _update(search, node)


@kernel
def _update(search: SearchState, node: int) -> None:
    """Note how a node is, after a change."""
    search.neighbourhood.left[node] = left(search.residual, search.packing, node)
    search.neighbourhood.full[node] = is_full(search.packing, node)


@kernel
def change(search: SearchState, changes: int, application: int, node: int, count: int) -> float:
    """Put replicas on a node, or take them away, and note it; return what that adds to the squares of what is left."""
    neighbourhood = search.neighbourhood
    before = neighbourhood.left[node]
    _put(search, application, node, count)
    neighbourhood.moved[0, changes], neighbourhood.moved[1, changes] = application, node
    neighbourhood.moved[2, changes] = count
    after = neighbourhood.left[node]
    return float(after * after - before * before)


@kernel
def undo_changes(search: SearchState, changes: int) -> None:
    """Take changes back, the last one first."""
    moved = search.neighbourhood.moved
    for number in range(changes - 1, -1, -1):
        _put(search, moved[0, number], moved[1, number], -moved[2, number])


@kernel
def _put(search: SearchState, application: int, node: int, count: int) -> None:
    """Place replicas on a node, or remove them if `count` is negative."""
    packing, by_node = search.packing, search.by_node
    if count > 0:
        add(packing, by_node, application, node, count)
    else:
        remove(packing, by_node, application, node, -count)
    _update(search, node)
    count_moved(search.neighbourhood.original, packing, by_node, application, node, count)


@kernel
def note_limits(search: SearchState, application: int) -> None:
    """Record the limits of an application and of others for it, by the other application."""
    neighbours, neighbourhood = search.packing.neighbours, search.neighbourhood
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbourhood.tolerates[neighbours.in_other[arc]] = neighbours.in_most[arc]
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbourhood.tolerated[neighbours.out_other[arc]] = neighbours.out_most[arc]


@kernel
def lift_limits(search: SearchState, application: int) -> None:
    """Reset the recorded limits."""
    neighbours, neighbourhood = search.packing.neighbours, search.neighbourhood
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbourhood.tolerates[neighbours.in_other[arc]] = ANY_NUMBER
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbourhood.tolerated[neighbours.out_other[arc]] = ANY_NUMBER


@kernel
def allowed_on(search: SearchState, application: int, node: int) -> int:
    """Return how many more replicas of the application with recorded limits may be on a node."""
    by_node, neighbourhood = search.by_node, search.neighbourhood
    most, there = int(search.packing.neighbours.most_on_a_node[application]), 0
    place = by_node.head[node]
    while place != NOTHING:
        other, count = by_node.owner[place], search.packing.placed[place]
        if other == application:
            there = int(count)
        else:
            most = min(most, int(neighbourhood.tolerates[other]))
            if count > neighbourhood.tolerated[other]:
                return 0
        place = by_node.next[place]
    return max(0, most - there)


@kernel
def best_node(search: SearchState, application: int, first: int, end: int, preferred: int) -> tuple[int, int]:
    """Return the feasible node with the least free capacity for the application, and the number of replicas.

    Parameters
    ----------
    first, end
        The nodes ``packing.live[first:end]`` are searched.
    preferred
        One of ``packing.live[:preferred]`` is chosen first if it is an original node of the application.
    """
    packing, neighbourhood = search.packing, search.neighbourhood
    chosen, capacity, least = NOTHING, 0, np.inf
    most = neighbourhood.missing[application]
    for number in range(first, end):
        node = packing.live[number]
        at_original = (
            0 if number >= preferred else vacant(neighbourhood.original, packing, search.by_node, application, node)
        )
        value = -1.0 if at_original > 0 else neighbourhood.left[node]
        if value >= least or fitting(packing, node, application, 1) == 0:
            continue
        allowed = min(most, allowed_on(search, application, node))
        allowed = min(allowed, at_original) if at_original > 0 else allowed
        if allowed > 0:
            chosen, least = node, value
            capacity = fitting(packing, node, application, allowed)
    return chosen, capacity
