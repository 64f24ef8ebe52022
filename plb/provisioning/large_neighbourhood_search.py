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

from plb.compiler import Stream, kernel, uniform
from plb.provisioning.algorithms import first_fit_plan
from plb.provisioning.measures import Measure, sizes
from plb.provisioning.neighbourhood import (
    MOST_CLEARED,
    ClearedPart,
    SearchState,
    best_node,
    change,
    lift_limits,
    note_limits,
    search_state_of,
    undo_changes,
)
from plb.provisioning.packing import Packing, sort_by
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.replicas_by_node import NOTHING, ReplicasByNode, no_original_nodes
from plb.provisioning.solver_context import ReportProgress, SolverContext

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
    """Choose nodes to clear, by their number among those in use: of two random ones the one with more free capacity."""
    for place in range(cleared):
        while True:
            one, other = int(uniform(rng) * neighbourhood.nodes[0]), int(uniform(rng) * neighbourhood.nodes[0])
            if neighbourhood.left[neighbourhood.used[other]] > neighbourhood.left[neighbourhood.used[one]]:
                one = other
            if not _is_cleared(neighbourhood, place, one):
                break
        neighbourhood.cleared[place] = one


@kernel
def _is_cleared(neighbourhood: ClearedPart, cleared: int, number: int) -> bool:
    """Return whether a node, by its number among those in use, is one of the first `cleared` that are cleared."""
    found = False
    for place in range(cleared):
        found = found or neighbourhood.cleared[place] == number
    return found


@kernel
def _rebuild(search: SearchState, rng: Stream, cleared: int, most_open: int) -> tuple[bool, float, int]:
    """Clear nodes and place their replicas on a number of nodes.

    Returns
    -------
    Whether all are placed, the increase of the unevenness of free capacity, and the number of recorded changes.
    """
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
        note_limits(search, application)
        while neighbourhood.missing[application] > 0:
            node, count = best_node(search, application, 0, live, preferred)
            if node == NOTHING:  # the node that was to stay empty
                node, count = best_node(search, application, live, live + 1, 0)
            if node == NOTHING:
                break
            neighbourhood.missing[application] -= count
            gain += change(search, changes, application, node, count)
            changes += 1
        lift_limits(search, application)
        done = done and neighbourhood.missing[application] == 0
        neighbourhood.missing[application] = 0
    return done, gain, changes


@kernel
def _list_open(packing: Packing, neighbourhood: ClearedPart, rng: Stream, cleared: int, most_open: int) -> int:
    """List candidate nodes for replicas; return their number.

    These are the cleared ones without the first and, from a random one on, those in use that are not full, up to a
    maximum.
    """
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

    Parameters
    ----------
    context
        The instance, and the time limit.
    report
        Called with the number of nodes.
    seed
        Seed of the random numbers.
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
    """Empty nodes of a packing with a place for each replica, until the search ends (`best_in_time`).

    Yields
    ------
    After each node, the seconds until then.
    """
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
