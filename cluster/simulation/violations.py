"""Which shortages of a metering time are violations ([1] section 3.3), and which are not.

A violation is a node and a metering time at which a failover is started because of the shortage, with the demand of now
under the placement of before. A node whose moves already under way cover its shortage starts none, and one that nothing
can be moved away from starts none either: both are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import attrs
import numpy as np
import numpy.typing as npt

from cluster.simulation.ledger import Floats, Metering
from plb.model.move import Move

Marks = npt.NDArray[np.bool_]

SHARE_OF_ROUNDING = 1e-4
"""The engine counts in steps and rounds up: within this share of its capacity below a threshold, it is asked."""


class ViolationOutcome(Enum):
    """What came of a shortage."""

    VIOLATION = "violation"
    """A failover was started because of it."""
    COVERED = "covered"
    """The moves away that are under way suffice."""
    UNRESOLVED = "unresolved"
    """The engine found no move that helps."""


@attrs.frozen
class NodeShortage:
    """A node that is short of a metric at a metering time.

    Parameters
    ----------
    node, metric
        Indices.
    standing, departing
        Load in user units of the replicas that stand there, and of the departing ends.
    threshold
        f·c in user units.
    outcome
        What came of it; the same for all metrics of a node.
    """

    node: int
    metric: int
    standing: float
    departing: float
    threshold: float
    outcome: ViolationOutcome


def needs_repair(metering: Metering, threshold: Floats) -> bool:
    """Return whether some node may be at its threshold, or is foretold to be, leaving aside what is on its way out."""
    return bool((_nearly_reached(metering.standing, threshold) | _nearly_reached(metering.foretold, threshold)).any())


def nodes_relieved(moves: Iterable[Move]) -> set[str]:
    """Return the nodes for whose capacity a plan moves something, or swaps roles."""
    return {move.reason.node for move in moves if move.reason.rule == "capacity" and move.reason.node is not None}


def classify(
    metering: Metering, threshold: Floats, moves: Sequence[Move], node_names: Sequence[str], metric_names: Sequence[str]
) -> list[NodeShortage]:
    """Return the shortages of a metering time with what came of them, by node, then by metric.

    Parameters
    ----------
    metering
        Loads before any of `moves`.
    threshold
        (H, R) f·c; infinite where there is no capacity. A capacity of 0 is short only when there is load.
    moves
        Moves that repair starts now.
    """
    reached, short = _reached(metering.metered, threshold), _reached(metering.standing, threshold)
    _mark_named(short, _nearly_reached(metering.standing, threshold), moves, node_names, metric_names)
    relieved = nodes_relieved(moves)
    found = []
    for node in np.flatnonzero((reached | short).any(axis=1)).tolist():
        outcome = _outcome(bool(short[node].any()), node_names[node] in relieved)
        concerned = reached[node] if outcome is ViolationOutcome.COVERED else short[node]
        for metric in np.flatnonzero(concerned).tolist():
            loads = float(metering.standing[node, metric]), float(metering.departing[node, metric])
            found.append(NodeShortage(node, metric, *loads, float(threshold[node, metric]), outcome))
    return found


def _outcome(short: bool, relieved: bool) -> ViolationOutcome:
    if not short:
        return ViolationOutcome.COVERED
    return ViolationOutcome.VIOLATION if relieved else ViolationOutcome.UNRESOLVED


def _reached(load: Floats, threshold: Floats) -> Marks:
    """Return where a threshold is reached, (H, R); one of 0 is not while there is no load."""
    return np.asarray(load >= np.maximum(threshold, np.finfo(np.float64).tiny))


def _nearly_reached(load: Floats, threshold: Floats) -> Marks:
    """Return where the engine may see a shortage, (H, R)."""
    return _reached(load, threshold * (1.0 - SHARE_OF_ROUNDING))


def _mark_named(
    short: Marks, nearly: Marks, moves: Iterable[Move], node_names: Sequence[str], metric_names: Sequence[str]
) -> None:
    """Mark the shortages that the engine, which rounds up, saw where exact sums lie just below the threshold.

    Where it moves something because of a load that is only foretold, nothing is short.
    """
    for move in moves:
        reason = move.reason
        if reason.rule == "capacity" and reason.node in node_names and reason.metric in metric_names:
            node, metric = node_names.index(reason.node), metric_names.index(reason.metric)
            if not short[node].any():
                short[node, metric] = nearly[node, metric]
