"""The demand of tenants together, from their traces alone."""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int
from plb.model import Role
from workloads.trace import TraceSet


def summed_demand(traces: TraceSet, tenants: Int, steps: Int) -> Float:
    """Return the demand of tenants, summed over all replicas, (R,).

    Parameters
    ----------
    traces
        Their traces.
    tenants
        (m,) indices of the tenants.
    steps
        (m,) the step of each whose demand counts, from 0.
    """
    total = np.zeros(len(traces.metrics))
    replicas = traces.replicas[tenants].astype(np.int64)
    counts = {Role.PRIMARY: np.ones_like(replicas), Role.SECONDARY: replicas - 1, Role.INSTANCE: replicas}
    for role, count in counts.items():
        series = traces.series_index[tenants, role]
        has = series >= 0
        total += (traces.values[traces.series_start[series[has]] + steps[has]] * count[has, None]).sum(axis=0)
    return total


def first_demand(traces: TraceSet, tenants: int) -> Float:
    """Return the demand of the first `tenants` tenants in their first step, summed over all replicas, (R,)."""
    return summed_demand(traces, np.arange(tenants), np.zeros(tenants, np.int64))
