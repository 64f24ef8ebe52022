"""How well past tenants match what a replica has shown.

**The weight** of an eligible trace t for a replica of age a with the largest demand x is exp(−d²/2), where::

    d² = Σ over the metrics m of c_m · (ln((r_m + e_m) / (x_m + e_m)) / bandwidth)²

- With a trend, r_m is the modelled demand of the trace at age a, which is the most that it had demanded by then, and
  c_m is 1.
- Without one, r_m is the recorded maximum of the trace. Maxima of a bursty metric take a day to show, so c_m is the
  share of `RECORD_SECONDS` that has passed.
- The floor e_m is a hundredth of the largest maximum of the trace's class; 1 if that is 0.
- Age and demand count in steps, so that they seldom change the draws: the age in r_m and c_m is the start of a step
  (`step_of_age`), and ln(x_m + e_m) the middle of a step (`step_of_demand`), a sixteenth of a bandwidth off at most.

A trace beyond `FARTHEST` bandwidths has no weight. If no eligible trace has any, all have the weight 1. So they have
for a replica without a report, and with an infinite bandwidth. Growth since the first report and the spread of demand
are not compared: neither is kept of a replica. `plb.risk.conditioned_draws` samples by these weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Float, Float32, Int
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.risk.demand_history import RECORD_SECONDS, DemandHistory
from plb.risk.eligibility import CRITERIA, SCOPE, WHOLE
from plb.validation import ReadOnlyMapping, check_mapping, check_metrics, check_number, check_switch

ITEM = "conditioned draws"
FARTHEST = 4.0
"""Distance in bandwidths beyond which a trace has no weight; there the weight is 0.0003."""
FLOOR_SHARE = 0.01
"""Floor of a metric as a share of the largest maximum."""
FIRST_STEP = 600.0
"""Seconds of the first step of age: the granularity of the paper's traces ([1] section 8.1)."""
STEPS_OF_A_DOUBLING = 4.0
"""Steps of age from one doubling of `FIRST_STEP` to the next."""
STEPS_OF_A_BANDWIDTH = 8.0
"""Steps of the logarithm of demand in a bandwidth, or in 1 if that is less."""
LEAST_STEP = 1e-9
"""Least length of a step of the logarithm of demand."""
LARGEST_EXPONENT = 709.0
"""Of which the exponential is a finite number."""
SAFE = 1.0 - 1e-12
"""Share of a bound of demand below which its step is certain, whatever the rounding."""
# In `Likeness.kind`
NOT_COMPARED, WITHOUT_TREND, WITH_TREND = 0, 1, 2


def _checked_trend(given: object) -> Mapping[str, bool]:
    trend = check_mapping(ITEM, "trend", given, "True or False by metric")
    return ReadOnlyMapping({name: check_switch(ITEM, f"trend[{name}]", has) for name, has in trend.items()})


def check_bandwidth(item: str, bandwidth: float) -> float:
    """Return a bandwidth above 0, which may be infinite, or raise `InvalidValueError`."""
    if bandwidth == math.inf:
        return math.inf
    try:
        return check_number(item, "bandwidth", bandwidth, low_open=True)
    except InvalidValueError:
        raise InvalidValueError(item, "bandwidth", bandwidth, "a number > 0, which may be infinite") from None


@attrs.frozen(kw_only=True)
class Conditioning:
    """By what past tenants are weighed.

    Parameters
    ----------
    trend
        The metrics that are compared, each with whether it has a trend.
    bandwidth
        How far past tenants may differ, as a natural logarithm of demand: the weight is 0.61 at this distance, 0.14 at
        twice it. More than 0; infinite: every eligible trace has the same weight.

    Raises
    ------
    InvalidValueError
        The bandwidth is not above 0, or `trend` is no mapping to True or False.
    """

    trend: Mapping[str, bool] = attrs.field(converter=_checked_trend)
    bandwidth: float = 0.5

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", check_bandwidth(ITEM, self.bandwidth))


@by_pointer
class Likeness(NamedTuple):
    """What weighing reads of a history of T traces, R metrics and C classes, and space to compute in.

    Arrays with a number for each trace have none, (0,) or (0, R), if all weights are 1.
    """

    tenant_class: Int
    """(T,)"""
    level: Float32
    """(T, R) user units, as `initial`."""
    initial: Float32
    growth: Float32
    """(T, R) seconds."""
    log_maximum: Float
    """(T, R) logarithm of maximum plus floor, as `log_level` of level plus floor."""
    log_level: Float
    kind: Int
    """(R,) whether the metric is compared, and has a trend."""
    floor: Float
    """(C, R) user units."""
    per_bandwidth: float
    """1 / bandwidth; 0: the weights are all 1."""
    step: float
    """Length of a step of the logarithm of demand."""
    shown: Float
    """(C, R) space for the logarithm of the largest demand plus the floor of each class, in steps."""
    share: Float
    """(R,) space for the weight c of each metric."""
    squared: Float
    """(T,) space for d² of every trace of a range."""
    weight: Float
    """(T,) space for the weights of the traces that have one."""


def likeness_of(history: DemandHistory, conditioning: Conditioning | None) -> Likeness:
    """Return what weighing reads; without conditioning, weights are all 1.

    Raises
    ------
    UnknownNameError
        A metric is not in the history.
    """
    metrics, classes = len(history.metrics), len(history.classes)
    trend = {} if conditioning is None else conditioning.trend
    check_metrics(ITEM, "trend", trend, history.metrics)
    kinds = [NOT_COMPARED if trend.get(name) is None else 1 + trend[name] for name in history.metrics]
    per_bandwidth = 0.0 if conditioning is None else 1.0 / conditioning.bandwidth
    traces = len(history) if per_bandwidth > 0.0 else 0
    code = history.tenant_class[:traces].astype(np.int64)
    largest = np.zeros((classes, metrics))
    np.maximum.at(largest, code, history.maximum[:traces])
    floor = np.where(largest > 0.0, FLOOR_SHARE * largest, 1.0)
    return Likeness(
        code,
        history.level,
        history.initial,
        history.growth,
        np.log(history.maximum[:traces] + floor[code]),
        np.log(history.level[:traces] + floor[code]),
        np.array(kinds, np.int64),
        floor,
        per_bandwidth,
        max(LEAST_STEP, 1.0 / (STEPS_OF_A_BANDWIDTH * max(1.0, per_bandwidth))),
        np.empty((classes, metrics)),
        np.empty(metrics),
        np.empty(traces),
        np.empty(traces),
    )


@kernel
def step_of_age(age: float) -> tuple[float, float]:
    """Return the start and the end of the step of an age, in seconds; the age is above the start and at most the end.

    The first step is [0, `FIRST_STEP`]. Each later doubling has four of equal length: (600, 750], ..., (1050, 1200],
    (1200, 1500] and so on. Start and end are exact.
    """
    if age <= FIRST_STEP:
        return 0.0, FIRST_STEP
    start = FIRST_STEP
    while 2.0 * start < age:
        start *= 2.0
    length = start / STEPS_OF_A_DOUBLING
    while start + length < age:
        start += length
    return start, start + length


@kernel
def step_of_demand(demand: float, floor: float, step: float) -> tuple[float, float]:
    """Return the logarithm in the middle of the step of a demand, and up to which demand the step is certain.

    Step k has the logarithms of demand plus floor from ``k · step`` to ``(k + 1) · step``; demand in user units.
    """
    number = np.floor(math.log(demand + floor) / step)
    end = math.exp(min(LARGEST_EXPONENT, (number + 1.0) * step))
    return (number + 0.5) * step, max(demand, end * SAFE - floor)


@kernel
def classes_of(level: int, code: int, likeness: Likeness) -> tuple[int, int]:
    """Return the classes [low, high) of a level of widening for a replica of class `code`."""
    if CRITERIA[level, SCOPE] == WHOLE:
        return 0, len(likeness.floor)
    return code, code + 1


@kernel
def share_of_metric(kind: int, age: float) -> float:
    """Return the weight c of a metric of a kind at the start of a step of age, in seconds."""
    if kind == WITHOUT_TREND:
        return min(1.0, age / RECORD_SECONDS)
    return 1.0 if kind == WITH_TREND else 0.0


@kernel
def begin_comparison(level: int, code: int, start: float, largest_demand: Float, likeness: Likeness) -> None:
    """Compute what the comparison with every trace of a level needs of a replica, at the start of its step of age."""
    low, high = classes_of(level, code, likeness)
    for metric in range(len(largest_demand)):
        likeness.share[metric] = share_of_metric(likeness.kind[metric], start)
        for one in range(low, high):
            floor = likeness.floor[one, metric]
            likeness.shown[one, metric] = step_of_demand(largest_demand[metric], floor, likeness.step)[0]


@kernel
def squared_distance(row: int, start: float, most: float, likeness: Likeness) -> float:
    """Return d² of a trace from the replica of `begin_comparison`; any number above `most` if it is above that."""
    total, code = 0.0, likeness.tenant_class[row]
    for metric in range(len(likeness.kind)):
        share = likeness.share[metric]
        if share > 0.0:
            difference = compared_logarithm(row, code, metric, start, likeness) - likeness.shown[code, metric]
            difference *= likeness.per_bandwidth
            total += share * difference * difference
            if total > most:
                break
    return total


@kernel
def compared_logarithm(row: int, code: int, metric: int, age: float, likeness: Likeness) -> float:
    """Return ln(r + e) of a trace of class `code` and a metric at an age in seconds.

    The modelled demand is that of `plb.risk.demand_history.DemandHistory.demand`.
    """
    if likeness.kind[metric] != WITH_TREND:
        return float(likeness.log_maximum[row, metric])
    growth = float(likeness.growth[row, metric])
    if age >= growth:
        return float(likeness.log_level[row, metric])
    level, initial = float(likeness.level[row, metric]), float(likeness.initial[row, metric])
    return math.log(initial + (level - initial) * (age / growth) + likeness.floor[code, metric])


@kernel
def demand_step_end(level: int, code: int, metric: int, demand: float, likeness: Likeness) -> float:
    """Return up to which demand of a metric no weight at a level changes for a replica of class `code`."""
    low, high = classes_of(level, code, likeness)
    least = np.inf
    for one in range(low, high):
        least = min(least, step_of_demand(demand, likeness.floor[one, metric], likeness.step)[1])
    return least
