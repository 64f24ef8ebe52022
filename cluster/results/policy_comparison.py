"""Compares policies: mean over repeats, its 95 % interval, and the ratio to the first policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from cluster.results.intervals import Interval, half_width
from cluster.simulation.recorder import RunSummary

FIGURES = (
    *("violations", "violations_avoidable", "violations_unavoidable", "shortages_unresolved", "failovers", "moves"),
    *("placement_failures", "downtime_seconds", "wall_seconds"),
)
"""The figures compared; also the keys of ``plb simulate --json``."""


@attrs.frozen
class Estimate(Interval):
    """A mean over repeats with its interval and its ratio to the first policy.

    Parameters
    ----------
    ratio
        The mean divided by that of the first policy; None if that is 0 or unknown.
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
        Estimates by policy and figure, without figures that a run of the policy lacks (`RunSummary.figure`).
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


def compare(runs: Iterable[RunSummary], policies: Sequence[str]) -> Comparison:
    """Compare policies over their runs; policies without a run are omitted."""
    found = list(runs)
    of_policy = {policy: [run for run in found if run.policy == policy] for policy in policies}
    repeats = {policy: len(finished) for policy, finished in of_policy.items() if finished}
    values = {policy: {name: [run.figure(name) for run in of_policy[policy]] for name in FIGURES} for policy in repeats}
    means = {policy: {name: float(np.mean(row)) for name, row in rows.items()} for policy, rows in values.items()}
    first = next(iter(means.values()), {})
    figures = {
        policy: {
            name: Estimate(means[policy][name], half_width(row), _ratio(means[policy][name], first[name]))
            for name, row in rows.items()
        }
        for policy, rows in values.items()
    }
    return Comparison(tuple(repeats), repeats, figures)


def _ratio(value: float, first: float) -> float | None:
    return value / first if first else None
