"""The algorithm "auto": First Fit, whose nodes are then emptied by large neighbourhood search while there is time.

It follows the recommendations of [3] section 6 (figure 8): First Fit if time is short, and the algorithm with the best
plans otherwise. For the latter, [3] spreads replicas over given nodes; `plb.provisioning.large_neighbourhood_search`
empties nodes, which needs fewer nodes after less time (docs/provisioning.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from plb.compiler import Stream
from plb.provisioning.algorithms import first_fit_plan
from plb.provisioning.large_neighbourhood_search import MOST_OPEN, Annealing, empty_a_node
from plb.provisioning.measures import Measure, sizes
from plb.provisioning.neighbourhood import MOST_CLEARED, SearchState, search_state_of
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.replicas_by_node import no_original_nodes
from plb.provisioning.solver_context import ReportProgress, SolverContext

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
