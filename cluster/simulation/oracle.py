"""Exact predictions of demand, an upper bound on the value of predictions ([1] section 8.2).

A real predictor observes a tenant for a while first, so the oracle covers only tenants of a minimum age. Its
predictions are reported to the engine in place of the present demand, and the engine treats them as any load: it also
moves replicas off nodes with a predicted shortage. The true load decides whether that is a violation.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Int
from workloads.ragged_arrays import highest_ahead
from workloads.trace import TraceSet


class Oracle:
    """The largest demand within the coming hours.

    Parameters
    ----------
    traces
        The tenants.
    hours
        Horizon beyond the present step. Growth of whole classes (`cluster.simulation.growth`) is not predicted.
    after_hours
        Minimum age of a tenant.

    Attributes
    ----------
    highest
        For each sample of the traces, the maximum from it to the horizon, shape (N, R).
    """

    def __init__(self, traces: TraceSet, hours: float, after_hours: float) -> None:
        self._after = after_hours * 3600.0
        steps = round(hours * 3600.0 / traces.step_seconds)
        self.highest = highest_ahead(traces.values, traces.series_start, steps)

    def knows(self, age: Int) -> Bool:
        """Return for ages in seconds, (m,), whether the oracle covers such tenants."""
        return np.asarray(age >= self._after)
