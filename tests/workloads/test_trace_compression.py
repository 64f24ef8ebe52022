"""Compression preserves the inputs of the risk models: M, G, I, U90 and the probability of a violation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from plb.errors import InvalidValueError, UnknownNameError
from tests.workloads.trace_strategies import one_tenant, trace_sets
from workloads.compression import GROWN, compress, compress_columns, compression_effect, model_curves
from workloads.regions import REGIONS, generate
from workloads.trace import TraceSet, maximum, minimum


@given(trace_sets())
def test_models_keep_their_invariants(traces: TraceSet) -> None:
    models, bounds = compress_columns(traces), traces.series_start
    high, low = maximum(traces.values, bounds), minimum(traces.values, bounds)
    np.testing.assert_array_equal(models["maximum"], high)
    np.testing.assert_array_equal(models["level"][:, 1], high[:, 1])
    np.testing.assert_array_equal(models["initial"][:, 1], traces.values[bounds[:-1], 1])
    assert (models["initial"] <= models["level"]).all()
    assert ((models["level"][:, 0] >= low[:, 0]) & (models["level"][:, 0] <= high[:, 0])).all()
    assert (models["growth"][:, 0] == 0).all()
    assert (models["growth"][:, 1] <= models["lifetime"] - traces.step_seconds).all()
    assert len(compress(traces)) == len(traces.series_tenant)


@given(trace_sets())
def test_the_curve_starts_at_i_and_reaches_m_at_g(traces: TraceSet) -> None:
    history = compress(traces)
    every = np.arange(len(history))
    start = np.where(history.growth > 0, history.initial, history.level)
    np.testing.assert_allclose(history.demand(0.0, every), start, rtol=1e-6)
    for metric in range(2):
        grown = history.demand(history.growth[:, metric], every)[:, metric]
        np.testing.assert_allclose(grown, history.level[:, metric], rtol=1e-6)
    curves = model_curves(traces)
    within = np.ones(len(curves) - 1, np.bool_)
    within[traces.series_start[1:-1] - 1] = False
    assert (np.diff(curves, axis=0)[within] >= -1e-4).all()


@pytest.mark.parametrize(
    ("disk", "growth"),
    [
        ([10, 20, 30, 40, 50, 50, 50], 4),  # a straight ramp is kept
        ([5, 100, 100, 100], 1),  # a jump is kept
        ([100, 100, 90], 0),  # at M from the start
        ([96, 97, 98, 100], 0),  # at 95 % of M from the start
        ([0, 50, 95, 95, 95, 95, 95, 100], 2 * 100 / 95),  # the line through the first grown sample meets M
        ([94, 95, 100, 100, 100], 2),  # a flat line reaches M late; the first time at M bounds G
        ([0, 0, 0], 0),
        ([7], 0),
    ],
)
def test_growth_follows_the_documented_rule(disk: list[float], growth: float) -> None:
    """The line from I through the first sample at 95 % of M reaches M at G. G is at most the first time at M."""
    models = compress_columns(one_tenant(disk))
    assert models["growth"][0, 1] / 600 == pytest.approx(growth, rel=1e-6)


def test_u90_is_the_nearest_rank_percentile() -> None:
    ten = compress_columns(one_tenant([1.0] * 10, cpu=[float(v) for v in range(10)]))
    eleven = compress_columns(one_tenant([1.0] * 11, cpu=[float(v) for v in range(11)]))
    assert (ten["level"][0, 0], ten["maximum"][0, 0]) == (8.0, 9.0)
    assert (eleven["level"][0, 0], eleven["maximum"][0, 0]) == (9.0, 10.0)


def test_models_approximate_actual_growth() -> None:
    """Modelled and actual disk demand of generated tenants differ by less than 4 % of the maximum on average."""
    traces = generate(REGIONS["region1"], 300, 5)
    top = np.repeat(maximum(traces.values, traces.series_start), np.diff(traces.series_start), axis=0)
    assert GROWN < 1
    error = np.abs(model_curves(traces) - traces.values)[:, 2] / top[:, 2]
    assert error.mean() < 0.04


@pytest.mark.parametrize("region", ["region1", "region3"])
def test_compression_hardly_changes_the_violation_probability(region: str) -> None:
    """As in figure 7 of [1], full and compressed traces give probabilities within 0.05 of each other."""
    traces = generate(REGIONS[region], 600, 3)
    rows = compression_effect(traces, [10, 20, 30, 40], samples=150, seed=1)
    assert max(abs(row.full - row.compressed) for row in rows) <= 0.05
    assert rows[0].full < 0.2
    assert rows[-1].full > 0.5


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="memory"):
        compression_effect(one_tenant([1.0]), [1], samples=1, seed=0)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"samples": 0}, "samples"), ({"stagger_steps": -1}, "stagger_steps"), ({"tenants": [1, -1]}, "tenants")],
)
def test_parameters_of_the_experiment_are_checked(changes: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {"tenants": [1], "samples": 1, "seed": 0, "capacities": {"cpu": 1.0}, **changes}
    numbers = arguments.pop("tenants")
    with pytest.raises(InvalidValueError, match=f"compression effect: {field} = "):
        compression_effect(one_tenant([1.0, 2.0]), numbers, **arguments)
