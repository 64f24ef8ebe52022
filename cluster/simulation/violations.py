"""Classifies the shortages of a metering: which are violations ([1] section 3.3), and which are not.

A violation is a node and a metering time at which a shortage starts a failover, with the present demand and the
previous placement. Two kinds of shortage start none and are counted separately: moves under way cover it, or no move
can resolve it. `count_reported` uses the reported loads instead of the present demand.

A shortage is unavoidable if one replica that stays on the node reaches by itself the largest threshold of the
metric among all nodes: then no placement of this replica prevents a shortage. The threshold of the node itself does not
show this, as a larger node may have room. A violation with several metrics is unavoidable if one of them is.

A calibration compares predicted probabilities with `first_violations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import attrs
import numpy as np

from cluster.simulation.ledger import Ledger, Metering
from cluster.simulation.tenant_arrivals import TenantSequence
from plb.array_types import NOWHERE, Bool, Float, Int
from plb.model.move import Move

SHARE_OF_ROUNDING = 1e-4
"""The engine rounds loads up to quanta, so repair runs within this share of the threshold below it."""
LEAST_LOAD = float(np.finfo(np.float64).tiny)
"""The least load that reaches a threshold of 0."""


class ViolationOutcome(Enum):
    """The outcome of a shortage."""

    VIOLATION = "violation"
    """The shortage started a failover."""
    COVERED = "covered"
    """The moves under way suffice."""
    UNRESOLVED = "unresolved"
    """The engine found no move that helps."""


@attrs.frozen
class NodeShortage:
    """A node that is short of a metric at a metering."""

    node: int
    """Index of the node."""
    metric: int
    """Index of the metric."""
    standing: float
    """Load of the replicas that stay on the node, in user units."""
    departing: float
    """Load of the departing ends on the node, in user units."""
    threshold: float
    """f·c in user units."""
    outcome: ViolationOutcome
    """The outcome, the same for all metrics of a node."""
    avoidable: bool
    """Whether every replica that stays on the node fits alone on a node with the largest threshold of the metric."""


def needs_repair(metering: Metering, threshold: Float) -> bool:
    """Return whether a node may be at its threshold, (H, R), now or as predicted, without departing ends."""
    nearly_threshold = threshold * (1.0 - SHARE_OF_ROUNDING)
    loads = [metering.standing] if metering.predicted is metering.standing else [metering.standing, metering.predicted]
    return any(_reached(load, nearly_threshold).any() for load in loads)


def classify(
    metering: Metering,
    threshold: Float,
    moves: Sequence[Move],
    node_names: Sequence[str],
    metric_names: Sequence[str],
    largest_on: Callable[[Int], Float],
) -> list[NodeShortage]:
    """Return the shortages of a metering with their outcomes, by node, then by metric.

    `threshold`: (H, R) f·c; infinite without a capacity. `moves`: the moves of the repair that follows. `largest_on`:
    returns for nodes, (k,), the largest load of a single replica that stays on each, (k, R).
    """
    reached = _reached(metering.metered, threshold)
    if not moves and not reached.any():
        return []
    short = _short(metering.standing, threshold, moves, node_names, metric_names)
    relieved = _relieved(moves)
    nodes = np.flatnonzero((reached | short).any(axis=1))
    if not len(nodes):
        return []
    # the engine rounds up the load of a single replica, too
    unavoidable = _nearly_reached(largest_on(nodes), threshold.max(axis=0))
    shortages = []
    for index, node in enumerate(nodes.tolist()):
        outcome = _outcome(bool(short[node].any()), node_names[node] in relieved)
        short_metrics = reached[node] if outcome is ViolationOutcome.COVERED else short[node]
        for metric in np.flatnonzero(short_metrics).tolist():
            loads = float(metering.standing[node, metric]), float(metering.departing[node, metric])
            node_threshold, avoidable = float(threshold[node, metric]), not unavoidable[index, metric]
            shortages.append(NodeShortage(node, metric, *loads, node_threshold, outcome, bool(avoidable)))
    return shortages


def count_reported(
    metering: Metering, threshold: Float, moves: Sequence[Move], node_names: Sequence[str], metric_names: Sequence[str]
) -> int:
    """Return the number of nodes with a violation by the reported loads; the arguments are as of `classify`.

    Without an oracle, which predicts these loads, it is the number of violations; with one it is at least as large.
    """
    relieved = _relieved(moves)
    if not relieved:
        return 0
    short = _short(metering.predicted, threshold, moves, node_names, metric_names).any(axis=1)
    return sum(node_names[node] in relieved for node in np.flatnonzero(short).tolist())


def first_violations(
    ledger: Ledger, sequence: TenantSequence, now: int, interval: int, steps: int, threshold: Float
) -> Int:
    """Return at which of the next `steps` meterings the present replicas of each node first reach `threshold`, (H,).

    The next metering is 1; 0: at none of them. `threshold`: (H, R); `interval`: seconds between meterings. The demand
    follows from the traces, without arrivals and moves.
    """
    rows = np.flatnonzero((ledger.node != NOWHERE) & ~ledger.leaving)
    node_of_row, departure = ledger.node[rows], sequence.departure[ledger.tenant[rows]]
    first = np.zeros(len(threshold), np.int64)
    for step in range(1, steps + 1):
        time = now + step * interval
        demand = np.where((departure >= time)[:, np.newaxis], ledger.demand(rows, time), 0.0)
        node_totals = [np.bincount(node_of_row, metric_demand, len(threshold)) for metric_demand in demand.T]
        reached = (np.column_stack(node_totals) >= threshold).any(axis=1)
        first[reached & (first == 0)] = step
    return first


def _outcome(short: bool, relieved: bool) -> ViolationOutcome:
    """Return the outcome for a node, which is `short` without departing ends, or is `relieved` by a move."""
    if not short:
        return ViolationOutcome.COVERED
    return ViolationOutcome.VIOLATION if relieved else ViolationOutcome.UNRESOLVED


def _reached(load: Float, threshold: Float) -> Bool:
    """Return where `load` reaches `threshold`, both (H, R); a threshold of 0 is not reached without load."""
    return np.asarray(load >= np.maximum(threshold, LEAST_LOAD))


def _nearly_reached(load: Float, threshold: Float) -> Bool:
    """Return where the engine, which rounds loads up, may see `load` reach `threshold`, (H, R) each."""
    return _reached(load, threshold * (1.0 - SHARE_OF_ROUNDING))


def _relieved(moves: Iterable[Move]) -> set[str | None]:
    """Return the names of the nodes that moves relieve of a shortage."""
    return {move.reason.node for move in moves if move.reason.rule == "capacity"}


def _short(
    load: Float, threshold: Float, moves: Iterable[Move], node_names: Sequence[str], metric_names: Sequence[str]
) -> Bool:
    """Return where `load` reaches the threshold, (H, R), or only the engine found so, because it rounds loads up.

    A move because of another load, such as a prediction, marks none.
    """
    short, nearly = _reached(load, threshold), _nearly_reached(load, threshold)
    for move in moves:
        reason = move.reason
        if reason.rule == "capacity" and reason.node in node_names and reason.metric in metric_names:
            node, metric = node_names.index(reason.node), metric_names.index(reason.metric)
            if not short[node].any():
                short[node, metric] = nearly[node, metric]
    return short
