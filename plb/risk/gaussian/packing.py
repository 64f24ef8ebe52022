"""Packing tasks on machines ([2] section 4), and how good a packing is: m and q of [2] section 5.1."""

from __future__ import annotations

import math
from itertools import pairwise

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Int
from plb.errors import ConflictError
from plb.risk.gaussian.arrays import check_by_task, check_capacity, check_realisations
from plb.risk.gaussian.fit_tests import Demands, FitTest
from plb.risk.gaussian.machines import Fit, Machines
from plb.risk.gaussian.observation import TaskStatistics
from plb.validation import check_count

MAX_FAILURES = 5
"""[2] section 4: failed attempts after which rebalancing ends."""


@attrs.frozen(eq=False)
class GaussianPacking:
    """The machine of each task.

    Parameters
    ----------
    machine
        Machine of each task, in the order in which machines were opened, shape (N,).
    machines
        Number of machines, m_abs.
    oversized
        Tasks that do not fit on an empty machine, shape (N,). Each has opened a machine, as in algorithm 1 of [2].
    """

    machine: Int
    machines: int
    oversized: Bool


def pack(
    statistics: TaskStatistics,
    *,
    capacity: npt.ArrayLike,
    test: FitTest,
    fit: Fit | str = Fit.BEST,
    max_failures: int = MAX_FAILURES,
) -> GaussianPacking:
    """Pack tasks, in the given order, on as few machines as the heuristic finds.

    Parameters
    ----------
    statistics
        What is known of the N tasks.
    capacity
        Of each machine, (R,) or, for one resource, a number; in the units of the statistics.
    test
        Says whether a task fits.
    fit
        Which of the machines on which it fits takes a task.
    max_failures
        Failed attempts after which the rebalancing at the end ends; 0: no rebalancing, and no task moves once it is
        placed.

    Raises
    ------
    InvalidValueError, ConflictError
        An argument is out of range, or capacity and statistics have different resources.
    """
    limit = check_capacity(capacity, statistics.resources)
    failures = check_count("packing", "max_failures", max_failures)
    machines = Machines(limit, test, fit)
    demands = test.demands(statistics)
    pairs = zip(demands.size, demands.variance, strict=True)
    place = np.array([machines.place(size, variance) for size, variance in pairs], np.int64)
    oversized = ~machines.fits_alone(demands.size, demands.variance)
    if failures and len(machines) > 1:
        rebalance(machines, place, demands, failures)
    return GaussianPacking(place, len(machines), oversized)


def rebalance(machines: Machines, place: Int, demands: Demands, max_failures: int) -> None:
    """Move tasks to the last opened machine, which mostly has much free space, up to a number of failed attempts.

    The first task of each of the other machines is tried in turn, the one that it has had longest, also
    after a failed attempt. Failed attempts are counted over all machines ([2] section 4).

    Parameters
    ----------
    machines
        As packing left them; the sums of the last one are kept up.
    place
        Machine of each task; changed here.
    demands
        Of the tasks.
    max_failures
        Failed attempts after which it ends.
    """
    last = len(machines) - 1
    waiting = {machine: tasks[::-1].tolist() for machine, tasks in enumerate(tasks_by_machine(place, last))}
    failed = 0
    while failed < max_failures and waiting:
        for machine in list(waiting):
            task = waiting[machine][-1]
            if machines.fits_on(last, demands.size[task], demands.variance[task]):
                machines.add(last, demands.size[task], demands.variance[task])
                place[task] = last
                _drop_last(waiting, machine)
            else:
                failed += 1
                if failed == max_failures:
                    return


def tasks_by_machine(place: Int, machines: int) -> list[Int]:
    """Return the tasks of each of the first machines, ascending; `place` is the machine of each task, (N,)."""
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(machines + 1))
    return [order[first:after] for first, after in pairwise(bounds)]


def _drop_last(waiting: dict[int, list[int]], machine: int) -> None:
    waiting[machine].pop()
    if not waiting[machine]:
        del waiting[machine]


def overload_by_machine(packing: GaussianPacking, realisations: npt.ArrayLike, *, capacity: npt.ArrayLike) -> Float:
    """Return the share of realisations in which each machine exceeds its capacity, ``q(j)/|E|``; q is the mean.

    With several resources, a machine exceeds its capacity where any resource does. Totals are summed in double
    precision: they are exact for whole numbers, so keep usage in units in which it is whole, such as percent.

    Parameters
    ----------
    packing
        Of the N tasks.
    realisations
        Of the evaluation set, (N, K) or (N, K, R).
    capacity
        Of each machine, (R,) or a number. A total of just this much does not exceed it.

    Returns
    -------
    Array of shape (M,), in [0, 1].
    """
    values = check_realisations(realisations)
    if len(values) != len(packing.machine):
        raise ConflictError(f"realisations: {len(values)} tasks, expected {len(packing.machine)}, as were packed")
    limit = check_capacity(capacity, values.shape[2])
    shares = np.zeros(packing.machines)
    for machine, tasks in enumerate(tasks_by_machine(packing.machine, packing.machines)):
        totals = values[tasks].sum(axis=0, dtype=np.float64)
        exceeds: Bool = (totals > limit).any(axis=1)
        shares[machine] = exceeds.mean()
    return shares


def normalised_machines(machines: int, mean: npt.ArrayLike, *, capacity: npt.ArrayLike) -> float:
    """Return m: the machines by those that would do if all of them were full on average.

    With several resources, the one that needs most machines counts.

    Parameters
    ----------
    machines
        m_abs.
    mean
        Mean usage of each task over all its realisations, (N, R) or (N,).
    capacity
        Of each machine, (R,) or a number.
    """
    means = check_by_task("mean", mean)
    limit = check_capacity(capacity, means.shape[1])
    needed = means.sum(axis=0)
    if np.any((needed > 0) & (limit == 0)):
        raise ConflictError("machine: capacity is 0 for a resource that tasks use")
    full = np.divide(needed, limit, out=np.zeros_like(needed), where=needed > 0)
    return machines / max(1, math.ceil(float(full.max())))
