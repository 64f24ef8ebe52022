"""The answer of each policy: the value that suffices, and all that was tried on the way to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from cluster.capacity.points import Point
from cluster.capacity.question import Question

Evaluate = Callable[[Sequence[tuple[str, float]]], Sequence[Point]]
"""Returns the points of policies at values, in their order."""


@attrs.frozen
class Answer:
    """What was found for a policy.

    Parameters
    ----------
    policy
        Its name.
    points
        All that was tried, in the order in which it was.
    found
        The value that suffices; None where the search is not at its end, or none suffices.
    complete
        Whether the search is at its end.
    """

    policy: str
    points: tuple[Point, ...] = ()
    found: float | None = None
    complete: bool = False

    def point(self, value: float | None) -> Point | None:
        """Return what was found at a value; None where it was not tried."""
        return next((one for one in self.points if one.value == value), None)

    def failing(self, question: Question) -> Point | None:
        """Return the point right before the one that suffices, which does not; None at the end of the range."""
        if self.found is None:
            return None
        return self.point(question.value(question.place(self.found) - 1))

    def as_json(self, question: Question) -> dict[str, Any]:
        """Return it as plain JSON values, the points by value."""
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
    """Search for all policies together, one value of each at a time.

    Parameters
    ----------
    question
        The question.
    policies
        Names of the policies.
    evaluate
        Tries values.
    note
        Called with the answers so far whenever some values were tried.
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
