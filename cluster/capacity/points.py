"""The result at one number of nodes or one density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cluster.capacity.question import Question
from cluster.results.intervals import half_width

DAY = 86400.0


@attrs.frozen
class Point:
    """The results of a policy at one value.

    Parameters
    ----------
    value
        Nodes or density.
    violations
        Of each repeat, violations a day: nodes and metering times at which a node was short, and a failover was
        started, or none could be.
    unresolved
        Those of them where none could be, a day, mean over the repeats.
    failovers
        Violations a day, mean over the repeats.
    not_placed
        Tenants that were not placed when they arrived, mean over the repeats.
    tenants
        Arrived tenants, mean over the repeats.
    impossible
        Why there was no run at all; empty where there was one.
    suffices
        Whether violations and tenants without a place are few enough.
    """

    value: float
    violations: tuple[float, ...]
    unresolved: float
    failovers: float
    not_placed: float
    tenants: float
    impossible: str
    suffices: bool

    @property
    def mean(self) -> float | None:
        """Violations a day, mean over the repeats; None without a run."""
        return float(np.mean(self.violations)) if self.violations else None

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % interval of that mean (Student's t); None for fewer than two runs."""
        return half_width(self.violations)

    def verdict(self, question: Question) -> str:
        """Return whether it suffices, and if not, why."""
        if self.suffices:
            return "yes"
        if self.impossible:
            return "no: impossible"
        few = question.suffices(self.mean or 0.0, 0.0)
        return "no: not placed" if few else "no"

    def as_json(self, name: str) -> dict[str, Any]:
        """Return plain JSON values, the value with a given name."""
        return {
            name: self.value,
            "suffices": self.suffices,
            "violations_a_day": self.mean,
            "half_width": self.half_width,
            "repeats": list(self.violations),
            "unresolved_a_day": self.unresolved,
            "failovers_a_day": self.failovers,
            "placement_failures": self.not_placed,
            "tenants": self.tenants,
            "impossible": self.impossible or None,
        }


def point_of(question: Question, value: float, outcomes: Sequence[Mapping[str, Any]]) -> Point:
    """Return the summary of the runs at a value.

    Parameters
    ----------
    outcomes
        For each repeat, the result of `cluster.capacity.evaluation.run_at`.
    """
    impossible = next((str(one["impossible"]) for one in outcomes if "impossible" in one), "")
    if impossible:
        return Point(value, (), 0.0, 0.0, 0.0, 0.0, impossible, suffices=False)
    totals = [one["totals"] for one in outcomes]
    days = [run["simulated_seconds"] / DAY for run in totals]
    short = [run["violations"] + run["shortages_unresolved"] for run in totals]
    violations = tuple(count / length for count, length in zip(short, days, strict=True))
    unresolved, failovers = (
        float(np.mean([run[name] / length for run, length in zip(totals, days, strict=True)]))
        for name in ("shortages_unresolved", "failovers")
    )
    not_placed, tenants = (float(np.mean([run[name] for run in totals])) for name in ("placement_failures", "tenants"))
    suffices = question.suffices(float(np.mean(violations)), not_placed / max(tenants, 1.0))
    return Point(value, violations, unresolved, failovers, not_placed, tenants, "", suffices)
