"""Replicas that a plan leaves on nodes that have to be emptied, and why each of them stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE
from plb.constraints.move_budgets import budget_that_holds
from plb.constraints.node import rows_to_drain
from plb.evaluation.delta import move_row
from plb.model.rules import NO_REFUSAL, Rule
from plb.model.unplaced import Undrained
from plb.planning.audit import Audit
from plb.planning.diagnosis import diagnose_rule, unplaced_row
from plb.planning.immovable import why_immovable
from plb.planning.service_domains import ServiceDomain
from plb.search.extensions import Extensions


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
    trial: Audit | None = None
    for row in rows_to_drain(problem, solution):
        if domain is not None and int(problem.service[row]) not in domain.services:
            continue
        budget = budget_that_holds(problem, solution, row)
        if not problem.repairable[row]:
            yield _staying(audit, row, immovable=why_immovable(audit.state, problem, row))
        elif budget != NO_REFUSAL:
            yield _staying(audit, row, diagnosis=(diagnose_rule(audit, row, Rule(budget), every),))
        else:
            trial = trial or _trial_of(audit, extensions)
            yield _refused(trial, row, masks, extensions)


def _staying(audit: Audit, row: int, **why: Any) -> Undrained:
    return Undrained(
        partition=audit.state.row_partition[row],
        role=audit.role_of(row),
        node=audit.node_of(row),
        nodes=len(audit.state.nodes),
        **why,
    )


def _trial_of(audit: Audit, extensions: Extensions | None) -> Audit:
    """Return a copy for replicas that leave their nodes, which may not use what new replicas alone may."""
    solution = audit.solution.copy()
    solution = solution if extensions is None else extensions.journalled(solution)
    problem = audit.problem._replace(bounded=False, limit=audit.problem.move_limit)
    return Audit(audit.state, problem, solution, audit.priorities)


def _refused(trial: Audit, row: int, masks: Sequence[int], extensions: Extensions | None) -> Undrained:
    """Return which rules refuse the other nodes."""
    node = int(trial.solution.node[row])
    move_row(trial.problem, trial.solution, row, NOWHERE)
    refused = unplaced_row(trial, row, masks, None, extensions)
    move_row(trial.problem, trial.solution, row, node)
    return _staying(trial, row, diagnosis=refused.diagnosis, given_up=refused.given_up)
