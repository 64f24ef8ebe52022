"""What a search comes to: the result of annealing, of placement and of repair."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Int
from plb.evaluation.proposals import TALLY_SIZE
from plb.search.budget import EndReason
from plb.state.arrays import Solution


@attrs.frozen(eq=False)
class Annealed:
    """The best solution, and how the search went.

    Parameters
    ----------
    solution
        The best one.
    energy
        Of it; where chains annealed, the terms of the user's own count, too.
    tally
        (TALLY_SIZE,) what became of the proposals.
    end_reason
        Why the search ended.
    """

    solution: Solution
    energy: float
    tally: Int
    end_reason: EndReason


def new_tally() -> Int:
    """Return a tally of no proposals."""
    return np.zeros(TALLY_SIZE, np.int64)
