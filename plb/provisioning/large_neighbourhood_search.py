"""Large neighbourhood search on a plan: it empties a few nodes at a time, and places their replicas again.

The search clears some nodes, the first of them permanently if that is possible. Their replicas go to the nodes with the
least free capacity, large ones first. If all are placed, a node is saved. If not, the first node takes the others, and
the search keeps the change if free capacity has become more uneven, because a node with much of it is easier to empty,
or else with the probability of simulated annealing. If replicas have original nodes
(`plb.provisioning.replicas_by_node.OriginalNodes`), a move has a price, and the number of moves is limited.

The algorithm "auto" is First Fit, whose nodes are then emptied while there is time. It follows the recommendations of
[3] section 6 (figure 8): First Fit if time is short, and the algorithm with the best plans otherwise. For the latter,
[3] spreads replicas over given nodes; this search needs fewer nodes after less time (docs/provisioning.md).

L applications, D dimensions, N nodes, R replicas in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.compiler import Stream, kernel, uniform
from plb.provisioning.algorithms import first_fit_plan
from plb.provisioning.instance import ANY_NUMBER
from plb.provisioning.packing import Measure, Packing, Residual, fitting, is_full, left, residual_of, sizes, sort_by
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.replicas_by_node import (
    NOTHING,
    OriginalNodes,
    ReplicasByNode,
    add,
    count_moved,
    no_original_nodes,
    remove,
    vacant,
)
from plb.provisioning.solver_context import ReportProgress, SolverContext

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
    """(L,) the most urgent application gets a place first."""
    size: Float
    """(L,) replicas of an application without a node."""
    tolerates: Int32
    """(L,) limit of others for the present application; `ANY_NUMBER` between applications."""
    tolerated: Int32
    """(L,) limit of the present application for others; `ANY_NUMBER` between applications."""
    left: Float
    """(N,) free capacity of a node (`plb.provisioning.packing.left`), kept current."""
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
    """Return a packing with space for neighbourhoods; `size` is (L,) of replicas, `capacity` (D,) of a largest node."""
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
def note_limits(search: SearchState, application: int, lifted: bool) -> None:
    """Record the limits of an application and of others for it, by the other application, or that they are lifted."""
    neighbours, neighbourhood = search.packing.neighbours, search.neighbourhood
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbourhood.tolerates[neighbours.in_other[arc]] = ANY_NUMBER if lifted else neighbours.in_most[arc]
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbourhood.tolerated[neighbours.out_other[arc]] = ANY_NUMBER if lifted else neighbours.out_most[arc]


@kernel
def allowed_on(search: SearchState, application: int, node: int) -> int:
    """Return how many more replicas of the application with recorded limits may be on a node."""
    by_node, neighbourhood = search.by_node, search.neighbourhood
    most, there = int(search.packing.neighbours.most_on_a_node[application]), 0
    place = by_node.head[node]
    while place != NOTHING:
        owner, count = by_node.owner[place], search.packing.placed[place]
        if owner == application:
            there = int(count)
        else:
            most = min(most, int(neighbourhood.tolerates[owner]))
            if count > neighbourhood.tolerated[owner]:
                return 0
        place = by_node.next[place]
    return max(0, most - there)


@kernel
def best_node(search: SearchState, application: int, first: int, end: int, preferred: int) -> tuple[int, int]:
    """Return the feasible node of ``packing.live[first:end]`` with the least free capacity, and how many replicas fit.

    An original node of the application among ``packing.live[:preferred]`` goes before.
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


MOST_OPEN, MOST_OPEN_IN_TURN = 256, 4096
"""Largest number of nodes in which a place is searched, in the search and when nodes are emptied in turn."""


class Annealing(NamedTuple):
    """Acceptance of changes that empty no node."""

    temperature: float
    """Temperature, in squares of shares of a node."""
    price: float
    """Cost of a replica that leaves its original node, once the limit of moves is reached; before, in proportion."""


@kernel
def empty_a_node(search: SearchState, rng: Stream, annealing: Annealing, rounds: int) -> bool:
    """Try a number of neighbourhoods, until a node is emptied or time runs out; return whether one was."""
    neighbourhood = search.neighbourhood
    original = neighbourhood.original
    for _ in range(rounds):
        if search.packing.stop[0] or neighbourhood.nodes[0] < 2:
            break
        cleared = min(2 + int(uniform(rng) * (MOST_CLEARED - 1)), neighbourhood.nodes[0])
        _choose(neighbourhood, rng, cleared)
        away = original.away[0]
        done, gain, changes = _rebuild(search, rng, cleared, MOST_OPEN)
        more = original.away[0] - away
        done = done and (more <= 0 or original.away[0] <= original.most[0])
        price = annealing.price * original.away[0] / max(1, original.most[0])
        worth = gain - price * more
        number = _first_empty(search.by_node, neighbourhood, cleared)
        if done and number != NOTHING:
            neighbourhood.nodes[0] -= 1
            neighbourhood.used[number] = neighbourhood.used[neighbourhood.nodes[0]]
            return True
        if not done or (worth < 0.0 and uniform(rng) >= np.exp(worth / annealing.temperature)):
            undo_changes(search, changes)
    return False


@kernel
def _first_empty(by_node: ReplicasByNode, neighbourhood: ClearedPart, cleared: int) -> int:
    """Return the number in use of a cleared node without replicas, or `NOTHING`."""
    for place in range(cleared):
        number = neighbourhood.cleared[place]
        if by_node.head[neighbourhood.used[number]] == NOTHING:
            return int(number)
    return NOTHING


@kernel
def empty_in_turn(search: SearchState, rng: Stream) -> int:
    """Empty each node in turn whose replicas fit on the others; return how many were emptied."""
    neighbourhood = search.neighbourhood
    emptied, number, original = 0, 0, neighbourhood.original
    while number < neighbourhood.nodes[0] and neighbourhood.nodes[0] > 1 and not search.packing.stop[0]:
        neighbourhood.cleared[0] = number
        done, _, changes = _rebuild(search, rng, 1, MOST_OPEN_IN_TURN)
        if done and original.away[0] <= original.most[0] and search.by_node.head[neighbourhood.used[number]] == NOTHING:
            neighbourhood.nodes[0] -= 1
            for later in range(number, neighbourhood.nodes[0]):
                neighbourhood.used[later] = neighbourhood.used[later + 1]
            emptied += 1
        else:
            undo_changes(search, changes)
            number += 1
    return emptied


@kernel
def _choose(neighbourhood: ClearedPart, rng: Stream, cleared: int) -> None:
    """Choose nodes to clear, by their number in `used`: of two random nodes the emptier."""
    for place in range(cleared):
        while True:
            number, rival = int(uniform(rng) * neighbourhood.nodes[0]), int(uniform(rng) * neighbourhood.nodes[0])
            if neighbourhood.left[neighbourhood.used[rival]] > neighbourhood.left[neighbourhood.used[number]]:
                number = rival
            if not _is_cleared(neighbourhood, place, number):
                break
        neighbourhood.cleared[place] = number


@kernel
def _is_cleared(neighbourhood: ClearedPart, cleared: int, number: int) -> bool:
    """Return whether a node, by its number among those in use, is one of the first `cleared` that are cleared."""
    is_cleared = False
    for place in range(cleared):
        is_cleared = is_cleared or neighbourhood.cleared[place] == number
    return is_cleared


@kernel
def _rebuild(search: SearchState, rng: Stream, cleared: int, most_open: int) -> tuple[bool, float, int]:
    """Clear nodes and place their replicas; return whether all are placed, the gain of unevenness, and the changes."""
    packing, by_node, neighbourhood = search.packing, search.by_node, search.neighbourhood
    gain, changes, waiting = 0.0, 0, 0
    for number in range(cleared):
        node = neighbourhood.used[neighbourhood.cleared[number]]
        while by_node.head[node] != NOTHING:
            place = by_node.head[node]
            application, count = by_node.owner[place], packing.placed[place]
            if neighbourhood.missing[application] == 0:
                neighbourhood.waiting[waiting] = application
                neighbourhood.urgency[application] = neighbourhood.size[application] * (0.8 + 0.4 * uniform(rng))
                waiting += 1
            neighbourhood.missing[application] += count
            gain += change(search, changes, application, node, -count)
            changes += 1
    sort_by(neighbourhood.waiting, neighbourhood.urgency, 0, waiting, -1)
    live = _list_open(packing, neighbourhood, rng, cleared, most_open)
    packing.live[live] = neighbourhood.used[neighbourhood.cleared[0]]
    preferred = cleared - 1 if uniform(rng) < 0.5 else 0
    done = True
    for number in range(waiting):
        application = neighbourhood.waiting[number]
        note_limits(search, application, False)
        while neighbourhood.missing[application] > 0:
            node, count = best_node(search, application, 0, live, preferred)
            if node == NOTHING:  # the node that was to stay empty
                node, count = best_node(search, application, live, live + 1, 0)
            if node == NOTHING:
                break
            neighbourhood.missing[application] -= count
            gain += change(search, changes, application, node, count)
            changes += 1
        note_limits(search, application, True)
        done = done and neighbourhood.missing[application] == 0
        neighbourhood.missing[application] = 0
    return done, gain, changes


@kernel
def _list_open(packing: Packing, neighbourhood: ClearedPart, rng: Stream, cleared: int, most_open: int) -> int:
    """List the cleared nodes but the first and, from a random one on, others that are not full; return their number."""
    live = 0
    for number in range(1, cleared):
        packing.live[live] = neighbourhood.used[neighbourhood.cleared[number]]
        live += 1
    number = int(uniform(rng) * neighbourhood.nodes[0])
    for _ in range(neighbourhood.nodes[0]):
        node = neighbourhood.used[number]
        if not neighbourhood.full[node] and not _is_cleared(neighbourhood, cleared, number):
            packing.live[live] = node
            live += 1
            if live == most_open:
                break
        number = number + 1 if number + 1 < neighbourhood.nodes[0] else 0
    return live


NAME = "Improved"
TEMPERATURE = 1e-3
"""Temperature: a change of a hundredth of a node. Ten times and a tenth of it give nearly the same results."""
ROUNDS, STEPS = 1000, 2e8
"""Largest number of neighbourhoods between two checks, and about how many steps they may take."""
ROUNDS_BY_NODE = 4
"""Without a time limit, a search ends after this many neighbourhoods for each node without an emptied one."""


def best_in_time(context: SolverContext, report: ReportProgress, *, seed: int) -> ProvisioningPlan:
    """Return the best plan within the time limit.

    The search ends when time runs out, at the lower bound, and without a time limit when little is gained. A limit ends
    it at another point on another machine; what it does until then depends on the seed alone.
    """
    plan = first_fit_plan(context)
    report(f"{plan.algorithm}: {plan.nodes:,} nodes, at least {context.lower_bound:,}")
    packing, by_node = context.by_node(plan)
    size = sizes(Measure.AVERAGE, context.shares, context.instance.replicas)
    search = search_state_of(
        packing, by_node, np.arange(plan.nodes), size, no_original_nodes(len(size)), context.capacity
    )
    when = list(empty(context, search, Stream(seed), Annealing(TEMPERATURE, 0.0), NAME, report))
    return attrs.evolve(context.plan(packing, NAME), seconds=when[-1]) if when else plan


def empty(
    context: SolverContext, search: SearchState, rng: Stream, annealing: Annealing, name: str, report: ReportProgress
) -> Iterator[float]:
    """Empty nodes of a complete packing until the search ends (`best_in_time`); yield the elapsed seconds at each."""
    neighbourhood = search.neighbourhood
    idle, rounds = 0, _rounds(search)
    while neighbourhood.nodes[0] > context.lower_bound and not context.time_is_over:
        with context.watched():
            emptied = empty_a_node(search, rng, annealing, rounds)
        idle = 0 if emptied else idle + rounds
        if emptied:
            report(f"{name}: {neighbourhood.nodes[0]:,} nodes, at least {context.lower_bound:,}")
            yield context.elapsed()
        elif context.seconds is None and idle >= ROUNDS_BY_NODE * neighbourhood.nodes[0]:
            break


def _rounds(search: SearchState) -> int:
    """Return the number of neighbourhoods until the next check of the clock."""
    nodes = int(search.neighbourhood.nodes[0])
    waiting = MOST_CLEARED * int(search.packing.places.sum()) / max(1, nodes)
    steps = waiting * (MOST_OPEN + waiting)
    return int(max(1, min(ROUNDS, ROUNDS_BY_NODE * nodes, STEPS / max(1.0, steps))))
