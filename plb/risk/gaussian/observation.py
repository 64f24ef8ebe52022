"""What is known of tasks before they are packed: statistics of their observed usage ([2] sections 2 and 5.1).

N tasks, K realisations, R resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int
from plb.errors import ConflictError
from plb.risk.gaussian.arrays import check_by_task, check_realisations
from plb.validation import ReadOnlyMapping, check_count, check_number


@attrs.frozen(eq=False)
class TaskStatistics:
    """Statistics of the usage of N tasks; `observe` makes them from realisations.

    Parameters
    ----------
    mean
        μ of each task, shape (N, R) or, for one resource, (N,).
    variance
        σ² of each task, of the shape of `mean`.
    percentiles
        By percentile in [0, 100], that of each task, of the shape of `mean`. GPA, Cantelli and means need none.
    """

    mean: Float
    variance: Float
    percentiles: Mapping[float, Float] = attrs.field(factory=dict)

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

    The variance is that of the observed values (divided by K, not K − 1): [2] section 3 takes μ and σ of
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
    found = np.percentile(values, requested, axis=1).astype(np.float64) if requested else ()
    mean, variance = values.mean(axis=1, dtype=np.float64), values.var(axis=1, dtype=np.float64)
    return TaskStatistics(mean, variance, dict(zip(requested, found, strict=True)))


def split_observations(realisations: int, share: float, seed: int) -> tuple[Int, Int]:
    """Return which realisations are observed before packing, and on which the packing is evaluated.

    The two are disjoint, except under full clairvoyance, where both are all realisations ([2] section 5.1). The
    observed ones are sampled at random, because realisations may have an order, such as that of time.

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
    return check_number("observation", "percentile", percent, high=100.0)
