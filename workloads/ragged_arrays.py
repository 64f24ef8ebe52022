"""Reductions over segments: contiguous runs of rows, one run a series, given by their bounds.

`bounds` is always int64 of shape (S + 1,), ascending, from 0 to the number of rows; every segment has at least one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int, Int32


def bounds_of(lengths: npt.NDArray[Any]) -> Int:
    """Return the bounds of segments with these lengths."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def per_row(per_segment: npt.NDArray[Any], bounds: Int) -> npt.NDArray[Any]:
    """Return one value a row from one value a segment; of (S, R), (N, R)."""
    return np.repeat(per_segment, np.diff(bounds), axis=0)


def step_of_row(bounds: Int) -> Int32:
    """Return the position of every row in its segment, from 0."""
    rows = np.arange(bounds[-1], dtype=np.int32)
    rows -= per_row(bounds[:-1].astype(np.int32), bounds)
    return rows


def rows_of(segments: npt.NDArray[Any], bounds: Int) -> tuple[Int, Int]:
    """Return the rows of these segments, one segment after the other, and the bounds of the segments in them."""
    chosen = bounds_of(np.diff(bounds)[segments])
    return np.arange(chosen[-1]) + per_row(bounds[segments] - chosen[:-1], chosen), chosen


def first_where(mask: Bool, bounds: Int) -> Int:
    """Return the position of the first true row in its segment; the length of the segment if there is none."""
    hits = np.flatnonzero(mask)
    at = np.searchsorted(hits, bounds[:-1])
    first = np.append(hits, bounds[-1])[at]
    return np.asarray(np.minimum(first, bounds[1:]) - bounds[:-1], np.int64)


def rows_from(first: Int, bounds: Int) -> Bool:
    """Return which rows stand at or after position `first` of their segment."""
    return np.asarray(step_of_row(bounds) >= per_row(first, bounds))


def maximum(rows: Float32, bounds: Int) -> Float32:
    """Return the maximum of every segment; `rows` may be (N,) or (N, R)."""
    return np.asarray(np.maximum.reduceat(rows, bounds[:-1], axis=0))


def highest_ahead(rows: npt.NDArray[Any], bounds: Int, steps: int) -> npt.NDArray[Any]:
    """Return the largest of every row and the `steps` rows that follow it in its segment, of the shape of `rows`."""
    last = per_row(bounds[1:] - 1, bounds)
    place = np.arange(len(rows))
    highest, width = rows, 1
    while width <= steps:
        further = min(width, steps + 1 - width)
        highest = np.maximum(highest, highest[np.minimum(place + further, last)])
        width += further
    return highest


def minimum(rows: Float32, bounds: Int) -> Float32:
    """Return the minimum of every segment."""
    return np.asarray(np.minimum.reduceat(rows, bounds[:-1], axis=0))


def mean(rows: Float32, bounds: Int) -> Float:
    """Return the mean of every segment, summed in double precision; `rows` may be (N,) or (N, R)."""
    total = np.add.reduceat(rows, bounds[:-1], axis=0, dtype=np.float64)
    return np.asarray((total.T / np.diff(bounds)).T)


def percentile(rows: Float32, bounds: Int, share: float) -> Float32:
    """Return the nearest-rank percentile of every segment.

    Parameters
    ----------
    rows
        Shape (N,), finite and at least 0.
    bounds
        Bounds of the segments.
    share
        In (0, 1]; 0.9 is the 90th percentile. The value at rank ceil(share·n) of the n rows: always one of them.

    Notes
    -----
    Floats of at least 0 sort like their bit patterns, so one sort of (segment, bits) as 64-bit integers orders all
    segments at once.
    """
    keys = per_row(np.arange(len(bounds) - 1, dtype=np.uint64) << np.uint64(32), bounds)
    keys |= np.ascontiguousarray(rows + np.float32(0.0), np.float32).view(np.uint32)
    keys.sort()
    # a share such as 0.9 is a hair more than it says: take it back, so that 10 rows give rank 9
    rank = np.ceil(share * np.diff(bounds) - 1e-9).astype(np.int64) - 1
    bits = keys[bounds[:-1] + np.maximum(rank, 0)].astype(np.uint32)
    return bits.view(np.float32)
