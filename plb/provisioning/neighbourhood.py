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
from plb.provisioning.standing import NOTHING, Homes, Standing, add, note_away, remove, vacant

MOST_CLEARED = 4
"""Nodes that are cleared at a time, at the most."""


class Clearing(NamedTuple):
    """The present neighbourhood and its undo log."""

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
    homes: Homes
    """The original nodes of replicas."""


class Site(NamedTuple):
    """A packing, and the data of the search for a better one."""

    packing: Packing
    standing: Standing
    clearing: Clearing
    residual: Residual
    """The measure of free capacity, with constant weights."""


def site_of(packing: Packing, standing: Standing, used: Int, size: Float, homes: Homes, capacity: Int32) -> Site:
    """Return a packing with space for neighbourhoods.

    Parameters
    ----------
    packing, standing
        The present packing.
    used
        The nodes in use.
    size
        (L,) of a replica of each application.
    homes
        The original nodes of replicas.
    capacity
        (D,) of the largest node.
    """
    nodes, replicas, applications = len(packing.free), len(packing.node), len(size)
    clearing = Clearing(
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
        homes=homes,
    )
    clearing.used[: len(used)] = used
    site = Site(packing, standing, clearing, residual_of(Measure.AVERAGE, capacity))
    _update_all(site)
    return site


@kernel
def _update_all(site: Site) -> None:
    """Note how each node is."""
    for node in range(len(site.clearing.left)):
        _update(site, node)


@kernel
def _update(site: Site, node: int) -> None:
    """Note how a node is, after a change."""
    site.clearing.left[node] = left(site.residual, site.packing, node)
    site.clearing.full[node] = is_full(site.packing, node)


@kernel
def change(site: Site, changes: int, application: int, node: int, count: int) -> float:
    """Put replicas on a node, or take them away, and note it; return what that adds to the squares of what is left."""
    clearing = site.clearing
    before = clearing.left[node]
    _put(site, application, node, count)
    clearing.moved[0, changes], clearing.moved[1, changes] = application, node
    clearing.moved[2, changes] = count
    after = clearing.left[node]
    return float(after * after - before * before)


@kernel
def undo_changes(site: Site, changes: int) -> None:
    """Take changes back, the last one first."""
    moved = site.clearing.moved
    for number in range(changes - 1, -1, -1):
        _put(site, moved[0, number], moved[1, number], -moved[2, number])


@kernel
def _put(site: Site, application: int, node: int, count: int) -> None:
    """Place replicas on a node, or remove them if `count` is negative."""
    packing, standing = site.packing, site.standing
    if count > 0:
        add(packing, standing, application, node, count)
    else:
        remove(packing, standing, application, node, -count)
    _update(site, node)
    note_away(site.clearing.homes, packing, standing, application, node, count)


@kernel
def note_limits(site: Site, application: int) -> None:
    """Record the limits of an application and of others for it, by the other application."""
    neighbours, clearing = site.packing.neighbours, site.clearing
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        clearing.tolerates[neighbours.in_other[arc]] = neighbours.in_most[arc]
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        clearing.tolerated[neighbours.out_other[arc]] = neighbours.out_most[arc]


@kernel
def lift_limits(site: Site, application: int) -> None:
    """Reset the recorded limits."""
    neighbours, clearing = site.packing.neighbours, site.clearing
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        clearing.tolerates[neighbours.in_other[arc]] = ANY_NUMBER
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        clearing.tolerated[neighbours.out_other[arc]] = ANY_NUMBER


@kernel
def allowed_on(site: Site, application: int, node: int) -> int:
    """Return how many more replicas of the application with recorded limits may be on a node."""
    standing, clearing = site.standing, site.clearing
    most, there = int(site.packing.neighbours.most_on_a_node[application]), 0
    place = standing.head[node]
    while place != NOTHING:
        other, count = standing.owner[place], site.packing.placed[place]
        if other == application:
            there = int(count)
        else:
            most = min(most, int(clearing.tolerates[other]))
            if count > clearing.tolerated[other]:
                return 0
        place = standing.next[place]
    return max(0, most - there)


@kernel
def best_node(site: Site, application: int, first: int, end: int, preferred: int) -> tuple[int, int]:
    """Return the feasible node with the least free capacity for the application, and the number of replicas.

    Parameters
    ----------
    first, end
        The nodes ``packing.live[first:end]`` are searched.
    preferred
        One of ``packing.live[:preferred]`` is chosen first if it is an original node of the application.
    """
    packing, clearing = site.packing, site.clearing
    chosen, capacity, least = NOTHING, 0, np.inf
    most = clearing.missing[application]
    for number in range(first, end):
        node = packing.live[number]
        at_home = 0 if number >= preferred else vacant(clearing.homes, packing, site.standing, application, node)
        value = -1.0 if at_home > 0 else clearing.left[node]
        if value >= least or fitting(packing, node, application, 1) == 0:
            continue
        allowed = min(most, allowed_on(site, application, node))
        allowed = min(allowed, at_home) if at_home > 0 else allowed
        if allowed > 0:
            chosen, least = node, value
            capacity = fitting(packing, node, application, allowed)
    return chosen, capacity
