"""A proposal, as kernels and Python hand it on: one class for both."""

from __future__ import annotations

from typing import NamedTuple

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.state.arrays import Solution


class Proposal(NamedTuple):
    """A move of one replica, or an exchange of two."""

    row: int
    """Row of the replica."""
    target: int
    """Index of the node it goes to, or NOWHERE to remove it."""
    partner: int = NOWHERE
    """Row of the replica on `target` that changes nodes with it, or NOWHERE. Rows of one partition swap roles."""
    source: int = NOWHERE
    """Index of the node it leaves, or NOWHERE if it has none. A configuration fills it in when it hands a proposal on,
    so that those who make one need not."""

    @property
    def inverse(self) -> Proposal:
        """The proposal that undoes this one after it is made."""
        return Proposal(self.row, self.source, self.partner, self.target)


@kernel
def proposed(solution: Solution, row: int, target: int, partner: int) -> Proposal:
    """Return a proposal for a row on its present node."""
    return Proposal(row, target, partner, solution.node[row])


@kernel
def inverse_of(proposal: Proposal) -> Proposal:
    """Return the proposal that undoes another one after this is made."""
    return Proposal(proposal.row, proposal.source, proposal.partner, proposal.target)
