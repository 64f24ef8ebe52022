"""Compress demand traces into demand models ([1] section 5.3).

A demand model keeps the maximum M, the initial demand I and the growth duration G of a metric with trend, the 90th
percentile U90 of a metric without trend, the true maximum of every metric, and the lifetime, class and role of a trace.

The paper does not say how it fits G. Ours: let t be the first time at which demand is at least 95 % of M (the level by
which [1] section 3.1 describes growth). The line from (0, I) through that first sample (t, d) meets M at
``G = t·(M - I)/(d - I)``, so a straight ramp and a jump are both kept exactly; G is never later than the first time at
which M itself is seen. Where demand starts at 95 % of M or more, G = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Float32, Int
from plb.risk.demand_history import DemandHistory
from plb.validation import check_count, check_metrics
from workloads.trace import Bounds, TraceSet, first_where, maximum, per_row, percentile, rows_of, step_of_row

GROWN = 0.95
"""Share of the maximum at which a tenant counts as grown ([1] section 3.1)."""
HIGH_PERCENTILE = 0.90
"""Percentile that represents a metric without trend ([1] section 5.3)."""
NODE = MappingProxyType({"cpu": 80.0, "memory": 408.0, "disk": 5000.0})
"""Capacities of the simulated node: 80 vCores, 5.1 GB of memory a vCore, 5 TB of disk ([1] section 8.1)."""
THRESHOLD = 0.95
"""Share of a capacity at which a violation begins ([1] section 3)."""


def compress(traces: TraceSet) -> DemandHistory:
    """Compress every series of `traces`: each role of a tenant gives one trace of the history."""
    return DemandHistory.from_columns(traces.metric_names, **compress_columns(traces))


def compress_columns(traces: TraceSet) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of `DemandHistory.from_columns` for every series of `traces`, in their order."""
    bounds, owner = traces.series_start, traces.series_tenant
    highest = maximum(traces.values, bounds)
    level, initial = highest.copy(), traces.values[bounds[:-1]].copy()
    growth = np.zeros_like(level)
    for column, metric in enumerate(traces.metrics):
        values = np.ascontiguousarray(traces.values[:, column])
        if metric.trend:
            growth[:, column] = traces.step_seconds * _growth_steps(values, highest[:, column], bounds)
        else:
            level[:, column] = initial[:, column] = percentile(values, bounds, HIGH_PERCENTILE)
    return {
        "tenant_class": traces.class_names()[owner],
        "role": traces.series_role,
        "lifetime": traces.lifetime_steps[owner].astype(np.float64) * traces.step_seconds,
        "censored": traces.censored[owner],
        "level": level,
        "initial": initial,
        "growth": growth,
        "maximum": highest,
    }


def _growth_steps(values: Float32, highest: Float32, bounds: Bounds) -> Float:
    """Return the growth duration of S series in steps, (S,): when a line through two of their values meets the maximum.

    The two are the first value and the first grown one, at least the share `GROWN` of the maximum; no growth ends later
    than the maximum. `values`, (N,): all rows; `highest`, (S,): maxima; `bounds`, (S + 1,): first row of each series,
    then N.
    """
    grown_at = first_where(values >= per_row(np.float32(GROWN) * highest, bounds), bounds)
    peak_at = first_where(values == per_row(highest, bounds), bounds)
    initial, grown = (
        values[bounds[:-1] + position].astype(np.float64) for position in (np.zeros_like(grown_at), grown_at)
    )
    stretch = np.ones(len(highest))
    np.divide(highest - initial, grown - initial, out=stretch, where=grown_at > 0)
    return np.minimum(grown_at * stretch, peak_at)


def model_curves(traces: TraceSet) -> Float32:
    """Return the compressed models of `traces` replayed at the same times, shape (N, R) like its values."""
    models, bounds = compress_columns(traces), traces.series_start
    age = (step_of_row(bounds) * traces.step_seconds)[:, None]
    initial, level, growth = (per_row(models[name], bounds) for name in ("initial", "level", "growth"))
    share = np.divide(age, growth, out=np.ones(growth.shape), where=age < growth)
    return np.asarray(initial + (level - initial) * share, np.float32)


@attrs.frozen
class EffectRow:
    """Probability of a violation by the full traces and by their compressed models."""

    tenants: int
    """Number e of tenants on the node."""
    full: float
    """Share of the samples in which some metric reached its threshold at some time, by the full traces."""
    compressed: float
    """The same share by the compressed models."""


def compression_effect(
    traces: TraceSet,
    tenants: Sequence[int],
    *,
    samples: int,
    seed: int | Sequence[int],
    capacities: Mapping[str, float] = NODE,
    threshold: float = THRESHOLD,
    stagger_steps: int = 1,
) -> list[EffectRow]:
    """Repeat the experiment of [1] figure 7: the effect of compression on the probability of a violation.

    For each number in `tenants`, so many random series are placed on one node, a new one every `stagger_steps` steps
    (in the paper: every 10 minutes), and both the full traces and their models are replayed to the end. A row has the
    number and the shares of `samples` such nodes with a violation: with full traces, and with models. Metrics without a
    capacity are unlimited; a violation begins at the share `threshold` of a capacity.
    """
    item = "compression effect"
    check_metrics(item, "capacities", capacities, traces.metric_names)
    check_count(item, "samples", samples, low=1)
    check_count(item, "stagger_steps", stagger_steps)
    for count in tenants:
        check_count(item, "tenants", count)
    limits = np.array([threshold * capacities.get(name, np.inf) for name in traces.metric_names])
    curves = traces.values, model_curves(traces)
    rng = np.random.default_rng(seed)
    rows = []
    for count in tenants:
        hits = np.zeros(2, np.int64)
        for _ in range(samples):
            series = rng.integers(len(traces.series_tenant), size=count)
            hits += _violations(traces.series_start, curves, series, stagger_steps, limits)
        full, compressed = (hits / samples).tolist()
        rows.append(EffectRow(count, full, compressed))
    return rows


def _violations(start: Bounds, curves: tuple[Float32, Float32], series: Int, stagger: int, limits: Float) -> list[bool]:
    """Return, for full traces and for models, whether a node with random series is ever in violation.

    `start` has the bounds of all series, and `curves` their values, (N, R), of both kinds. `series` has the indices of
    the series on the node; each begins `stagger` steps after the previous one. `limits`, (R,): loads at which a
    violation begins.
    """
    rows, bounds = rows_of(series, start)
    time = step_of_row(bounds) + per_row(np.arange(len(series)) * stagger, bounds)
    return [
        any(bool((np.bincount(time, curve[rows, i]) >= limit).any()) for i, limit in enumerate(limits))
        for curve in curves
    ]
