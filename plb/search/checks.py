"""Self-checks: increments compared with totals computed from scratch, naming what differs first."""

from __future__ import annotations

import numpy as np

from plb.arrays import DISPLACED, SCRATCH, Problem, Solution
from plb.energy.fresh import fresh_solution
from plb.errors import CheckFailedError


def compare_with_fresh(problem: Problem, solution: Solution, moment: str) -> None:
    """Raise `CheckFailedError` if an accumulator of `solution` differs from one computed from scratch.

    Parameters
    ----------
    moment
        When the check runs, for the message.
    """
    fresh = fresh_solution(problem, solution.node)
    for name in Solution._fields:
        if name in SCRATCH:
            continue
        kept, right = getattr(solution, name), getattr(fresh, name)
        if name == "displaced":
            kept, right = (np.sort(rows[: solution.counts[DISPLACED]]) for rows in (kept, right))
        if name == "displaced_at":
            kept, right = kept >= 0, right >= 0
        if not np.array_equal(kept, right):
            at = tuple(int(i) for i in np.argwhere(kept != right)[0])
            raise CheckFailedError(
                f"{moment}: accumulator {name}{list(at)} is {kept[at]}, from scratch it is {right[at]}"
            )
