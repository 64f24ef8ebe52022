"""Packing tasks on machines ([2] section 4): whether a task fits, which machine takes it, how good a packing is.

All tests of a fit sum over the tasks of a machine, so the state of a machine is two sums for each resource, and a test
takes the same time for any number of tasks. With several resources, each has its own sums, and a task fits only if
it fits in all of them ([2] section 6). Machines take tasks one after the other, by First Fit or Best Fit
([2] section 4, algorithm 1). The quality of a packing is m and q of [2] section 5.1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from enum import StrEnum
from itertools import pairwise
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Int
from plb.errors import ConflictError
from plb.risk.gaussian.statistics import (
    TaskStatistics,
    check_amounts,
    check_by_task,
    check_capacity,
    check_realisations,
)
from plb.validation import check_count, check_kind, check_member, check_number


@attrs.frozen(eq=False)
class Demands:
    """What tasks add to the sums of the machine that takes them."""

    size: Float
    """(N, R), in the units of the resources."""
    variance: Float
    """(N, R), in their squares; 0 if a test uses sizes only."""


@runtime_checkable
class FitTest(Protocol):
    """Tasks fit together on a machine if, in every resource, Σ size + quantile · sqrt(Σ variance) ≤ capacity.

    A test of a user is a class with these three members.
    """

    @property
    def name(self) -> str:
        """Name for tables and plots."""

    @property
    def quantile(self) -> float | None:
        """How many standard deviations of the total are left free; None: variances do not count."""

    def demands(self, statistics: TaskStatistics) -> Demands:
        """Return what each task adds to the sums of a machine: sizes and variances."""


@attrs.frozen
class GPA:
    """Gaussian Percentile Approximation ([2] section 4, algorithm 1).

    A task k fits on a machine j if ``F(c | μ', σ'²) ≥ 1 − ρ`` with ``μ' = μ_k + Σ μ_i`` and ``σ'² = σ_k² + Σ σ_i²``,
    which is ``μ' + F⁻¹(1 − ρ)·σ' ≤ c`` with the inverse of the standard Gaussian. The tasks are taken as independent.
    """

    overload: float
    """ρ in (0, 1): the frequency with which a machine may exceed its capacity; 0.05 is an SLO of 95 %."""

    def __attrs_post_init__(self) -> None:
        check_number("GPA", "overload", self.overload, high=1.0, low_open=True, high_open=True)

    @property
    def name(self) -> str:
        """As the paper calls it, such as ``GPA 0.05``."""
        return f"GPA {self.overload:g}"

    @property
    def quantile(self) -> float:
        """The (1 − ρ) quantile of the standard Gaussian."""
        return -NormalDist().inv_cdf(self.overload)  # of a small ρ, 1 − ρ would have lost digits

    def demands(self, statistics: TaskStatistics) -> Demands:
        """Return means and variances."""
        return Demands(statistics.mean, statistics.variance)


@attrs.frozen
class _Sizes(ABC):
    """Base of tests that give each task a size and sum sizes."""

    @property
    def quantile(self) -> None:
        """None: variances are not used."""
        return

    @abstractmethod
    def sizes(self, statistics: TaskStatistics) -> Float:
        """Return the size of each task."""

    def demands(self, statistics: TaskStatistics) -> Demands:
        """Return the sizes, with variances of 0."""
        sizes = self.sizes(statistics)
        return Demands(sizes, np.zeros_like(sizes))


@attrs.frozen
class Cantelli(_Sizes):
    """Mean plus b standard deviations of each task ([2] section 5.1).

    Pr[X > μ + b·σ] < 1/(1 + b²) for any distribution, so 4.4 is an SLO of 95 %, and 1.7 is if X is Gaussian.
    """

    deviations: float
    """b, at least 0."""

    def __attrs_post_init__(self) -> None:
        check_number("Cantelli", "deviations", self.deviations)

    @property
    def name(self) -> str:
        """As the paper calls it, such as ``Cantelli 1.7``."""
        return f"Cantelli {self.deviations:g}"

    def sizes(self, statistics: TaskStatistics) -> Float:
        """Return μ + b·σ of each task."""
        return statistics.mean + self.deviations * np.sqrt(statistics.variance)


@attrs.frozen
class MeanTimes(_Sizes):
    """A multiple of each task's mean, ``av`` in [2] section 5.1."""

    factor: float = 1.0
    """Above 0."""

    def __attrs_post_init__(self) -> None:
        check_number("mean", "factor", self.factor, low_open=True)

    @property
    def name(self) -> str:
        """As the paper calls it, such as ``av 1.25``."""
        return f"av {self.factor:g}"

    def sizes(self, statistics: TaskStatistics) -> Float:
        """Return f·μ of each task."""
        return self.factor * statistics.mean


@attrs.frozen
class Percentile(_Sizes):
    """A percentile of each task's usage, ``perc`` in [2] section 5.1; the 100th is its maximum."""

    percent: float
    """In [0, 100]."""

    def __attrs_post_init__(self) -> None:
        check_number("percentile", "percent", self.percent, high=100.0)

    @property
    def name(self) -> str:
        """As the paper calls it, such as ``perc 95``."""
        return f"perc {self.percent:g}"

    def sizes(self, statistics: TaskStatistics) -> Float:
        """Return the percentile of each task; it has to be among the kept ones."""
        if self.percent not in statistics.percentiles:
            kept = ", ".join(f"{percent:g}" for percent in statistics.percentiles) or "none"
            message = f"tasks: percentile {self.percent:g} is not known; give it to observe (kept: {kept})"
            raise ConflictError(message)
        return statistics.percentiles[self.percent]


OVERLOADS = (0.1, 0.05, 0.01, 0.001)
"""ρ of the GPAs that [2] section 5.1 compares."""
PERCENTS = (50.0, 70.0, 90.0, 95.0, 99.0, 100.0)
"""Percentiles that it compares."""
PAPER_TESTS: tuple[FitTest, ...] = (
    *(GPA(overload) for overload in OVERLOADS),
    *(Cantelli(deviations) for deviations in (1.0, 1.7, 4.4)),
    *(MeanTimes(factor) for factor in (1.0, 1.25, 2.0)),
    *(Percentile(percent) for percent in PERCENTS),
)
"""All that [2] section 5.1 compares. `Percentile` needs ``observe(…, PERCENTS)``."""


class Fit(StrEnum):
    """Which of the machines on which a task fits takes it."""

    FIRST = "first"
    """The one that was opened first."""
    BEST = "best"
    """The fullest: the least ``FitBin`` of algorithm 1, or the least space left; of equals, the first."""


class Machines:
    """The open machines of a packing, all of one capacity.

    A machine is two sums for each resource: of the sizes and of the variances of its tasks. A test whether a task fits
    takes the same time for any number of tasks. A task adds a row of `Demands`: two arrays, (R,) each.

    Parameters
    ----------
    capacity
        Capacity of each machine, (R,) or, for one resource, a number.
    test
        Says whether a task fits.
    fit
        Which of the machines on which it fits takes a task.
    """

    def __init__(self, capacity: npt.ArrayLike, test: FitTest, fit: Fit | str = Fit.BEST) -> None:
        amounts = check_amounts("machine", "capacity", capacity)
        self.capacity = check_capacity(amounts, max(1, amounts.size))
        self.quantile = check_kind("machines", "test", test, FitTest).quantile  # type: ignore[type-abstract]
        self.fit = check_member("machines", "fit", fit, Fit)
        self._open = 0
        self._size: Float = np.zeros((16, len(self.capacity)))
        self._variance: Float = np.zeros_like(self._size)

    def __len__(self) -> int:
        return self._open

    def fits(self, size: Float, variance: Float) -> Bool:
        """Return whether a task that adds `size` and `variance`, (R,) each, fits on each open machine, (M,)."""
        free, deviation = self._with(slice(self._open), size, variance)
        return self._is_enough(free, deviation)

    def fits_on(self, machine: int, size: Float, variance: Float) -> bool:
        """Return whether a task that adds `size` and `variance`, (R,) each, fits on a machine."""
        free, deviation = self._with(slice(machine, machine + 1), size, variance)
        return bool(self._is_enough(free, deviation)[0])

    def fits_alone(self, size: Float, variance: Float) -> Bool:
        """Return whether each of N tasks, of `size` and `variance`, (N, R) each, fits on an empty machine, (N,)."""
        return self._is_enough(self.capacity - size, np.sqrt(variance))

    def place(self, size: Float, variance: Float) -> int:
        """Place a task that adds `size` and `variance`, (R,) each, on a machine, a new one if it fits on none.

        Return the machine.
        """
        free, deviation = self._with(slice(self._open), size, variance)
        fitting = self._is_enough(free, deviation).nonzero()[0]
        if not len(fitting):
            machine = self._new()
        elif self.fit is Fit.FIRST or len(fitting) == 1:
            machine = int(fitting[0])
        else:
            machine = int(fitting[self._space(free[fitting], deviation[fitting]).argmin()])
        self.add(machine, size, variance)
        return machine

    def add(self, machine: int, size: Float, variance: Float) -> None:
        """Add a task of `size` and `variance`, (R,) each, to a machine, whether it fits or not."""
        self._size[machine] += size
        self._variance[machine] += variance

    def _with(self, machines: slice, size: Float, variance: Float) -> tuple[Float, Float]:
        """Return the mean free capacity of m machines and the standard deviation of their usage with a task more.

        Both are (m, R); the task adds `size` and `variance`, (R,) each.
        """
        free = self.capacity - (self._size[machines] + size)
        return free, np.sqrt(self._variance[machines] + variance)

    def _is_enough(self, free: Float, deviation: Float) -> Bool:
        """Return whether the free capacity of each of m machines suffices, (m,).

        `free`: mean free capacity; `deviation`: standard deviation of the usage; (m, R) each.
        """
        needed = 0.0 if self.quantile is None else self.quantile * deviation
        return np.asarray((free >= needed).all(axis=1))

    def _space(self, free: Float, deviation: Float) -> Float:
        """Return the free space of m machines in the resource with the least, (m,); Best Fit chooses the least of all.

        `free`, `deviation`: results of `_with`. Space is a share of the capacity, or, if variances count, a number of
        standard deviations: ``FitBin`` is ``F(z) − (1 − ρ)`` with z = (c − μ')/σ'. It increases with z, which
        distinguishes machines for which F is 1 to the last digit.
        """
        if self.quantile is None:
            space = np.divide(free, self.capacity, out=np.full_like(free, math.inf), where=self.capacity > 0)
        else:
            space = np.divide(free, deviation, out=np.full_like(free, math.inf), where=deviation > 0)
        least: Float = space.min(axis=1)
        return least

    def _new(self) -> int:
        """Open an empty machine and return its number; the arrays double if they are full."""
        if self._open == len(self._size):
            self._size = np.concatenate([self._size, np.zeros_like(self._size)])
            self._variance = np.concatenate([self._variance, np.zeros_like(self._variance)])
        self._open += 1
        return self._open - 1


MAX_FAILURES = 5
"""[2] section 4: failed attempts after which rebalancing ends."""


@attrs.frozen(eq=False)
class GaussianPacking:
    """The machine of each task."""

    machine: Int
    """Machine of each task, in the order in which machines were opened, shape (N,)."""
    machines: int
    """Number of machines, m_abs."""
    oversized: Bool
    """Tasks that do not fit on an empty machine, shape (N,). Each has opened a machine, as in algorithm 1 of [2]."""


def pack(
    statistics: TaskStatistics,
    *,
    capacity: npt.ArrayLike,
    test: FitTest,
    fit: Fit | str = Fit.BEST,
    max_failures: int = MAX_FAILURES,
) -> GaussianPacking:
    """Return a packing of tasks, in the given order, on as few machines as the heuristic finds.

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
    machine = np.array([machines.place(size, variance) for size, variance in pairs], np.int64)
    oversized = ~machines.fits_alone(demands.size, demands.variance)
    if failures and len(machines) > 1:
        rebalance(machines, machine, demands, failures)
    return GaussianPacking(machine, len(machines), oversized)


def rebalance(machines: Machines, machine_of: Int, demands: Demands, max_failures: int) -> None:
    """Move tasks to the last opened machine, which mostly has much free space, up to a number of failed attempts.

    The first task of each of the other machines is tried in turn, the one that it has had longest, also after a failed
    attempt. `max_failures` failed attempts, counted over all machines, end it ([2] section 4). `machine_of`, (N,)
    machine of each task, and the sums of the last machine are updated.
    """
    last = len(machines) - 1
    waiting = {machine: tasks[::-1].tolist() for machine, tasks in enumerate(tasks_by_machine(machine_of, last))}
    failed = 0
    while failed < max_failures and waiting:
        for machine in list(waiting):
            task = waiting[machine][-1]
            if machines.fits_on(last, demands.size[task], demands.variance[task]):
                machines.add(last, demands.size[task], demands.variance[task])
                machine_of[task] = last
                waiting[machine].pop()
                if not waiting[machine]:
                    del waiting[machine]
            else:
                failed += 1
                if failed == max_failures:
                    return


def tasks_by_machine(machine_of: Int, machines: int) -> list[Int]:
    """Return the tasks of each of the first `machines` machines, ascending; `machine_of`: (N,) machine of each task."""
    order = np.argsort(machine_of, kind="stable")
    bounds = np.searchsorted(machine_of[order], np.arange(machines + 1))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def overload_by_machine(packing: GaussianPacking, realisations: npt.ArrayLike, *, capacity: npt.ArrayLike) -> Float:
    """Return the share of realisations in which each machine exceeds its capacity; the mean is q of [2] section 5.1.

    With several resources, a machine exceeds its capacity where any resource does. Totals are summed in double
    precision: they are exact for whole numbers, so keep usage in units in which it is whole, such as percent.

    Parameters
    ----------
    packing
        Of the N tasks.
    realisations
        Usage of the same N tasks in the K realisations on which the packing is evaluated, (N, K) or (N, K, R).
    capacity
        The same for every machine, (R,) or a number. A total of just this much does not exceed it.

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
    """Return m: the number of machines divided by the number that would do if all of them were full on average.

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
    full_machines = np.divide(needed, limit, out=np.zeros_like(needed), where=needed > 0)
    return machines / max(1, math.ceil(float(full_machines.max())))
