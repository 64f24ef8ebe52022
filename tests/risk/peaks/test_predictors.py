"""The predictors and the oracle equal the released simulator in both forms, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError
from plb.risk.peaks import (
    BorgDefault,
    HistoricalPeak,
    MachinePeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    Predictions,
    RcLike,
    TaskSamples,
    predict,
)

from . import reference
from .reference import Sample, snapshots
from .strategies import NO_DEADLINE, STEP, as_samples, cells, machines, oracles, predictors

pytestmark = pytest.mark.kernels


@NO_DEADLINE
@given(cells, predictors)
def test_predictions_follow_the_rules(cell: dict[int, list[Sample]], predictor: Any):
    found = predict(as_samples(cell), [predictor], threads=1)
    requested = [reference.predicted(predictor, cell[machine], STEP) for machine in sorted(cell)]
    assert found.time.tolist() == [time for one in requested for time in one]
    np.testing.assert_allclose(
        found.peak[0], [peak for one in requested for peak in one.values()], rtol=1e-9, atol=1e-9
    )
    steps = [snapshot.values() for machine in sorted(cell) for snapshot in snapshots(cell[machine]).values()]
    np.testing.assert_allclose(found.limit, [sum(limit for _, limit in step) for step in steps])
    np.testing.assert_allclose(found.usage, [sum(min(pair) for pair in step) for step in steps])


@NO_DEADLINE
@given(cells, oracles)
def test_oracle_follows_the_rules(cell: dict[int, list[Sample]], oracle: PeakOracle):
    """It has a value where the trace covers the horizon, or at the first step only."""
    found = predict(as_samples(cell), [oracle], threads=1)
    predicted = ~np.isnan(found.peak[0])
    requested = {m: reference.predicted(oracle, cell[m], STEP) for m in sorted(cell)}
    keys = list(zip(found.machine[predicted].tolist(), found.time[predicted].tolist(), strict=True))
    assert keys == [(machine, time) for machine, one in requested.items() for time in one]
    values = [peak for one in requested.values() for peak in one.values()]
    np.testing.assert_allclose(found.peak[0][predicted], values, rtol=1e-9, atol=1e-9)


@NO_DEADLINE
@given(machines(), predictors)
def test_streaming_and_bulk_agree_to_the_last_bit(samples: list[Sample], predictor: Any):
    bulk = predict(as_samples({0: samples}), [predictor], threads=1)
    stream = MachinePeak(predictor)
    for row, snapshot in enumerate(snapshots(samples).values()):
        usage, limit = zip(*snapshot.values(), strict=True)
        found = stream.update(list(snapshot), usage, limit)
        assert found == (bulk.peak[0, row], bulk.limit[row], bulk.usage[row])


def random_cell(seed: int, machines: int, tasks: int, steps: int) -> TaskSamples:
    rng = np.random.default_rng(seed)
    machine, task, step = (one.ravel() for one in np.indices((machines, tasks, steps)))
    kept = rng.random(len(task)) < 0.99
    usage, limit = rng.random(len(task)), rng.uniform(0.5, 1.5, len(task))
    columns = {"machine": machine, "task": task, "time": STEP * step, "usage": usage, "limit": limit}
    return TaskSamples.from_columns(**{name: column[kept] for name, column in columns.items()}, step=STEP)


def test_long_streams_agree_with_bulk_to_the_last_bit():
    """The defaults are used, with more steps and tasks than the first windows can store."""
    samples = random_cell(3, machines=1, tasks=20, steps=400)
    past = HistoricalPeak(), HistoricalPeak(history=150, horizon=20, day=40)
    predictors = [RcLike(), NSigma(), NSigma(form="paper"), MachinePercentile(), *past]
    bulk = predict(samples, predictors, threads=1)
    for row, predictor in enumerate(predictors):
        stream = MachinePeak(predictor)
        found = []
        for time in bulk.time:
            now = samples.time == time
            columns = (column[now].tolist() for column in (samples.task, samples.usage, samples.limit))
            found.append(stream.update(*columns).peak)
        assert found == bulk.peak[row].tolist()


@NO_DEADLINE
@given(cells, predictors | oracles, st.integers(0, 2**32 - 1))
def test_order_and_threads_do_not_change_predictions(cell: dict[int, list[Sample]], predictor: Any, seed: int):
    plain = predict(as_samples(cell), [predictor], threads=1)
    other = predict(as_samples(cell, seed), [predictor], threads=3)
    for one, two in zip(columns_of(plain), columns_of(other), strict=True):
        np.testing.assert_array_equal(one, two)


def columns_of(found: Predictions) -> list[Any]:
    return [found.machine, found.time, found.limit, found.usage, found.peak]


def test_times_may_be_any_whole_numbers():
    time = np.array([-(2**60), 2**60, 2**60 + 7])
    samples = TaskSamples.from_columns(
        machine=[0] * 3, task=[0] * 3, time=time[::-1], usage=[1.0, 2.0, 3.0], limit=[9.0] * 3, step=7
    )
    assert samples.time.tolist() == time.tolist()
    np.testing.assert_array_equal(predict(samples, [PeakOracle(horizon=1)]).peak[0], [9.0, 1.0, np.nan])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"usage": [1.0, -1.0]}, r"usage\[1\] = -1.0 is not allowed"),
        ({"limit": [1.0, float("nan")]}, r"limit\[1\] = nan"),
        ({"limit": [0.0, 1e-51]}, "0, or a number >= 1e-50"),
        ({"usage": [1.0]}, "1 rows.*2 rows"),
        ({"task": ["a", "b"]}, "one column of whole numbers"),
        ({"time": [-(2**62), 2**62]}, "time = .* is not allowed"),
        ({"machine": np.array([0, 2**63], np.uint64)}, r"below 2\^63"),
        ({"task": [3, 3]}, "rows 0 and 1 are of one machine, task and time"),
    ],
)
def test_bad_samples_are_refused(changed: dict[str, Any], message: str):
    columns: dict[str, Any] = {
        "machine": [0, 0],
        "task": [0, 1],
        "time": [0, 0],
        "usage": [1.0, 1.0],
        "limit": [1.0, 1.0],
    }
    with pytest.raises((InvalidValueError, ConflictError), match=message):
        TaskSamples.from_columns(**(columns | changed))


def test_two_samples_of_one_time_are_named_in_any_order():
    with pytest.raises(ConflictError, match="rows 1 and 3 "):
        TaskSamples.from_columns(machine=[0] * 4, task=[9, 5, 1, 5], time=[0] * 4, usage=[1.0] * 4, limit=[1.0] * 4)


@pytest.mark.parametrize(
    ("tasks", "usage", "message"),
    [
        ([], [], "at least one"),
        (["a"], [1.0, 2.0], "equally many"),
        (["a", "a"], [1.0, 1.0], "named twice"),
        (["a", "b"], [1.0, -1.0], "usage of 'b'"),
        (["a", "b"], [1.0, 1e50], "usage of 'b'"),
    ],
)
def test_bad_steps_are_refused_and_not_counted(tasks: list[str], usage: list[float], message: str):
    stream, other = MachinePeak(RcLike(warmup=2)), MachinePeak(RcLike(warmup=2))
    for one in (stream, other):
        one.update(["a"], [0.5], [1.0])
    with pytest.raises((InvalidValueError, ConflictError), match=message):
        stream.update(tasks, usage, [1.0] * len(usage))
    assert stream.update(["a"], [0.5], [1.0]) == other.update(["a"], [0.5], [1.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: NSigma(history=1),
        lambda: RcLike(history=0),
        lambda: RcLike(percentile=101.0),
        lambda: MachinePercentile(percentile=-1.0),
        lambda: NSigma(n=-1.0),
        lambda: NSigma(form="other"),
        lambda: NSigma(cap=1),
        lambda: HistoricalPeak(history=1),
        lambda: HistoricalPeak(history=288),
        lambda: HistoricalPeak(horizon=0),
        lambda: HistoricalPeak(stride=0),
        lambda: HistoricalPeak(day=0),
        lambda: HistoricalPeak(persistence=1.1),
        lambda: HistoricalPeak(percentile=101.0),
        lambda: BorgDefault(phi=1.5),
        lambda: PeakOracle(horizon=-1),
        lambda: Maximum(()),
        lambda: Maximum((PeakOracle(),)),
        lambda: MachinePeak(PeakOracle()),
    ],
)
def test_parameters_out_of_range_are_refused(make: Any):
    with pytest.raises(InvalidValueError):
        make()


def test_busy_hours_of_different_tasks_do_not_add_up():
    """Historical simulation predicts the peak of the sum; the sum of the peaks of the tasks is larger."""
    rows = [(task, STEP * hour, 0.9 if (hour % 24 < 12) == task else 0.2, 1.0) for hour in range(72) for task in (0, 1)]
    past = HistoricalPeak(warmup=2, history=168, horizon=24, stride=1, day=24)
    found = predict(as_samples({0: rows}), [past, RcLike(percentile=95.0)], threads=1)
    assert found.peak[:, -1].tolist() == pytest.approx([1.1, 1.8])


def test_oracle_works_at_the_largest_times():
    """A time plus the horizon may exceed 64 bits."""
    last = 2**63 - 1
    samples = TaskSamples.from_columns(
        machine=[0, 0], task=[0, 0], time=[last - 1, last], usage=[1.0, 2.0], limit=[5.0, 5.0], step=1
    )
    assert predict(samples, [PeakOracle(horizon=5)], threads=1).peak[0, 0] == 2.0
    assert predict(samples, [PeakOracle(horizon=2**60)], threads=1).peak[0, 0] == 2.0
