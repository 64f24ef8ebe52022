"""How much a search may spend, and why it ended."""

from __future__ import annotations

import math
from enum import Enum

import attrs

from plb.compiler import working_time
from plb.errors import InvalidValueError
from plb.validation import check_count, check_number

ENDLESS = 2**40
"""Rounds of a chain that only the clock or convergence ends."""


class EndReason(Enum):
    """Why a search ended."""

    NOTHING_TO_DO = "nothing to do"
    NO_PROPOSAL_POSSIBLE = "no replica may move"
    BUDGET_OF_PROPOSALS = "the budget of proposals is used up"
    CONVERGED = "the energy no longer changes"
    OUT_OF_TIME = "the time limit was reached"
    DECIDED = "the policy has decided"
    UNCHANGED = "nothing has changed since the last search of this kind"


@attrs.frozen
class Budget:
    """How much a search may spend.

    Parameters
    ----------
    proposals
        Proposals over all chains; None: as the configuration says, or without limit where `seconds` is given.
    seconds
        Wall time; a plan that it cut short is marked as not reproducible.
    until
        Reading of `plb.compiler.working_time` at which annealing ends, however few rounds it has done. Set from the
        search timeouts of the configuration.
    """

    proposals: int | None = None
    seconds: float | None = None
    until: float | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.proposals is not None:
            proposals = check_count("budget", "proposals", self.proposals)
            if proposals > ENDLESS:
                raise InvalidValueError("budget", "proposals", self.proposals, "a whole number >= 0 and <= 2^40")
            # NumPy's whole numbers of few bits would run over, and have kernels compiled anew
            object.__setattr__(self, "proposals", proposals)
        if self.seconds is not None:
            check_number("budget", "seconds", self.seconds)
        if self.until is not None:
            check_number("budget", "until", self.until, low=-math.inf)

    @classmethod
    def of(cls, budget: Budget | int | None) -> Budget:
        """Return a budget from a `Budget`, a number of proposals, or None."""
        return budget if isinstance(budget, Budget) else cls(proposals=budget)

    def within(self, timeout: float | None) -> Budget:
        """Return this budget with an end in `timeout` seconds from now; None: without."""
        return self if timeout is None else attrs.evolve(self, until=working_time() + timeout)

    @property
    def is_up(self) -> bool:
        """Whether `until` has passed."""
        return self.until is not None and working_time() >= self.until

    def share(self, searches: int) -> Budget:
        """Return the budget of the next of so many searches, which divide the time until the end among them."""
        if self.until is None:
            return self
        now = working_time()
        return attrs.evolve(self, until=now + (self.until - now) / searches)

    def deadline(self, begun: float, share: float) -> float | None:
        """Return when a chain ends that may use this share of the time from `begun`; None: whenever."""
        ends = [] if self.seconds is None else [begun + self.seconds * share]
        ends += [] if self.until is None else [begun + (self.until - begun) * share]
        return min(ends, default=None)
