"""Rewards: four penalties of each step, weighted and subtracted ([4], "Reward Function - Art of Penalizing").

Shapes: M machines, D resources, S steps.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from cluster.scenario.sections import Section, number
from plb.array_types import Float, Int

PARTS = ("contention", "over_use", "wait", "under_use")
"""The penalties, in the order of the rows of `Penalties.of`."""


class RewardState(NamedTuple):
    """The usage of machines by jobs, and the queue, over some steps.

    Parameters
    ----------
    usage
        Σu, total usage of the jobs on each machine, (M, D, S).
    squares
        Σu² over the same jobs, (M, D, S).
    jobs
        Number of jobs on each machine, (M, S).
    queue
        Number of waiting jobs, (S,).
    """

    usage: Float
    squares: Float
    jobs: Int
    queue: Int


def contention(usage: Float, squares: Float) -> Float:
    """Return Σ u_i·u_j over the pairs of jobs on a machine and over resources, by machine and step, (M, S).

    The sum over the steps is Cr(i, j, d) of [4], but with both jobs at the times at which they run; in [4] both start
    at time 0. The sum over pairs is ((Σu)² - Σu²) / 2.
    """
    return np.asarray((usage * usage - squares).sum(axis=1)) / 2.0


def over_use(usage: Float) -> Float:
    """Return the usage of machines beyond their capacity, summed over resources, (M, S)."""
    return np.asarray(np.maximum(usage - 1.0, 0.0).sum(axis=1))


def under_use(usage: Float, jobs: Int) -> Float:
    """Return the unused capacity of machines with a job, summed over resources, (M, S); 0 without a job."""
    return np.asarray(np.maximum(1.0 - usage, 0.0).sum(axis=1)) * (jobs > 0)


@attrs.frozen(kw_only=True)
class Penalties(Section):
    """Weights of the penalties. All are subtracted, although [4] prints contention and under-use with a plus sign.

    Parameters
    ----------
    contention
        C, for the product of the usage of a resource by two jobs on one machine in the same step.
    over_use
        K, for usage beyond the capacity of a machine.
    wait
        W, for each waiting job, also beyond the visible queue.
    under_use
        U, for unused capacity of machines with a job.

    Notes
    -----
    [4] gives no weights.
    """

    contention: float = number(0.25, high=1e6)
    over_use: float = number(4.0, high=1e6)
    wait: float = number(0.25, high=1e6)
    under_use: float = number(0.25, high=1e6)

    def of(self, state: RewardState) -> Float:
        """Return the weighted penalties, at least 0, by part and step: (4, S), in the order of `PARTS`."""
        parts: Float = np.empty((len(PARTS), len(state.queue)))
        parts[0] = self.contention * contention(state.usage, state.squares).sum(axis=0)
        parts[1] = self.over_use * over_use(state.usage).sum(axis=0)
        parts[2] = self.wait * state.queue
        parts[3] = self.under_use * under_use(state.usage, state.jobs).sum(axis=0)
        return parts

    def of_machines(self, usage: Float, squares: Float, jobs: Int) -> Float:
        """Return the weighted penalties of each machine without that for waiting, summed over the steps, (M,).

        Parameters
        ----------
        usage, squares, jobs
            As in `RewardState`.
        """
        penalties = self.contention * contention(usage, squares)
        penalties += self.over_use * over_use(usage)
        penalties += self.under_use * under_use(usage, jobs)
        return np.asarray(penalties.sum(axis=1))
