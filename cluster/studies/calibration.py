"""Calibration: how likely estimators say that a violation is, beside how often one comes.

The cluster is run by a policy that asks no estimator, so that all of them see the same nodes. Now and then each says
how likely a violation of each node is. What comes follows from the traces of the replicas that stand there at that
moment: whether their demand reaches a threshold at one of the next meterings, as if nobody came or was moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from cluster.simulation.calendar import At, Kind
from cluster.simulation.ledger import NOWHERE, Ledger
from cluster.simulation.simulation import Process, Simulation
from cluster.simulation.tenants import TenantSequence
from cluster.studies.simulated import prepared, whole

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
POLICY = "worst_fit_max"
"""Runs the cluster; it does not ask how likely violations are."""
DAYS = 10.0
FIRST_HOURS, EVERY_HOURS, HORIZON_HOURS = 24, 6, 24
EDGES = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95)
"""Between these probabilities lie the bins; the first begins at 0, the last ends with 1."""
OUTCOMES = ("next", "ahead")
"""A violation at the next metering, and within the horizon."""


class Watched(Simulation):
    """A run in which, now and then, probabilities are asked for.

    Attributes
    ----------
    looks
        Probability, and whether a violation comes at the next metering and within the horizon, (3, H) each.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looks: list[Floats] = []

    def processes(self) -> tuple[Process, ...]:
        """Return what goes on from the start, and the looks."""
        return (*super().processes(), self._watch())

    def _watch(self) -> Process:
        for when in range(FIRST_HOURS * 3600, self._end + 1, EVERY_HOURS * 3600):
            yield At(self.env, when, Kind.LOOK)
            probability = [*self.engine.violation_probabilities(when).values()]
            comes = what_comes(self.ledger, self._sequence, when, self._interval, self._threshold)
            self.looks.append(np.array([probability, *comes], np.float64))


def what_comes(
    ledger: Ledger, sequence: TenantSequence, now: int, interval: int, threshold: Floats
) -> tuple[Bools, Bools]:
    """Return on which nodes the replicas that stand there now reach a threshold, at the next metering and ever, (H,).

    Parameters
    ----------
    now, interval
        Present time, and the time between meterings, in seconds.
    threshold
        (H, R) user units.
    """
    rows = np.flatnonzero((ledger.node != NOWHERE) & ~ledger.leaving)
    node, departure = ledger.node[rows], sequence.departure[ledger.tenant[rows]]
    at_next, ahead = np.zeros(len(threshold), np.bool_), np.zeros(len(threshold), np.bool_)
    for step in range(1, HORIZON_HOURS * 3600 // interval + 1):
        time = now + step * interval
        demand = np.where((departure >= time)[:, np.newaxis], ledger.demand(rows, time), 0.0)
        totals = [np.bincount(node, of_metric, len(threshold)) for of_metric in demand.T]
        ahead |= (np.column_stack(totals) >= threshold).any(axis=1)
        if step == 1:
            at_next = ahead.copy()
    return at_next, ahead


def run_calibration(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do a task as `cluster.studies.simulated.run_simulation` does; the totals are sums by bin of the probability."""
    scenario, source, tenants, repeat = prepared(arguments)
    watched = Watched(scenario, source, tenants, POLICY, repeat)
    result = whole(watched.run())
    looks = np.concatenate([np.zeros((1 + len(OUTCOMES), 0)), *watched.looks], axis=1)
    return {"totals": binned(looks), "timings": result.timings}


def binned(looks: Floats) -> dict[str, Any]:
    """Return by bin the number of looks, the sum of their probabilities and of what came, and the squared errors."""
    probability, outcomes = looks[0], dict(zip(OUTCOMES, looks[1:], strict=True))
    place = np.searchsorted(EDGES, probability, side="right")
    sums = {name: np.bincount(place, of, len(EDGES) + 1).tolist() for name, of in outcomes.items()}
    errors = {f"squared_error_{name}": float(np.square(probability - of).sum()) for name, of in outcomes.items()}
    counts = np.bincount(place, minlength=len(EDGES) + 1).tolist()
    return {"looks": counts, "predicted": np.bincount(place, probability, len(EDGES) + 1).tolist(), **sums, **errors}


@attrs.frozen(eq=False)
class Calibration:
    """What an estimator said, and what came.

    Parameters
    ----------
    label
        Of the estimator.
    looks
        (B,) by bin of the probability.
    predicted, came
        (B,) mean probability, and share of violations within the horizon; not a number where there is no look.
    brier, brier_next
        Mean squared difference between probability and what came: within the horizon, and at the next metering.
    base_rate, base_rate_next
        Share of the looks after which a violation came.
    """

    label: str
    looks: Floats
    predicted: Floats
    came: Floats
    brier: float
    brier_next: float
    base_rate: float
    base_rate_next: float


def calibration_of(label: str, rows: Sequence[Mapping[str, Any]]) -> Calibration:
    """Return the calibration over the runs of one estimator."""
    looks, predicted, ahead, at_next = (
        np.sum([row[name] for row in rows], axis=0) for name in ("looks", "predicted", "ahead", "next")
    )
    total = float(looks.sum())
    errors = [sum(row[f"squared_error_{name}"] for row in rows) / total for name in ("ahead", "next")]
    with np.errstate(invalid="ignore"):
        means, shares = predicted / looks, ahead / looks
    return Calibration(
        label, looks, means, shares, errors[0], errors[1], float(ahead.sum() / total), float(at_next.sum() / total)
    )
