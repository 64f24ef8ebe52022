"""Kernels of a metering: the present demand of replicas, and its sums by node."""

from __future__ import annotations

from plb.array_types import Bool, Float, Float32, Int, Int32
from plb.compiler import kernel


@kernel
def find_demand(
    rows: Int,
    tenant: Int,
    start: Int,
    created: Int,
    lifetime_steps: Int32,
    of_samples: Float32,
    growth: Float,
    now: int,
    step_seconds: int,
    demand: Float,
) -> None:
    """Find the values of the steps that contain or end at `now`, times growth.

    Parameters
    ----------
    rows
        (m,) replicas.
    tenant, start
        (M,) tenant of each replica, and its first sample.
    created, lifetime_steps, growth
        (T,) of each tenant: when it was created, the number of its steps, and the factor on its demand.
    of_samples
        (N, R) a value for each sample.
    now, step_seconds
        Present time and length of a step in seconds.
    demand
        (m, R) modified.
    """
    for index in range(rows.shape[0]):
        one = tenant[rows[index]]
        step = max(min((now - 1 - created[one]) // step_seconds, lifetime_steps[one] - 1), 0)
        sample = start[rows[index]] + step
        for metric in range(demand.shape[1]):
            demand[index, metric] = of_samples[sample, metric] * growth[one]


@kernel
def find_loads(rows: Int, node: Int, leaving: Bool, demand: Float, loads: Float) -> None:
    """Add up the demand of replicas by node, in the order of the rows.

    Parameters
    ----------
    rows, demand
        (m,) replicas, and their demand, (m, R).
    node, leaving
        (M,) node of each replica, and whether it is a departing end.
    loads
        (2, H, R) zeros, modified: of replicas that stay and of those that depart.
    """
    for index in range(rows.shape[0]):
        row = rows[index]
        for metric in range(demand.shape[1]):
            loads[int(leaving[row]), node[row], metric] += demand[index, metric]
