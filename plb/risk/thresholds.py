"""Metrics that risk models know, and thresholds in the steps in which they count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from plb.errors import UnknownNameError
from plb.steps import UNLIMITED
from plb.validation import check_number


def refuse_unknown(item: str, field: str, given: Iterable[str], metrics: Sequence[str]) -> None:
    """Raise `UnknownNameError` at the first name that is no metric."""
    for name in given:
        if name not in metrics:
            raise UnknownNameError("metric", name, metrics, context=f"{item}: {field}")


def thresholds_in_steps(
    item: str, thresholds: Mapping[str, float], metrics: Sequence[str], steps: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return the least number of steps that is in violation, shape (R,): ceil(threshold / step), at least 1.

    Parameters
    ----------
    item
        Whom errors name.
    thresholds
        By metric in user units; a missing one is unlimited.
    metrics, steps
        Names of the R metrics, and the step of each in user units.

    Raises
    ------
    UnknownNameError
        A threshold is of no metric.
    InvalidValueError
        A threshold is negative or not finite.
    """
    refuse_unknown(item, "thresholds", thresholds, metrics)
    found = np.full(len(metrics), UNLIMITED, np.int64)
    for i, name in enumerate(metrics):
        if name in thresholds:
            value = check_number(item, f"thresholds[{name}]", thresholds[name])
            found[i] = min(max(1, math.ceil(Fraction(value) / Fraction(float(steps[i])))), UNLIMITED)
    return found
