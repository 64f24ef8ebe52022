"""The budget of a search, and why a search ends."""

from __future__ import annotations

import math
from enum import Enum

import attrs

from plb.compiler import working_time
from plb.errors import InvalidValueError
from plb.validation import (
    check_count,
    check_number,
    with_plain_scalars,
)

ENDLESS = 2**40
"""Rounds of a chain that ends only by time or convergence."""


class EndReason(Enum):
    """Why a search ended."""

    NOTHING_TO_DO = "nothing to do"
    NO_PROPOSAL_POSSIBLE = "no replica may move"
    BUDGET_OF_PROPOSALS = "the budget of proposals is used up"
    CONVERGED = "the energy no longer changes"
    NOT_WORTH_A_MOVE = "no moves were found that win twice what they cost (w_imbalance)"
    OUT_OF_TIME = "the time limit was reached"
    DECIDED = "the policy has decided"
    UNCHANGED = "nothing has changed since the last search of this kind"


@attrs.frozen(field_transformer=with_plain_scalars)
class Budget:
    """Limits of a search.

    Parameters
    ----------
    proposals
        Proposals over all chains; None: as configured, or without limit where `seconds` is given.
    seconds
        Wall time of the call, in which the plan is made as well; all searches of the call share it. A plan that this
        limit ends early is marked as not reproducible.
    until
        Reading of `plb.compiler.working_time` at which annealing ends, even before the first round is complete. Set
        from the search timeouts of the configuration.
    temperature
        First temperature of balancing, in units of the energy. With that of the plan before, `Plan.temperature`,
        annealing goes on over several calls; balancing then runs again even if nothing has changed. None: as
        configured.
    """

    proposals: int | None = None
    seconds: float | None = None
    until: float | None = attrs.field(default=None, kw_only=True)
    temperature: float | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.proposals is not None:
            proposals = check_count("budget", "proposals", self.proposals)
            if proposals > ENDLESS:
                raise InvalidValueError("budget", "proposals", self.proposals, "a whole number >= 0 and <= 2^40")
            # small NumPy integer types would overflow, and kernels would be compiled for them again
            object.__setattr__(self, "proposals", proposals)
        if self.seconds is not None:
            check_number("budget", "seconds", self.seconds)
        if self.until is not None:
            check_number("budget", "until", self.until, low=-math.inf)
        if self.temperature is not None:
            object.__setattr__(self, "temperature", check_number("budget", "temperature", self.temperature))

    @classmethod
    def of(cls, budget: Budget | int | None) -> Budget:
        """Return a budget from a `Budget`, a number of proposals, or None."""
        return budget if isinstance(budget, Budget) else cls(proposals=budget)

    def within(self, timeout: float | None) -> Budget:
        """Return this budget with an end at most `timeout` seconds from now; None: the budget itself."""
        if timeout is None:
            return self
        end = working_time() + timeout
        return attrs.evolve(self, until=end if self.until is None else min(end, self.until))

    def begun(self) -> Budget:
        """Return this budget with the end that its seconds give a call that begins now."""
        return self.within(self.seconds)

    def each(self, searches: int) -> Budget:
        """Return the budget of each of `searches` searches of a call that has begun; none is late for the others."""
        if self.seconds is None or self.until is None:
            return self
        left = max(0.0, self.until - working_time())
        return attrs.evolve(self, seconds=min(self.seconds, left / searches), until=None)

    @property
    def is_up(self) -> bool:
        """Whether `until` has passed."""
        return self.until is not None and working_time() >= self.until

    def share(self, searches: int) -> Budget:
        """Return the budget of the next of `searches` searches, which share the time until the end equally."""
        if self.until is None:
            return self
        now = working_time()
        return attrs.evolve(self, until=now + (self.until - now) / searches)

    def deadline(self, begun: float, share: float) -> float | None:
        """Return the deadline of a chain that may use this share of the time from `begun`, or None."""
        ends = [] if self.seconds is None else [begun + self.seconds * share]
        ends += [] if self.until is None else [begun + (self.until - begun) * share]
        return min(ends, default=None)
