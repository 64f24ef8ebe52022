"""95 % intervals: of means (Student's t), and of anything from its resamples (the bootstrap)."""

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
    half_width: float | None
    """The mean, and half the width of the interval; None for a single value."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the interval of one or more values."""
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
    """Return half the width of the 95 % interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    from scipy.stats import t  # type: ignore[import-untyped]

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def bootstrap_ends(resampled: Sequence[float] | Float) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a figure from its value in each resample, (Q,)."""
    low, high = np.percentile(resampled, (2.5, 97.5))
    return float(low), float(high)
