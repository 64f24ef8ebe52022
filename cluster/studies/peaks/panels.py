"""The panels of [5] figures 1 and 6 to 12: accuracy of peak predictors, and its dependence on their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.risk.peaks import (
    BorgDefault,
    CellMetrics,
    HistoricalPeak,
    MachineMetrics,
    Maximum,
    NSigma,
    PeakOracle,
    Predictions,
    PredictorOrOracle,
    RcLike,
    TaskSamples,
    cell_metrics,
    machine_metrics,
    predict,
    spec,
)
from workloads.task_samples import MICROSECONDS, Cell
from workloads.trace import highest_ahead

WEEK, HOUR = 7 * 86400 * MICROSECONDS, 3600 * MICROSECONDS
PERCENTILES = (50.0, 80.0, 90.0, 95.0, 99.0, 100.0)
"""Percentiles of the usage of a task within an hour; their sums approximate the peak of the machine."""


def weeks_of(cell: Cell) -> list[int]:
    """Return the numbers of the whole weeks of a cell that have samples, from 0.

    The first week counts even if it is not whole.
    """
    elapsed = cell.samples.time - cell.samples.time.min()
    whole_weeks = (int(elapsed.max()) + cell.samples.step) // WEEK
    return [number for number in np.unique(elapsed // WEEK).tolist() if number < max(1, whole_weeks)]


def week(samples: TaskSamples, number: int) -> TaskSamples:
    """Return the samples of week number `number`, from 0."""
    begin = samples.time.min() + number * WEEK
    is_in_week = (samples.time >= begin) & (samples.time < begin + WEEK)
    return TaskSamples.from_columns(
        machine=machine_of_row(samples)[is_in_week],
        task=samples.task[is_in_week],
        time=samples.time[is_in_week],
        usage=samples.usage[is_in_week],
        limit=samples.limit[is_in_week],
        step=samples.step,
    )


def machine_of_row(samples: TaskSamples) -> Int:
    """Return the machine of every sample, (n,)."""
    return np.repeat(samples.machine, np.diff(samples.start))


def run_times(samples: TaskSamples) -> Float:
    """Return the hours of every task on a machine, (tasks,)."""
    first = _starts(machine_of_row(samples), samples.task)
    last = np.append(first[1:], len(samples)) - 1
    return np.asarray((samples.time[last] - samples.time[first] + samples.step) / HOUR)


def task_level_peaks(samples: TaskSamples, horizon: int) -> Float:
    """Return the sum of the largest future usage of each task, a value for each machine and step.

    The order is the same as in `plb.risk.peaks.Predictions`. As for the oracle, the present usage does not count, and
    usage is capped at the present limit. The horizon is a number of samples of the task.
    """
    sums = []
    for machine in samples.machines():
        start = machine.task_start
        is_last = np.zeros(len(machine.usage), np.bool_)
        is_last[start[1:] - 1] = True
        highest = highest_ahead(machine.usage, start, horizon - 1)
        to_come = np.where(is_last, 0.0, np.roll(highest, -1))
        sums.append(np.bincount(machine.snapshot, np.minimum(to_come, machine.limit)))
    return np.concatenate(sums)


def peak_differences(samples: TaskSamples) -> dict[str, Float]:
    """Return, by percentile, the relative excess of the tasks' summed percentiles over the machine's peak in each hour.

    [5] has the usage within five minutes. Samples do not, so the percentiles are of an hour of samples.
    """
    machine, hour = machine_of_row(samples), samples.time // HOUR
    first_of_step, step_of_row = _groups(machine, samples.time)
    _, hour_of_row = _groups(machine, hour)
    machine_peak = np.zeros(hour_of_row.max() + 1)
    np.maximum.at(machine_peak, hour_of_row[first_of_step], np.bincount(step_of_row, samples.usage))
    task_hour_start = _starts(machine, samples.task, hour)
    task_hour_of_row = np.repeat(np.arange(len(task_hour_start)), np.diff(np.append(task_hour_start, len(samples))))
    usage = samples.usage[np.lexsort((samples.usage, task_hour_of_row))]
    has_usage = machine_peak > 0.0
    differences = {}
    for percentile in PERCENTILES:
        sums = np.bincount(hour_of_row[task_hour_start], _percentiles(usage, task_hour_start, percentile))
        differences[f"{percentile:g}th percentile"] = (sums[has_usage] - machine_peak[has_usage]) / machine_peak[
            has_usage
        ]
    return differences


def _groups(machine: Int, time: Int) -> tuple[Int, Int]:
    """Return the first row of each pair of machine and time, and the group of each row, (n,), from both, (n,)."""
    times, time_index = np.unique(time, return_inverse=True)
    _, first, group = np.unique(machine * len(times) + time_index, return_index=True, return_inverse=True)
    return first, group


def _percentiles(usage: Float, start: Int, percentile: float) -> Float:
    """Return a percentile of each group, with linear interpolation.

    `usage`: (n,) ascending within each group; `start`: first row of each group.
    """
    position = (np.diff(np.append(start, len(usage))) - 1) * (percentile / 100.0)
    lower, upper = usage[start + np.floor(position).astype(np.int64)], usage[start + np.ceil(position).astype(np.int64)]
    return lower + (upper - lower) * (position % 1.0)


def _starts(*columns: Int) -> Int:
    """Return the rows that differ from the previous row in any of the columns, (n,) each, and the first row."""
    is_new = np.logical_or.reduce([np.diff(column, prepend=column[0] - 1) != 0 for column in columns])
    return np.flatnonzero(is_new)


QUANTILES = np.linspace(0.0, 1.0, 201)
HORIZON = 24.0
"""Hours of the oracle with which predictors are compared ([5] section 5.2)."""
HORIZONS, LONGEST_HORIZON = (3.0, 6.0, 12.0, 24.0, 48.0), 72.0
WARMUP, HISTORY = 2.0, 10.0
"""Hours ([5] section 5.3)."""
DAY, WEEK_HOURS = 24.0, 168.0
"""Hours of a day and of the past of historical simulation, which is not in [5]."""
WARMUPS, HISTORIES = (1.0, 2.0, 3.0), (2.0, 5.0, 10.0)
DEVIATIONS, VARIED_PERCENTILES = (2.0, 3.0, 5.0, 10.0), (80.0, 90.0, 95.0, 99.0)
RATE, SEVERITY, SAVINGS = "violation rate of a machine", "violation severity of a machine", "savings of a machine"
CELL_SAVINGS = "savings of the cell"


@attrs.frozen(eq=False)
class Panel:
    """The distributions of a part of a figure."""

    figure: int
    """Number of the figure in [5]."""
    letter: str
    """Letter of the panel; "" if the figure has one panel."""
    axis: str
    """The quantity."""
    curves: Mapping[str, Float]
    """(201,) values at `QUANTILES` of each curve, by label."""


class PeakEstimates:
    """The peaks of predictors and oracles for a cell, each computed once."""

    def __init__(self, samples: TaskSamples, predictors: Sequence[PredictorOrOracle]) -> None:
        unique = {spec(predictor): predictor for predictor in predictors}
        self.found: Predictions = predict(samples, list(unique.values()))
        self._row = {name: row for row, name in enumerate(unique)}
        """Row of each predictor in the predictions, by its specification."""

    def peak(self, predictor: PredictorOrOracle) -> Float:
        """Return the predicted peaks of a predictor, one for each machine and step."""
        return np.asarray(self.found.peak[self._row[spec(predictor)]])

    def machines(self, predictor: PredictorOrOracle, oracle: PredictorOrOracle) -> MachineMetrics:
        """Return the metrics of a predictor against an oracle, by machine."""
        return machine_metrics(self.found.machine, self.found.limit, self.peak(predictor), self.peak(oracle))

    def cell(self, predictor: PredictorOrOracle, oracle: PredictorOrOracle) -> CellMetrics:
        """Return the metrics of a predictor against an oracle over all machines, by time."""
        return cell_metrics(self.found.time, self.found.limit, self.peak(predictor), self.peak(oracle))


class Family:
    """The predictors of the study, with parameters in hours, for samples with a step in microseconds."""

    def __init__(self, step: int) -> None:
        self._step = step

    def _steps(self, hours: float) -> int:
        """Return `hours` in steps of the samples, at least two."""
        return max(2, round(hours * 3600 * MICROSECONDS / self._step))

    def oracle(self, horizon: float = HORIZON) -> PeakOracle:
        """Return the oracle with a horizon in hours."""
        return PeakOracle(horizon=self._steps(horizon))

    def sigma(self, n: float = 5.0, warmup: float = WARMUP, history: float = HISTORY) -> NSigma:
        """Return N-sigma with `n` deviations; `warmup`, `history`: hours."""
        return NSigma(n=n, warmup=self._steps(warmup), history=self._steps(history))

    def rc_like(self, percentile: float = 99.0, warmup: float = WARMUP, history: float = HISTORY) -> RcLike:
        """Return RC-like with a percentile; `warmup`, `history`: hours."""
        return RcLike(percentile=percentile, warmup=self._steps(warmup), history=self._steps(history))

    def past(self) -> HistoricalPeak:
        """Return historical simulation: windows of the oracle's horizon, of which one starts every hour."""
        horizon = self._steps(HORIZON)
        return HistoricalPeak(
            warmup=self._steps(WARMUP),
            history=max(self._steps(WEEK_HOURS), horizon + 1),
            horizon=horizon,
            stride=max(1, self._steps(DAY) // 24),
            day=self._steps(DAY),
        )

    def compared(self) -> dict[str, PredictorOrOracle]:
        """Return the predictors of figure 10 by name, and historical simulation beside them."""
        simple: dict[str, PredictorOrOracle] = {
            "borg-default": BorgDefault(),
            "rc-like": self.rc_like(),
            "n-sigma": self.sigma(),
        }
        return {**simple, "max": self.best(), "historical-simulation": self.past()}

    def best(self) -> Maximum:
        """Return the predictor of figures 11 and 12."""
        return Maximum((self.sigma(), self.rc_like()))


def predictor_panels(samples: TaskSamples) -> Iterator[Panel]:
    """Yield figures 1 and 6, panel 7 b, and figures 8 to 10: predictors and oracles on one week of a cell."""
    family = Family(samples.step)
    varied = {8: _varied(family.sigma, "n", DEVIATIONS), 9: _varied(family.rc_like, "percentile", VARIED_PERCENTILES)}
    varied_predictors = [
        predictor for groups in varied.values() for group in groups.values() for predictor in group.values()
    ]
    horizons = [family.oracle(hours) for hours in (*HORIZONS, LONGEST_HORIZON)]
    estimates = PeakEstimates(samples, [family.oracle(), *horizons, *varied_predictors, *family.compared().values()])
    yield _pooling(samples, estimates, family.oracle())
    yield Panel(6, "", "approximate minus actual peak of an hour, by the actual", _quantiles(peak_differences(samples)))
    yield _horizons(estimates, family)
    for figure, groups in varied.items():
        yield from _of_parameters(figure, groups, estimates, family.oracle())
    yield from _of_machines(
        10,
        {
            name: estimates.machines(compared_predictor, family.oracle())
            for name, compared_predictor in family.compared().items()
        },
    )
    savings = {
        name: estimates.cell(compared_predictor, family.oracle()).savings
        for name, compared_predictor in family.compared().items()
    }
    yield Panel(10, "d", CELL_SAVINGS, _quantiles(savings))


def cell_panels(samples: TaskSamples, label: str) -> Iterator[Panel]:
    """Yield panels 7 a and 7 c and figure 11, with a curve of one cell, named `label`."""
    yield Panel(7, "a", "run time of a task (hours)", _quantiles({label: run_times(samples)}))
    has_limit = samples.limit > 0.0
    ratios = np.asarray(samples.usage[has_limit] / samples.limit[has_limit])
    yield Panel(7, "c", "usage by limit", _quantiles({label: ratios}))
    yield from _of_machines(11, {label: _best(samples)})


def week_panels(samples: TaskSamples, label: str) -> Iterator[Panel]:
    """Yield figure 12, with a curve of one week, named `label`."""
    yield from _of_machines(12, {label: _best(samples)})


def merged(panels: Iterable[Panel]) -> list[Panel]:
    """Return panels in the order of the figures: each figure and letter once, with the curves of all its panels."""
    panels_by_key: dict[tuple[int, str], Panel] = {}
    for panel in panels:
        key = panel.figure, panel.letter
        curves = {**panels_by_key[key].curves, **panel.curves} if key in panels_by_key else panel.curves
        panels_by_key[key] = attrs.evolve(panel, curves=curves)
    return [panels_by_key[key] for key in sorted(panels_by_key)]


def _varied(
    make: Callable[..., PredictorOrOracle], main: str, values: Sequence[float]
) -> dict[str, dict[str, PredictorOrOracle]]:
    """Return predictors that differ in one parameter, by parameter, then by label.

    `make` returns a predictor with changed parameters; `main`, `values`: a parameter besides warm-up and history, and
    its values.
    """
    return {
        main: {f"{main} {value:g}": make(**{main: value}) for value in values},
        "warmup": {f"warm-up {hours:g} h": make(warmup=hours) for hours in WARMUPS},
        "history": {f"history {hours:g} h": make(history=hours) for hours in HISTORIES},
    }


def _of_parameters(
    figure: int, groups: Mapping[str, Mapping[str, PredictorOrOracle]], estimates: PeakEstimates, oracle: PeakOracle
) -> Iterator[Panel]:
    """Yield the panels of a figure on parameters: violation rates for each parameter, and savings for the first.

    `groups`: predictors by parameter, then by label.
    """
    for letter, (parameter, group) in zip("acd", groups.items(), strict=True):
        rates = {label: estimates.machines(predictor, oracle).violation_rate for label, predictor in group.items()}
        yield Panel(figure, letter, RATE, _quantiles(rates))
        if letter == "a":
            savings = {
                label: estimates.cell(predictor, oracle).savings for label, predictor in groups[parameter].items()
            }
            yield Panel(figure, "b", CELL_SAVINGS, _quantiles(savings))


def _of_machines(figure: int, metrics: Mapping[str, MachineMetrics]) -> Iterator[Panel]:
    """Yield panels a to c of a figure: violation rate, severity and savings of machines, a curve for each label."""
    for letter, axis, field in (
        ("a", RATE, "violation_rate"),
        ("b", SEVERITY, "violation_severity"),
        ("c", SAVINGS, "savings"),
    ):
        yield Panel(
            figure,
            letter,
            axis,
            _quantiles({label: getattr(curve_metrics, field) for label, curve_metrics in metrics.items()}),
        )


def _best(samples: TaskSamples) -> MachineMetrics:
    """Return the metrics of the predictor of figures 11 and 12, by machine."""
    family = Family(samples.step)
    return PeakEstimates(samples, [family.best(), family.oracle()]).machines(family.best(), family.oracle())


def _pooling(samples: TaskSamples, estimates: PeakEstimates, oracle: PeakOracle) -> Panel:
    """Return figure 1: peaks of machines and of tasks, summed over the cell, by its limits."""
    is_defined = ~np.isnan(estimates.peak(oracle))
    _, time = np.unique(estimates.found.time[is_defined], return_inverse=True)
    limit = _sums(time, estimates.found.limit[is_defined])
    peaks = {"peaks of machines": estimates.peak(oracle), "peaks of tasks": task_level_peaks(samples, oracle.horizon)}
    return Panel(
        1,
        "",
        "sum of peaks to come, by limits",
        _quantiles({label: _ratio(_sums(time, peak[is_defined]), limit) for label, peak in peaks.items()}),
    )


def _horizons(estimates: PeakEstimates, family: Family) -> Panel:
    """Return figure 7 b: how much lower oracles of shorter horizons are than the longest one, relative to it."""
    longest_peak = estimates.peak(family.oracle(LONGEST_HORIZON))
    differences = {}
    for hours in HORIZONS:
        shorter_peak = estimates.peak(family.oracle(hours))
        is_defined = ~(np.isnan(longest_peak) | np.isnan(shorter_peak))
        differences[f"{hours:g} h"] = _ratio(
            longest_peak[is_defined] - shorter_peak[is_defined], longest_peak[is_defined]
        )
    return Panel(7, "b", f"difference to the oracle of {LONGEST_HORIZON:g} h, relative", _quantiles(differences))


def _sums(group: Int, values: Float) -> Float:
    """Return the sum of values, (n,), in each group; `group`: (n,) number of the group."""
    return np.asarray(np.bincount(group, values), np.float64)


def _ratio(numerator: Float, denominator: Float) -> Float:
    """Return `numerator` by `denominator`, both (n,); 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(denominator)), where=denominator > 0.0)


def _quantiles(values: Mapping[str, Float]) -> dict[str, Float]:
    """Return the values at `QUANTILES` of each sample, (n,), by label; empty samples are left out."""
    return {label: np.quantile(sample, QUANTILES) for label, sample in values.items() if len(sample)}
