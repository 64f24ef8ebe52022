"""The best pair of application and node, one replica at a time ([3] section 4.4, algorithm 4).

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int32
from plb.compiler import kernel
from plb.provisioning.node_centric import (
    FITNESS,
    Filling,
    count_there,
    drop_done,
    leave_node,
    limit_beside,
    score_of,
    set_weights,
)
from plb.provisioning.packing import STOPPED, Packing, count_node, fitting, take_from_totals
from plb.provisioning.replicas_by_node import NOTHING, ReplicasByNode, add, no_replicas


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
    """Place the replicas of the best pairs, one by one; return how many found no place, or `STOPPED`.

    Of equal scores, the first node and there the first application in the order of `filling`.
    """
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
