"""Nodes that are emptied, a few at a time: large neighbourhood search on a plan.

Some nodes are cleared, the first of them permanently if that is possible. Their replicas go to the nodes with the least
free capacity, large ones first. If all are placed, a node is saved. Otherwise the first node takes the rest, and the
change is kept if free capacity has become more uneven, because a node with much of it is easier to empty, or else with
the probability of simulated annealing. Where replicas have original nodes (`plb.provisioning.standing.Homes`), a move
has a price, and the number of moves is limited.

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.compiler import Stream, kernel, uniform
from plb.provisioning.neighbourhood import (
    MOST_CLEARED,
    Clearing,
    Site,
    best_node,
    change,
    lift_limits,
    note_limits,
    undo_changes,
)
from plb.provisioning.packing import Packing, sort_by
from plb.provisioning.standing import NOTHING, Standing

MOST_OPEN, MOST_OPEN_IN_TURN = 256, 4096
"""Largest number of nodes in which a place is searched, in the search and when nodes are emptied in turn."""


class Annealing(NamedTuple):
    """Acceptance of changes that empty no node."""

    temperature: float
    """Temperature, in squares of shares of a node."""
    price: float
    """Cost of a replica that leaves its original node, once the limit of moves is reached; before, in proportion."""


@kernel
def empty_a_node(site: Site, rng: Stream, annealing: Annealing, rounds: int) -> bool:
    """Try a number of neighbourhoods, until a node is emptied or time runs out; return whether one was."""
    clearing = site.clearing
    homes = clearing.homes
    for _ in range(rounds):
        if site.packing.stop[0] or clearing.nodes[0] < 2:
            break
        cleared = min(2 + int(uniform(rng) * (MOST_CLEARED - 1)), clearing.nodes[0])
        _choose(clearing, rng, cleared)
        away = homes.away[0]
        done, gain, changes = _rebuild(site, rng, cleared, MOST_OPEN)
        more = homes.away[0] - away
        done = done and (more <= 0 or homes.away[0] <= homes.most[0])
        price = annealing.price * homes.away[0] / max(1, homes.most[0])
        worth = gain - price * more
        number = _first_empty(site.standing, clearing, cleared)
        if done and number != NOTHING:
            clearing.nodes[0] -= 1
            clearing.used[number] = clearing.used[clearing.nodes[0]]
            return True
        if not done or (worth < 0.0 and uniform(rng) >= np.exp(worth / annealing.temperature)):
            undo_changes(site, changes)
    return False


@kernel
def _first_empty(standing: Standing, clearing: Clearing, cleared: int) -> int:
    """Return the number in use of a cleared node without replicas, or `NOTHING`."""
    for place in range(cleared):
        number = clearing.cleared[place]
        if standing.head[clearing.used[number]] == NOTHING:
            return int(number)
    return NOTHING


@kernel
def empty_in_turn(site: Site, rng: Stream) -> int:
    """Empty each node in turn whose replicas fit on the others; return how many were emptied."""
    clearing = site.clearing
    emptied, number, homes = 0, 0, clearing.homes
    while number < clearing.nodes[0] and clearing.nodes[0] > 1 and not site.packing.stop[0]:
        clearing.cleared[0] = number
        done, _, changes = _rebuild(site, rng, 1, MOST_OPEN_IN_TURN)
        if done and homes.away[0] <= homes.most[0] and site.standing.head[clearing.used[number]] == NOTHING:
            clearing.nodes[0] -= 1
            for later in range(number, clearing.nodes[0]):
                clearing.used[later] = clearing.used[later + 1]
            emptied += 1
        else:
            undo_changes(site, changes)
            number += 1
    return emptied


@kernel
def _choose(clearing: Clearing, rng: Stream, cleared: int) -> None:
    """Choose nodes to clear, by their number among those in use: of two random ones the one with more free capacity."""
    for place in range(cleared):
        while True:
            one, other = int(uniform(rng) * clearing.nodes[0]), int(uniform(rng) * clearing.nodes[0])
            if clearing.left[clearing.used[other]] > clearing.left[clearing.used[one]]:
                one = other
            if not _is_cleared(clearing, place, one):
                break
        clearing.cleared[place] = one


@kernel
def _is_cleared(clearing: Clearing, cleared: int, number: int) -> bool:
    """Return whether a node, by its number among those in use, is one of the first `cleared` that are cleared."""
    found = False
    for place in range(cleared):
        found = found or clearing.cleared[place] == number
    return found


@kernel
def _rebuild(site: Site, rng: Stream, cleared: int, most_open: int) -> tuple[bool, float, int]:
    """Clear nodes and place their replicas on a number of nodes.

    Returns
    -------
    Whether all are placed, the increase of the unevenness of free capacity, and the number of recorded changes.
    """
    packing, standing, clearing = site.packing, site.standing, site.clearing
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
            gain += change(site, changes, application, node, -count)
            changes += 1
    sort_by(clearing.waiting, clearing.urgency, 0, waiting, -1)
    live = _list_open(packing, clearing, rng, cleared, most_open)
    packing.live[live] = clearing.used[clearing.cleared[0]]
    preferred = cleared - 1 if uniform(rng) < 0.5 else 0
    done = True
    for number in range(waiting):
        application = clearing.waiting[number]
        note_limits(site, application)
        while clearing.missing[application] > 0:
            node, count = best_node(site, application, 0, live, preferred)
            if node == NOTHING:  # the node that was to stay empty
                node, count = best_node(site, application, live, live + 1, 0)
            if node == NOTHING:
                break
            clearing.missing[application] -= count
            gain += change(site, changes, application, node, count)
            changes += 1
        lift_limits(site, application)
        done = done and clearing.missing[application] == 0
        clearing.missing[application] = 0
    return done, gain, changes


@kernel
def _list_open(packing: Packing, clearing: Clearing, rng: Stream, cleared: int, most_open: int) -> int:
    """List candidate nodes for replicas; return their number.

    These are the cleared ones without the first and, from a random one on, those in use that are not full, up to a
    maximum.
    """
    live = 0
    for number in range(1, cleared):
        packing.live[live] = clearing.used[clearing.cleared[number]]
        live += 1
    number = int(uniform(rng) * clearing.nodes[0])
    for _ in range(clearing.nodes[0]):
        node = clearing.used[number]
        if not clearing.full[node] and not _is_cleared(clearing, cleared, number):
            packing.live[live] = node
            live += 1
            if live == most_open:
                break
        number = number + 1 if number + 1 < clearing.nodes[0] else 0
    return live
