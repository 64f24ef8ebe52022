"""The violations of arms on the same tenants: means by setting, ratios with intervals, and outcomes pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cluster.results.intervals import Interval, jackknife_half_width
from cluster.studies.design import StudySetting, alike
from plb.array_types import Float

AVOIDABLE = "violations_avoidable"
"""Total of a run: the violations that another placement may avoid."""
REPORTED = "violations_reported"
"""Total of a run: the violations by the loads that the engine knows. An oracle reports other loads than the present."""
KINDS = (AVOIDABLE, "violations_unavoidable", "shortages_unresolved")
"""Totals of a run that stand beside its violations."""


@attrs.frozen
class Ratio:
    """The ratio of the violations of two arms, averaged over settings."""

    mean: float | None
    """Mean of the ratios of the settings; None if no setting has one."""
    low: float | None
    high: float | None
    """Ends of its 95 % interval, from the jackknife over the repeats of all settings together; None with a single
    repeat, and if all violations of the second arm in a setting are in one repeat.
    """
    settings: int
    """Number of settings in the mean."""
    without: int
    """Number of settings without a ratio, because the second arm has no violations."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio:
        """Return the mean of one value for each setting, with its interval (Student's t)."""
        if not values:
            return cls(None, None, None, 0, 0)
        interval = Interval.of(values)
        low, high = interval.ends or (None, None)
        return cls(interval.mean, low, high, len(values), 0)


@attrs.frozen
class Pairs:
    """Outcomes of a comparison over independent pairs."""

    fewer: int
    equal: int
    more: int
    """Numbers of pairs in which the first has fewer, equally many and more violations."""
    probability: float
    """Probability of so uneven an outcome without a difference, by the two-sided sign test without equal pairs."""

    @classmethod
    def of(cls, differences: Sequence[float]) -> Pairs:
        """Return the outcomes of pairs from the differences of the first to the second."""
        from scipy.stats import binomtest  # type: ignore[import-untyped]

        signs = np.sign(differences)
        fewer, more = int((signs < 0).sum()), int((signs > 0).sum())
        probability = float(binomtest(fewer, fewer + more).pvalue) if fewer + more else 1.0
        return cls(fewer, len(signs) - fewer - more, more, probability)

    def __str__(self) -> str:
        return f"{self.fewer} fewer, {self.equal} equal, {self.more} more (p = {self.probability:.2g})"


@attrs.frozen(eq=False)
class Violations:
    """The violations of every run of a study."""

    settings: tuple[StudySetting, ...]
    """The settings, in order."""
    counts: Mapping[str, Float]
    """The violations by setting and repeat, (S, Q), of each arm; every arm has the same repeats."""

    @property
    def repeats(self) -> int:
        """Repeats of each arm in each setting."""
        return int(next(iter(self.counts.values())).shape[1])

    def where(self, holds: Callable[[StudySetting], bool]) -> Violations:
        """Return the violations in the settings for which a condition holds."""
        indices = [index for index, setting in enumerate(self.settings) if holds(setting)]
        settings = tuple(self.settings[index] for index in indices)
        return Violations(settings, {arm: counts[indices] for arm, counts in self.counts.items()})

    def means(self, arm: str) -> Float:
        """Return the mean violations of an arm by setting, (S,)."""
        return np.asarray(self.counts[arm].mean(axis=1))

    def least(self, arms: Sequence[str]) -> Float:
        """Return the mean violations of the best of some arms in each setting, (S,)."""
        return np.asarray(np.min([self.means(arm) for arm in arms], axis=0))

    def best(self, arms: Sequence[str]) -> list[str]:
        """Return the best of some arms in each setting; of equal arms, the first."""
        means = np.array([self.means(arm) for arm in arms])
        return [arms[index] for index in means.argmin(axis=0)]

    def at_least_as_good(self, arm: str, others: Sequence[str]) -> int:
        """Return the number of settings in which an arm has at most the mean violations of the best of the others."""
        return int((self.means(arm) <= self.least(others)).sum())

    def ratios(self, arms: Sequence[str], to: str) -> Float:
        """Return the ratio of `ratio` in each setting, (S',), without the settings in which the arm `to` has none."""
        denominators = self.means(to)
        is_defined = denominators > 0
        return np.asarray(self.least(arms)[is_defined] / denominators[is_defined])

    def ratio_of_independent(self, arm: str, to: str) -> Ratio:
        """Return the mean ratio of two arms over settings whose tenants are independent, with Student's t over them."""
        ratios = self.ratios([arm], to)
        return attrs.evolve(Ratio.of(ratios.tolist()), without=len(self.settings) - len(ratios))

    def ratio(self, arms: Sequence[str], to: str) -> Ratio:
        """Return the mean ratio of the least violations of some arms in a setting to the violations of the arm `to`."""
        ratios = self.ratios(arms, to)
        without = len(self.settings) - len(ratios)
        if not len(ratios):
            return Ratio(None, None, None, 0, without)
        half = self._half_width(arms, to, len(ratios)) if self.repeats > 1 else None
        mean = float(ratios.mean())
        low, high = (None, None) if half is None else (max(0.0, mean - half), mean + half)
        return Ratio(mean, low, high, len(ratios), without)

    def _half_width(self, arms: Sequence[str], to: str, settings: int) -> float | None:
        """Return half the width of the interval of ``ratio(arms, to)`` over `settings` settings, by the jackknife.

        None if all violations of the arm `to` in a setting are in one repeat.
        """
        means = []
        for repeat in range(self.repeats):
            other_repeats = Violations(
                self.settings, {arm: np.delete(counts, repeat, 1) for arm, counts in self.counts.items()}
            )
            ratios = other_repeats.ratios(arms, to)
            if len(ratios) < settings:
                return None
            means.append(float(ratios.mean()))
        return jackknife_half_width(means)

    def pairs(self, arm: str, other: str) -> Pairs:
        """Return in how many pairs an arm has fewer violations than another arm.

        A pair is a repeat of a workload with one kind of node, over all its densities. Pairs share no tenants.
        """
        differences: list[float] = []
        for settings in alike(self.settings):
            indices = [self.settings.index(setting) for setting in settings]
            differences += (self.counts[arm][indices] - self.counts[other][indices]).sum(axis=0).tolist()
        return Pairs.of(differences)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the settings under stable keys."""
        means = {arm: self.means(arm) for arm in self.counts}
        return [
            {**attrs.asdict(setting), "violations": {arm: float(means[arm][index]) for arm in means}}
            for index, setting in enumerate(self.settings)
        ]


def violations_of(
    settings: Sequence[StudySetting], runs: Sequence[Mapping[str, Any]], total: str = "violations"
) -> Violations:
    """Return the violations, or another total, of runs by setting, in the repeats that all arms of a setting share.

    `runs`: arguments and totals of each. All settings have as many repeats as the setting with the fewest; a setting
    without any is left out.
    """
    by_setting: dict[StudySetting, dict[str, dict[int, float]]] = {setting: {} for setting in settings}
    for run in runs:
        setting = StudySetting(run["workload"], run["vcores"], run["density"])
        by_setting[setting].setdefault(run["arm"], {})[run["repeat"]] = run[total]
    arms = list(dict.fromkeys(run["arm"] for run in runs))
    common_repeats = {
        setting: sorted(set.intersection(*(set(totals.get(arm, ())) for arm in arms))) if totals else []
        for setting, totals in by_setting.items()
    }
    shared_settings = tuple(setting for setting in settings if common_repeats[setting])
    if not shared_settings:
        return Violations((), {})
    repeats = min(len(common_repeats[setting]) for setting in shared_settings)
    counts = {
        arm: np.array(
            [
                [by_setting[setting][arm][repeat] for repeat in common_repeats[setting][:repeats]]
                for setting in shared_settings
            ]
        )
        for arm in arms
    }
    return Violations(shared_settings, {arm: totals.astype(np.float64) for arm, totals in counts.items()})
