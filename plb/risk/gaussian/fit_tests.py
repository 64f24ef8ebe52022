"""Does this task still fit on this machine? GPA and the estimates that [2] section 5.1 compares it with.

All tests sum over the tasks of a machine, so the state of a machine is two sums for each resource, and a test
takes the same time for any number of tasks. With several resources, each has its own sums, and a task fits only if
it fits in all of them ([2] section 6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import attrs
import numpy as np

from plb.array_types import Float
from plb.errors import ConflictError
from plb.risk.gaussian.observation import TaskStatistics
from plb.validation import check_number


@attrs.frozen(eq=False)
class Demands:
    """What tasks add to the sums of the machine that takes them.

    Parameters
    ----------
    size
        (N, R), in the units of the resources.
    variance
        (N, R), in their squares; 0 if a test uses sizes only.
    """

    size: Float
    variance: Float


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
        """Return what each task adds."""


@attrs.frozen
class GPA:
    """Gaussian Percentile Approximation ([2] section 4, algorithm 1).

    A task k fits on a machine j if ``F(c | μ', σ'²) ≥ 1 − ρ`` with ``μ' = μ_k + Σ μ_i`` and ``σ'² = σ_k² + Σ σ_i²``,
    which is ``μ' + F⁻¹(1 − ρ)·σ' ≤ c`` with the inverse of the standard Gaussian. The tasks are taken as independent.

    Parameters
    ----------
    overload
        ρ in (0, 1): the frequency with which a machine may exceed its capacity; 0.05 is an SLO of 95 %.
    """

    overload: float

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
        """Return the sizes."""
        sizes = self.sizes(statistics)
        return Demands(sizes, np.zeros_like(sizes))


@attrs.frozen
class Cantelli(_Sizes):
    """Mean plus b standard deviations of each task ([2] section 5.1).

    Pr[X > μ + b·σ] < 1/(1 + b²) for any distribution, so 4.4 is an SLO of 95 %, and 1.7 is if X is Gaussian.

    Parameters
    ----------
    deviations
        b, at least 0.
    """

    deviations: float

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
    """A multiple of each task's mean, ``av`` in [2] section 5.1.

    Parameters
    ----------
    factor
        Above 0.
    """

    factor: float = 1.0

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
    """A percentile of each task's usage, ``perc`` in [2] section 5.1; the 100th is its maximum.

    Parameters
    ----------
    percent
        In [0, 100].
    """

    percent: float

    def __attrs_post_init__(self) -> None:
        check_number("percentile", "percent", self.percent, high=100.0)

    @property
    def name(self) -> str:
        """As the paper calls it, such as ``perc 95``."""
        return f"perc {self.percent:g}"

    def sizes(self, statistics: TaskStatistics) -> Float:
        """Return the percentile of each task; it has to be among those that were kept."""
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
