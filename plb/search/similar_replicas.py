"""The replicas with the most similar loads: where nodes are full, few other exchanges are allowed."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Float, Int
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution

PARTNERS = 32
"""Largest number of similar replicas that are known for each replica."""
ACCURACY = 0.5
"""By how much the distances may exceed those of the nearest, as a share: these take long to find in many dimensions."""


def similar_partners(problem: Problem, solution: Solution, rows: Int, config: PlbConfig) -> dict[str, Any]:
    """Return the fields of `plb.search.move_generation.Choice` for exchanges of similar replicas, if there are any.

    Parameters
    ----------
    rows
        The movable rows.
    """
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    partners = min(PARTNERS, len(rows) - 1)
    if not config.similar_exchange_share or not config.exchange_probability or partners < 1:
        return {}
    sizes = relative_sizes(problem, solution, rows)
    found: Int = cKDTree(sizes).query(sizes, partners + 1, p=np.inf, eps=ACCURACY)[1]
    itself = found == np.arange(len(rows))[:, None]
    itself[~itself.any(axis=1), -1] = True  # so many are equal that it is not among them
    place = np.zeros(len(problem.origin), np.int64)
    place[rows] = np.arange(len(rows))
    similar = rows.astype(np.int32)[found[~itself].reshape(len(rows), partners)]
    return {"similar_share": config.similar_exchange_share, "similar": similar, "place": place}


def relative_sizes(problem: Problem, solution: Solution, rows: Int) -> Float:
    """Return the loads of rows in units of the free capacity of a node in the mean, or of its load if that is less.

    The largest difference of two rows, over metrics, is then their distance: exchanges that a full metric does not
    allow are far apart, and what has much room hardly counts.

    Returns
    -------
    Float
        (rows, R).
    """
    free = np.maximum(0, problem.limit - solution.node_load).mean(axis=0)
    unit = np.maximum(1.0, np.minimum(free, solution.node_load.mean(axis=0)))
    sizes: Float = problem.load[rows] / unit
    return sizes
