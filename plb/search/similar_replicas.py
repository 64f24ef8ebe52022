"""The replicas with the most similar loads: where nodes are full, few other exchanges are allowed."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Float, Int
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution

PARTNERS = 64
"""Largest number of similar replicas that are known for each replica."""
COMPARED_METRICS = 12
"""Largest number of compared metrics: near replicas are not found fast in more dimensions."""


def similar_partners(problem: Problem, solution: Solution, rows: Int, config: PlbConfig) -> dict[str, Any]:
    """Return the fields of `plb.search.move_generation.Choice` for exchanges of similar replicas, if there are any.

    Parameters
    ----------
    rows
        The movable rows.
    """
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    partners = min(PARTNERS, len(rows) - 1)
    if config.similar_exchange_share == 0.0 or config.exchange_probability == 0.0 or partners < 1:
        return {}
    sizes = relative_sizes(problem, solution, rows)
    compared = np.argsort(-sizes.std(axis=0), kind="stable")[:COMPARED_METRICS]
    tree = cKDTree(sizes[:, compared])
    nearest: Int = tree.query(tree.data, partners + 1, p=np.inf, eps=0.5)[1]
    others = nearest[:, 1:].copy()
    for at, row in zip(*np.nonzero(others == np.arange(len(rows))[:, None]), strict=True):
        others[at, row] = nearest[at, 0]
    place = np.zeros(len(problem.origin), np.int64)
    place[rows] = np.arange(len(rows))
    return {"similar_share": config.similar_exchange_share, "similar": rows[others], "place": place}


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
    return problem.load[rows] / unit
