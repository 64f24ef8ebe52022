"""The total usage of a machine as a Gaussian ([2] sections 3.6 and 4).

For any distributions of the tasks, that of their sum is nearly Gaussian for ten or more tasks. Its high
percentiles are somewhat too low: rare events are underestimated ([2] section 3.6).
"""

from __future__ import annotations

from typing import cast

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float
from plb.errors import ConflictError, InvalidValueError
from plb.risk.gaussian.arrays import check_amounts, check_realisations
from plb.validation import check_number

ROUNDING = 1e-12
"""A variance that is summed from covariances may be below 0 by this share of the sum."""


@attrs.frozen(eq=False)
class Total:
    """The Gaussian of what a machine's tasks use together, resource by resource.

    Mean and variance have the same shape: (R,), or that of many machines at once, (..., R).

    Parameters
    ----------
    mean
        In the units of the resources.
    variance
        In their squares; 0: the total is always `mean`.
    """

    mean: Float
    variance: Float

    def __attrs_post_init__(self) -> None:
        mean = check_amounts("total", "mean", self.mean, low=-np.inf)
        variance = check_amounts("total", "variance", self.variance)
        if mean.shape != variance.shape:
            raise ConflictError(f"total: mean has shape {mean.shape}, variance {variance.shape}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "variance", variance)

    @classmethod
    def of_independent(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> Total:
        """Return the total of independent tasks, as the paper takes them to be ([2] sections 2 and 4).

        Parameters
        ----------
        mean, variance
            Of each task, shape (S, ...): the first axis is summed.
        """
        means, variances = check_amounts("tasks", "mean", mean), check_amounts("tasks", "variance", variance)
        return cls(means.sum(axis=0), variances.sum(axis=0))

    @classmethod
    def of_correlated(cls, mean: npt.ArrayLike, covariance: npt.ArrayLike) -> Total:
        """Return the total of tasks that need not be independent: its variance is the sum of all covariances.

        Parameters
        ----------
        mean
            Of each task, shape (S, ...).
        covariance
            Of each pair, shape (S, S, ...).

        Raises
        ------
        InvalidValueError
            The covariances add up to a negative variance.
        """
        means = check_amounts("tasks", "mean", mean)
        pairs = check_amounts("tasks", "covariance", covariance, low=-np.inf)
        if pairs.shape != (len(means), *means.shape):
            raise ConflictError(f"tasks: covariance has shape {pairs.shape}, expected {(len(means), *means.shape)}")
        variance = pairs.sum(axis=(0, 1))
        if np.any(variance < -ROUNDING * np.abs(pairs).sum(axis=(0, 1))):
            raise InvalidValueError("tasks", "covariance", float(np.min(variance)), "covariances whose sum is >= 0")
        return cls(means.sum(axis=0), np.maximum(variance, 0.0))

    @classmethod
    def of_realisations(cls, realisations: npt.ArrayLike) -> Total:
        """Return the Gaussian with mean and variance of the realised totals, with the correlations between tasks.

        Parameters
        ----------
        realisations
            Usage of the machine's tasks, (S, K) or (S, K, R): column k is what all of them use at the same time.
        """
        totals = check_realisations(realisations).sum(axis=0, dtype=np.float64)
        return cls(totals.mean(axis=0), totals.var(axis=0))

    def probability_of_reaching(self, capacity: npt.ArrayLike) -> Float:
        """Return the probability that the total reaches a capacity, ``1 − F(c | μ, σ²)`` of [2] algorithm 1.

        Parameters
        ----------
        capacity
            Broadcasts against the mean; infinite: unlimited.

        Returns
        -------
        Array of the broadcast shape, in [0, 1]. Without variance it is 1 where the mean is at least the capacity,
        else 0.
        """
        from scipy.special import ndtr  # type: ignore[import-untyped]

        limit = np.asarray(capacity, np.float64)
        if np.isnan(limit).any():
            raise InvalidValueError("machine", "capacity", float("nan"), "numbers")
        above = self.mean - limit
        deviation = np.sqrt(self.variance)
        certain = np.where(above >= 0.0, np.inf, -np.inf)
        return cast("Float", ndtr(np.divide(above, deviation, out=certain, where=deviation > 0.0)))

    def percentile(self, share: float) -> Float:
        """Return what the total stays below with probability `share`, in (0, 1): ``F⁻¹(share | μ, σ²)``.

        [2] section 3.6 and figure 6 compare it with the percentile of the realised totals.
        """
        from scipy.special import ndtri

        check_number("total", "share", share, high=1.0, low_open=True, high_open=True)
        return np.asarray(self.mean + ndtri(share) * np.sqrt(self.variance), np.float64)
