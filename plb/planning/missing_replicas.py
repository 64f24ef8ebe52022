"""Missing replicas: those with an all-or-nothing placement, and why replicas were not placed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import find_refusals
from plb.model.rules import NO_REFUSAL
from plb.model.unplaced import Declined, Together, Unplaced
from plb.planning.audit import Audit
from plb.planning.diagnosis import unplaced_row
from plb.planning.rule_priorities import placement_masks
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState


def placed_all_or_nothing(state: ClusterState, problem: Problem, rows: Sequence[int]) -> Int:
    """Return for each of `rows` the index of its partition if the placement is all-or-nothing, else NOWHERE.

    The service requests that, or `partially_place_services` is off, which holds for all partitions without
    replicas.
    """
    found = np.full(len(rows), NOWHERE)
    for index, row in enumerate(rows):
        record = state.partitions[state.row_partition[row]]
        all_or_nothing = state.feasibility_class_of(record.service).expression.places_all_or_nothing
        requested = all_or_nothing or not state.config.partially_place_services
        if requested and all(problem.origin[other] == NOWHERE for other in record.rows):
            found[index] = record.rows[0]
    return found


def unplaced_of(audit: Audit, missing: Sequence[int], extensions: Extensions | None) -> Iterator[Unplaced]:
    """Yield why each of `missing` without a node was not placed.

    For an all-or-nothing placement, the replicas are evaluated as if they were placed in turn.

    Parameters
    ----------
    audit
        The result, with the problem of placement.
    extensions
        What users add, or None.
    """
    state, problem, solution = audit.state, audit.problem, audit.solution
    left = [row for row in missing if solution.node[row] == NOWHERE]
    if not left:
        return
    masks = placement_masks(state.config)
    groups = zip(placed_all_or_nothing(state, problem, left).tolist(), left, strict=True)
    for group, members in groupby(groups, key=itemgetter(0)):
        rows = [row for _, row in members]
        if group == NOWHERE:
            for row in rows:
                yield _with_declined(unplaced_row(audit, row, masks, None, extensions), row, extensions)
            continue
        in_turn = _fill_in_turn(problem, solution, rows, masks[-1], extensions)
        filled = Audit(state, problem, in_turn, audit.priorities)
        found = [row for row in rows if in_turn.node[row] != NOWHERE]
        together = Together(len(rows), len(found))
        for row in rows:
            seen = audit if row in found else filled
            yield _with_declined(unplaced_row(seen, row, masks, together, extensions), row, extensions)


def _with_declined(unplaced: Unplaced, row: int, extensions: Extensions | None) -> Unplaced:
    """Return why a row found no place, with the nodes on which only the policy would rather not place it."""
    if extensions is None or extensions.policy is None or row not in extensions.declined or not unplaced.fitting:
        return unplaced
    declined = Declined(extensions.policy.name, unplaced.fitting)
    return attrs.evolve(unplaced, diagnosis=(*unplaced.diagnosis, declined))


def _fill_in_turn(
    problem: Problem, start: Solution, rows: Sequence[int], enforced: int, extensions: Extensions | None
) -> Solution:
    """Return `start` with each of `rows`, one after the other, on the first feasible node.

    Rules are the enforced ones, and the extension constraints.
    """
    solution = start.copy()
    refused = np.full(len(problem.limit), NO_REFUSAL)
    for row in rows:
        find_refusals(problem, solution, enforced, row, refused)
        fitting = np.flatnonzero(refused == NO_REFUSAL)
        if extensions is not None:
            fitting = np.setdiff1d(fitting, list(extensions.refused_nodes(problem, solution, row, fitting)))
        if len(fitting):
            move_row(problem, solution, row, int(fitting[0]))
    return solution
