"""Quanta: the power-of-two units in which loads and capacities are whole numbers (docs/energy.md).

Whole numbers make sums exact, so that increments equal totals and the order of moves has no effect.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from plb.compiler import kernel
from plb.errors import InvalidValueError
from plb.model.metric import Metric
from plb.validation import check_metrics, check_quantum

QUANTA_OF_LARGEST = 2**20
"""Largest number of quanta of the first value of a metric, which fixes the quantum."""
LARGEST_VALUE = 2**31
"""Largest number of quanta of a value."""
UNLIMITED = 2**62
"""The capacity, in quanta, of a node without a limit for a metric."""

logger = logging.getLogger("plb")


def default_quantum(value: float) -> float:
    """Return the finest power of two, at most 1, for which `value` is at most 2^20 quanta."""
    quantum = 1.0
    while value / (quantum / 2) <= QUANTA_OF_LARGEST and quantum > 2.0**-40:
        quantum /= 2
    return quantum


class MetricQuanta:
    """Converts user units to quanta for each metric. A quantum is given, or fixed by the first value above 0."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = tuple(metrics)
        """The R metrics; arrays have their order."""
        self.index = {metric.name: i for i, metric in enumerate(metrics)}
        self.fixed: list[float | None] = [metric.quantum for metric in metrics]
        """The quantum of each metric; None until it is fixed."""
        self.rounded: set[str] = set()
        """Names of the metrics whose rounding was reported."""
        self._quanta = self._as_array()

    @property
    def quanta(self) -> npt.NDArray[np.float64]:
        """(R,) the quantum of each metric in user units; 1 if none is fixed. The array does not change."""
        return self._quanta

    def _as_array(self) -> npt.NDArray[np.float64]:
        """Return the quantum of each metric, (R,), 1 if none is fixed."""
        return np.array([1.0 if quantum is None else quantum for quantum in self.fixed])

    def loads(self, item: str, field: str, loads: Mapping[str, float]) -> npt.NDArray[np.int64]:
        """Return loads by metric in quanta, (R,), rounded up; missing metrics are 0.

        A first load above 0 fixes the quantum of its metric. `item` and `field` are for errors.
        """
        check_metrics(item, field, loads, self.index)
        row = np.zeros(len(self.metrics), np.int64)
        for name, value in loads.items():
            row[self.index[name]] = self._whole_quanta(item, f"{field}[{name}]", name, value)
        return row

    def bulk(self, item: str, loads: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return loads, (..., R) in user units, in quanta, rounded up; first loads above 0 fix quanta of metrics.

        `item` is for errors.
        """
        for column, metric in enumerate(self.metrics):
            if self.fixed[column] is None and loads.size and (largest := float(loads[..., column].max())) > 0:
                self._fix(metric.name, largest)
        by_row = np.ascontiguousarray(loads).reshape(-1, len(self.metrics))
        in_quanta, rounded = np.empty(by_row.shape, np.int64), np.zeros(len(self.metrics), np.bool_)
        if not round_up(by_row, self._quanta, in_quanta, rounded):
            with np.errstate(over="ignore"):
                scaled = loads / self._quanta
            largest_at = np.unravel_index(int(scaled.argmax()), scaled.shape)
            name = self.metrics[int(largest_at[-1])].name
            raise self._too_large(item, f"load[{name}]", name, float(loads[largest_at]))
        for column in np.flatnonzero(rounded).tolist():
            self._report_rounding(self.metrics[column].name)
        return in_quanta.reshape(loads.shape)

    def capacities(
        self, item: str, capacities: Mapping[str, float], *, field: str = "capacities"
    ) -> npt.NDArray[np.int64]:
        """Return capacities by metric in quanta, (R,), rounded down; missing metrics are unlimited.

        A first capacity above 0 fixes the quantum of its metric. `item`, `field`: for errors.
        """
        check_metrics(item, field, capacities, self.index)
        row = np.full(len(self.metrics), UNLIMITED, np.int64)
        for name, value in capacities.items():
            rounded_up = self._whole_quanta(item, f"{field}[{name}]", name, value)
            row[self.index[name]] = min(rounded_up, math.floor(value / self._quantum(name)))
        return row

    def threshold(self, metric: Metric, capacity: int) -> int:
        """Return the least load that is a violation, in quanta: ceil(f·c), exact, at least 1.

        `capacity` c is in quanta.
        """
        if capacity >= UNLIMITED:
            return UNLIMITED
        return max(1, math.ceil(Fraction(str(metric.violation_threshold)) * capacity))

    def in_user_units(self, metric: str, quanta: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return whole quanta of a metric as user units."""
        return np.asarray(quanta * self._quantum(metric), np.float64)

    def to_user(self, name: str, quanta: int) -> float:
        """Return a number of quanta of a metric in user units."""
        return float(quanta * self._quantum(name))

    def copy(self) -> MetricQuanta:
        """Return a copy; changes of it do not change this one."""
        twin = copy(self)
        twin.fixed, twin.rounded = list(self.fixed), set(self.rounded)
        return twin

    def take(self, fixed: Sequence[float | None], rounded: Iterable[str]) -> None:
        """Restore `fixed` and `rounded` from a snapshot, after checks."""
        for metric, quantum in zip(self.metrics, fixed, strict=True):
            if quantum is not None:
                check_quantum("snapshot", f"quanta[{metric.name}]", quantum, high=1.0)
        self.fixed, self.rounded = list(fixed), set(rounded)
        self._quanta = self._as_array()

    def _quantum(self, name: str) -> float:
        """Return the quantum of a metric in user units; 1 if none is fixed."""
        return self.fixed[self.index[name]] or 1.0

    def _whole_quanta(self, item: str, field: str, name: str, value: float) -> int:
        """Return a value of the metric `name` in quanta, rounded up; a first value above 0 fixes the quantum.

        `item` and `field` are for errors.
        """
        if self.fixed[self.index[name]] is None and value > 0:
            self._fix(name, value)
        scaled = value / self._quantum(name)
        if scaled > LARGEST_VALUE:
            raise self._too_large(item, field, name, value)
        rounded_up = math.ceil(scaled)
        if rounded_up != scaled:
            self._report_rounding(name)
        return rounded_up

    def _fix(self, name: str, value: float) -> None:
        """Fix the quantum of a metric by its first value, in user units."""
        self.fixed[self.index[name]] = default_quantum(value)
        self._quanta = self._as_array()

    def _report_rounding(self, name: str) -> None:
        """Log, once for a metric, that its loads are rounded."""
        if name not in self.rounded:
            self.rounded.add(name)
            logger.info("loads of metric %s are rounded up to quanta of %g", name, self._quantum(name))

    def _too_large(self, item: str, field: str, name: str, value: float) -> InvalidValueError:
        """Return the error, about `field` of `item`, for a value in user units above `LARGEST_VALUE` quanta."""
        quantum = self._quantum(name)
        cure = f"give Metric({name!r}, quantum=...)" if quantum < 1.0 else f"give {name} in a larger unit"
        return InvalidValueError(
            item, field, value, f"at most {LARGEST_VALUE * quantum:g} at a quantum of {quantum:g}; {cure}"
        )


@kernel
def round_up(
    loads: npt.NDArray[np.float64],
    quanta: npt.NDArray[np.float64],
    whole: npt.NDArray[np.int64],
    rounded: npt.NDArray[np.bool_],
) -> bool:
    """Write loads in quanta, rounded up, to `whole`; return False if a load is above `LARGEST_VALUE`.

    `loads`, `whole`: (m, R) user units and quanta; finite numbers of at least 0.
    `quanta`: (R,) user units per quantum.
    `rounded`: (R,) set to true where a load of the metric is no whole number of quanta.
    """
    for row in range(loads.shape[0]):
        for metric in range(loads.shape[1]):
            scaled = loads[row, metric] / quanta[metric]
            if scaled > LARGEST_VALUE:
                return False
            rounded_up = math.ceil(scaled)
            whole[row, metric] = rounded_up
            rounded[metric] |= rounded_up != scaled
    return True
