"""What is known of tasks: arrays of their usage, mean, variance and percentiles ([2] section 3), and their total.

The total usage of a machine is a Gaussian ([2] sections 3.6 and 4). For any distributions of the tasks, that of their
sum is nearly Gaussian for ten or more tasks. Its high percentiles are somewhat too low: rare events are underestimated
([2] section 3.6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float, Int
from plb.errors import ConflictError, InvalidValueError
from plb.validation import ReadOnlyMapping, check_count, check_number


def check_amounts(item: str, field: str, values: npt.ArrayLike, *, low: float = 0.0) -> Float:
    """Return values as an array of 64-bit floats if all are finite and at least `low`, else raise an error.

    `item` and `field` name the values in errors.
    """
    array = _numbers(item, field, values)
    _check_range(item, field, array, low)
    return array.astype(np.float64)


def check_by_task(field: str, values: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> Float:
    """Return values of each task and resource as (N, R); (N,) are values of one resource.

    Raise an error for another shape than `shape`, if it is not None; `field` names the values in errors.
    """
    array = check_amounts("tasks", field, values)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or (shape is not None and array.shape != shape):
        raise ConflictError(f"tasks: {field} has shape {array.shape}, expected {shape or '(tasks, resources)'}")
    return array


def check_realisations(values: npt.ArrayLike) -> Array:
    """Return realisations of usage, (N, K) or (N, K, R), as (N, K, R), floats as they are, or raise an error."""
    array = _numbers("realisations", "usage", values)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    shaped = array[:, :, np.newaxis] if array.ndim == 2 else array
    if shaped.ndim != 3 or not shaped.size:
        allowed = "(tasks, realisations) or (tasks, realisations, resources), none of them 0"
        raise ConflictError(f"realisations: shape {array.shape}, expected {allowed}")
    _check_range("realisations", "usage", shaped, 0.0)
    return shaped


def check_capacity(capacity: npt.ArrayLike, resources: int) -> Float:
    """Return the capacity of a machine as (R,); a single number serves for one resource."""
    amounts = check_amounts("machine", "capacity", capacity)
    if amounts.shape not in ((resources,), ()) or (amounts.ndim == 0 and resources > 1):
        raise ConflictError(f"machine: capacity has shape {amounts.shape}, expected a number for each of {resources}")
    return amounts.reshape(resources)


def _numbers(item: str, field: str, values: npt.ArrayLike) -> Array:
    """Return values as an array of numbers, or raise `ConflictError`; `item` and `field` name them in errors."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ConflictError(f"{item}: {field} is no array of numbers: {error}") from None
    if array.dtype.kind not in "iuf":
        raise ConflictError(f"{item}: {field} is no array of numbers, but of {array.dtype}")
    return array


def _check_range(item: str, field: str, array: Array, low: float) -> None:
    """Raise an error, with `item` and `field`, unless all of `array` lie in [low, ∞); the extremes are tested first."""
    if array.size and low <= array.min() and array.max() < math.inf:  # a NaN satisfies neither
        return
    refused = np.argwhere(~((array >= low) & (array < math.inf)))
    if len(refused):
        index = tuple(int(i) for i in refused[0])
        element = f"{field}{list(index)}" if index else field
        bound = f"a finite number >= {low:g}" if math.isfinite(low) else "a finite number"
        raise InvalidValueError(item, element, float(array[index]), bound)


@attrs.frozen(eq=False)
class TaskStatistics:
    """Statistics of the usage of N tasks; `observe` makes them from realisations."""

    mean: Float
    """μ of each task, shape (N, R) or, for one resource, (N,)."""
    variance: Float
    """σ² of each task, of the shape of `mean`."""
    percentiles: Mapping[float, Float] = attrs.field(factory=dict)
    """By percentile in [0, 100], the value of each task, of the shape of `mean`. GPA, Cantelli and means need none."""

    def __attrs_post_init__(self) -> None:
        mean = check_by_task("mean", self.mean)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "variance", check_by_task("variance", self.variance, mean.shape))
        checked = {
            _percent(percent): check_by_task(f"percentiles[{percent}]", values, mean.shape)
            for percent, values in self.percentiles.items()
        }
        object.__setattr__(self, "percentiles", ReadOnlyMapping(checked))

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.mean)

    @property
    def resources(self) -> int:
        """Number of resources."""
        return int(self.mean.shape[1])


def observe(realisations: npt.ArrayLike, percentiles: Sequence[float] = ()) -> TaskStatistics:
    """Return the statistics of tasks whose usage was observed.

    The variance of the observed values counts (divided by K, not K − 1): [2] section 3 takes μ and σ of
    the empirical distribution. Percentiles between two observed values are interpolated linearly.

    Parameters
    ----------
    realisations
        Observed usage, (N, K) or (N, K, R).
    percentiles
        Which ones to keep, in [0, 100].
    """
    values = check_realisations(realisations)
    requested = [_percent(percent) for percent in percentiles]
    kept = np.percentile(values, requested, axis=1).astype(np.float64) if requested else ()
    mean, variance = values.mean(axis=1, dtype=np.float64), values.var(axis=1, dtype=np.float64)
    return TaskStatistics(mean, variance, dict(zip(requested, kept, strict=True)))


def split_observations(realisations: int, share: float, seed: int) -> tuple[Int, Int]:
    """Return which realisations are observed before packing, and on which the packing is evaluated.

    The two are disjoint, except under full clairvoyance, where both are all realisations ([2] section 5.1). The
    observed ones are sampled at random, because realisations may have an order, such as the order in time.

    Parameters
    ----------
    realisations
        K, the number of realisations, at least 1.
    share
        Clairvoyance level: the share of them that is observed, in (0, 1]; 1: full clairvoyance.
    seed
        Of the split; keep it with the results.

    Returns
    -------
    tuple
        Indices of the observed and of the evaluated realisations, ascending.

    Raises
    ------
    ConflictError
        The share leaves none to observe or none to evaluate.
    """
    count = check_count("split", "realisations", realisations, low=1)
    check_number("split", "share", share, high=1.0, low_open=True)
    if share == 1.0:
        return np.arange(count), np.arange(count)
    observed = round(share * count)
    if not 0 < observed < count:
        raise ConflictError(f"split: {share:g} of {count} realisations leaves none to observe or none to evaluate")
    order = np.random.default_rng(check_count("split", "seed", seed)).permutation(count)
    return np.sort(order[:observed]), np.sort(order[observed:])


def _percent(percent: float) -> float:
    """Return a percentile, or raise an error unless it is in [0, 100]."""
    return check_number("observation", "percentile", percent, high=100.0)


@attrs.frozen(eq=False)
class Total:
    """The Gaussian of what a machine's tasks use together, resource by resource.

    Mean and variance have the same shape: (R,), or that of many machines at once, (..., R).
    """

    mean: Float
    """In the units of the resources."""
    variance: Float
    """In their squares; 0: the total is always `mean`."""

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
    def of_realisations(cls, realisations: npt.ArrayLike) -> Total:
        """Return the Gaussian of the realised totals. Its variance includes the correlations between tasks.

        Parameters
        ----------
        realisations
            Usage of the machine's S tasks, (S, K) or (S, K, R): column k is what each of them uses at time k.
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
