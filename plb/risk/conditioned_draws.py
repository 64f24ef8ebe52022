"""Draws of past tenants from the eligible ones, weighed by how well they match what the replica has shown.

**The weight** of an eligible trace t for a replica of age a with the largest demand x is exp(−d²/2), where::

    d² = Σ over the metrics m of c_m · (ln((r_m + e_m) / (x_m + e_m)) / bandwidth)²

- With a trend, r_m is the modelled demand of the trace at age a, which is the most that it had demanded by then, and
  c_m is 1.
- Without one, r_m is the recorded maximum of the trace. Maxima of a bursty metric take a day to show, so c_m is the
  share of `RECORD_SECONDS` that has passed.
- The floor e_m is a hundredth of the largest maximum of the class, or of the whole history where the level of widening
  has every class; 1 if that maximum is 0.
- The age in r_m and c_m is the start of a step (`step_of_age`), so that age alone seldom changes the draws.

A trace beyond `FARTHEST` bandwidths has no weight. If no eligible trace has any, all have the weight 1. So they have for
a replica without a report, and with an infinite bandwidth: the draws of `plb.risk.eligible_draws`, row for row. Growth
since the first report and the spread of demand are not compared: neither is kept of a replica.

**The rule.** Repetition k has the same list of 64 rows as there. An eligible one is taken with a probability equal to
its weight, decided by another hash, ``(seed, key, k, d)``. If none of the 64 is taken, each eligible row has a random
time, exponential with its weight as rate, from the hash ``(seed, key, k, row)``, and that of the least time is taken.

**Proportional.** Each draw is uniform and its acceptance is independent of all else, so the first one that is taken has
a probability in proportion to its weight (rejection sampling). So has the row of the least time, as the times are
independent of the draws. **Stable:** a small change of the weights changes few acceptances and few least times. Traces
that were taken before are not kept as such, because the weight of an earlier draw may have risen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.risk.counter_based_random import (
    chance_stream,
    exponential,
    fraction,
    repetition_stream,
    row_hash,
    row_stream,
    uniform_index,
    word_of_draw,
)
from plb.risk.demand_history import RECORD_SECONDS, DemandHistory
from plb.risk.eligibility import CRITERIA, SCOPE, WHOLE, TraceTable, is_eligible
from plb.risk.eligible_draws import DRAWS, NONE, draw_at_level
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
# In `Likeness.kind`
NOT_COMPARED, WITHOUT_TREND, WITH_TREND = 0, 1, 2


def _checked_trend(given: object) -> Mapping[str, bool]:
    trend = check_mapping(ITEM, "trend", given, "True or False by metric")
    return ReadOnlyMapping({name: check_switch(ITEM, f"trend[{name}]", has) for name, has in trend.items()})


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
        if self.bandwidth != math.inf:
            check_number(ITEM, "bandwidth", self.bandwidth, low_open=True)


@by_pointer
class Likeness(NamedTuple):
    """What weighing reads of a history of T traces, R metrics and C classes, and space to compute in."""

    level: Float32
    """(T, R) user units, as `initial`."""
    initial: Float32
    growth: Float32
    """(T, R) seconds."""
    kind: Int
    """(R,) whether the metric is compared, and has a trend."""
    floor: Float
    """(C + 1, R) user units, of each class; the last row is of the whole history."""
    per_bandwidth: float
    """1 / bandwidth; 0: the weights are all 1."""
    shown: Float
    """(R,) space for the logarithm of the largest demand plus the floor."""
    share: Float
    """(R,) space for the weight c of each metric."""
    squared: Float
    """(T,) space for d² of every trace of a range; (0,) if weights are all 1."""
    weight: Float
    """(T,) space for the weights of the traces that have one; (0,) if weights are all 1."""


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
    space = len(history) if per_bandwidth > 0.0 else 0
    largest = np.zeros((classes + 1, metrics))
    np.maximum.at(largest, history.tenant_class.astype(np.int64), history.maximum)
    largest[-1] = largest.max(axis=0)
    return Likeness(
        history.level,
        history.initial,
        history.growth,
        np.array(kinds, np.int64),
        np.where(largest > 0.0, FLOOR_SHARE * largest, 1.0),
        per_bandwidth,
        np.empty(metrics),
        np.empty(metrics),
        np.empty(space),
        np.empty(space),
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
def share_of_metric(kind: int, age: float) -> float:
    """Return the weight c of a metric of a kind at the start of a step of age, in seconds."""
    if kind == WITHOUT_TREND:
        return min(1.0, age / RECORD_SECONDS)
    return 1.0 if kind == WITH_TREND else 0.0


@kernel
def conditioned_age_horizon(age: float, horizon: float) -> float:
    """Return until which age weighed draws are unchanged; `horizon`: until which their traces are eligible."""
    return min(horizon, step_of_age(age)[1])


@kernel
def conditioned_demand_horizon(age: float, demand: float, horizon: float, metric: int, likeness: Likeness) -> float:
    """Return until which largest demand of a metric weighed draws are unchanged, in user units.

    Parameters
    ----------
    age, demand
        Those of the draws: seconds and user units.
    horizon
        Until which the traces are eligible.
    """
    if share_of_metric(likeness.kind[metric], step_of_age(age)[0]) > 0.0:
        return min(demand, horizon)
    return horizon


@kernel
def draw_conditioned(
    stream: np.uint64,
    level: int,
    low: int,
    high: int,
    code: int,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
    trace: Int32,
) -> bool:
    """Fill `trace` (K,) from the eligible rows of [low, high) by weight; return False if none is eligible.

    Parameters
    ----------
    code
        Class of the replica in the history.
    age, largest_demand
        Of the replica: seconds, and (R,) user units.
    scratch
        (T,) as in `plb.risk.eligible_draws.draw_at_level`.
    """
    if low == high:
        return False
    group = len(likeness.floor) - 1 if CRITERIA[level, SCOPE] == WHOLE else code
    start = step_of_age(age)[0]
    begin_comparison(group, start, largest_demand, likeness)
    collected = NONE
    for repetition in range(len(trace)):
        words = repetition_stream(stream, repetition)
        if collected == NONE:
            row = first_taken(words, level, low, high, group, start, age, largest_demand, table, likeness)
            if row == NONE:
                collected = collect_distances(
                    level, low, high, group, start, age, largest_demand, table, likeness, scratch
                )
        else:
            row = first_of_collected(words, low, high, likeness)
        if row == NONE:
            if collected == 0:  # nor has another repetition taken one: the class decides
                return draw_at_level(stream, level, low, high, age, largest_demand, table, scratch, trace, False)
            row = least_time(words, scratch, likeness.weight, collected)
        trace[repetition] = row
    return True


@kernel
def begin_comparison(group: int, start: float, largest_demand: Float, likeness: Likeness) -> None:
    """Compute what the comparison with every trace needs of a replica, at the start of its step of age."""
    for metric in range(len(largest_demand)):
        likeness.share[metric] = share_of_metric(likeness.kind[metric], start)
        likeness.shown[metric] = math.log(largest_demand[metric] + likeness.floor[group, metric])


@kernel
def squared_distance(row: int, group: int, start: float, most: float, table: TraceTable, likeness: Likeness) -> float:
    """Return d² of a trace from the replica of `begin_comparison`; any number above `most` if it is above that."""
    total = 0.0
    for metric in range(len(likeness.kind)):
        share = likeness.share[metric]
        if share > 0.0:
            recorded = float(table.maximum[row, metric])
            if likeness.kind[metric] == WITH_TREND:
                recorded = modelled_demand(row, metric, start, likeness)
            difference = math.log(recorded + likeness.floor[group, metric]) - likeness.shown[metric]
            difference *= likeness.per_bandwidth
            total += share * difference * difference
            if total > most:
                break
    return total


@kernel
def modelled_demand(row: int, metric: int, age: float, likeness: Likeness) -> float:
    """Return the demand of a trace at an age, in user units, as `plb.risk.demand_history.DemandHistory.demand`."""
    level, growth = float(likeness.level[row, metric]), float(likeness.growth[row, metric])
    if age >= growth:
        return level
    initial = float(likeness.initial[row, metric])
    return initial + (level - initial) * (age / growth)


@kernel
def first_taken(
    words: np.uint64,
    level: int,
    low: int,
    high: int,
    group: int,
    start: float,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
) -> int:
    """Return the first row that is taken among a repetition's draws, or NONE.

    A row is taken with the probability exp(−d²/2): if d²/2 is at most an exponential number.
    """
    chances = chance_stream(words)
    for draw in range(DRAWS):
        row = low + uniform_index(words, draw, high - low)
        if is_eligible(row, level, age, largest_demand, table):
            most = min(FARTHEST * FARTHEST, 2.0 * exponential(fraction(word_of_draw(chances, draw))))
            if squared_distance(row, group, start, most, table, likeness) <= most:
                return row
    return NONE


@kernel
def first_of_collected(words: np.uint64, low: int, high: int, likeness: Likeness) -> int:
    """Return what `first_taken` does, from the distances of `collect_distances`."""
    chances = chance_stream(words)
    for draw in range(DRAWS):
        row = low + uniform_index(words, draw, high - low)
        squared = likeness.squared[row]
        if squared <= FARTHEST * FARTHEST and squared <= 2.0 * exponential(fraction(word_of_draw(chances, draw))):
            return row
    return NONE


@kernel
def collect_distances(
    level: int,
    low: int,
    high: int,
    group: int,
    start: float,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
) -> int:
    """Fill in `likeness.squared` of [low, high), infinite without a weight; return how many have one.

    These rows are written to the front of `scratch`, their weights to that of `likeness.weight`.
    """
    found, most = 0, FARTHEST * FARTHEST
    for row in range(low, high):
        likeness.squared[row] = math.inf
        if is_eligible(row, level, age, largest_demand, table):
            squared = squared_distance(row, group, start, most, table, likeness)
            if squared <= most:
                likeness.squared[row] = squared
                scratch[found], likeness.weight[found] = row, math.exp(-0.5 * squared)
                found += 1
    return found


@kernel
def least_time(words: np.uint64, rows: Int32, weight: Float, count: int) -> Any:
    """Return the one of the first `count` rows, `count` at least 1, that has the least exponential time."""
    stream = row_stream(words)
    best, least = rows[0], math.inf
    for i in range(count):
        uniform = fraction(row_hash(stream, rows[i]))
        if uniform < least * weight[i]:  # else the time is not less: this saves most logarithms
            time = exponential(uniform) / weight[i]
            if time < least:
                best, least = rows[i], time
    return best
