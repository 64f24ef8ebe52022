"""Fewer nodes by trying again: what found no place is placed earlier the next time.

Worst Fit on a given number of nodes (`plb.provisioning.spreading`) fails where limits leave an application no node that
is not full. Such applications go further to the front, as in D. Joslin, D. Clements, "Squeaky Wheel Optimization",
Journal of Artificial Intelligence Research 10, 1999; with all placed, the number of nodes is lowered.
"""

from __future__ import annotations

import numpy as np

from plb.provisioning.application_centric import Wanted
from plb.provisioning.measures import Floats, Measure, residual_of, sizes
from plb.provisioning.packing import STOPPED
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.spreading import nothing_spread, spread
from plb.provisioning.workbench import Tell, Workbench, order_of

NAME = "Improved"
STEP = 0.5
"""By so many average sizes an application moves to the front when it finds no place."""
PATIENCE = 20
"""After so many attempts in a row that fail, the number of nodes is lowered by half as many."""


def improve(
    bench: Workbench, plan: ProvisioningPlan, tell: Tell, *, attempts: int | None = None, seed: int = 0
) -> ProvisioningPlan:
    """Return a plan with fewer nodes than a given one, or that one.

    Parameters
    ----------
    bench
        The instance, and how long there is.
    plan
        A plan for it.
    tell
        Is told of each plan with fewer nodes.
    attempts
        After so many in a row that fail, no more are made; None: until time is over.
    seed
        Of the random numbers that decide where failing is begun anew.
    """
    wheel = _Wheel(bench, np.random.default_rng(seed))
    best, failed = plan, 0
    step = _quarter(bench, best)
    while best.nodes > bench.lower_bound and not bench.time_is_over and failed != attempts:
        found = wheel.attempt(best.nodes - step)
        if found is not None:
            best, failed, step = found, 0, _quarter(bench, found)
            tell(f"{NAME}: {best.nodes:,} nodes")
        else:
            failed += 1
            if failed % PATIENCE == 0:
                step = max(1, step // 2)
                wheel.begin_anew()
    return best


def _quarter(bench: Workbench, plan: ProvisioningPlan) -> int:
    """Return a quarter of what may still be saved, at least one node."""
    return max(1, (plan.nodes - bench.lower_bound) // 4)


class _Wheel:
    """Orders of applications, the next from where the last one failed."""

    def __init__(self, bench: Workbench, draws: np.random.Generator) -> None:
        self.bench, self.draws = bench, draws
        size = sizes(Measure.AVERAGE, bench.shares, bench.instance.replicas)
        self.size: Floats = size / max(float(size.mean()), np.finfo(np.float64).tiny)
        self.priority = self.size.copy()
        self.good = self.size.copy()

    def attempt(self, nodes: int) -> ProvisioningPlan | None:
        """Return a plan of so many nodes if all replicas find a place."""
        bench = self.bench
        packing = bench.packing(nodes)
        wanted = Wanted(order_of(self.priority), bench.instance.replicas, bench.demand)
        state = nothing_spread(nodes, len(wanted.order))
        residual = residual_of(Measure.AVERAGE, bench.capacity)
        with bench.watched():
            missing = spread(wanted, bench.neighbours, packing, state, residual, False)
        if missing == 0:
            self.good = self.priority.copy()
            return bench.plan(packing, NAME)
        if missing != STOPPED:
            self.priority[state.missing > 0] += STEP
        return None

    def begin_anew(self) -> None:
        """Go back to the order that succeeded last, a little shuffled."""
        self.priority = self.good * self.draws.uniform(0.9, 1.1, len(self.good))
