"""Writes the traces of the gallery's scenario of rebalancing: tenants that stay and are busy at hours of their own.

    python examples/daily_peaks/make.py [FOLDER]

Of the 60 tenants 26 are busy by day and 23 by night, and the others are never much busier than usual. Each has its own
hours, the same every day, and a demand that varies from sample to sample. They live for eleven days.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from workloads.trace import MetricInfo, TraceSet
from workloads.trace_files import write_traces

TENANTS, DAYS, STEPS_A_DAY = 60, 11, 144
BUSY_FROM = {"day": 8, "night": 0, "steady": 0}
"""First hour in which tenants of a class may be busy."""
CLASSES = [*BUSY_FROM]


def demand_of(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return the vCores that a tenant demands, in quarters, shape (steps,)."""
    hour = np.arange(DAYS * STEPS_A_DAY) % STEPS_A_DAY * 24 / STEPS_A_DAY
    begin = BUSY_FROM[kind] + rng.uniform(0, 5)
    is_busy = (hour >= begin) & (hour < begin + rng.uniform(2, 4))
    peak = 1.5 if kind == "steady" else rng.uniform(4, 10)
    noisy = np.where(is_busy, peak, 1.0) * rng.normal(1.0, 0.08, len(hour))
    return np.maximum(0.25, np.round(4 * noisy) / 4)


def main() -> None:
    """Write the traces."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    rng = np.random.default_rng(1)
    kinds = rng.choice(CLASSES, TENANTS, p=[1 / 2, 1 / 3, 1 / 6])
    demand = np.concatenate([demand_of(kind, rng) for kind in kinds])
    steps = DAYS * STEPS_A_DAY
    traces = TraceSet(
        metrics=(MetricInfo("cpu", "vCores"),),
        classes=tuple(CLASSES),
        tenant=np.array([f"t{number:02d}" for number in range(TENANTS)]),
        class_code=np.array([CLASSES.index(kind) for kind in kinds], np.int16),
        replicas=np.ones(TENANTS, np.int8),
        lifetime_steps=np.full(TENANTS, steps, np.int32),
        censored=np.ones(TENANTS, np.bool_),
        max_usage=np.full((TENANTS, 1), 16.0, np.float32),
        series_tenant=np.arange(TENANTS, dtype=np.int32),
        series_role=np.zeros(TENANTS, np.int8),
        series_start=np.arange(TENANTS + 1) * steps,
        values=demand[:, None].astype(np.float32),
        start=np.zeros(TENANTS),
    )
    write_traces(traces, folder, {"script": "examples/daily_peaks/make.py", "seed": 1})


if __name__ == "__main__":
    main()
