"""Node after node ([3] section 4.3, algorithm 2): a node gets the best application until none fits.

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
    add_free_to_totals,
    add_slot,
    fitting,
    take_capacity,
    take_from_totals,
)
from plb.provisioning.replicas_by_node import NOTHING, ReplicasByNode, add, no_replicas


class Score(StrEnum):
    """Score of an application for a node ([3] table 3, whose names are the values).

    s is the demand of a replica and C the free capacity of the node, as shares of the largest node, by dimension.
    """

    DOT_PRODUCT = "DotProduct"
    """Σ s·C."""
    L2_NORM = "L2Norm"
    """-Σ (C - s)²."""
    FITNESS = "Fitness"
    """Σ s/W · C/ΣC: W is the demand of all applications, and ΣC the free capacity of all nodes in use. LRASched."""
    TIGHT_FILL = "TightFill"
    """Σ s/C."""


SCORES = {score: code for code, score in enumerate(Score)}
"""The number of each score, for kernels."""
DOT_PRODUCT, L2_NORM, FITNESS, TIGHT_FILL = range(4)


class Filling(NamedTuple):
    """The state while nodes are filled: missing replicas, scores, and the limits on the node that is being filled."""

    score: int
    """As in `SCORES`."""
    capacity: Int32
    """(D,) capacity of the largest node."""
    demanded: Int
    """(D,) demand of all applications, in units."""
    totals: Int
    """(D,) free capacity of all nodes in use, in units."""
    weights: Float
    """(D,) weight of a unit of demand in the score for the present node; not for `L2_NORM`."""
    remaining: Int32
    """(L,) the applications with replicas to place come first, in their order; algorithms count them."""
    missing: Int32
    """(L,) number of replicas of each application that are not placed."""
    candidates: Int32
    """(L,) the applications that may fit on the present node come first."""
    value: Float
    """(L,) scores of the applications in `remaining`, in its order."""
    allowed: Int32
    """(L,) how many replicas of an application the limits on the present node allow; `ANY_NUMBER`: no limit, and
    between nodes.
    """
    limited: Int32
    """(L,) the applications for which `allowed` has a limit come first; `limited_count` has their number."""
    limited_count: Int
    """(1,) number of applications with a limit."""


def empty_filling(score: Score, order: Int, packing: Packing, capacity: Int32) -> Filling:
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
        limited_count=np.zeros(1, np.int64),
    )


@kernel
def place_on_node(packing: Packing, filling: Filling, node: int, application: int, count: int) -> None:
    """Place `count` replicas of an application on the present node, which has none, and allow no more of them there."""
    take_capacity(packing, application, node, count)
    add_slot(packing, application, node, count)
    filling.missing[application] -= count
    take_from_totals(packing, filling.totals, application, count)
    _limit(filling, application, 0)
    record_limits_of(packing, filling, application, count)


@kernel
def record_limits_of(packing: Packing, filling: Filling, application: int, count: int) -> None:
    """Record the limits of `count` replicas of an application, on the present node, for others and for itself."""
    neighbours = packing.neighbours
    if neighbours.most_on_a_node[application] < ANY_NUMBER:
        _limit(filling, application, neighbours.most_on_a_node[application])
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        _limit(filling, neighbours.out_target[arc], neighbours.out_most[arc])
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        if count > neighbours.in_most[arc]:
            _limit(filling, neighbours.in_source[arc], 0)


@kernel
def _limit(filling: Filling, application: int, most: int) -> None:
    """Allow at most `most` replicas of an application on the present node."""
    _append_limited(filling, application)
    filling.allowed[application] = min(filling.allowed[application], most)


@kernel
def subtract_placed(filling: Filling, application: int, count: int) -> None:
    """Subtract `count` replicas of an application that are on the present node from what its limits allow."""
    _append_limited(filling, application)
    filling.allowed[application] -= count


@kernel
def _append_limited(filling: Filling, application: int) -> None:
    """Append an application to `filling.limited` unless it is there."""
    if filling.allowed[application] == ANY_NUMBER:
        filling.limited[filling.limited_count[0]] = application
        filling.limited_count[0] += 1


@kernel
def most_wanted(packing: Packing, filling: Filling, application: int) -> int:
    """Return how many missing replicas of an application its limits allow on the present node."""
    allowed = min(filling.allowed[application], packing.neighbours.most_on_a_node[application])
    return int(min(filling.missing[application], allowed))


@kernel
def drop_completed(filling: Filling, remaining: int) -> int:
    """Remove completed applications from the first `remaining` of `filling.remaining`; return how many are kept."""
    kept = 0
    for position in range(remaining):
        application = filling.remaining[position]
        if filling.missing[application] > 0:
            filling.remaining[kept] = application
            kept += 1
    return kept


@kernel
def reset_limits(filling: Filling) -> None:
    """Forget the limits of the node that was filled: `allowed` is `ANY_NUMBER` again, and none is limited."""
    for position in range(filling.limited_count[0]):
        filling.allowed[filling.limited[position]] = ANY_NUMBER
    filling.limited_count[0] = 0


@kernel
def set_weights(packing: Packing, filling: Filling, node: int) -> None:
    """Write `filling.weights`, (D,), with which `score_of` rates applications, from the free capacity of a node."""
    for dimension in range(len(filling.weights)):
        capacity = filling.capacity[dimension]
        share = packing.free[node, dimension] / capacity
        weight = share
        if filling.score == FITNESS:
            demanded, free = filling.demanded[dimension] / capacity, filling.totals[dimension] / capacity
            weight = _ratio_or_zero(share, demanded * free)
        elif filling.score == TIGHT_FILL:
            weight = _ratio_or_zero(1.0, share)
        filling.weights[dimension] = weight / capacity


@kernel
def _ratio_or_zero(above: float, below: float) -> float:
    """Return `above` / `below`; 0 if `below` is 0."""
    return above / below if below > 0.0 else 0.0


@kernel
def score_of(packing: Packing, filling: Filling, node: int, application: int, whole: bool) -> float:
    """Return the score of an application for a node, after `set_weights`; with `whole`, shares are rounded down."""
    value = 0.0
    for dimension in range(len(filling.weights)):
        demand, free = packing.demand[application, dimension], packing.free[node, dimension]
        capacity = filling.capacity[dimension]
        if whole:
            demand -= demand % capacity
        if filling.score == L2_NORM:
            if whole:
                free -= free % capacity
            value -= ((free - demand) / capacity) ** 2
        else:
            value += filling.weights[dimension] * demand
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
            remaining = drop_completed(filling, remaining)
    return 0 if remaining == 0 else NO_CAPACITY


@kernel
def _fill(packing: Packing, filling: Filling, node: int, remaining: int) -> bool:
    """Fill a node with the first `remaining` of `filling.remaining`; return whether any replica was placed."""
    for position in range(remaining):
        filling.candidates[position] = filling.remaining[position]
    add_free_to_totals(packing, filling.totals, node, 1)
    feasible, placed = remaining, False
    while True:
        feasible, chosen = _choose_candidate(packing, filling, node, feasible)
        if chosen < 0:
            break
        application = filling.candidates[chosen]
        count = fitting(packing, node, application, most_wanted(packing, filling, application))
        place_on_node(packing, filling, node, application, count)
        placed = True
    reset_limits(filling)
    if not placed:
        add_free_to_totals(packing, filling.totals, node, -1)
    return placed


@kernel
def _choose_candidate(packing: Packing, filling: Filling, node: int, feasible: int) -> tuple[int, int]:
    """Remove from the first `feasible` candidates the ones that do not fit on a node, and choose the highest score.

    The result is how many candidates are kept, and the position of the chosen one; -1: none fits.
    """
    set_weights(packing, filling, node)
    kept, chosen, highest = 0, -1, -np.inf
    for position in range(feasible):
        application = filling.candidates[position]
        if filling.allowed[application] > 0 and fitting(packing, node, application, 1):
            filling.candidates[kept] = application
            value = score_of(packing, filling, node, application, False)
            if value > highest:
                chosen, highest = kept, value
            kept += 1
    return kept, chosen


class Matches(NamedTuple):
    """The application with the highest score for each node."""

    best: Int32
    """(N,) the application; `NOTHING`: none fits."""
    score: Float
    """(N,) its score, when it was last computed; the score falls if the application has been completed since."""
    by_node: ReplicasByNode
    """The replicas on each node."""


def empty_matches(packing: Packing) -> Matches:
    """Return the state before the first replica is placed."""
    nodes = len(packing.free)
    return Matches(np.zeros(nodes, np.int32), np.zeros(nodes), no_replicas(packing))


@kernel
def match(packing: Packing, filling: Filling, matches: Matches) -> int:
    """Place replicas one by one, each of the pair of application and node with the highest score, ties on the first.

    The result is how many replicas are not placed, or `STOPPED`.
    """
    nodes, remaining, missing = len(packing.free), len(filling.remaining), 0
    for application in filling.remaining:
        missing += filling.missing[application]
    for node in range(nodes):
        add_free_to_totals(packing, filling.totals, node, 1)
    _update_all(packing, filling, matches, remaining)
    while missing > 0:
        if packing.stop[0]:
            return STOPPED
        node = _best_node(matches)
        application = matches.best[node]
        if application == NOTHING:
            break
        if filling.missing[application] == 0:
            _update_best(packing, filling, matches, remaining, node)
            continue
        add(packing, matches.by_node, application, node, 1)
        take_from_totals(packing, filling.totals, application, 1)
        filling.missing[application] -= 1
        missing -= 1
        if filling.missing[application] == 0:
            remaining = drop_completed(filling, remaining)
        if filling.score == FITNESS:  # the free capacity of all nodes is part of every score
            _update_all(packing, filling, matches, remaining)
        else:
            _update_best(packing, filling, matches, remaining, node)
    return missing


@kernel
def _best_node(matches: Matches) -> int:
    """Return the first node whose best application has the highest score of all."""
    chosen = 0
    for node in range(1, len(matches.score)):
        if matches.score[node] > matches.score[chosen]:
            chosen = node
    return chosen


@kernel
def _update_all(packing: Packing, filling: Filling, matches: Matches, remaining: int) -> None:
    """Update `matches` for every node, from the first `remaining` applications; empty nodes of a kind match alike."""
    first, head = 0, matches.by_node.head
    for kind in range(len(packing.end)):
        first_empty = NOTHING
        for node in range(first, packing.end[kind]):
            if head[node] == NOTHING and first_empty != NOTHING:
                matches.best[node], matches.score[node] = matches.best[first_empty], matches.score[first_empty]
                continue
            _update_best(packing, filling, matches, remaining, node)
            if head[node] == NOTHING:
                first_empty = node
        first = packing.end[kind]


@kernel
def _update_best(packing: Packing, filling: Filling, matches: Matches, remaining: int, node: int) -> None:
    """Update `matches` for a node, from the first `remaining` applications of `filling.remaining`."""
    by_node = matches.by_node
    slot = by_node.head[node]
    while slot != NOTHING:
        record_limits_of(packing, filling, by_node.owner[slot], packing.placed[slot])
        slot = by_node.next[slot]
    slot = by_node.head[node]
    while slot != NOTHING:
        subtract_placed(filling, by_node.owner[slot], packing.placed[slot])
        slot = by_node.next[slot]
    set_weights(packing, filling, node)
    matches.best[node], matches.score[node] = NOTHING, -np.inf
    for position in range(remaining):
        application = filling.remaining[position]
        if filling.allowed[application] > 0 and fitting(packing, node, application, 1):
            value = score_of(packing, filling, node, application, False)
            if value > matches.score[node]:
                matches.best[node], matches.score[node] = application, value
    reset_limits(filling)
