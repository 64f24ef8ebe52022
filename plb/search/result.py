"""The result of annealing, placement and repair, and its translation into moves in an executable order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.energy.terms import TERM_NAMES
from plb.evaluation.proposals import (
    ACCEPTED,
    FIRST_RULE,
    FIRST_TERM,
    GENERATED,
    REACHED_MONTE_CARLO,
    SCORED,
    TALLY_SIZE,
)
from plb.model import Role
from plb.model.move import Move, MoveKind, Reason
from plb.model.outcome import Proposals
from plb.model.role import ROLES
from plb.model.rules import Rule
from plb.search.budget import EndReason
from plb.search.move_order import executable_order
from plb.search.neighbourhoods import Neighbourhoods
from plb.state.arrays import TENTHS, Problem, Solution, siblings_of
from plb.state.cluster_state import ClusterState
from plb.state.move_checks import ADD, DROP, MOVE, SWAP

RULE_NAMES = tuple(rule.name.lower() for rule in Rule)
"""Names of the rules, in the order of the tally."""
_PRIMARY, _SECONDARY = int(Role.PRIMARY), int(Role.SECONDARY)


def proposals_of(tally: Int, larger_steps: Proposals) -> Proposals:
    """Return a tally, (TALLY_SIZE,), and the steps in larger neighbourhoods as `Proposals`."""
    counts = tally.tolist()
    tried, accepted = larger_steps.tried_by_neighbourhood, larger_steps.accepted_by_neighbourhood
    rules = zip(RULE_NAMES, counts[FIRST_RULE:FIRST_TERM], strict=True)
    terms = zip(TERM_NAMES, counts[FIRST_TERM:], strict=True)
    return Proposals(
        generated=counts[GENERATED],
        scored=counts[SCORED],
        reached_monte_carlo=counts[REACHED_MONTE_CARLO],
        accepted=counts[ACCEPTED],
        refused_by_rule={name: count for name, count in rules if count},
        rejected_by_term={name: count for name, count in terms if count},
        tried_by_neighbourhood={name: count for name, count in tried.items() if count},
        accepted_by_neighbourhood={name: count for name, count in accepted.items() if count},
    )


def moves_of(
    state: ClusterState, problem: Problem, solution: Solution, rows: Int, reasons: Mapping[int, Reason]
) -> list[Move]:
    """Return the moves that lead from the origins to `solution`, in an executable order.

    Parameters
    ----------
    rows
        The rows that are not on their origins, ascending.
    reasons
        Reason of each row's move.
    """
    changed = rows[solution.node[rows] != NOWHERE]
    swaps = _swapped(problem, solution, changed)
    partners = set(swaps.values())
    steps = [(row, swaps.get(row, NOWHERE)) for row in changed.tolist() if row not in partners]
    moves = []
    for row, other in executable_order(problem, solution, steps):
        if other != NOWHERE:
            reason = _reason_of_swap(reasons[row], reasons[other])
            moves.append(_move(state, problem, solution, row, SWAP, reason))
        else:
            kind = ADD if problem.origin[row] == NOWHERE else MOVE
            moves.append(_move(state, problem, solution, row, kind, reasons[row]))
    gone = rows[solution.node[rows] == NOWHERE].tolist()
    drops = [_move(state, problem, solution, row, DROP, reasons[row]) for row in gone]
    return drops + moves


def _reason_of_swap(primary: Reason, secondary: Reason) -> Reason:
    """Return the reason of a swap: that of the primary if it names a node, else that of the secondary."""
    return secondary if primary.node is None else primary


def _swapped(problem: Problem, solution: Solution, changed: Int) -> dict[int, int]:
    """Return the primaries that exchanged nodes with a secondary of their partition, with that secondary."""
    pairs = {}
    moved = changed[(problem.origin[changed] != NOWHERE) & (problem.role[changed] == _PRIMARY)]
    for primary in moved.tolist():
        for other in siblings_of(problem, primary):
            crossed = (
                solution.node[other] == problem.origin[primary] and solution.node[primary] == problem.origin[other]
            )
            if crossed and problem.role[other] == _SECONDARY and not problem.leaving[other]:
                pairs[primary] = other
                break
    return pairs


def _move(state: ClusterState, problem: Problem, solution: Solution, row: int, kind: MoveKind, reason: Reason) -> Move:
    source = int(problem.origin[row])
    target = int(solution.node[row])
    of_role = problem.swap_cost if kind is SWAP else problem.add_cost
    cost = int(problem.move_cost[row]) if kind is MOVE else of_role
    return Move(
        kind=kind,
        partition=state.row_partition[row],
        role=ROLES[problem.role[row]],
        source=None if source == NOWHERE else state.nodes[source].name,
        target=None if target == NOWHERE else state.nodes[target].name,
        reason=reason,
        cost=cost / TENTHS,
        index=row,
    )


def larger_steps_of(names: Sequence[str], chains: Iterable[Neighbourhoods]) -> Proposals:
    """Return the steps of chains in the larger neighbourhoods with these names."""
    searched = [one for one in chains if len(one.part)]
    steps = (
        Proposals(
            tried_by_neighbourhood=dict(zip(names, one.tried[1:].tolist(), strict=True)),
            accepted_by_neighbourhood=dict(zip(names, one.accepted[1:].tolist(), strict=True)),
        )
        for one in searched
    )
    return sum(steps, Proposals())


@attrs.frozen(eq=False)
class Annealed:
    """The statistics of a search, which has changed the solution that it was given to its result.

    Parameters
    ----------
    energy
        The energy of the result; where chains annealed, including extension terms.
    tally
        (TALLY_SIZE,) number of proposals by outcome.
    end_reason
        Why the search ended.
    temperature
        The temperature at the end of the chain with the best result, in units of the energy; None: no chain ran.
    larger_steps
        Steps tried and accepted in each larger neighbourhood that was searched; all other counts are 0.
    """

    energy: float
    tally: Int
    end_reason: EndReason
    temperature: float | None = None
    larger_steps: Proposals = attrs.field(factory=Proposals)


def new_tally() -> Int:
    """Return a tally of zeros, (TALLY_SIZE,)."""
    return np.zeros(TALLY_SIZE, np.int64)
