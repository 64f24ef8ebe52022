"""Whole numbers: those that are given, and units in which decimals are whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plb.array_types import Int32
from plb.errors import InvalidValueError
from plb.validation import check_count

MOST = 2**30
"""Units of demand and of capacity at the most, so that sums of a few stay within 32 bits."""
MOST_DECIMALS = 300
"""Powers of ten beyond that are no finite numbers of double precision."""


def array_of(item: str, field: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array of what was given; raise `InvalidValueError` for lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidValueError(item, field, values, "lists of equal lengths") from None


def whole_numbers(item: str, field: str, values: npt.ArrayLike, axes: int, *, low: int = 0, high: int = MOST) -> Int32:
    """Return a copy of whole numbers from `low` to `high` with so many axes.

    Raises
    ------
    InvalidValueError
        They are none, or have other axes.
    """
    array = array_of(item, field, values)
    if array.ndim != axes or array.dtype.kind not in "iuf":
        raise InvalidValueError(
            item, field, f"{array.dtype} {array.shape}", f"numbers with {axes} ax{'i' if axes == 1 else 'e'}s"
        )
    bad = ~((array >= low) & (array <= high) & (array == np.floor(array)))
    if bad.any():
        at = tuple(int(place) for place in np.argwhere(bad)[0])
        raise InvalidValueError(item, f"{field}{list(at)}", array[at].item(), f"a whole number from {low} to {high}")
    return np.ascontiguousarray(array.astype(np.int32))


def whole_units(values: npt.ArrayLike, most_decimals: int = 6) -> tuple[Int32, float]:
    """Return numbers in whole units of a power of ten, and that power; those with more decimals are rounded up.

    The unit is the largest that holds all of them exactly, at least 10 to the power of -`most_decimals`.

    Raises
    ------
    InvalidValueError
        A number is negative, not finite, or more than `MOST` units, or `most_decimals` is not from 0 to 300.
    """
    check_count("whole units", "most_decimals", most_decimals, high=MOST_DECIMALS)
    given = array_of("whole units", "values", values)
    if given.dtype.kind not in "iuf":
        raise InvalidValueError("whole units", "values", f"{given.dtype} {given.shape}", "numbers")
    array = given.astype(np.float64)
    if not (np.isfinite(array) & (array >= 0.0)).all():
        bad = array[~(np.isfinite(array) & (array >= 0.0))][0]
        raise InvalidValueError("whole units", "values", float(bad), "finite numbers >= 0")
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        for decimals in range(most_decimals + 1):
            whole = np.rint(array * 10.0**decimals)
            if np.array_equal(whole / 10.0**decimals, array):
                break
        else:
            # a product in binary may lie a little above the decimal number that is meant
            whole = np.ceil(np.round(array * 10.0**decimals, 3))
    if whole.max(initial=0.0) > MOST:
        largest = float(array.max())
        raise InvalidValueError(
            "whole units", "values", largest, f"at most {MOST * 10.0**-decimals:g} with {decimals} decimals"
        )
    return whole.astype(np.int32), 10.0**-decimals
