"""Metrics: resources that replicas use and nodes have."""

from __future__ import annotations

import attrs

from plb.model.metric_settings import MetricSettings
from plb.validation import check_name, check_number, check_quantum, check_switch


@attrs.frozen
class Metric(MetricSettings):
    """A resource that replicas use and nodes have, in a unit of the user's choice.

    The settings under Service Fabric's names come from `plb.model.metric_settings.MetricSettings`.

    Parameters
    ----------
    name
        Name of the metric, such as ``"cpu"``.
    weight
        Weight of this metric's imbalance in the energy; at least 0.
    violation_threshold
        A node is in violation when its load is at least this share of its capacity ([1] section 3.2, f_r); in (0, 1].
    quantum
        The unit in which loads are counted exactly: a power of two, at most 1 user unit. None: the finest for which
        the first capacity (or load, where no node has a capacity) is at most 2^20 quanta. Finer loads round up.
    trend
        True when demand grows from an initial value to a maximum and stays (disk, memory); False when it has no trend
        and a high percentile stands for it (CPU); [1] section 5.3.
    """

    name: str
    weight: float = attrs.field(default=1.0, kw_only=True)
    violation_threshold: float = attrs.field(default=0.95, kw_only=True)
    quantum: float | None = attrs.field(default=None, kw_only=True)
    trend: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_name("metric", self.name)
        super().__attrs_post_init__()
        item = self._item()
        check_number(item, "weight", self.weight)
        check_number(item, "violation_threshold", self.violation_threshold, high=1.0, low_open=True)
        check_switch(item, "trend", self.trend)
        if self.quantum is not None:
            check_quantum(item, "quantum", self.quantum, high=1.0)

    def _item(self) -> str:
        return f"metric {self.name}"
