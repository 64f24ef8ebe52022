"""What a term consists of besides its kernels; each file of a term has one description, and `terms` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from plb.constraints.description import NamedSolution
from plb.model.move import Phase, Reason
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Proposal, Solution


@attrs.frozen(eq=False)
class TermDescription:
    """A term as plans, reasons of moves, settings and property tests see it.

    Parameters
    ----------
    name
        Its name in plans, and the field of `TermValues` and of `plb.model.plan.Energy`.
    after
        Kernel: the value of the whole solution after a proposal, as in `TermValues`.
    weight
        Returns what a term of 1 adds to the additive energy.
    unit
        Returns what a term of 1 is in `TermValues`.
    drives_moves
        Whether a move may be made because of it.
    new_sums
        Returns the arrays of `Solution` that only this term needs, without any row.
    total
        Returns the term as the user sees it from the nodes of the rows alone, in plain NumPy: the oracle of property
        tests. None: the sums from scratch are the oracle.
    reason
        Returns why a move is made that lowers the energy by this term, from the solution with names before a phase and
        the solution after it; None: the values before and after say it.
    """

    name: str
    after: Callable[[Problem, Solution, Proposal], float]
    weight: Callable[[PlbConfig], float]
    unit: Callable[[Problem], float] = lambda _problem: 1.0
    drives_moves: bool = True
    new_sums: Callable[[Problem], Mapping[str, Any]] = lambda _problem: {}
    total: Callable[[Problem, Solution], float] | None = None
    reason: Callable[[NamedSolution, Solution, Phase], Reason] | None = None
