"""The predictors and the oracle equal the released simulator in both forms, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
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


def peaks(predictor: Any, samples: list[Sample]) -> list[float]:
    """Return the predictions for one machine; NaN where an oracle has none."""
    return predict(as_samples({0: samples}), [predictor], threads=1).peak[0].tolist()


def constant(steps: range, task: int = 0, usage: float = 0.5, limit: float = 1.0) -> list[Sample]:
    """Return samples of a constant task."""
    return [(task, STEP * step, usage, limit) for step in steps]


@NO_DEADLINE
@given(cells, predictors)
def test_predictions_follow_the_rules(cell: dict[int, list[Sample]], predictor: Any):
    """They equal plain Python at every step of every machine."""
    found = predict(as_samples(cell), [predictor], threads=1)
    requested = [reference.predicted(predictor, cell[machine], STEP) for machine in sorted(cell)]
    assert found.time.tolist() == [time for one in requested for time in one]
    np.testing.assert_allclose(
        found.peak[0], [peak for one in requested for peak in one.values()], rtol=1e-9, atol=1e-9
    )


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
    """Peaks, limits and usage are equal."""
    bulk = predict(as_samples({0: samples}), [predictor], threads=1)
    stream = MachinePeak(predictor)
    for row, snapshot in enumerate(snapshots(samples).values()):
        usage, limit = zip(*snapshot.values(), strict=True)
        found = stream.update(list(snapshot), usage, limit)
        assert found == (bulk.peak[0, row], bulk.limit[row], bulk.usage[row])


def random_cell(seed: int, machines: int, tasks: int, steps: int) -> TaskSamples:
    """Return a cell in which tasks start and end at random."""
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
    """Rows may be in any order; machines may be shared among threads."""
    plain = predict(as_samples(cell), [predictor], threads=1)
    other = predict(as_samples(cell, seed), [predictor], threads=3)
    for one, two in zip(columns_of(plain), columns_of(other), strict=True):
        np.testing.assert_array_equal(one, two)


def columns_of(found: Predictions) -> list[Any]:
    """Return all columns."""
    return [found.machine, found.time, found.limit, found.usage, found.peak]


def test_limit_and_usage_are_sums_and_usage_is_capped():
    """The treatment of usage above the limit by the predictor does not matter."""
    samples = [(0, 0, 2.0, 1.0), (1, 0, 0.25, 0.5)]
    found = predict(as_samples({7: samples}), [RcLike(cap=False)])
    assert (found.machine.tolist(), found.limit.tolist(), found.usage.tolist()) == ([7], [1.5], [1.25])


@pytest.mark.parametrize("warmup", [0, 1, 2])
def test_first_sample_is_never_warm(warmup: int):
    """A warm-up below two counts as two."""
    assert peaks(RcLike(warmup=warmup), constant(range(3))) == [1.0, 0.5, 0.5]


def test_task_that_returns_is_new():
    """It is new if other tasks were there during its absence."""
    samples = constant(range(8), task=1, usage=0.0) + [s for s in constant(range(8)) if s[1] != 4 * STEP]
    assert peaks(RcLike(warmup=3), samples) == [2.0, 2.0, 0.5, 0.5, 0.0, 1.0, 1.0, 0.5]


def test_gap_of_the_whole_machine_is_no_step():
    """Tasks stay warm during it, and it has no row."""
    assert peaks(RcLike(warmup=3), [*constant(range(3)), *constant(range(50, 52))]) == [1.0, 1.0, 0.5, 0.5, 0.5]


def test_task_that_becomes_warm_keeps_its_past():
    """The samples of its warm-up are in its history."""
    rising = [(0, STEP * step, step / 10, 1.0) for step in range(5)]
    assert peaks(RcLike(percentile=0.0, warmup=4), rising)[3] == 0.0


def test_percentiles_are_shares_of_the_limit_of_each_task():
    """Shares are scaled by the present limit; a sample with limit 0 has the share 0."""
    samples = [(0, 0, 0.5, 1.0), (0, STEP, 1.0, 4.0), (0, 2 * STEP, 0.0, 0.0), (0, 3 * STEP, 1.0, 8.0)]
    np.testing.assert_allclose(peaks(RcLike(percentile=100.0, warmup=2), samples), [1.0, 2.0, 0.0, 4.0])


def test_only_warm_tasks_count_in_the_past_of_the_released_form():
    """When a busy task ends, the prediction drops at once; in the paper's form it stays in the machine's past."""
    samples = constant(range(10), usage=0.25) + constant(range(5), task=1, usage=1.0, limit=1.0)
    released, paper = (peaks(NSigma(n=1.0, warmup=2, history=8, form=form), samples) for form in ("released", "paper"))
    assert released[5] == pytest.approx(0.25)
    assert paper[5] > 1.0


def test_released_form_is_at_most_the_limits():
    """The number of deviations does not matter."""
    samples = [(0, STEP * step, step % 2, 1.0) for step in range(10)]
    assert peaks(NSigma(n=50.0, warmup=2), samples) == [1.0] * 10
    assert max(peaks(NSigma(n=50.0, warmup=2, form="paper"), samples)) > 20.0


HOURLY = {"warmup": 2, "history": 168, "horizon": 24, "stride": 1, "day": 24}
"""Parameters for steps of an hour."""


def by_hour(task: int, usage: Sequence[float], first: int = 0) -> list[Sample]:
    """Return samples of a task with the limit 1, an hour apart."""
    return [(task, STEP * (first + hour), one, 1.0) for hour, one in enumerate(usage)]


def test_tasks_that_are_busy_at_different_times_have_the_peak_of_their_sum():
    """A sum of the peaks of the tasks is larger."""
    day, night = ([0.9 if (hour % 24 < 12) == by_day else 0.2 for hour in range(72)] for by_day in (True, False))
    samples = by_hour(0, day) + by_hour(1, night)
    assert peaks(HistoricalPeak(**HOURLY), samples)[-1] == pytest.approx(1.1)
    assert peaks(RcLike(percentile=95.0), samples)[-1] == pytest.approx(1.8)


def test_the_present_difference_fades_by_the_hour():
    """The window after a step that equals all others has the rest of the difference after one hour."""
    samples = by_hour(0, [0.25] * 60 + [0.5])
    for persistence in (0.0, 0.8, 1.0):
        found = peaks(HistoricalPeak(**HOURLY, percentile=0.0, persistence=persistence), samples)[-1]
        assert found == pytest.approx(0.25 + 0.25 * persistence)


def test_the_present_usage_is_no_lower_bound():
    """As in the windows of the oracle, the present step does not count."""
    assert peaks(HistoricalPeak(**HOURLY, percentile=0.0, persistence=0.0), by_hour(0, [0.0] * 60 + [1.0]))[-1] == 0.0


def test_steps_before_a_task_take_those_at_the_same_time_of_the_day():
    """A task that has been there for a day is busy in each earlier evening, together with the other one."""
    evenings = [0.5 if hour % 24 == 20 else 0.0 for hour in range(96)]
    samples = by_hour(0, evenings) + by_hour(1, evenings[72:], first=72)
    found = peaks(HistoricalPeak(**HOURLY, percentile=0.0, persistence=0.0), samples)
    assert found[-1] == pytest.approx(1.0)


def test_a_past_that_is_shorter_than_the_horizon_is_one_window():
    """It begins after the first step of the oldest task, so that step itself does not count."""
    samples = by_hour(0, [0.9, 0.1, 0.3, 0.2])
    found = peaks(HistoricalPeak(**HOURLY, percentile=0.0, persistence=0.0), samples)
    np.testing.assert_allclose(found, [1.0, 0.1, 0.3, 0.3])


def test_windows_start_a_stride_apart():
    """They are counted back from the newest. With every second start, a peak is in no window of one step."""
    usage = [0.1] * 8 + [0.9] + [0.1] * 4
    every, second = (
        peaks(
            HistoricalPeak(**(HOURLY | {"stride": stride, "horizon": 1}), percentile=100.0, persistence=0.0),
            by_hour(0, usage),
        )
        for stride in (1, 2)
    )
    assert (every[11], second[11]) == (0.9, 0.1)
    assert (every[12], second[12]) == (0.9, 0.9)


def test_only_the_cap_bounds_by_the_limits():
    """Without it, usage above the limit counts, in the past and in the prediction."""
    samples = [(0, STEP * step, 2.0, 1.0) for step in range(4)]
    assert peaks(HistoricalPeak(warmup=2), samples)[-1] == 1.0
    assert peaks(HistoricalPeak(warmup=2, cap=False), samples)[-1] == 2.0


def test_maximum_is_that_of_whole_predictions():
    """Each prediction has its own warm-up and includes the limits of its cold tasks."""
    samples = constant(range(6))
    both = Maximum((RcLike(warmup=2), RcLike(warmup=4)))
    assert peaks(both, samples) == peaks(RcLike(warmup=4), samples)


def test_oracle_excludes_the_present_and_arrivals():
    """The window starts after now and ends with the horizon; the last steps have no value."""
    samples = [(0, STEP * step, usage, 9.0) for step, usage in enumerate([5.0, 1.0, 2.0, 4.0, 3.0])]
    samples += constant(range(2, 5), task=1, usage=9.0, limit=9.0)
    np.testing.assert_array_equal(peaks(PeakOracle(horizon=2), samples), [2.0, 4.0, 13.0, np.nan, np.nan])


def test_oracle_caps_future_usage_at_the_present_limit():
    """The limit at the time of the usage does not matter."""
    samples = [(0, 0, 0.0, 1.0), (0, STEP, 3.0, 5.0), (0, 2 * STEP, 0.0, 5.0)]
    assert peaks(PeakOracle(horizon=1), samples)[:2] == [1.0, 0.0]
    assert peaks(PeakOracle(horizon=1, cap=False), samples)[:2] == [3.0, 0.0]


def test_oracle_counts_its_horizon_in_time():
    """A gap leaves fewer steps in the window; without future usage the oracle gives the limits."""
    samples = [*constant(range(2), usage=0.5), *constant(range(4, 7), usage=0.75)]
    np.testing.assert_array_equal(peaks(PeakOracle(horizon=2), samples), [0.5, 1.0, 0.75, np.nan, np.nan])


def test_trace_shorter_than_the_horizon_has_one_value():
    """It has a value at its first step; a single sample has the limit."""
    np.testing.assert_array_equal(peaks(PeakOracle(horizon=9), constant(range(3))), [0.5, np.nan, np.nan])
    assert peaks(PeakOracle(horizon=9), constant(range(1))) == [1.0]
    assert peaks(PeakOracle(horizon=0), constant(range(3))) == [1.0, 1.0, 1.0]
    assert peaks(PeakOracle(horizon=2**60), constant(range(2)))[0] == 0.5


def test_times_may_be_any_whole_numbers():
    """Times may have any unit, sign and size; a step has the given length."""
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
    """The error names the row and the reason."""
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
    """The error has the rows as they were given."""
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
    """The stream continues as if the bad step had not been given."""
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
    """The check runs when the predictor is created."""
    with pytest.raises(InvalidValueError):
        make()


def test_oracle_works_at_the_largest_times():
    """A time plus the horizon may exceed 64 bits."""
    last = 2**63 - 1
    samples = TaskSamples.from_columns(
        machine=[0, 0], task=[0, 0], time=[last - 1, last], usage=[1.0, 2.0], limit=[5.0, 5.0], step=1
    )
    assert predict(samples, [PeakOracle(horizon=5)], threads=1).peak[0, 0] == 2.0
