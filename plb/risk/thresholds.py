"""The quanta in which risk models count demand, and thresholds in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from plb.array_types import Float, Int
from plb.model.quanta import UNLIMITED
from plb.validation import check_mapping, check_metrics, check_number, check_quantum


def checked_quanta(item: str, quanta: object) -> dict[str, float]:
    """Return the quantum of each metric in user units if all are powers of two; errors name the item.

    Raises
    ------
    InvalidValueError
        The quanta are no mapping, or one is not a power of two.
    """
    given = check_mapping(item, "quanta", quanta, "a mapping of metrics to quanta")
    return {name: check_quantum(item, f"quanta[{name}]", quantum) for name, quantum in given.items()}


def thresholds_in_quanta(item: str, thresholds: Mapping[str, float], metrics: Sequence[str], quanta: Float) -> Int:
    """Return the least number of quanta that is in violation, shape (R,): ceil(threshold / quantum), at least 1.

    Parameters
    ----------
    item
        Name of the model in errors.
    thresholds
        By metric in user units; a missing one is unlimited.
    metrics, quanta
        Names of the R metrics, and the quantum of each in user units.

    Raises
    ------
    UnknownNameError
        A threshold is of no metric.
    InvalidValueError
        The thresholds are no mapping, or one is negative or not finite.
    """
    check_mapping(item, "thresholds", thresholds, "a mapping of metrics to numbers")
    check_metrics(item, "thresholds", thresholds, metrics)
    found = np.full(len(metrics), UNLIMITED, np.int64)
    for i, name in enumerate(metrics):
        if name in thresholds:
            value = check_number(item, f"thresholds[{name}]", thresholds[name])
            found[i] = min(max(1, math.ceil(Fraction(value) / Fraction(float(quanta[i])))), UNLIMITED)
    return found
