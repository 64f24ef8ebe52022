"""The judge of both engines: what an assignment is worth, in NumPy and without either of them.

python benchmarks/rebalancer/score.py results/rebalancer/balance-1000-0.npz ASSIGNMENT.npz
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from instances import COPIES, IS_LIMIT, UNPLACED, Instance, read


def score(instance: Instance, places: np.ndarray) -> dict[str, float]:
    """Return the figures of an assignment.

    Parameters
    ----------
    places
        (P, 3) node of each replica, or `UNPLACED`.

    Returns
    -------
    cv
        Mean over the metrics of the coefficient of variation of the utilisation of the nodes in service.
    hottest
        Largest utilisation of a node in service, of all metrics.
    moved
        Replicas that had a node and are no longer on it.
    unplaced, on_drained
        Replicas without a node, and on nodes that are to be emptied.
    over
        Nodes above their memory or disk.
    rack_mates
        Replicas that share a rack with an earlier replica of their partition.
    """
    in_service = ~instance.drained
    loads = instance.node_loads(places)
    use = (loads / instance.capacity)[in_service]
    placed = places != UNPLACED
    return {
        "cv": float((use.std(axis=0) / use.mean(axis=0)).mean()),
        "hottest": float(use.max()),
        "moved": int(_left(instance.places, places).sum()),
        "unplaced": int((~placed).sum()),
        "over": int((loads > instance.capacity)[:, IS_LIMIT].any(axis=1).sum()),
        "rack_mates": _rack_mates(instance, places),
        "on_drained": int(instance.drained[places[placed]].sum()),
    }


def _left(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return for each replica whether it had a node that no replica of its partition is on now."""
    return (before != UNPLACED) & (before[:, :, None] != after[:, None, :]).all(axis=2)


def _rack_mates(instance: Instance, places: np.ndarray) -> int:
    """Return how many replicas share a rack with an earlier replica of their partition."""
    racks = np.where(places == UNPLACED, -1 - np.arange(COPIES), instance.rack[places])
    racks.sort(axis=1)
    return int((racks[:, 1:] == racks[:, :-1]).sum())


if __name__ == "__main__":
    with np.load(Path(sys.argv[2])) as arrays:
        print(json.dumps(score(read(Path(sys.argv[1])), arrays["places"]), indent=1))
