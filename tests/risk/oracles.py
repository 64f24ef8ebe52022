"""Eligibility, draws and the test of a repetition, apart from the engine: in plain Python, or by one kernel alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from plb.risk import DemandHistory, ReplicaForecast
from plb.risk.counter_based_random import seed_word
from plb.risk.trace_sampling import NONE, age_horizon, demand_horizon, draw_replica, trace_table


def plain_eligible(
    history: DemandHistory, tenant_class: str | None, role: int, age: float, largest_demand: Sequence[float]
) -> tuple[int, list[int]]:
    """Return the level of widening and the eligible rows, criterion by criterion, over all rows."""
    code, rows = history.class_code(tenant_class), range(len(history))
    same_class = {row for row in rows if history.tenant_class[row] == code}
    same_role = {row for row in same_class if history.role[row] == role}
    old = {row for row in rows if history.lifetime[row] >= np.float64(age)}
    large = {row for row in rows if (history.maximum[row] >= np.array(largest_demand, np.float64)).all()}
    sets = [same_role & old & large, same_class & old & large, same_class & large, same_class & old, same_class]
    sets = (sets if code >= 0 else [set()] * 5) + [old & large, set(rows)]
    return next((level, sorted(eligible)) for level, eligible in enumerate(sets) if eligible)


class Drawn(NamedTuple):
    """The traces of a replica, and how long they stay."""

    trace: np.ndarray
    widening: int
    valid_age: float
    valid_demand: list[float]


def draw(
    history: DemandHistory, replica: tuple[str | None, int, float, Any], *, key: int = 9, k: int = 50, seed: int = 11
) -> Drawn:
    """Return the draws of a replica of a class, role, age and largest demand."""
    name, role, age, demand = replica
    table = trace_table(history)
    trace = np.empty(k, np.int32)
    of_replica = history.class_code(name), int(role), np.float64(age), np.array(demand, np.float64)
    scratch = np.empty(len(history), np.int32)
    with np.errstate(over="ignore"):
        level = draw_replica(seed_word(seed), np.uint64(key), *of_replica, table, scratch, trace, NONE)
    valid_demand = [float(demand_horizon(trace, level, metric, table)) for metric in range(len(history.metrics))]
    return Drawn(trace, level, float(age_horizon(trace, level, table)), valid_demand)


def draw_forecast(history: DemandHistory, forecast: ReplicaForecast, now: float, **settings: Any) -> Drawn:
    demand = [forecast.largest_demand.get(name, 0.0) for name in history.metrics]
    replica = forecast.tenant_class, forecast.role, max(0.0, now - forecast.created), demand
    return draw(history, replica, key=forecast.key, **settings)


def plain_demand(history: DemandHistory, row: int, metric: int, age: int, quanta: int) -> int:
    """Return the demand of a trace of whole numbers at a whole age, in quanta of which each unit has some."""
    low, high = int(history.initial[row, metric]), int(history.level[row, metric])
    growth = int(history.growth[row, metric])
    return high * quanta if age >= growth else -((-(low * growth + (high - low) * age) * quanta) // growth)


def plain_timeline(
    history: DemandHistory,
    rows: Sequence[int],
    ages: Sequence[int],
    limits: Sequence[int],
    *,
    last: float = math.inf,
    quanta: Sequence[int] = (1, 1),
) -> bool:
    """Return whether equation (1) of [1] has demand that reaches a limit in quanta at any whole time from now on.

    Each replica follows a row of the history, leaves at the end of its trace, and not before now. Times end at `last`.
    """
    ends = [max(0, int(history.lifetime[row]) - age) for row, age in zip(rows, ages, strict=True)]
    for time, metric in itertools.product(range(int(min(max(ends, default=-1), last)) + 1), range(len(limits))):
        present = [i for i in range(len(rows)) if time <= ends[i]]
        demands = [plain_demand(history, rows[i], metric, ages[i] + time, quanta[metric]) for i in present]
        if sum(demands) >= limits[metric]:
            return True
    return False


def plain_peak(history: DemandHistory, rows: Sequence[int], limits: Sequence[int]) -> bool:
    return any(sum(int(history.level[row, r]) for row in rows) >= limit for r, limit in enumerate(limits))
