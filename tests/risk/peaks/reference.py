"""The rules of the peak predictors in plain Python, task by task and sample by sample, as oracles for the kernels."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from plb.risk.peaks import BorgDefault, Form, HistoricalPeak, MachinePercentile, Maximum, NSigma, PeakOracle, RcLike

Sample = tuple[int, int, float, float]
"""Task, time, usage, limit."""
Snapshot = dict[int, tuple[float, float]]
"""Usage and limit by task."""


def snapshots(samples: Iterable[Sample]) -> dict[int, Snapshot]:
    found: dict[int, Snapshot] = {}
    for task, time, usage, limit in samples:
        found.setdefault(time, {})[task] = (usage, limit)
    return dict(sorted(found.items()))


class Tracked:
    """A present task: its samples, newest first, and its number of consecutive steps."""

    def __init__(self, history: int) -> None:
        self.usage: deque[float] = deque(maxlen=history)
        self.limit: deque[float] = deque(maxlen=history)
        self.seen = 0


class Windowed:
    """A predictor with warm-up and history, step by step."""

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor
        self.tasks: dict[int, Tracked] = {}
        self.machine: deque[Mapping[int, float]] = deque(maxlen=predictor.history)

    def peak(self, snapshot: Snapshot) -> float:
        """Add a step and return the prediction."""
        predictor = self.predictor
        used = {task: min(u, limit) if predictor.cap else u for task, (u, limit) in snapshot.items()}
        self.tasks = {task: self.tasks.get(task, Tracked(predictor.history)) for task in snapshot}
        self.machine.append(used)
        for task, (_, limit) in snapshot.items():
            self.tasks[task].usage.appendleft(used[task])
            self.tasks[task].limit.appendleft(limit)
            self.tasks[task].seen += 1
        least = max(2, predictor.warmup)
        warm = {task: one for task, one in self.tasks.items() if one.seen >= least}
        cold = sum(limit for task, (_, limit) in snapshot.items() if task not in warm)
        return cold + (self.of_warm(warm) if warm else 0.0)

    def of_warm(self, warm: Mapping[int, Tracked]) -> float:
        """Return the part of the prediction for warm tasks."""
        predictor = self.predictor
        if isinstance(predictor, RcLike):
            return sum(one.limit[0] * percentile(shares(one.usage, one.limit), predictor) for one in warm.values())
        if isinstance(predictor, HistoricalPeak):
            return of_windows(predictor, list(warm.values()))
        if isinstance(predictor, NSigma) and predictor.form is Form.PAPER:
            cold_now = {task: one.seen for task, one in self.tasks.items() if task not in warm}
            sums = [
                sum(u for task, u in used.items() if cold_now.get(task, 0) <= age)
                for age, used in enumerate(reversed(self.machine))
            ]
            return statistics.fmean(sums) + predictor.n * statistics.stdev(sums)
        ratios = machine_ratios(list(warm.values()), predictor.history)
        if isinstance(predictor, MachinePercentile):
            share = percentile(ratios, predictor)
        else:
            share = statistics.fmean(ratios) + predictor.n * statistics.stdev(ratios)
        return min(1.0, share) * sum(one.limit[0] for one in warm.values())


def machine_ratios(warm: Sequence[Tracked], history: int) -> list[float]:
    """Return summed usage by summed limit of the warm tasks at each age."""
    ratios = []
    for age in range(history):
        old = [one for one in warm if age < len(one.usage)]
        if old:
            usage, limit = sum(one.usage[age] for one in old), sum(one.limit[age] for one in old)
            ratios.append(usage / limit if limit > 0 else 0.0)
    return ratios


def of_windows(predictor: HistoricalPeak, warm: Sequence[Tracked]) -> float:
    """Return the percentile of the peaks of windows; the past is a list from the oldest step to the present one."""
    ages = range(max(len(one.usage) for one in warm) - 1, -1, -1)
    past = [sum(one.usage[age_that_counts(age, len(one.usage), predictor.day)] for one in warm) for age in ages]
    last = len(past) - 1
    length = min(predictor.horizon, last)
    peaks = []
    for start in range(last - length, -1, -predictor.stride):
        window = past[start + 1 : start + 1 + length]
        left = [predictor.persistence ** (steps * 24 / predictor.day) for steps in range(1, length + 1)]
        moved = [used + share * (past[last] - past[start]) for used, share in zip(window, left, strict=True)]
        peaks.append(max(0.0, *moved))
    found = percentile(peaks, predictor)
    return min(found, sum(one.limit[0] for one in warm)) if predictor.cap else found


def age_that_counts(age: int, lived: int, day: int) -> int:
    """Return the age of the sample that counts at an age: itself, a later one of that time of day, or one in turn."""
    same_time = [other for other in range(min(age + 1, lived)) if (age - other) % day == 0]
    return max(same_time) if same_time else age % lived


def shares(usage: Iterable[float], limit: Iterable[float]) -> list[float]:
    """Return usage by limit, 0 where the limit is 0."""
    return [u / bound if bound > 0 else 0.0 for u, bound in zip(usage, limit, strict=True)]


def percentile(values: Sequence[float], predictor: Any) -> float:
    return float(np.percentile(values, predictor.percentile))


def predicted(predictor: Any, samples: Iterable[Sample], step: int) -> dict[int, float]:
    found = snapshots(samples)
    if isinstance(predictor, PeakOracle):
        return oracle(predictor, found, step)
    if isinstance(predictor, Maximum):
        children = [predicted(one, samples, step) for one in predictor.of]
        return {time: max(child[time] for child in children) for time in found}
    if isinstance(predictor, BorgDefault):
        return {time: predictor.phi * sum(limit for _, limit in one.values()) for time, one in found.items()}
    windowed = Windowed(predictor)
    return {time: windowed.peak(one) for time, one in found.items()}


def oracle(predictor: PeakOracle, found: Mapping[int, Snapshot], step: int) -> dict[int, float]:
    """Return the largest future usage of the present tasks within the horizon."""
    reach, last = predictor.horizon * step, max(found)
    times = [time for time in found if time + reach <= last] or [min(found)]
    peaks = {}
    for now in times:
        limits = {task: limit for task, (_, limit) in found[now].items()}
        ahead = [
            sum(min(u, limits[task]) if predictor.cap else u for task, (u, _) in one.items() if task in limits)
            for time, one in found.items()
            if now < time <= now + reach
        ]
        peaks[now] = percentile(ahead, predictor) if ahead else sum(limits.values())
    return peaks
