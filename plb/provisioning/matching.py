"""The best pair of application and node, one replica at a time ([3] section 4.4, algorithm 4).

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.affinity import Neighbours
from plb.provisioning.application_centric import Replicas
from plb.provisioning.filling import (
    FITNESS,
    Filling,
    count_node,
    count_there,
    drop_done,
    leave_node,
    limit_beside,
    score_of,
    set_weights,
)
from plb.provisioning.packing import STOPPED, Packing, fitting, note_place, take

NOBODY = -1


class Matches(NamedTuple):
    """The best application for each node, and its score."""

    best: Int32
    """(N,) the application with the highest score; `NOBODY`: none fits."""
    score: Float
    """(N,) that score, when it was last computed; an application that was completed since can only lower it."""
    head: Int32
    """(N,) the first entry of a node."""
    next: Int32
    """(R,) the next entry of the node."""
    who: Int32
    """(R,) the application of an entry."""
    many: Int32
    """(R,) its replicas."""
    entries: Int
    """(1,)"""


def no_matches(nodes: int, replicas: int) -> Matches:
    """Return the state before the first replica."""
    return Matches(
        best=np.zeros(nodes, np.int32),
        score=np.zeros(nodes),
        head=np.full(nodes, NOBODY, np.int32),
        next=np.zeros(replicas, np.int32),
        who=np.zeros(replicas, np.int32),
        many=np.zeros(replicas, np.int32),
        entries=np.zeros(1, np.int64),
    )


@kernel
def match(required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling, matches: Matches) -> int:
    """Place the replicas of the best pairs, one by one; return how many found no place.

    `STOPPED`: time ran out.

    Of equal scores, the first node and there the first application in `required.order`.
    """
    nodes, remaining, missing = len(packing.free), len(filling.remaining), 0
    for application in filling.remaining:
        missing += filling.missing[application]
    for node in range(nodes):
        count_node(packing, filling, node, 1)
    _update_all(required, neighbours, packing, filling, matches, remaining)
    while missing > 0:
        if packing.stop[0]:
            return STOPPED
        node = _best_node(matches)
        application = matches.best[node]
        if application == NOBODY:
            break
        if filling.missing[application] == 0:
            _update(required, neighbours, packing, filling, matches, remaining, node)
            continue
        take(packing, required.demand, application, node, 1)
        for dimension in range(len(filling.totals)):
            filling.totals[dimension] -= required.demand[application, dimension]
        _enter(matches, application, node)
        filling.missing[application] -= 1
        missing -= 1
        if filling.missing[application] == 0:
            remaining = drop_done(filling, remaining)
        if filling.score == FITNESS:  # what is left of all nodes is part of every score
            _update_all(required, neighbours, packing, filling, matches, remaining)
        else:
            _update(required, neighbours, packing, filling, matches, remaining, node)
    for node in range(nodes):
        entry = matches.head[node]
        while entry != NOBODY:
            note_place(packing, matches.who[entry], node, matches.many[entry])
            entry = matches.next[entry]
    return missing


@kernel
def _best_node(matches: Matches) -> int:
    chosen = 0
    for node in range(1, len(matches.score)):
        if matches.score[node] > matches.score[chosen]:
            chosen = node
    return chosen


@kernel
def _enter(matches: Matches, application: int, node: int) -> None:
    """Note one more replica of an application on a node."""
    entry = matches.head[node]
    while entry != NOBODY and matches.who[entry] != application:
        entry = matches.next[entry]
    if entry == NOBODY:
        entry = matches.entries[0]
        matches.entries[0] += 1
        matches.who[entry], matches.many[entry] = application, 0
        matches.next[entry] = matches.head[node]
        matches.head[node] = entry
    matches.many[entry] += 1


@kernel
def _update_all(
    required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling, matches: Matches, remaining: int
) -> None:
    """Look for the best application for every node; nodes of a kind that nobody is on are alike."""
    first = 0
    for kind in range(len(packing.end)):
        empty = NOBODY
        for node in range(first, packing.end[kind]):
            if matches.head[node] == NOBODY and empty != NOBODY:
                matches.best[node], matches.score[node] = matches.best[empty], matches.score[empty]
                continue
            _update(required, neighbours, packing, filling, matches, remaining, node)
            if matches.head[node] == NOBODY:
                empty = node
        first = packing.end[kind]


@kernel
def _update(
    required: Replicas,
    neighbours: Neighbours,
    packing: Packing,
    filling: Filling,
    matches: Matches,
    remaining: int,
    node: int,
) -> None:
    """Look for the best application for a node."""
    entry = matches.head[node]
    while entry != NOBODY:
        limit_beside(neighbours, filling, matches.who[entry], matches.many[entry])
        entry = matches.next[entry]
    entry = matches.head[node]
    while entry != NOBODY:
        count_there(filling, matches.who[entry], matches.many[entry])
        entry = matches.next[entry]
    set_weights(packing, filling, node)
    matches.best[node], matches.score[node] = NOBODY, -np.inf
    for number in range(remaining):
        application = filling.remaining[number]
        if filling.allowed[application] > 0 and fitting(packing.free, node, required.demand, application, 1):
            value = score_of(required, packing, filling, node, application, False)
            if value > matches.score[node]:
                matches.best[node], matches.score[node] = application, value
    leave_node(filling)
