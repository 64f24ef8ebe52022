"""Replicas that a plan leaves on nodes that have to be emptied, and why each of them stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.move_budgets import budget_that_holds
from plb.constraints.node import rows_to_drain
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import find_refusals, refusal
from plb.model.rules import NO_REFUSAL, Rule
from plb.model.unplaced import Refused, Undrained
from plb.planning.audit import Audit
from plb.planning.diagnosis import diagnose_rule, unplaced_row
from plb.planning.immovable import why_immovable
from plb.planning.service_domains import ServiceDomain
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Solution
from plb.state.proposal import proposed

MOST_DIAGNOSED = 100
"""Number of replicas with the numbers that rules compared; the others have the numbers of nodes alone."""


def undrained_of(
    audit: Audit, domain: ServiceDomain | None, masks: Sequence[int], extensions: Extensions | None
) -> Iterator[Undrained]:
    """Yield why replicas stay: plans may not move them, a budget holds them, or rules refuse all other nodes.

    Parameters
    ----------
    audit
        The result, with the problem of repairs.
    domain
        The service domain of the replicas; None: all services.
    masks
        Rules that repairs enforce, from all to the hard ones.
    extensions
        With the extension constraints, or None.
    """
    problem, solution, every = audit.problem, audit.solution, np.arange(len(audit.state.nodes))
    trial: Trial | None = None
    for row in rows_to_drain(problem, solution):
        if domain is not None and int(problem.service[row]) not in domain.services:
            continue
        budget = budget_that_holds(problem, solution, row)
        if not problem.repairable[row]:
            yield _staying(audit, row, immovable=why_immovable(audit.state, problem, row))
        elif budget != NO_REFUSAL:
            yield _staying(audit, row, diagnosis=(diagnose_rule(audit, row, Rule(budget), every),))
        else:
            trial = trial or Trial(audit, masks, extensions)
            yield _staying(audit, row, **trial.refusals_of(row))


def _staying(audit: Audit, row: int, **why: Any) -> Undrained:
    return Undrained(
        partition=audit.state.row_partition[row],
        role=audit.role_of(row),
        node=audit.node_of(row),
        nodes=len(audit.state.nodes),
        **why,
    )


class Trial:
    """Tries to place replicas elsewhere, one at a time; they may not use the capacity that new ones alone may use.

    Parameters
    ----------
    audit, masks, extensions
        See `undrained_of`.
    """

    def __init__(self, audit: Audit, masks: Sequence[int], extensions: Extensions | None) -> None:
        solution = audit.solution.copy()
        solution = solution if extensions is None else extensions.journalled(solution)
        problem = audit.problem._replace(bounded=False, limit=audit.problem.move_limit)
        self._audit = Audit(audit.state, problem, solution, audit.priorities)
        self._masks, self._extensions, self._diagnosed = masks, extensions, 0

    def refusals_of(self, row: int) -> dict[str, Any]:
        """Return the diagnosis of a row, and the rules that it gives up; empty if some node is open to it."""
        problem, solution = self._audit.problem, self._audit.solution
        node = int(solution.node[row])
        move_row(problem, solution, row, NOWHERE)
        refusals = self._refusals_of(row)
        move_row(problem, solution, row, node)
        return refusals

    def _refusals_of(self, row: int) -> dict[str, Any]:
        """Return the same for a row that is taken off its node."""
        problem, solution = self._audit.problem, self._audit.solution
        if self._extensions is None and _is_open(problem, solution, self._masks[-1], row):
            return {}
        if self._diagnosed >= MOST_DIAGNOSED:
            refused = np.full(len(problem.limit), NO_REFUSAL)
            find_refusals(problem, solution, self._masks[-1], row, refused)
            rules, nodes = np.unique(refused[refused != NO_REFUSAL], return_counts=True)
            counts = zip(rules.tolist(), nodes.tolist(), strict=True)
            return {"diagnosis": tuple(Refused(Rule(rule).name.lower(), count) for rule, count in counts)}
        self._diagnosed += 1
        unplaced = unplaced_row(self._audit, row, self._masks, None, self._extensions)
        return {"diagnosis": unplaced.diagnosis, "given_up": unplaced.given_up} if not unplaced.fitting else {}


@kernel
def _is_open(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Return whether no enforced rule refuses `row`, which has no node, on some node."""
    for target in problem.targets:
        if refusal(problem, solution, enforced, proposed(solution, row, target, NOWHERE)) == NO_REFUSAL:
            return True
    return False
