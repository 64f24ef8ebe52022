"""The answer of each policy: the value that suffices, and the results at all values that were tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        Violations a day of each repeat: pairs of a node and a metering time with a shortage, after which a failover
        started or was not possible.
    unresolved
        Those without a possible failover, a day, mean over the repeats.
    failovers
        Failovers a day, mean over the repeats.
    not_placed
        Tenants that were not placed when they arrived, mean over the repeats.
    tenants
        Arrived tenants, mean over the repeats.
    impossible
        The reason why there was no run; empty if there was one.
    suffices
        Whether violations and tenants that are not placed are within the limits.
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
        """Half the width of the 95 % interval of the mean (Student's t); None for fewer than two runs."""
        return half_width(self.violations)

    def verdict(self, question: Question) -> str:
        """Return whether the value suffices, and if not, the reason."""
        if self.suffices:
            return "yes"
        if self.impossible:
            return "no: impossible"
        few = question.suffices(self.mean or 0.0, 0.0)
        return "no: not placed" if few else "no"

    def as_json(self, name: str) -> dict[str, Any]:
        """Return plain JSON values; `name` is that of the searched quantity."""
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
    """Return the results of the runs at a value.

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


Evaluate = Callable[[Sequence[tuple[str, float]]], Sequence[Point]]
"""Returns the results of pairs of a policy and a value, in their order."""


@attrs.frozen
class Answer:
    """The answer for a policy.

    Parameters
    ----------
    policy
        Name of the policy.
    points
        The results at all values that were tried, in their order.
    found
        The value that suffices; None if the search has not ended, or no value suffices.
    complete
        Whether the search has ended.
    """

    policy: str
    points: tuple[Point, ...] = ()
    found: float | None = None
    complete: bool = False

    def point(self, value: float | None) -> Point | None:
        """Return the results at a value; None if it was not tried."""
        return next((one for one in self.points if one.value == value), None)

    def failing(self, question: Question) -> Point | None:
        """Return the point next to the one that suffices, which does not suffice; None at the end of the range."""
        if self.found is None:
            return None
        return self.point(question.value(question.place(self.found) - 1))

    def as_json(self, question: Question) -> dict[str, Any]:
        """Return plain JSON values, with the points in the order of their values."""
        failing = self.failing(question)
        return {
            "answer": self.found,
            "complete": self.complete,
            "seen_to_fail": None if failing is None else failing.value,
            "points": [
                one.as_json(question.searched.value) for one in sorted(self.points, key=lambda point: point.value)
            ],
        }


def answer(
    question: Question,
    policies: Sequence[str],
    evaluate: Evaluate,
    note: Callable[[Mapping[str, Answer]], None] | None = None,
) -> dict[str, Answer]:
    """Search for all policies together; in each step, one value of each policy is tried.

    Parameters
    ----------
    question
        The question.
    policies
        Names of the policies.
    evaluate
        Runs the simulations at values.
    note
        Called with the answers so far after each step.
    """
    searches = {policy: question.search() for policy in policies}
    answers = {policy: Answer(policy) for policy in policies}
    asked = {policy: question.value(next(search)) for policy, search in searches.items()}
    while asked:
        pairs = list(asked.items())
        for (policy, _), point in zip(pairs, evaluate(pairs), strict=True):
            before = answers[policy]
            answers[policy] = attrs.evolve(before, points=(*before.points, point))
            try:
                asked[policy] = question.value(searches[policy].send(point.suffices))
            except StopIteration as end:
                del asked[policy]
                found = None if end.value is None else question.value(end.value)
                answers[policy] = attrs.evolve(answers[policy], found=found, complete=True)
        if note is not None:
            note(answers)
    return answers


def figures(question: Question, answers: Mapping[str, Answer], repeats: int, days: float) -> dict[str, Any]:
    """Return question and answers as plain JSON values."""
    return {
        "question": {**question.as_json(), "repeats": repeats, "days": days},
        "complete": all(one.complete for one in answers.values()),
        "policies": {policy: one.as_json(question) for policy, one in answers.items()},
    }
