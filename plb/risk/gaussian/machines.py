"""Machines that take tasks one after the other: First Fit and Best Fit ([2] section 4, algorithm 1)."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float
from plb.risk.gaussian.arrays import check_amounts, check_capacity
from plb.risk.gaussian.fit_tests import FitTest
from plb.validation import check_kind, check_member


class Fit(StrEnum):
    """Which of the machines that a task fits on takes it."""

    FIRST = "first"
    """The first."""
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
        given = check_amounts("machine", "capacity", capacity)
        self.capacity = check_capacity(given, max(1, given.size))
        self.quantile = check_kind("machines", "test", test, FitTest).quantile  # type: ignore[type-abstract]
        self.fit = check_member("machines", "fit", fit, Fit)
        self._open = 0
        self._size: Float = np.zeros((16, len(self.capacity)))
        self._variance: Float = np.zeros_like(self._size)

    def __len__(self) -> int:
        return self._open

    def fits(self, size: Float, variance: Float) -> Bool:
        """Return on which of the M open machines a task that adds this fits; shape (M,)."""
        free, deviation = self._with(slice(self._open), size, variance)
        return self._enough(free, deviation)

    def fits_on(self, machine: int, size: Float, variance: Float) -> bool:
        """Return whether a task with these sums fits on a machine."""
        free, deviation = self._with(slice(machine, machine + 1), size, variance)
        return bool(self._enough(free, deviation)[0])

    def fits_alone(self, size: Float, variance: Float) -> Bool:
        """Return which of N tasks, (N, R) each, fit on an empty machine; shape (N,)."""
        return self._enough(self.capacity - size, np.sqrt(variance))

    def place(self, size: Float, variance: Float) -> int:
        """Place a task on a machine, on a new one if it fits on none; return the machine."""
        free, deviation = self._with(slice(self._open), size, variance)
        enough = self._enough(free, deviation).nonzero()[0]
        if not len(enough):
            machine = self._new()
        elif self.fit is Fit.FIRST or len(enough) == 1:
            machine = int(enough[0])
        else:
            machine = int(enough[self._space(free[enough], deviation[enough]).argmin()])
        self.add(machine, size, variance)
        return machine

    def add(self, machine: int, size: Float, variance: Float) -> None:
        """Add a task to a machine, whether it fits or not."""
        self._size[machine] += size
        self._variance[machine] += variance

    def _with(self, machines: slice, size: Float, variance: Float) -> tuple[Float, Float]:
        """Return what machines would have free on average, and their standard deviations, with a task more."""
        free = self.capacity - (self._size[machines] + size)
        return free, np.sqrt(self._variance[machines] + variance)

    def _enough(self, free: Float, deviation: Float) -> Bool:
        needed = 0.0 if self.quantile is None else self.quantile * deviation
        return np.asarray((free >= needed).all(axis=1))

    def _space(self, free: Float, deviation: Float) -> Float:
        """Return the free space of machines in the resource with the least; Best Fit chooses the least of all.

        ``FitBin`` is ``F(z) − (1 − ρ)`` with z = (c − μ')/σ'. It increases with z, which distinguishes machines for
        which F is 1 to the last digit.
        """
        if self.quantile is None:
            space = np.divide(free, self.capacity, out=np.full_like(free, math.inf), where=self.capacity > 0)
        else:
            space = np.divide(free, deviation, out=np.full_like(free, math.inf), where=deviation > 0)
        least: Float = space.min(axis=1)
        return least

    def _new(self) -> int:
        if self._open == len(self._size):
            self._size = np.concatenate([self._size, np.zeros_like(self._size)])
            self._variance = np.concatenate([self._variance, np.zeros_like(self._variance)])
        self._open += 1
        return self._open - 1
