"""Self-checks: comparison of incremental accumulators with accumulators computed from scratch."""

from __future__ import annotations

import numpy as np

from plb.energy.from_scratch import solution_from_scratch
from plb.errors import CheckFailedError
from plb.state.arrays import DISPLACED, SCRATCH, Problem, Solution


def compare_with_scratch(problem: Problem, solution: Solution, moment: str) -> None:
    """Raise `CheckFailedError` if an accumulator of `solution` differs from one computed from scratch.

    Parameters
    ----------
    moment
        When the check runs, for the message.
    """
    recomputed = solution_from_scratch(problem, solution.node)
    for name in Solution._fields:
        if name in SCRATCH:
            continue
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
        return np.sort(values[: solution.counts[DISPLACED]])
    return values >= 0 if name == "displaced_at" else values
