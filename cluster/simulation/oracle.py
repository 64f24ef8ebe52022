"""Exact predictions of demand, as an upper bound on what predictions are worth ([1] section 8.2).

A predictor has to observe a tenant for a while, so the oracle speaks only of tenants who arrived long enough ago. What
it foretells is reported to the engine instead of the present demand, and the engine acts on it as on any load: it also
moves replicas off nodes that are foretold to be short. What nodes really carry decides whether that was a violation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.segments import highest_ahead
from workloads.trace import TraceSet


class Oracle:
    """The largest demand of the hours to come.

    Parameters
    ----------
    traces
        The tenants.
    hours
        How far it sees beyond the present step; it does not foresee growth of whole classes
        (`cluster.simulation.growth`).
    after_hours
        Age from which on it speaks of a tenant.

    Attributes
    ----------
    highest
        For every sample of the traces, the largest from there on, as far as it sees, shape (N, R).
    """

    def __init__(self, traces: TraceSet, hours: float, after_hours: float) -> None:
        self._after = after_hours * 3600.0
        steps = round(hours * 3600.0 / traces.step_seconds)
        self.highest = highest_ahead(traces.values, traces.series_start, steps)

    def knows(self, age: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of ages in seconds, (m,), whether the oracle speaks of such tenants."""
        return np.asarray(age >= self._after)
