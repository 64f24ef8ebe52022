"""Self-checks: comparison of incremental accumulators with accumulators computed from scratch."""

from __future__ import annotations

import numpy as np

from plb.energy.from_scratch import solution_from_scratch
from plb.errors import CheckFailedError
from plb.state.arrays import SCRATCH, Problem, Solution, Totals

ACCUMULATORS = tuple(name for name in Solution._fields if name not in (*SCRATCH, "totals"))
"""The arrays of a solution that searches keep current."""


def compare_with_scratch(problem: Problem, solution: Solution, moment: str) -> None:
    """Raise `CheckFailedError` if an accumulator of `solution` differs from one computed from scratch.

    Parameters
    ----------
    moment
        When the check runs, for the message.
    """
    recomputed = solution_from_scratch(problem, solution.node)
    for number in Totals.names():
        kept, right = (getattr(one.totals, number) for one in (solution, recomputed))
        if kept != right:
            raise CheckFailedError(f"{moment}: {number} is {kept}, from scratch it is {right}")
    for name in ACCUMULATORS:
        kept, right = (what_counts(one, name) for one in (solution, recomputed))
        if kept.shape != right.shape:
            raise CheckFailedError(f"{moment}: accumulator {name} has {len(kept)} rows, from scratch {len(right)}")
        if not np.array_equal(kept, right):
            at = tuple(int(i) for i in np.argwhere(kept != right)[0])
            raise CheckFailedError(
                f"{moment}: accumulator {name}{list(at)} is {kept[at]}, from scratch it is {right[at]}"
            )


def what_counts(solution: Solution, name: str) -> np.ndarray:
    """Return the comparable values of a field; the order of the displaced rows is ignored."""
    values: np.ndarray = getattr(solution, name)
    if name == "displaced":
        return np.sort(values[: solution.totals.displaced])
    return values >= 0 if name == "displaced_at" else values
