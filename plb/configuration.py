"""A configuration of the cluster that can be changed move by move: what energy terms look at."""

from __future__ import annotations

import attrs

from plb.arrays import NOWHERE, Problem, Solution
from plb.constraints import ALL_RULES, NO_REFUSAL, Rule
from plb.search.checks import compare_with_fresh
from plb.search.proposal import refusal
from plb.search.transition import apply_proposal, present_energy


@attrs.frozen
class Proposal:
    """A change of one replica's node, or an exchange of two.

    Parameters
    ----------
    row
        Row of the replica.
    target
        Index of the node it goes to, or NOWHERE to take it off.
    partner
        Row of the replica on `target` that changes nodes with it, or NOWHERE. Rows of one partition swap roles.
    """

    row: int
    target: int
    partner: int = NOWHERE


class Configuration:
    """Where every replica stands, and every sum that follows from it.

    Parameters
    ----------
    problem
        The arrays of the cluster.
    solution
        The placement and its sums; changed by `apply`.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.problem, self.solution = problem, solution

    @property
    def energy(self) -> float:
        """The energy, from the incremental sums."""
        return float(present_energy(self.problem, self.solution))

    def refusal(self, proposal: Proposal, enforced: int = ALL_RULES) -> Rule | None:
        """Return the first enforced rule that refuses a proposal, or None."""
        rule = refusal(self.problem, self.solution, enforced, proposal.row, proposal.target, proposal.partner)
        return None if rule == NO_REFUSAL else Rule(rule)

    def apply(self, proposal: Proposal) -> Proposal:
        """Carry a proposal out and return the one that undoes it."""
        source = int(self.solution.node[proposal.row])
        apply_proposal(self.problem, self.solution, proposal.row, proposal.target, proposal.partner)
        return Proposal(proposal.row, source, proposal.partner)

    def check(self) -> None:
        """Raise `CheckFailedError` if a sum differs from one computed from scratch."""
        compare_with_fresh(self.problem, self.solution, "check")
