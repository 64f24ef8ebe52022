"""Fewer nodes than a plan has: its nodes are emptied, as long as there is time (`plb.provisioning.emptying`)."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from plb.compiler import Stream
from plb.provisioning.application_centric import Replicas
from plb.provisioning.emptying import MOST_OPEN, Annealing, empty_a_node
from plb.provisioning.homes import nobody_home
from plb.provisioning.measures import Measure, residual_of, sizes
from plb.provisioning.neighbourhood import MOST_CLEARED, Clearing, Site, no_clearing
from plb.provisioning.packing import Packing
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.workbench import ReportProgress, Workbench

NAME = "Improved"
TEMPERATURE = 1e-3
"""Temperature: a change of a hundredth of a node. Ten times and a tenth of it give nearly the same results."""
ROUNDS, STEPS = 1000, 2e8
"""Largest number of neighbourhoods between two checks, and about how many steps they may take."""
ROUNDS_BY_NODE = 4
"""Without a time limit, a search ends after this many neighbourhoods for each node without an emptied one."""


def improve(bench: Workbench, plan: ProvisioningPlan, report: ReportProgress, *, seed: int = 0) -> ProvisioningPlan:
    """Return a plan with fewer nodes than a valid one, or that one.

    It ends when time runs out, at the lower bound, and without a time limit when little is gained. A limit ends it at
    another point on another machine; what it does until then depends on the seed alone.

    Parameters
    ----------
    bench
        The instance, and how long there is.
    plan
        A valid plan.
    report
        Called with the number of nodes.
    seed
        Seed of the random numbers.
    """
    packing, standing = bench.standing(plan)
    size = sizes(Measure.AVERAGE, bench.shares, bench.instance.replicas)
    residual = residual_of(Measure.AVERAGE, bench.capacity)
    clearing = no_clearing(packing, size, nobody_home(len(size)), residual)
    clearing.used[:] = np.arange(plan.nodes)
    clearing.nodes[0] = plan.nodes
    required = Replicas(np.arange(len(bench.demand)), bench.instance.replicas, bench.demand)
    site = Site(required, bench.neighbours, packing, standing, clearing, residual)
    when = list(empty(bench, site, Stream(seed), Annealing(TEMPERATURE, 0.0), NAME, report))
    return attrs.evolve(bench.plan(packing, NAME), seconds=when[-1]) if when else plan


def empty(
    bench: Workbench, site: Site, rng: Stream, annealing: Annealing, name: str, report: ReportProgress
) -> Iterator[float]:
    """Empty nodes of a packing with a place for each replica, until `improve` would end.

    Yields
    ------
    After each node, the seconds until then.
    """
    clearing = site.clearing
    idle, rounds = 0, _rounds(site.packing, clearing)
    while clearing.nodes[0] > bench.lower_bound and not bench.time_is_over:
        with bench.watched():
            emptied = empty_a_node(site, rng, annealing, rounds)
        idle = 0 if emptied else idle + rounds
        if emptied:
            report(f"{name}: {clearing.nodes[0]:,} nodes, at least {bench.lower_bound:,}")
            yield bench.elapsed()
        elif bench.seconds is None and idle >= ROUNDS_BY_NODE * clearing.nodes[0]:
            break


def _rounds(packing: Packing, clearing: Clearing) -> int:
    """Return the number of neighbourhoods until the next check of the clock."""
    nodes = int(clearing.nodes[0])
    waiting = MOST_CLEARED * int(packing.places.sum()) / max(1, nodes)
    steps = waiting * (MOST_OPEN + waiting)
    return int(max(1, min(ROUNDS, ROUNDS_BY_NODE * nodes, STEPS / max(1.0, steps))))
