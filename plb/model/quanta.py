"""Quanta: the power-of-two units in which loads and capacities are whole numbers (docs/energy.md).

Whole numbers make sums exact, so that increments equal totals and the order of moves has no effect.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from plb.errors import InvalidValueError
from plb.model.metric import Metric
from plb.model.snapshot import ITEM, Part
from plb.validation import check_metrics, check_quantum

QUANTA_OF_LARGEST = 2**20
"""Largest first value in quanta."""
LARGEST_VALUE = 2**31
"""Largest later value in quanta."""
UNLIMITED = 2**62
"""The capacity of a node without a capacity for a metric."""

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
        self.index = {metric.name: i for i, metric in enumerate(metrics)}
        self._fixed: list[float | None] = [metric.quantum for metric in metrics]
        self._rounded: set[str] = set()

    @property
    def quanta(self) -> npt.NDArray[np.float64]:
        """The quantum of each metric in user units; 1 if none is fixed."""
        return np.array([1.0 if quantum is None else quantum for quantum in self._fixed])

    def loads(self, item: str, field: str, loads: Mapping[str, float]) -> npt.NDArray[np.int64]:
        """Return `loads` by metric in quanta, rounded up; missing metrics are 0."""
        check_metrics(item, field, loads, self.index)
        row = np.zeros(len(self.metrics), np.int64)
        for name, value in loads.items():
            row[self.index[name]] = self._whole_quanta(item, f"{field}[{name}]", name, value)
        return row

    def bulk(self, item: str, loads: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return an array of loads, shape (.., R) in user units, in quanta, rounded up."""
        for i, metric in enumerate(self.metrics):
            if self._fixed[i] is None and loads.size and (largest := float(loads[..., i].max())) > 0:
                self._fix(metric.name, largest)
        scaled = loads / self.quanta
        whole = np.ceil(scaled)
        if whole.size and whole.max() > LARGEST_VALUE:
            at = np.unravel_index(int(whole.argmax()), whole.shape)
            name = self.metrics[int(at[-1])].name
            raise self._too_large(item, f"load[{name}]", name, float(loads[at]))
        if not np.array_equal(whole, scaled):
            for i, metric in enumerate(self.metrics):
                if not np.array_equal(whole[..., i], scaled[..., i]):
                    self._report_rounding(metric.name)
        return whole.astype(np.int64)

    def capacities(self, item: str, capacities: Mapping[str, float]) -> npt.NDArray[np.int64]:
        """Return `capacities` in quanta, rounded down; missing metrics are unlimited."""
        check_metrics(item, "capacities", capacities, self.index)
        row = np.full(len(self.metrics), UNLIMITED, np.int64)
        for name, value in capacities.items():
            up = self._whole_quanta(item, f"capacities[{name}]", name, value)
            row[self.index[name]] = min(up, math.floor(value / self._quantum(name)))
        return row

    def threshold(self, metric: Metric, capacity: int) -> int:
        """Return ceil(f·c) in quanta, at least 1, computed exactly: a load of that many quanta is a violation."""
        if capacity >= UNLIMITED:
            return UNLIMITED
        return max(1, math.ceil(Fraction(str(metric.violation_threshold)) * capacity))

    def in_user_units(self, metric: str, quanta: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return whole quanta of a metric as user units."""
        return np.asarray(quanta * self._quantum(metric), np.float64)

    def to_user(self, name: str, quanta: int) -> float:
        """Return a number of quanta in user units."""
        return float(quanta * self._quantum(name))

    def copy(self) -> MetricQuanta:
        """Return a copy; changes of it do not change this one."""
        twin = MetricQuanta(self.metrics)
        twin._fixed, twin._rounded = list(self._fixed), set(self._rounded)
        return twin

    def values(self) -> dict[str, Any]:
        """Return what a snapshot holds: the quanta that are fixed, and the metrics whose rounding was reported."""
        return {"quanta": list(self._fixed), "rounded_metrics": sorted(self._rounded)}

    def take(self, part: Part) -> None:
        """Take the `values` of a snapshot."""
        fixed = part.sized("quanta", len(self.metrics))
        for metric, quantum in zip(self.metrics, fixed, strict=True):
            if quantum is not None:
                check_quantum(ITEM, f"{part.name}.quanta[{metric.name}]", quantum, high=1.0)
        self._fixed, self._rounded = fixed, set(part.names("rounded_metrics"))

    def _quantum(self, name: str) -> float:
        """Return the quantum of a metric in user units; 1 if none is fixed."""
        return self._fixed[self.index[name]] or 1.0

    def _whole_quanta(self, item: str, field: str, name: str, value: float) -> int:
        if self._fixed[self.index[name]] is None and value > 0:
            self._fix(name, value)
        scaled = value / self._quantum(name)
        if scaled > LARGEST_VALUE:
            raise self._too_large(item, field, name, value)
        whole = math.ceil(scaled)
        if whole != scaled:
            self._report_rounding(name)
        return whole

    def _fix(self, name: str, value: float) -> None:
        self._fixed[self.index[name]] = default_quantum(value)

    def _report_rounding(self, name: str) -> None:
        if name not in self._rounded:
            self._rounded.add(name)
            logger.info("loads of metric %s are rounded up to quanta of %g", name, self._quantum(name))

    def _too_large(self, item: str, field: str, name: str, value: float) -> InvalidValueError:
        quantum = self._quantum(name)
        cure = f"give Metric({name!r}, quantum=...)" if quantum < 1.0 else f"give {name} in a larger unit"
        return InvalidValueError(
            item, field, value, f"at most {LARGEST_VALUE * quantum:g} at a quantum of {quantum:g}; {cure}"
        )
