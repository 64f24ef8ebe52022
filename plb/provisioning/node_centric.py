"""Node after node ([3] section 4.3, algorithm 2): a node gets the best application until none fits.

`Filling` is the node that is being filled: feasible applications, their missing replicas, and their scores.
L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.instance import ANY_NUMBER
from plb.provisioning.packing import (
    NO_CAPACITY,
    STOPPED,
    Packing,
    count_node,
    fitting,
    note_place,
    take,
    take_from_totals,
)
from plb.provisioning.replicas_by_node import NOTHING, ReplicasByNode, add, no_replicas


class Score(StrEnum):
    """Score of an application for a node ([3] table 3, whose names are the values); s and C are shares of a node."""

    DOT_PRODUCT = "DotProduct"
    """Σ s·C, C being what is left of the node."""
    L2_NORM = "L2Norm"
    """-Σ (C - s)²."""
    FITNESS = "Fitness"
    """Σ s/W · C/ΣC: W is the demand of all applications, and ΣC the free capacity of all nodes in use. LRASched."""
    TIGHT_FILL = "TightFill"
    """Σ s/C."""


SCORES = {score: code for code, score in enumerate(Score)}
"""By which kernels know the scores."""
DOT_PRODUCT, L2_NORM, FITNESS, TIGHT_FILL = range(4)


class Filling(NamedTuple):
    """What is known while nodes are filled."""

    score: int
    """As in `SCORES`."""
    capacity: Int32
    """(D,) of the largest node."""
    demanded: Int
    """(D,) demand of all applications, in units."""
    totals: Int
    """(D,) free capacity of all nodes in use, in units."""
    weights: Float
    """(D,) weight of the demand of an application in units, for the present node; not for `L2_NORM`."""
    remaining: Int32
    """(L,) applications with replicas to place, in their order."""
    missing: Int32
    """(L,) how many."""
    candidates: Int32
    """(L,) applications that may fit on the node at hand."""
    value: Float
    """(L,) scores, in the order of `remaining`."""
    allowed: Int32
    """(L,) how many replicas the limits on the node allow; `ANY_NUMBER` between nodes."""
    limited: Int32
    """(L,) the applications with such a limit; `noted` has their number."""
    noted: Int
    """(1,)"""


def nothing_filled(score: Score, order: Int, packing: Packing, capacity: Int32) -> Filling:
    """Return the state before the first node; `order` is (L,) applications, `capacity` (D,) of the largest node."""
    applications, dimensions = len(order), len(capacity)
    return Filling(
        score=SCORES[score],
        capacity=capacity,
        demanded=packing.replicas.astype(np.int64) @ packing.demand,
        totals=np.zeros(dimensions, np.int64),
        weights=np.zeros(dimensions),
        remaining=order.astype(np.int32),
        missing=packing.replicas.copy(),
        candidates=np.zeros(applications, np.int32),
        value=np.zeros(applications),
        allowed=np.full(applications, ANY_NUMBER, np.int32),
        limited=np.zeros(applications, np.int32),
        noted=np.zeros(1, np.int64),
    )


@kernel
def place_on_node(packing: Packing, filling: Filling, node: int, application: int, count: int) -> None:
    """Place replicas of an application that is not on the node; no more of them are placed there."""
    take(packing, application, node, count)
    note_place(packing, application, node, count)
    filling.missing[application] -= count
    take_from_totals(packing, filling.totals, application, count)
    _limit(filling, application, 0)
    limit_beside(packing, filling, application, count)


@kernel
def limit_beside(packing: Packing, filling: Filling, application: int, count: int) -> None:
    """Record the limits of a number of replicas of an application on the node for others and for itself."""
    neighbours = packing.neighbours
    if neighbours.most_on_a_node[application] < ANY_NUMBER:
        _limit(filling, application, neighbours.most_on_a_node[application])
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        _limit(filling, neighbours.out_other[arc], neighbours.out_most[arc])
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        if count > neighbours.in_most[arc]:
            _limit(filling, neighbours.in_other[arc], 0)


@kernel
def _limit(filling: Filling, application: int, most: int) -> None:
    _note(filling, application)
    filling.allowed[application] = min(filling.allowed[application], most)


@kernel
def count_there(filling: Filling, application: int, count: int) -> None:
    """Subtract the replicas that are on the node, after all limits are recorded, from the allowed numbers."""
    _note(filling, application)
    filling.allowed[application] -= count


@kernel
def _note(filling: Filling, application: int) -> None:
    if filling.allowed[application] == ANY_NUMBER:
        filling.limited[filling.noted[0]] = application
        filling.noted[0] += 1


@kernel
def most_wanted(packing: Packing, filling: Filling, application: int) -> int:
    """Return the largest number of replicas that are missing and that the limits allow on the node."""
    allowed = min(filling.allowed[application], packing.neighbours.most_on_a_node[application])
    return int(min(filling.missing[application], allowed))


@kernel
def drop_done(filling: Filling, remaining: int) -> int:
    """Remove the applications without replicas to place; return how many remain, in their order."""
    kept = 0
    for number in range(remaining):
        application = filling.remaining[number]
        if filling.missing[application] > 0:
            filling.remaining[kept] = application
            kept += 1
    return kept


@kernel
def leave_node(filling: Filling) -> None:
    """Reset the limits of the present node."""
    for number in range(filling.noted[0]):
        filling.allowed[filling.limited[number]] = ANY_NUMBER
    filling.noted[0] = 0


@kernel
def set_weights(packing: Packing, filling: Filling, node: int) -> None:
    """Weight the demand of an application by the free capacity of a node."""
    for dimension in range(len(filling.weights)):
        capacity = filling.capacity[dimension]
        share = packing.free[node, dimension] / capacity
        weight = share
        if filling.score == FITNESS:
            asked, left = filling.demanded[dimension] / capacity, filling.totals[dimension] / capacity
            weight = _ratio(share, asked * left)
        elif filling.score == TIGHT_FILL:
            weight = _ratio(1.0, share)
        filling.weights[dimension] = weight / capacity


@kernel
def _ratio(above: float, below: float) -> float:
    """Return a ratio, and 0 if numerator or denominator is 0."""
    return above / below if below > 0.0 else 0.0


@kernel
def score_of(packing: Packing, filling: Filling, node: int, application: int, whole: bool) -> float:
    """Return the score of an application on a node, after `set_weights`; `whole`: shares are whole numbers."""
    value = 0.0
    for dimension in range(len(filling.weights)):
        asked, free = packing.demand[application, dimension], packing.free[node, dimension]
        capacity = filling.capacity[dimension]
        if whole:
            asked -= asked % capacity
        if filling.score == L2_NORM:
            if whole:
                free -= free % capacity
            value -= ((free - asked) / capacity) ** 2
        else:
            value += filling.weights[dimension] * asked
    return value


@kernel
def fill_nodes(packing: Packing, filling: Filling) -> int:
    """Fill node after node, of equal scores with the first application; return 0, `NO_CAPACITY` or `STOPPED`."""
    remaining = len(filling.remaining)
    for kind in range(len(packing.end)):
        while remaining > 0 and packing.unused[kind] < packing.end[kind]:
            if packing.stop[0]:
                return STOPPED
            node = packing.unused[kind]
            if not _fill(packing, filling, node, remaining):
                break
            packing.unused[kind] += 1
            remaining = drop_done(filling, remaining)
    return 0 if remaining == 0 else NO_CAPACITY


@kernel
def _fill(packing: Packing, filling: Filling, node: int, remaining: int) -> bool:
    """Fill a node; return whether anything fits."""
    for number in range(remaining):
        filling.candidates[number] = filling.remaining[number]
    count_node(packing, filling.totals, node, 1)
    feasible, placed = remaining, False
    while True:
        feasible, chosen = _choose(packing, filling, node, feasible)
        if chosen < 0:
            break
        application = filling.candidates[chosen]
        count = fitting(packing, node, application, most_wanted(packing, filling, application))
        place_on_node(packing, filling, node, application, count)
        placed = True
    leave_node(filling)
    if not placed:
        count_node(packing, filling.totals, node, -1)
    return placed


@kernel
def _choose(packing: Packing, filling: Filling, node: int, feasible: int) -> tuple[int, int]:
    """Remove candidates that do not fit; return their number and the candidate with the highest score."""
    set_weights(packing, filling, node)
    kept, chosen, highest = 0, -1, -np.inf
    for number in range(feasible):
        application = filling.candidates[number]
        if filling.allowed[application] > 0 and fitting(packing, node, application, 1):
            filling.candidates[kept] = application
            value = score_of(packing, filling, node, application, False)
            if value > highest:
                chosen, highest = kept, value
            kept += 1
    return kept, chosen


class Matches(NamedTuple):
    """The best application for each node, and its score."""

    best: Int32
    """(N,) the application with the highest score; `NOTHING`: none fits."""
    score: Float
    """(N,) that score, when it was last computed; an application that was completed since can only lower it."""
    by_node: ReplicasByNode
    """The replicas on each node."""


def no_matches(packing: Packing) -> Matches:
    """Return the state before the first replica."""
    nodes = len(packing.free)
    return Matches(np.zeros(nodes, np.int32), np.zeros(nodes), no_replicas(packing))


@kernel
def match(packing: Packing, filling: Filling, matches: Matches) -> int:
    """Place the replicas of the best pairs, one by one, of equal scores the first; return how many are left over."""
    nodes, remaining, missing = len(packing.free), len(filling.remaining), 0
    for application in filling.remaining:
        missing += filling.missing[application]
    for node in range(nodes):
        count_node(packing, filling.totals, node, 1)
    _update_all(packing, filling, matches, remaining)
    while missing > 0:
        if packing.stop[0]:
            return STOPPED
        node = _best_node(matches)
        application = matches.best[node]
        if application == NOTHING:
            break
        if filling.missing[application] == 0:
            _update(packing, filling, matches, remaining, node)
            continue
        add(packing, matches.by_node, application, node, 1)
        take_from_totals(packing, filling.totals, application, 1)
        filling.missing[application] -= 1
        missing -= 1
        if filling.missing[application] == 0:
            remaining = drop_done(filling, remaining)
        if filling.score == FITNESS:  # what is left of all nodes is part of every score
            _update_all(packing, filling, matches, remaining)
        else:
            _update(packing, filling, matches, remaining, node)
    return missing


@kernel
def _best_node(matches: Matches) -> int:
    chosen = 0
    for node in range(1, len(matches.score)):
        if matches.score[node] > matches.score[chosen]:
            chosen = node
    return chosen


@kernel
def _update_all(packing: Packing, filling: Filling, matches: Matches, remaining: int) -> None:
    """Look for the best application for every node; nodes of a kind that nobody is on are alike."""
    first, head = 0, matches.by_node.head
    for kind in range(len(packing.end)):
        empty = NOTHING
        for node in range(first, packing.end[kind]):
            if head[node] == NOTHING and empty != NOTHING:
                matches.best[node], matches.score[node] = matches.best[empty], matches.score[empty]
                continue
            _update(packing, filling, matches, remaining, node)
            if head[node] == NOTHING:
                empty = node
        first = packing.end[kind]


@kernel
def _update(packing: Packing, filling: Filling, matches: Matches, remaining: int, node: int) -> None:
    """Look for the best application for a node."""
    by_node = matches.by_node
    place = by_node.head[node]
    while place != NOTHING:
        limit_beside(packing, filling, by_node.owner[place], packing.placed[place])
        place = by_node.next[place]
    place = by_node.head[node]
    while place != NOTHING:
        count_there(filling, by_node.owner[place], packing.placed[place])
        place = by_node.next[place]
    set_weights(packing, filling, node)
    matches.best[node], matches.score[node] = NOTHING, -np.inf
    for number in range(remaining):
        application = filling.remaining[number]
        if filling.allowed[application] > 0 and fitting(packing, node, application, 1):
            value = score_of(packing, filling, node, application, False)
            if value > matches.score[node]:
                matches.best[node], matches.score[node] = application, value
    leave_node(filling)
