"""Where a replica may stand: the first rule that refuses it, node by node."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.domains import breaks_spread
from plb.evaluation.proposals import refusal
from plb.model.rules import Rule
from plb.state.arrays import Problem, Solution

_FAULT_DOMAIN = int(Rule.FAULT_DOMAIN)
_UPGRADE_DOMAIN = int(Rule.UPGRADE_DOMAIN)


@kernel
def find_refusals(problem: Problem, solution: Solution, enforced: int, row: int, refused: Int, level: Int) -> None:
    """Find, for each node, the first enforced rule, or the budget, that refuses `row` there.

    Parameters
    ----------
    refused
        (N,) changed: the rule, or NO_REFUSAL.
    level
        (N,) changed: for a rule about domains, the level that is full; else NOWHERE.
    """
    for node in range(problem.limit.shape[0]):
        rule = refusal(problem, solution, enforced, row, node, NOWHERE)
        refused[node] = rule
        level[node] = NOWHERE
        if rule in (_FAULT_DOMAIN, _UPGRADE_DOMAIN):
            for this in range(problem.domain.shape[1]):
                if problem.domain_rule[this] == rule and breaks_spread(problem, solution, this, row, node):
                    level[node] = this
                    break
