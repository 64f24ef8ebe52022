"""Why a replica found no place: every node at the first rule it fails, with the numbers that it compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from plb.array_types import Int
from plb.constraints.description import ExcludedNodes
from plb.constraints.named_solution import NamedSolution
from plb.constraints.rules import RULES_IN_ORDER, description_of
from plb.evaluation.proposals import find_refusals
from plb.model.rules import NO_REFUSAL, Rule
from plb.model.unplaced import Refused, RuledOut, Together, Unplaced
from plb.search.extensions import Extensions


def unplaced_row(
    named: NamedSolution,
    row: int,
    masks: Sequence[int],
    together: Together | None = None,
    extensions: Extensions | None = None,
) -> Unplaced:
    """Return why `row`, which has no place in the solution, found none.

    Parameters
    ----------
    masks
        Rules that placement enforced, from all to those of the last attempt.
    together
        Result of an all-or-nothing placement.
    extensions
        With the extension constraints, which are checked last.
    """
    state, problem, solution = named.state, named.problem, named.solution
    given_up = masks[0] & ~masks[-1]
    nodes = len(state.nodes)
    refused = np.full(nodes, NO_REFUSAL)
    find_refusals(problem, solution, masks[-1], row, refused)
    diagnosis = [
        diagnose_rule(named, row, Rule(int(rule)), np.flatnonzero(refused == rule))
        for rule in np.unique(refused[refused != NO_REFUSAL])
    ]
    if extensions is not None:
        left = np.flatnonzero(refused == NO_REFUSAL)
        by_extensions = Counter(extensions.refused_nodes(problem, solution, row, left).values())
        diagnosis += [Refused(name, count) for name, count in by_extensions.items()]
    return Unplaced(
        partition=state.row_partition[row],
        role=named.role_of(row),
        nodes=nodes,
        diagnosis=tuple(diagnosis),
        given_up=tuple(
            one.rule.name.lower() for one in RULES_IN_ORDER if given_up >> one.rule & 1 and one.concerns(problem, row)
        ),
        together=together,
    )


def diagnose_rule(named: NamedSolution, row: int, rule: Rule, nodes: Int) -> RuledOut:
    """Return the nodes that a rule excludes for `row`, which is not placed in the solution.

    Parameters
    ----------
    nodes
        Indices of the nodes that it rules out.
    """
    return description_of(rule).diagnosis(ExcludedNodes(named, row, rule, nodes))
