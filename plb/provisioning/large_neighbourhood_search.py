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
from plb.provisioning.packing import (
    Measure,
    Packing,
    Residual,
    fitting,
    free_value,
    is_full,
    residual_of,
    sizes,
    sort_by,
)
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


class ClearedNeighbourhood(NamedTuple):
    """The nodes in use, the cleared ones with the replicas that wait, and the undo log."""

    used: Int32
    """(N,) the nodes in use come first; `nodes` is their number."""
    nodes: Int
    """(1,) number of nodes in use."""
    cleared: Int32
    """(MOST_CLEARED,) positions in `used` of the cleared nodes, which come first; the first of all is to stay empty."""
    waiting: Int32
    """(L,) the applications with replicas that wait for a node come first."""
    missing: Int32
    """(L,) number of replicas of an application that wait for a node."""
    urgency: Float
    """(L,) waiting applications are placed by descending urgency: their size times a random factor."""
    size: Float
    """(L,) size of a replica of an application (`plb.provisioning.packing.sizes`)."""
    tolerates: Int32
    """(L,) how many replicas of the present application another application allows beside it; `ANY_NUMBER`: no limit,
    and between applications.
    """
    tolerated: Int32
    """(L,) how many replicas of another application the present one allows beside it; as `tolerates`."""
    free_value: Float
    """(N,) free capacity of a node (`plb.provisioning.packing.free_value`), kept current."""
    full: Bool
    """(N,) whether a node is full, kept current."""
    log: Int32
    """(3, 2R) undo log: application, node and number of placed replicas, negative if they were removed."""
    original: OriginalNodes
    """The original nodes of replicas."""


class SearchState(NamedTuple):
    """A packing, and the data of the search for a better one."""

    packing: Packing
    """The present places of the replicas."""
    by_node: ReplicasByNode
    """The slots of the packing by node."""
    neighbourhood: ClearedNeighbourhood
    """The nodes in use, and the cleared ones."""
    residual: Residual
    """The measure of free capacity, with constant weights."""


def search_state_of(
    packing: Packing, by_node: ReplicasByNode, used: Int, size: Float, original: OriginalNodes, capacity: Int32
) -> SearchState:
    """Return the search of a packing with the nodes `used` in use.

    `size` is (L,) sizes of replicas, `capacity` (D,) of the largest node.
    """
    nodes, replicas, applications = len(packing.free), len(packing.node), len(size)
    neighbourhood = ClearedNeighbourhood(
        used=np.zeros(nodes, np.int32),
        nodes=np.full(1, len(used), np.int64),
        cleared=np.zeros(MOST_CLEARED, np.int32),
        waiting=np.zeros(applications, np.int32),
        missing=np.zeros(applications, np.int32),
        urgency=np.zeros(applications),
        size=size,
        tolerates=np.full(applications, ANY_NUMBER, np.int32),
        tolerated=np.full(applications, ANY_NUMBER, np.int32),
        free_value=np.zeros(nodes),
        full=np.zeros(nodes, np.bool_),
        log=np.zeros((3, 2 * replicas), np.int32),
        original=original,
    )
    neighbourhood.used[: len(used)] = used
    search = SearchState(packing, by_node, neighbourhood, residual_of(Measure.AVERAGE, capacity))
    _update_nodes(search)
    return search


@kernel
def _update_nodes(search: SearchState) -> None:
    """Write the free capacity of each node, and whether it is full."""
    for node in range(len(search.neighbourhood.free_value)):
        _update_node(search, node)


@kernel
def _update_node(search: SearchState, node: int) -> None:
    """Write the free capacity of a node, and whether it is full."""
    search.neighbourhood.free_value[node] = free_value(search.residual, search.packing, node)
    search.neighbourhood.full[node] = is_full(search.packing, node)


@kernel
def place_and_log(search: SearchState, entry: int, application: int, node: int, count: int) -> float:
    """Place `count` replicas of an application on a node (negative: remove), as entry `entry` of the undo log.

    The result is the increase of the square of the free capacity of the node as one number.
    """
    neighbourhood = search.neighbourhood
    before = neighbourhood.free_value[node]
    _place_or_remove(search, application, node, count)
    neighbourhood.log[0, entry], neighbourhood.log[1, entry] = application, node
    neighbourhood.log[2, entry] = count
    after = neighbourhood.free_value[node]
    return float(after * after - before * before)


@kernel
def undo_changes(search: SearchState, entries: int) -> None:
    """Undo the first `entries` entries of the log, the last one first."""
    log = search.neighbourhood.log
    for entry in range(entries - 1, -1, -1):
        _place_or_remove(search, log[0, entry], log[1, entry], -log[2, entry])


@kernel
def _place_or_remove(search: SearchState, application: int, node: int, count: int) -> None:
    """Place `count` replicas of an application on a node (negative: remove), and update all that depends on it."""
    packing, by_node = search.packing, search.by_node
    if count > 0:
        add(packing, by_node, application, node, count)
    else:
        remove(packing, by_node, application, node, -count)
    _update_node(search, node)
    count_moved(search.neighbourhood.original, packing, by_node, application, node, count)


@kernel
def set_limits_of(search: SearchState, application: int, lifted: bool) -> None:
    """Write the limits between an application and others to `tolerates` and `tolerated`, or reset them if `lifted`."""
    neighbours, neighbourhood = search.packing.neighbours, search.neighbourhood
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbourhood.tolerates[neighbours.in_source[arc]] = ANY_NUMBER if lifted else neighbours.in_most[arc]
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbourhood.tolerated[neighbours.out_target[arc]] = ANY_NUMBER if lifted else neighbours.out_most[arc]


@kernel
def allowed_on(search: SearchState, application: int, node: int) -> int:
    """Return how many more replicas of an application may be on a node; `set_limits_of` has written its limits."""
    by_node, neighbourhood = search.by_node, search.neighbourhood
    most, placed = int(search.packing.neighbours.most_on_a_node[application]), 0
    slot = by_node.head[node]
    while slot != NOTHING:
        owner, count = by_node.owner[slot], search.packing.placed[slot]
        if owner == application:
            placed = int(count)
        else:
            most = min(most, int(neighbourhood.tolerates[owner]))
            if count > neighbourhood.tolerated[owner]:
                return 0
        slot = by_node.next[slot]
    return max(0, most - placed)


@kernel
def best_node(search: SearchState, application: int, first: int, end: int, preferred: int) -> tuple[int, int]:
    """Return the feasible node of ``packing.live[first:end]`` with the least free capacity, or `NOTHING`.

    The second result is how many missing replicas it takes. Original nodes of the application among
    ``packing.live[:preferred]`` are preferred.
    """
    packing, neighbourhood = search.packing, search.neighbourhood
    chosen, count, least = NOTHING, 0, np.inf
    most = neighbourhood.missing[application]
    for position in range(first, end):
        node = packing.live[position]
        at_original = (
            0 if position >= preferred else vacant(neighbourhood.original, packing, search.by_node, application, node)
        )
        value = -1.0 if at_original > 0 else neighbourhood.free_value[node]
        if value >= least or fitting(packing, node, application, 1) == 0:
            continue
        allowed = min(most, allowed_on(search, application, node))
        allowed = min(allowed, at_original) if at_original > 0 else allowed
        if allowed > 0:
            chosen, least = node, value
            count = fitting(packing, node, application, allowed)
    return chosen, count


MOST_OPEN, MOST_OPEN_IN_TURN = 256, 4096
"""Largest number of nodes that are tried for a replica, in the search and when nodes are emptied in turn."""


class Annealing(NamedTuple):
    """Acceptance of neighbourhoods that empty no node."""

    temperature: float
    """Temperature, in squares of shares of a node."""
    price: float
    """Cost of a replica that leaves its original node, once the limit of moves is reached; before, in proportion."""


@kernel
def empty_a_node(search: SearchState, rng: Stream, annealing: Annealing, rounds: int) -> bool:
    """Try at most `rounds` neighbourhoods, until a node is emptied or time runs out.

    Return whether a node was emptied. If a round empties two, the second one counts as in use until a later round
    clears it.
    """
    neighbourhood = search.neighbourhood
    original = neighbourhood.original
    for _ in range(rounds):
        if search.packing.stop[0] or neighbourhood.nodes[0] < 2:
            break
        cleared = min(2 + int(uniform(rng) * (MOST_CLEARED - 1)), neighbourhood.nodes[0])
        _choose_cleared(neighbourhood, rng, cleared)
        away = original.away[0]
        all_placed, gain, entries = _rebuild(search, rng, cleared, MOST_OPEN)
        more_away = original.away[0] - away
        all_placed = all_placed and (more_away <= 0 or original.away[0] <= original.most[0])
        # moves cost more, the more of them are used
        price = annealing.price * original.away[0] / max(1, original.most[0])
        worth = gain - price * more_away
        position = _first_empty(search.by_node, neighbourhood, cleared)
        if all_placed and position != NOTHING:
            neighbourhood.nodes[0] -= 1
            neighbourhood.used[position] = neighbourhood.used[neighbourhood.nodes[0]]
            return True
        if not all_placed or (worth < 0.0 and uniform(rng) >= np.exp(worth / annealing.temperature)):
            undo_changes(search, entries)
    return False


@kernel
def _first_empty(by_node: ReplicasByNode, neighbourhood: ClearedNeighbourhood, cleared: int) -> int:
    """Return the position in `used` of the first of `cleared` cleared nodes that has no replicas, or `NOTHING`."""
    for index in range(cleared):
        position = neighbourhood.cleared[index]
        if by_node.head[neighbourhood.used[position]] == NOTHING:
            return int(position)
    return NOTHING


@kernel
def empty_in_turn(search: SearchState, rng: Stream) -> int:
    """Empty each node in turn whose replicas fit on the others; return how many were emptied."""
    neighbourhood = search.neighbourhood
    emptied, position, original = 0, 0, neighbourhood.original
    while position < neighbourhood.nodes[0] and neighbourhood.nodes[0] > 1 and not search.packing.stop[0]:
        neighbourhood.cleared[0] = position
        all_placed, _, entries = _rebuild(search, rng, 1, MOST_OPEN_IN_TURN)
        if (
            all_placed
            and original.away[0] <= original.most[0]
            and search.by_node.head[neighbourhood.used[position]] == NOTHING
        ):
            neighbourhood.nodes[0] -= 1
            for later in range(position, neighbourhood.nodes[0]):
                neighbourhood.used[later] = neighbourhood.used[later + 1]
            emptied += 1
        else:
            undo_changes(search, entries)
            position += 1
    return emptied


@kernel
def _choose_cleared(neighbourhood: ClearedNeighbourhood, rng: Stream, cleared: int) -> None:
    """Choose `cleared` nodes to clear: each is the one with more free capacity of two random nodes in use."""
    for index in range(cleared):
        while True:
            position, rival = int(uniform(rng) * neighbourhood.nodes[0]), int(uniform(rng) * neighbourhood.nodes[0])
            if (
                neighbourhood.free_value[neighbourhood.used[rival]]
                > neighbourhood.free_value[neighbourhood.used[position]]
            ):
                position = rival
            if not _is_cleared(neighbourhood, index, position):
                break
        neighbourhood.cleared[index] = position


@kernel
def _is_cleared(neighbourhood: ClearedNeighbourhood, cleared: int, position: int) -> bool:
    """Return whether a position in `used` is among the first `cleared` of `neighbourhood.cleared`."""
    is_cleared = False
    for index in range(cleared):
        is_cleared = is_cleared or neighbourhood.cleared[index] == position
    return is_cleared


@kernel
def _rebuild(search: SearchState, rng: Stream, cleared: int, most_open: int) -> tuple[bool, float, int]:
    """Clear `cleared` nodes and place their replicas on them and on others, at most `most_open` nodes in all.

    The result is whether all are placed, the increase of the sum of squared free capacities, and the number of entries
    in the undo log.
    """
    packing, by_node, neighbourhood = search.packing, search.by_node, search.neighbourhood
    gain, entries, waiting_count = 0.0, 0, 0
    for index in range(cleared):
        node = neighbourhood.used[neighbourhood.cleared[index]]
        while by_node.head[node] != NOTHING:
            slot = by_node.head[node]
            application, count = by_node.owner[slot], packing.placed[slot]
            if neighbourhood.missing[application] == 0:
                neighbourhood.waiting[waiting_count] = application
                neighbourhood.urgency[application] = neighbourhood.size[application] * (0.8 + 0.4 * uniform(rng))
                waiting_count += 1
            neighbourhood.missing[application] += count
            gain += place_and_log(search, entries, application, node, -count)
            entries += 1
    sort_by(neighbourhood.waiting, neighbourhood.urgency, 0, waiting_count, -1)
    live_count = _list_open(packing, neighbourhood, rng, cleared, most_open)
    packing.live[live_count] = neighbourhood.used[neighbourhood.cleared[0]]
    preferred = cleared - 1 if uniform(rng) < 0.5 else 0
    all_placed = True
    for index in range(waiting_count):
        application = neighbourhood.waiting[index]
        set_limits_of(search, application, False)
        while neighbourhood.missing[application] > 0:
            node, count = best_node(search, application, 0, live_count, preferred)
            if node == NOTHING:  # the node that was to stay empty
                node, count = best_node(search, application, live_count, live_count + 1, 0)
            if node == NOTHING:
                break
            neighbourhood.missing[application] -= count
            gain += place_and_log(search, entries, application, node, count)
            entries += 1
        set_limits_of(search, application, True)
        all_placed = all_placed and neighbourhood.missing[application] == 0
        neighbourhood.missing[application] = 0
    return all_placed, gain, entries


@kernel
def _list_open(packing: Packing, neighbourhood: ClearedNeighbourhood, rng: Stream, cleared: int, most_open: int) -> int:
    """Write the nodes to try to `packing.live`, at most `most_open`; return their number.

    They are the `cleared` nodes but the first and, from a random one on, the other nodes in use that are not full.
    """
    live_count = 0
    for index in range(1, cleared):
        packing.live[live_count] = neighbourhood.used[neighbourhood.cleared[index]]
        live_count += 1
    position = int(uniform(rng) * neighbourhood.nodes[0])
    for _ in range(neighbourhood.nodes[0]):
        node = neighbourhood.used[position]
        if not neighbourhood.full[node] and not _is_cleared(neighbourhood, cleared, position):
            packing.live[live_count] = node
            live_count += 1
            if live_count == most_open:
                break
        position = position + 1 if position + 1 < neighbourhood.nodes[0] else 0
    return live_count


NAME = "Improved"
TEMPERATURE = 1e-3
"""Temperature: a change of a hundredth of a node. Ten times and a tenth of it give nearly the same results."""
ROUNDS, STEPS = 1000, 2e8
"""Largest number of neighbourhoods between two checks of the clock, and about how many steps they may take."""
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
    seconds_of_emptied = list(empty_nodes(context, search, Stream(seed), Annealing(TEMPERATURE, 0.0), NAME, report))
    return attrs.evolve(context.plan(packing, NAME), seconds=seconds_of_emptied[-1]) if seconds_of_emptied else plan


def empty_nodes(
    context: SolverContext, search: SearchState, rng: Stream, annealing: Annealing, name: str, report: ReportProgress
) -> Iterator[float]:
    """Empty nodes of a complete packing until the search ends (`best_in_time`); yield the seconds elapsed at each.

    `name` begins the lines for `report`.
    """
    neighbourhood = search.neighbourhood
    idle, rounds = 0, _rounds_until_check(search)
    while neighbourhood.nodes[0] > context.lower_bound and not context.time_is_over:
        with context.watched():
            emptied = empty_a_node(search, rng, annealing, rounds)
        idle = 0 if emptied else idle + rounds
        if emptied:
            report(f"{name}: {neighbourhood.nodes[0]:,} nodes, at least {context.lower_bound:,}")
            yield context.elapsed()
        elif context.seconds is None and idle >= ROUNDS_BY_NODE * neighbourhood.nodes[0]:
            break


def _rounds_until_check(search: SearchState) -> int:
    """Return how many neighbourhoods to search before the next check of the clock, fewer if each takes long."""
    nodes = int(search.neighbourhood.nodes[0])
    waiting_count = MOST_CLEARED * int(search.packing.slots.sum()) / max(1, nodes)
    steps = waiting_count * (MOST_OPEN + waiting_count)
    return int(max(1, min(ROUNDS, ROUNDS_BY_NODE * nodes, STEPS / max(1.0, steps))))
