"""Sums of the peaks on every node by repetition, from scratch, and the violations that follow from them."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int, Int32
from plb.compiler import kernel
from plb.energy.failovers import count_violations, update_violations
from plb.energy.overload import overload_of
from plb.energy.score import W_OVERLOAD
from plb.state.arrays import Problem


@attrs.frozen(eq=False)
class PeakSums:
    """Sums over the replicas on each node, each at its peak.

    Parameters
    ----------
    aggregate, ceiling, violating, overload
        As in `plb.state.arrays.Solution`: (N, R, K), (N, R), (N,) and (N,).
    """

    aggregate: Int32
    ceiling: Int
    violating: Int
    overload: Int


def peak_sums(problem: Problem, node: Int) -> PeakSums:
    """Return the sums, computed from scratch, with row i on ``node[i]``, (M,); departing ends are not counted."""
    nodes, metrics = problem.limit.shape
    sums = PeakSums(
        np.zeros((nodes, metrics, problem.peak.shape[2]), np.int32),
        np.zeros((nodes, metrics), np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
    )
    every = np.ones(nodes, np.bool_)
    _add_up(problem.peak, problem.peak_ceiling, _places(problem, node), every, sums.aggregate, sums.ceiling)
    update_violations_of(problem, every, sums)
    return sums


def _places(problem: Problem, node: Int) -> Int:
    """Return the node on which each row is counted, (M,): NOWHERE for departing ends."""
    return np.where(problem.leaving, NOWHERE, node)


@kernel
def _add_up(peak: Int32, peak_ceiling: Int, places: Int, stale: Bool, aggregate: Int32, ceiling: Int) -> None:
    """Compute the sums of the nodes in `stale` from scratch.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) quanta.
    places
        (M,) node of each row, or NOWHERE.
    stale
        (N,)
    aggregate, ceiling
        (N, R, K) and (N, R) quanta; modified.
    """
    for node in range(stale.shape[0]):
        if stale[node]:
            ceiling[node] = 0
            aggregate[node] = 0
    for row in range(places.shape[0]):
        node = places[row]
        if node == NOWHERE or not stale[node]:
            continue
        for metric in range(peak.shape[1]):
            ceiling[node, metric] += peak_ceiling[row, metric]
            _add_peaks(aggregate[node, metric], peak[row, metric])


@kernel
def _add_peaks(aggregate: Int32, peak: Int32) -> None:
    """Add the peaks of a row to those of its node, (K,) each; a separate kernel, so that the loop is vectorized."""
    for k in range(aggregate.shape[0]):
        aggregate[k] += peak[k]


def update_violations_of(problem: Problem, stale: Bool, sums: PeakSums) -> None:
    """Compute the violations of the nodes in `stale`, and their overload if it has a weight."""
    if len(problem.estimator_rows):
        sums.violating[~problem.counted] = 0
        update_violations(
            problem.estimator_rows,
            problem.variance_unit,
            sums.aggregate,
            problem.threshold,
            problem.peak[NOWHERE],
            np.flatnonzero(problem.counted & stale),
            sums.violating,
        )
    else:
        _count_violating(sums.aggregate, problem.threshold, problem.counted, stale, sums.violating)
    if problem.weights[W_OVERLOAD] > 0:
        _compute_overload(
            sums.aggregate,
            sums.ceiling,
            problem.threshold,
            problem.peak[NOWHERE],
            problem.peak_ceiling[NOWHERE],
            problem.counted & stale,
            sums.overload,
        )
        sums.overload[~problem.counted] = 0
    else:
        sums.overload[:] = 0


@kernel
def _count_violating(aggregate: Int32, threshold: Int32, counted: Bool, stale: Bool, violating: Int) -> None:
    """Write the repetitions in violation of the nodes in `stale` to `violating`, (N,); 0 for uncounted nodes."""
    for node in range(violating.shape[0]):
        if stale[node]:
            violating[node] = count_violations(aggregate[node], threshold[node]) if counted[node] else 0


@kernel
def _compute_overload(
    aggregate: Int32, ceiling: Int, threshold: Int32, nothing: Int32, nothing_ceiling: Int, which: Bool, overload: Int
) -> None:
    """Write the overload of the nodes in `which` to `overload`, (N,); `nothing`: the peaks of no replica."""
    for node in range(overload.shape[0]):
        if which[node]:
            overload[node] = overload_of(aggregate[node], ceiling[node], threshold[node], nothing, nothing_ceiling)
