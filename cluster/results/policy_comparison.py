"""Compares policies: mean over repeats, its 95 % interval, and the ratio to the first policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from cluster.results.intervals import Interval, half_width

FIGURES = ("violations", "failovers", "moves", "placement_failures", "downtime_seconds", "wall_seconds")
"""The figures compared; also the keys of ``plb simulate --json``."""


class ComparableRun(Protocol):
    """A run to compare, or its summary in a results directory."""

    @property
    def policy(self) -> str:
        """Its policy."""

    @property
    def repeat(self) -> int:
        """Its repeat, from 0."""

    @property
    def totals(self) -> Mapping[str, Any]:
        """Its figures."""

    @property
    def timings(self) -> Mapping[str, float]:
        """Its wall-clock seconds by part, including ``"total"``."""

    @property
    def complete(self) -> bool:
        """Whether it was not interrupted."""


@attrs.frozen
class Estimate(Interval):
    """A mean over repeats with its interval and its ratio to the first policy.

    Parameters
    ----------
    ratio
        The mean divided by that of the first policy; None if that is 0.
    """

    ratio: float | None


@attrs.frozen
class Comparison:
    """The figures of every policy.

    Parameters
    ----------
    policies
        Names; the others are compared with the first.
    repeats
        Number of finished runs of each policy.
    figures
        Estimates by policy and figure.
    """

    policies: tuple[str, ...]
    repeats: dict[str, int]
    figures: dict[str, dict[str, Estimate]]

    def as_json(self) -> dict[str, Any]:
        """Return the means under the keys of ``plb simulate --json``."""
        return {
            "policies": {
                policy: {name: estimate.mean for name, estimate in self.figures[policy].items()}
                for policy in self.policies
            }
        }


def compare(runs: Iterable[ComparableRun], policies: Sequence[str]) -> Comparison:
    """Compare policies over their runs; policies without a run are omitted."""
    found = list(runs)
    values = {
        policy: [{**run.totals, "wall_seconds": run.timings["total"]} for run in found if run.policy == policy]
        for policy in policies
    }
    named = tuple(policy for policy in policies if values[policy])
    means = {p: {name: float(np.mean([run[name] for run in values[p]])) for name in FIGURES} for p in named}
    figures = {
        policy: {
            name: Estimate(
                means[policy][name],
                half_width([float(run[name]) for run in values[policy]]),
                _ratio(means[policy][name], means[named[0]][name]),
            )
            for name in FIGURES
        }
        for policy in named
    }
    return Comparison(named, {policy: len(values[policy]) for policy in named}, figures)


def _ratio(value: float, first: float) -> float | None:
    return value / first if first else None
