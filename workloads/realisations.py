"""Realisations of the usage of tasks, for the fit tests of [2] (`plb.risk.gaussian`).

A task is a row of samples: its empirical distribution. Realisations are sampled from it independently for each task
([2] section 3.1), so correlation in time is lost; `UsageSamples.simultaneous` keeps it. The resources
of a task are sampled together. `workloads.realisation_files` reads tasks from public traces.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from plb.errors import InvalidValueError
from plb.validation import check_count
from workloads.segments import bounds_of, mean, spread
from workloads.trace import MetricInfo

Ints = npt.NDArray[np.int64]
Samples = npt.NDArray[np.float32]
UNKNOWN = -1
"""The period of a task with an unknown time of measurement."""


@attrs.frozen(eq=False)
class UsageSamples:
    """The samples of N tasks, S in all, of R resources.

    Parameters
    ----------
    resources
        Names and units of the resources.
    values
        float32 (S, R), tasks one after the other, each in the order of time.
    start
        int64 (N + 1,): bounds of the tasks in `values`.
    left_out
        How many tasks of the file were left out as too short or without usage.
    period
        int64 (N,): tasks of one period, such as a day, were measured at the same times, sample by sample; `UNKNOWN`:
        nothing is known of that.
    """

    resources: tuple[MetricInfo, ...]
    values: Samples
    start: Ints
    left_out: int = 0
    period: Ints = attrs.field()

    @period.default
    def _unknown(self) -> Ints:
        return np.full(len(self.start) - 1, UNKNOWN)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.start) - 1

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean usage of each task, (N, R)."""
        return mean(self.values, self.start)

    def draw(self, tasks: npt.ArrayLike, realisations: int, rng: np.random.Generator) -> Samples:
        """Return realisations of some tasks, sampled with replacement ([2] section 3.1).

        Parameters
        ----------
        tasks
            Indices of N' tasks.
        realisations
            K.
        rng
            Random number generator of the samples.

        Returns
        -------
        float32 array of shape (N', K, R).
        """
        chosen = np.asarray(tasks, np.int64)
        drawn = np.empty((len(chosen), realisations, self.values.shape[1]), np.float32)
        for place, task in enumerate(chosen.tolist()):
            first, after = self.start[task], self.start[task + 1]
            words = rng.integers(0, 2**32, realisations, dtype=np.uint32).astype(np.uint64)
            row = (words * np.uint64(after - first)) >> np.uint64(32)  # each as likely as another, up to 2^-32
            drawn[place] = self.values[first:after][row.astype(np.int64)]
        return drawn

    def simultaneous(self, period: int) -> tuple[Ints, Samples]:
        """Return the tasks of a period, and their usage at the same times.

        Returns
        -------
        tuple
            Indices of N' tasks, and a float32 array of shape (N', K, R): the K samples of each in the order of time.

        Raises
        ------
        InvalidValueError
            No task is of this period.
        """
        tasks = np.flatnonzero(self.period == period)
        if not len(tasks) or period == UNKNOWN:
            raise InvalidValueError("samples", "period", period, "a period of some task")
        samples = self.start[tasks[0] + 1] - self.start[tasks[0]]
        return tasks, self.values[self.start[tasks, np.newaxis] + np.arange(samples)]

    def averaged(self, samples: int) -> UsageSamples:
        """Return what a coarser measurement would show: means of so many samples in a row.

        What is left over at the end of a task joins the mean before it, so each sample counts once.
        """
        check_count("samples", "averaged over", samples, low=1)
        lengths = np.diff(self.start)
        blocks = np.maximum(lengths // samples, 1)
        start = bounds_of(blocks)
        within = np.arange(start[-1]) - spread(start[:-1], start)
        first = spread(self.start[:-1], start) + within * samples
        averages = mean(self.values, np.append(first, self.start[-1])).astype(np.float32)
        return UsageSamples(self.resources, averages, start, self.left_out, self.period)
