"""95 % intervals: of means (Student's t), and of other figures from the jackknife or from resamples (the bootstrap)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import Float

CONFIDENCE = 0.95
RESAMPLES = 2000
"""Resamples of a bootstrap."""


@attrs.frozen
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    """The mean."""
    half_width: float | None
    """Half the width of the interval; None for a single value."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return mean and interval of one or more values."""
        return Interval(float(np.mean(values)), half_width(values))

    @property
    def sign(self) -> int:
        """1 or -1 if the whole interval is above or below 0, else 0; for a single value, its sign."""
        half = self.half_width or 0.0
        return int(self.mean > half) - int(self.mean < -half)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Low and high end; None for a single value."""
        return None if self.half_width is None else (self.mean - self.half_width, self.mean + self.half_width)

    def as_json(self) -> dict[str, float]:
        """Return mean, low and high end; for a single value, all three are the value."""
        low, high = self.ends or (self.mean, self.mean)
        return {"mean": self.mean, "low": low, "high": high}


def decimals_of(half_width: float | None) -> int:
    """Return the number of decimals that shows the first digit of half the width of an interval; 0 without one."""
    return max(0, -math.floor(math.log10(half_width))) if half_width else 0


def half_width(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % interval of the mean of values; None for fewer than two."""
    if len(values) < 2:
        return None
    return _quantile_of(len(values)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def jackknife_half_width(left_out: Sequence[float] | Float) -> float:
    """Return half the width of the 95 % interval of a figure by the jackknife.

    `left_out`: (Q,) value of the figure without each of the repeats.
    """
    repeats = len(left_out)
    return _quantile_of(repeats) * float(np.std(left_out)) * math.sqrt(repeats - 1)


def _quantile_of(count: int) -> float:
    """Return the quantile of Student's t for the interval of a mean of `count` values."""
    from scipy.stats import t  # type: ignore[import-untyped]

    return float(t.ppf(0.5 + CONFIDENCE / 2, count - 1))


def bootstrap_ends(resampled: Sequence[float] | Float) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a figure from its value in each resample, (Q,)."""
    low, high = np.percentile(resampled, (2.5, 97.5))
    return float(low), float(high)
