"""Checks of the arrays that this package receives: they become floats, or an error names item, field and range."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float
from plb.errors import ConflictError, InvalidValueError


def check_amounts(item: str, field: str, values: npt.ArrayLike, *, low: float = 0.0) -> Float:
    """Return values as an array of 64-bit floats if all are finite and at least `low`, else raise."""
    array = _numbers(item, field, values)
    _check_range(item, field, array, low)
    return array.astype(np.float64)


def check_by_task(field: str, values: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> Float:
    """Return values of each task and resource as (N, R), of this shape if one is given; (N,) are of one resource."""
    array = check_amounts("tasks", field, values)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or (shape is not None and array.shape != shape):
        raise ConflictError(f"tasks: {field} has shape {array.shape}, expected {shape or '(tasks, resources)'}")
    return array


def check_realisations(values: npt.ArrayLike) -> Array:
    """Return realisations of usage, (N, K) or (N, K, R), as (N, K, R), floats as they are.

    Raises
    ------
    InvalidValueError
        A value is negative or not finite; the message names task, realisation and resource.
    ConflictError
        The shape is another one, or there is no task, realisation or resource.
    """
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
    given = check_amounts("machine", "capacity", capacity)
    if given.shape not in ((resources,), ()) or (given.ndim == 0 and resources > 1):
        raise ConflictError(f"machine: capacity has shape {given.shape}, expected a number for each of {resources}")
    return given.reshape(resources)


def _numbers(item: str, field: str, values: npt.ArrayLike) -> Array:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ConflictError(f"{item}: {field} is no array of numbers: {error}") from None
    if array.dtype.kind not in "iuf":
        raise ConflictError(f"{item}: {field} is no array of numbers, but of {array.dtype}")
    return array


def _check_range(item: str, field: str, array: Array, low: float) -> None:
    """Raise an error unless all values lie in [low, ∞). Only the extremes are tested, which needs no mask."""
    if array.size and low <= array.min() and array.max() < math.inf:  # a NaN satisfies neither
        return
    refused = np.argwhere(~((array >= low) & (array < math.inf)))
    if len(refused):
        at = tuple(int(index) for index in refused[0])
        place = f"{field}{list(at)}" if at else field
        bound = f"a finite number >= {low:g}" if math.isfinite(low) else "a finite number"
        raise InvalidValueError(item, place, float(array[at]), bound)
