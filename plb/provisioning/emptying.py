"""Nodes that are emptied, a few at a time: large neighbourhood search on a plan.

Some nodes are cleared, the first of them for good if that goes. Their replicas go to the nodes on which least is left,
hard ones first. If none is left over, a node is saved. Otherwise the first node takes the rest, and the change stays
with the probability of simulated annealing, by how much more unevenly free capacity then lies: what lies together can
be emptied.

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.arrays import Float, Int, Int32
from plb.kernel import kernel
from plb.provisioning.affinity import ANY_NUMBER, Neighbours
from plb.provisioning.application_centric import Wanted
from plb.provisioning.measures import Residual, left
from plb.provisioning.packing import Packing, fitting, is_full
from plb.provisioning.standing import NOTHING, Standing, add, remove
from plb.uniform import Stream, uniform

MOST_CLEARED = 4
"""Nodes that are cleared at a time, at the most."""
MOST_OPEN = 256
"""Nodes that are looked through for a place, at the most."""


class Clearing(NamedTuple):
    """The neighbourhood at hand, and how it is gone back on."""

    used: Int32
    """(N,) the nodes in use, as many as `nodes` says."""
    nodes: Int
    """(1,)"""
    cleared: Int32
    """(MOST_CLEARED,) nodes; the first is to stay empty."""
    waiting: Int32
    """(L,) applications with replicas that wait for a place."""
    missing: Int32
    """(L,) how many."""
    urgency: Float
    """(L,) in the order of which they get one."""
    size: Float
    """(L,) of an application."""
    tolerates: Int32
    """(L,) how many of the application at hand others allow beside them; `ANY_NUMBER` between applications."""
    tolerated: Int32
    """(L,) how many of others it allows beside it; `ANY_NUMBER` between applications."""
    moved: Int32
    """(3, 2R) application, node and count of what was put somewhere; negative where it was taken away."""


def no_clearing(packing: Packing, size: Float) -> Clearing:
    """Return room for neighbourhoods; `size` is (L,)."""
    nodes, replicas, applications = len(packing.free), len(packing.node), len(size)
    return Clearing(
        used=np.zeros(nodes, np.int32),
        nodes=np.zeros(1, np.int64),
        cleared=np.zeros(MOST_CLEARED, np.int32),
        waiting=np.zeros(applications, np.int32),
        missing=np.zeros(applications, np.int32),
        urgency=np.zeros(applications),
        size=size,
        tolerates=np.full(applications, ANY_NUMBER, np.int32),
        tolerated=np.full(applications, ANY_NUMBER, np.int32),
        moved=np.zeros((3, 2 * replicas), np.int32),
    )


@kernel
def empty_nodes(
    wanted: Wanted,
    neighbours: Neighbours,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
    rng: Stream,
    temperature: float,
    rounds: int,
) -> int:
    """Try so many neighbourhoods, fewer if time runs out; return how many nodes were emptied.

    Parameters
    ----------
    residual
        A measure with constant weights.
    temperature
        Of the annealing, in squares of shares of a node.
    """
    emptied = 0
    for _ in range(rounds):
        if packing.stop[0] or clearing.nodes[0] < 2:
            break
        cleared = 2 + int(uniform(rng) * (MOST_CLEARED - 1))
        _choose(packing, clearing, residual, rng, min(cleared, clearing.nodes[0]))
        done, gain, changes = _rebuild(
            wanted, neighbours, packing, standing, clearing, residual, rng, min(cleared, clearing.nodes[0])
        )
        if done and standing.head[clearing.used[clearing.cleared[0]]] == NOTHING:
            clearing.nodes[0] -= 1
            clearing.used[clearing.cleared[0]] = clearing.used[clearing.nodes[0]]
            emptied += 1
        elif not done or (gain < 0.0 and uniform(rng) >= np.exp(gain / temperature)):
            _go_back(wanted, packing, standing, clearing, changes)
    return emptied


@kernel
def _choose(packing: Packing, clearing: Clearing, residual: Residual, rng: Stream, cleared: int) -> None:
    """Choose nodes to clear, by their number among those in use: of two at random the one with more left."""
    for place in range(cleared):
        while True:
            one, other = int(uniform(rng) * clearing.nodes[0]), int(uniform(rng) * clearing.nodes[0])
            if left(residual, packing.free, clearing.used[other]) > left(residual, packing.free, clearing.used[one]):
                one = other
            fresh = True
            for earlier in range(place):
                fresh = fresh and clearing.cleared[earlier] != one
            if fresh:
                break
        clearing.cleared[place] = one


@kernel
def _rebuild(
    wanted: Wanted,
    neighbours: Neighbours,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
    rng: Stream,
    cleared: int,
) -> tuple[bool, float, int]:
    """Clear nodes and place their replicas anew.

    Returns
    -------
    Whether all have a place, by how much more unevenly free capacity lies, and how many changes were noted.
    """
    gain, changes, waiting = 0.0, 0, 0
    for number in range(cleared):
        node = clearing.used[clearing.cleared[number]]
        while standing.head[node] != NOTHING:
            place = standing.head[node]
            application, count = standing.owner[place], packing.placed[place]
            if clearing.missing[application] == 0:
                clearing.waiting[waiting] = application
                clearing.urgency[application] = clearing.size[application] * (0.8 + 0.4 * uniform(rng))
                waiting += 1
            clearing.missing[application] += count
            gain += _change(wanted, packing, standing, clearing, residual, changes, application, node, -count)
            changes += 1
    _sort(clearing, waiting)
    live = _list_open(packing, clearing, rng, cleared)
    done = True
    for number in range(waiting):
        application = clearing.waiting[number]
        _note_limits(neighbours, clearing, application)
        while clearing.missing[application] > 0:
            node, count = _best_node(wanted, neighbours, packing, standing, clearing, residual, application, live)
            if node == NOTHING:
                break
            clearing.missing[application] -= count
            gain += _change(wanted, packing, standing, clearing, residual, changes, application, node, count)
            changes += 1
        _lift_limits(neighbours, clearing, application)
        done = done and clearing.missing[application] == 0
        clearing.missing[application] = 0
    return done, gain, changes


@kernel
def _change(
    wanted: Wanted,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
    changes: int,
    application: int,
    node: int,
    count: int,
) -> float:
    """Put replicas on a node, or take them away, and note it; return what that adds to the squares of what is left."""
    before = left(residual, packing.free, node)
    if count > 0:
        add(packing, standing, wanted.demand, application, node, count)
    else:
        remove(packing, standing, wanted.demand, application, node, -count)
    clearing.moved[0, changes], clearing.moved[1, changes] = application, node
    clearing.moved[2, changes] = count
    after = left(residual, packing.free, node)
    return after * after - before * before


@kernel
def _go_back(wanted: Wanted, packing: Packing, standing: Standing, clearing: Clearing, changes: int) -> None:
    """Take changes back, the last one first."""
    for change in range(changes - 1, -1, -1):
        application, node = clearing.moved[0, change], clearing.moved[1, change]
        count = clearing.moved[2, change]
        if count > 0:
            remove(packing, standing, wanted.demand, application, node, count)
        else:
            add(packing, standing, wanted.demand, application, node, -count)


@kernel
def _sort(clearing: Clearing, waiting: int) -> None:
    """Sort the applications that wait, the most urgent first."""
    for number in range(1, waiting):
        application = clearing.waiting[number]
        place = number
        while place > 0 and clearing.urgency[clearing.waiting[place - 1]] < clearing.urgency[application]:
            clearing.waiting[place] = clearing.waiting[place - 1]
            place -= 1
        clearing.waiting[place] = application


@kernel
def _list_open(packing: Packing, clearing: Clearing, rng: Stream, cleared: int) -> int:
    """List nodes that take replicas, the one that is to stay empty last; return how many there are.

    These are the cleared ones and, from a random one on, as many of those in use as are not full, up to `MOST_OPEN`.
    """
    live = 0
    for number in range(1, cleared):
        packing.live[live] = clearing.used[clearing.cleared[number]]
        live += 1
    number = int(uniform(rng) * clearing.nodes[0])
    for _ in range(clearing.nodes[0]):
        node = clearing.used[number]
        fresh = not is_full(packing, node)
        for place in range(cleared):
            fresh = fresh and clearing.cleared[place] != number
        if fresh:
            packing.live[live] = node
            live += 1
            if live == MOST_OPEN:
                break
        number = number + 1 if number + 1 < clearing.nodes[0] else 0
    packing.live[live] = clearing.used[clearing.cleared[0]]
    return live + 1


@kernel
def _best_node(
    wanted: Wanted,
    neighbours: Neighbours,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
    application: int,
    live: int,
) -> tuple[int, int]:
    """Return the node with least left that takes an application, and how many; the last only if no other does."""
    chosen, room, least = NOTHING, 0, np.inf
    most = clearing.missing[application]
    for number in range(live):
        if number == live - 1 and chosen != NOTHING:
            break
        node = packing.live[number]
        if fitting(packing.free, node, wanted.demand, application, 1) == 0:
            continue
        value = left(residual, packing.free, node)
        if value >= least:
            continue
        allowed = min(most, _allowed(neighbours, packing, standing, clearing, application, node))
        if allowed > 0:
            chosen, least = node, value
            room = fitting(packing.free, node, wanted.demand, application, allowed)
    return chosen, room


@kernel
def _note_limits(neighbours: Neighbours, clearing: Clearing, application: int) -> None:
    """Note the limits of an application and of others for it by the other application."""
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        clearing.tolerates[neighbours.in_other[arc]] = neighbours.in_most[arc]
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        clearing.tolerated[neighbours.out_other[arc]] = neighbours.out_most[arc]


@kernel
def _lift_limits(neighbours: Neighbours, clearing: Clearing, application: int) -> None:
    """Forget what `_note_limits` has noted."""
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        clearing.tolerates[neighbours.in_other[arc]] = ANY_NUMBER
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        clearing.tolerated[neighbours.out_other[arc]] = ANY_NUMBER


@kernel
def _allowed(
    neighbours: Neighbours, packing: Packing, standing: Standing, clearing: Clearing, application: int, node: int
) -> int:
    """Return how many more replicas of the application at hand the limits allow on a node."""
    most, there = int(neighbours.own[application]), 0
    place = standing.head[node]
    while place != NOTHING:
        other, count = standing.owner[place], packing.placed[place]
        if other == application:
            there = int(count)
        else:
            most = min(most, int(clearing.tolerates[other]))
            if count > clearing.tolerated[other]:
                return 0
        place = standing.next[place]
    return max(0, most - there)
