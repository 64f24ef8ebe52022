"""Runs with synthetic violation curves, which replace simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.capacity.question import Question, Searched
from cluster.capacity.report import Point


def question_of(searched: Searched = Searched.NODES, **given: float) -> Question:
    """Return a question for a cluster of 40 nodes, or of density 2."""
    nodes = {"lowest": 1.0, "highest": 160.0, "step": 1.0, "scenario_value": 40.0}
    density = {"lowest": 0.05, "highest": 8.0, "step": 0.05, "scenario_value": 2.0}
    defaults = nodes if searched is Searched.NODES else density
    return Question(searched=searched, **{"violations": 1.0, "refused": 0.0, **defaults, **given})


def totals(violations: float = 0, unresolved: float = 0, refused: float = 0, days: float = 2.0) -> dict[str, Any]:
    """Return the totals of a run."""
    return {
        "totals": {
            "simulated_seconds": days * 86400,
            "violations": violations,
            "shortages_unresolved": unresolved,
            "placement_failures": refused,
            "failovers": 2 * violations,
            "tenants": 100,
        },
        "timings": {"total": 1.0},
    }


def point(question: Question, value: float, mean: float) -> Point:
    """Return a point with the same number of violations per day in two repeats."""
    return Point(value, (mean, mean), 0.0, 0.0, 0.0, 100.0, "", question.suffices(mean, 0.0))


class Counting:
    """Computes violations from policy, value and repeat without a simulation, counts its calls, can be interrupted."""

    def __init__(self, violations: Callable[[str, float, int], float], interrupted_at: int | None = None) -> None:
        self._violations, self._interrupted_at = violations, interrupted_at
        self.calls: list[tuple[str, float, int]] = []

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the synthetic totals of a task."""
        if len(self.calls) == self._interrupted_at:
            raise KeyboardInterrupt
        which = arguments["policy"], arguments["value"], arguments["repeat"]
        self.calls.append(which)
        return totals(self._violations(*which))
