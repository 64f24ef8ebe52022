"""The estimators of the probability of a violation for an engine, and their names.

``monte-carlo`` is the estimator of [1]; ``historical-simulation`` replays the recent past of the replicas themselves;
``gaussian`` is the estimator of [2], from reports; peak predictors of [5] are written as in
`plb.risk.peaks.predictors`, such as ``n-sigma:n=3,warmup=12,history=60``.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import ClassVar, NamedTuple, TypeAlias

import attrs

from plb.errors import InvalidValueError
from plb.risk.peaks.predictors import LEAST_SEEN, MOST_SAMPLES, BorgDefault, Maximum, PeakOracle, Predictor, parse
from plb.validation import check_count, check_number, check_switch

MINUTES_OF_A_DAY = 24 * 60
DAY = 86_400.0
"""Length of a day in seconds."""


class Evaluation(StrEnum):
    """How a repetition is tested for a violation."""

    PEAK = "peak"
    """Every replica at its level, all at the same time: an upper estimate, cheap to update."""
    TIMELINE = "timeline"
    """At each departure, the replicas that are there at their demand of that time: equation (1) of [1]."""


@attrs.frozen(kw_only=True)
class MonteCarlo:
    """[1]: repetitions sampled from past tenants; see `plb.risk.trace_sampling`."""

    kind: ClassVar[str] = "monte-carlo"
    horizon: float = 0.0
    """Hours within which demand counts. 0: all of the future, as in [1]."""
    maximum_from: float = 0.0
    """Share of the capacity of the largest node, at most 1. For a replica that is promised this much of a metric
    without trend, the level of a trace is its maximum, not its 90th percentile. 0: for no replica, as in [1].
    """

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_number(self.kind, "horizon", self.horizon))
        object.__setattr__(self, "maximum_from", check_number(self.kind, "maximum_from", self.maximum_from, high=1.0))


@attrs.frozen(kw_only=True)
class Gaussian:
    """[2] section 4: the total of a node is Gaussian, with summed means and variances of the reports of replicas."""

    kind: ClassVar[str] = "gaussian"
    warmup: int = 24
    """Samples until a replica is known; until then it counts at its limit."""
    history: int = 120
    """Samples of each replica that are kept, the newest, at least 2."""
    cap: bool = False
    """Whether a sample above the limit counts as the limit."""

    def __attrs_post_init__(self) -> None:
        check_count(self.kind, "warmup", self.warmup, high=MOST_SAMPLES)
        check_count(self.kind, "history", self.history, low=2, high=MOST_SAMPLES)
        check_switch(self.kind, "cap", self.cap)


@attrs.frozen(kw_only=True)
class HistoricalSimulation:
    """A repetition is a moment of the past, the same for all replicas; see `plb.risk.historical_simulation`."""

    kind: ClassVar[str] = "historical-simulation"
    slots: int = 168
    """Number of slots of the past that are kept: a week by default, so that each day of the week and each hour of the
    day occur.
    """
    slot_minutes: int = 60
    """Length of a slot, a divisor of a day. Each slot contributes the loads at one moment."""
    horizon: int = 24
    """Number of slots within which a violation counts: a day by default."""
    persistence: float = 0.8
    """Share of the difference between present and past demand that is left after an hour; 0: probabilities do not
    depend on the present demand. Demand that is above its mean falls back by half in three hours with 0.8.
    """
    smoothing: float = 2.0
    """Weight of the mean over all nodes in the probability of a node, in independent windows; a week has seven of a
    day. 0: each node by itself.
    """

    def __attrs_post_init__(self) -> None:
        check_count(self.kind, "slots", self.slots, low=1, high=MOST_SAMPLES)
        check_count(self.kind, "slot_minutes", self.slot_minutes, low=1, high=MINUTES_OF_A_DAY)
        if MINUTES_OF_A_DAY % self.slot_minutes:
            raise InvalidValueError(self.kind, "slot_minutes", self.slot_minutes, "a divisor of 1440, a day")
        check_count(self.kind, "horizon", self.horizon, low=1, high=self.slots)
        check_number(self.kind, "persistence", self.persistence, high=1.0)
        check_number(self.kind, "smoothing", self.smoothing)

    @property
    def slots_of_a_day(self) -> int:
        """The number of slots of a day."""
        return MINUTES_OF_A_DAY // self.slot_minutes

    @property
    def windows(self) -> int:
        """The number of windows of the length of the horizon in the slots that are kept."""
        return self.slots - self.horizon + 1


Estimator: TypeAlias = MonteCarlo | HistoricalSimulation | Gaussian | Predictor
"""The estimator of an engine."""


def estimator_of(text: object, item: str = "PlbConfig") -> Estimator:
    """Return the estimator that a text describes, as `parse` does; refuse one that uses the future.

    `item` names the owner of the setting in errors.
    """
    if not isinstance(text, str):
        raise InvalidValueError(item, "estimator", text, "a text such as 'monte-carlo' or 'n-sigma:n=5'")
    estimator: Estimator | PeakOracle = parse(text, more=(MonteCarlo, HistoricalSimulation, Gaussian))
    if isinstance(estimator, PeakOracle):
        raise InvalidValueError(item, "estimator", text, "an estimator that uses the past only")
    return estimator


def period_of(estimator: Estimator) -> float:
    """Return the time, in seconds, that a repetition of an estimator stands for; infinite: all of the future.

    A probability of an estimator without a horizon stands for a day.
    """
    if isinstance(estimator, MonteCarlo):
        return estimator.horizon * 3600.0 if estimator.horizon > 0.0 else math.inf
    if isinstance(estimator, HistoricalSimulation):
        return estimator.slot_minutes * 60.0
    return DAY


def reads_limits(estimator: Estimator) -> bool:
    """Return whether an estimator depends on the promised maxima of replicas."""
    return not isinstance(estimator, MonteCarlo) or estimator.maximum_from > 0.0


def samples_kept(estimator: Estimator) -> int:
    """Return how many of the newest samples, the loads after a report, each replica keeps for an estimator.

    0: it uses none; historical simulation has slots of time instead.
    """
    if isinstance(estimator, Maximum):
        return max(samples_kept(predictor) for predictor in estimator.of)
    if isinstance(estimator, MonteCarlo | HistoricalSimulation | BorgDefault):
        return 0
    return estimator.history


def samples_needed(estimator: Estimator) -> int:
    """Return how many samples a replica needs to be warm for an estimator, for the most demanding of several."""
    if isinstance(estimator, Maximum):
        return max(samples_needed(predictor) for predictor in estimator.of)
    if isinstance(estimator, MonteCarlo | HistoricalSimulation | BorgDefault):
        return 0
    return max(LEAST_SEEN, estimator.warmup)


class Kept(NamedTuple):
    """How many reports of each replica are kept."""

    samples: int
    """Number of the newest samples."""
    slots: int
    """Number of slots of the past."""
    slot_minutes: int
    """Length of a slot in minutes; 0 without slots."""


def reports_kept(estimator: Estimator) -> Kept:
    """Return how many reports of each replica an estimator needs."""
    slots = (estimator.slots, estimator.slot_minutes) if isinstance(estimator, HistoricalSimulation) else (0, 0)
    return Kept(samples_kept(estimator), *slots)
