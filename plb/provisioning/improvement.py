"""Fewer nodes than First Fit's: its nodes are emptied, as long as there is time (`plb.provisioning.emptying`).

This is the algorithm "auto", after the recommendations of [3] section 6 (figure 8): First Fit where time is short, and
what gives the best plans where there is more. There, [3] spreads replicas over given nodes; here, nodes are emptied,
which needs fewer nodes after less time (docs/provisioning.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from plb.compiler import Stream
from plb.provisioning.emptying import MOST_OPEN, Annealing, empty_a_node
from plb.provisioning.measures import Measure, sizes
from plb.provisioning.neighbourhood import MOST_CLEARED, Site, site_of
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.running import first_fit_plan
from plb.provisioning.standing import no_homes
from plb.provisioning.workbench import ReportProgress, Workbench

NAME = "Improved"
TEMPERATURE = 1e-3
"""Temperature: a change of a hundredth of a node. Ten times and a tenth of it give nearly the same results."""
ROUNDS, STEPS = 1000, 2e8
"""Largest number of neighbourhoods between two checks, and about how many steps they may take."""
ROUNDS_BY_NODE = 4
"""Without a time limit, a search ends after this many neighbourhoods for each node without an emptied one."""


def best_in_time(bench: Workbench, report: ReportProgress, *, seed: int) -> ProvisioningPlan:
    """Return the best plan within the time of a workbench.

    The search ends when time runs out, at the lower bound, and without a time limit when little is gained. A limit ends
    it at another point on another machine; what it does until then depends on the seed alone.

    Parameters
    ----------
    bench
        The instance, and the time limit.
    report
        Called with the number of nodes.
    seed
        Seed of the random numbers.
    """
    plan = first_fit_plan(bench)
    report(f"{plan.algorithm}: {plan.nodes:,} nodes, at least {bench.lower_bound:,}")
    packing, standing = bench.standing(plan)
    size = sizes(Measure.AVERAGE, bench.shares, bench.instance.replicas)
    site = site_of(packing, standing, np.arange(plan.nodes), size, no_homes(len(size)), bench.capacity)
    when = list(empty(bench, site, Stream(seed), Annealing(TEMPERATURE, 0.0), NAME, report))
    return attrs.evolve(bench.plan(packing, NAME), seconds=when[-1]) if when else plan


def empty(
    bench: Workbench, site: Site, rng: Stream, annealing: Annealing, name: str, report: ReportProgress
) -> Iterator[float]:
    """Empty nodes of a packing with a place for each replica, until the search ends (`best_in_time`).

    Yields
    ------
    After each node, the seconds until then.
    """
    clearing = site.clearing
    idle, rounds = 0, _rounds(site)
    while clearing.nodes[0] > bench.lower_bound and not bench.time_is_over:
        with bench.watched():
            emptied = empty_a_node(site, rng, annealing, rounds)
        idle = 0 if emptied else idle + rounds
        if emptied:
            report(f"{name}: {clearing.nodes[0]:,} nodes, at least {bench.lower_bound:,}")
            yield bench.elapsed()
        elif bench.seconds is None and idle >= ROUNDS_BY_NODE * clearing.nodes[0]:
            break


def _rounds(site: Site) -> int:
    """Return the number of neighbourhoods until the next check of the clock."""
    nodes = int(site.clearing.nodes[0])
    waiting = MOST_CLEARED * int(site.packing.places.sum()) / max(1, nodes)
    steps = waiting * (MOST_OPEN + waiting)
    return int(max(1, min(ROUNDS, ROUNDS_BY_NODE * nodes, STEPS / max(1.0, steps))))
