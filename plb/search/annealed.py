"""The result of annealing, from compiled chains and from those in plain Python alike."""

from __future__ import annotations

import attrs
import numpy as np

from plb.arrays import Int, Solution
from plb.search.budget import EndReason
from plb.search.proposal import TALLY_SIZE


@attrs.frozen(eq=False)
class Annealed:
    """The best solution, and how the search went."""

    solution: Solution
    energy: float
    tally: Int
    end_reason: EndReason


def new_tally() -> Int:
    """Return a tally of no proposals."""
    return np.zeros(TALLY_SIZE, np.int64)
