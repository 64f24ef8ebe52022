"""The result of annealing, placement and repair, and its translation into moves in an executable order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.energy.terms import TERM_NAMES
from plb.evaluation.proposals import (
    ACCEPTED,
    FIRST_RULE,
    FIRST_TERM,
    GENERATED,
    REACHED_MONTE_CARLO,
    SCORED,
    TALLY_SIZE,
    Tally,
)
from plb.model.move import Reason
from plb.model.outcome import Proposals
from plb.model.plan import KINDS, PlanMoves
from plb.model.role import PRIMARY, SECONDARY
from plb.model.rules import Rule
from plb.search.annealing.neighbourhoods import Neighbourhoods, kinds_of
from plb.search.budget import EndReason
from plb.search.extensions import Extensions
from plb.search.move_order import Steps, executable_order
from plb.search.transactions import NO_ROWS
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS, Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.move_checks import ADD, DROP, MOVE, SWAP

RULE_NAMES = tuple(rule.name.lower() for rule in Rule)
"""Names of the rules, in the order of the tally."""
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


@attrs.frozen(eq=False)
class Search:
    """What a search begins with; it changes `solution`."""

    problem: Problem
    solution: Solution
    config: PlbConfig
    extensions: Extensions | None = None
    """None: the engine has none."""
    others: Int = NO_ROWS
    """Rows that an earlier search may have placed or dropped."""


def proposals_of(tally: Tally, larger_steps: Proposals) -> Proposals:
    """Return the counts of a tally and of steps in larger neighbourhoods as `Proposals`; zeros are left out by name."""
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
) -> PlanMoves:
    """Return the moves of `rows` (ascending, not on their origins) in an executable order; `reasons`: by row."""
    is_gone = solution.node[rows] == NOWHERE
    row, partner = executable_order(problem, solution, steps_to(problem, solution, rows[~is_gone]))
    is_new = problem.origin[row] == NOWHERE
    kind = np.where(partner != NOWHERE, _NUMBER[SWAP], np.where(is_new, _NUMBER[ADD], _NUMBER[MOVE]))
    dropped = rows[is_gone]
    row = np.concatenate([dropped, row])
    partner = np.concatenate([np.full(len(dropped), NOWHERE), partner])
    kind = np.concatenate([np.full(len(dropped), _NUMBER[DROP]), kind])
    swap = kind == _NUMBER[SWAP]
    cost = np.where(kind == _NUMBER[MOVE], problem.move_cost[row], np.where(swap, problem.swap_cost, problem.add_cost))
    moved = row.tolist()
    reason = [reasons[index] for index in moved]
    for position in np.flatnonzero(swap).tolist():
        if reason[position].node is None:  # the primary's reason counts, unless only the secondary's names a node
            reason[position] = reasons[int(partner[position])]
    return PlanMoves(
        kind=kind,
        partition=[state.row_partition[index] for index in moved],
        role=problem.role[row],
        source=_names(state, problem.origin[row]),
        target=_names(state, solution.node[row]),
        reason=reason,
        cost=cost / TENTHS,
        row=row,
    )


def _names(state: ClusterState, nodes: Int) -> list[str | None]:
    """Return the names of `nodes`, (n,) indices; None for NOWHERE."""
    return [None if node == NOWHERE else state.nodes[node].name for node in nodes.tolist()]


def steps_to(problem: Problem, solution: Solution, rows: Int) -> Steps:
    """Return the steps of placed `rows`, (m,), from their origins; primary and secondary that exchanged nodes swap."""
    partner = np.full(len(rows), NOWHERE)
    _find_partners(problem, solution, rows, partner)
    if (partner == NOWHERE).all():
        return Steps(rows, partner)
    is_first = ~np.isin(rows, partner[partner != NOWHERE])
    return Steps(rows[is_first], partner[is_first])


@kernel
def _find_partners(problem: Problem, solution: Solution, rows: Int, partner: Int) -> None:
    """Write to `partner`, (m,), the secondary with which each primary of `rows`, (m,), has exchanged nodes."""
    for index in range(rows.shape[0]):
        row = rows[index]
        if problem.origin[row] == NOWHERE or problem.role[row] != PRIMARY:
            continue
        sibling = problem.sibling[row]
        while sibling != row:
            crossed = solution.node[sibling] == problem.origin[row] and solution.node[row] == problem.origin[sibling]
            if crossed and problem.role[sibling] == SECONDARY and not problem.leaving[sibling]:
                partner[index] = sibling
                break
            sibling = problem.sibling[sibling]


def larger_steps_of(names: Sequence[str], chains: Iterable[Neighbourhoods]) -> Proposals:
    """Return the steps of all `chains` by neighbourhood; `names`: the configured larger neighbourhoods, in order."""
    name_of = dict(zip(kinds_of(names), names, strict=True))
    named_chains = [(chain, [name_of[kind] for kind in chain.kind[1:].tolist()]) for chain in chains if len(chain.part)]
    steps = (
        Proposals(
            tried_by_neighbourhood=dict(zip(names_in_chain, neighbourhoods.tried[1:].tolist(), strict=True)),
            accepted_by_neighbourhood=dict(zip(names_in_chain, neighbourhoods.accepted[1:].tolist(), strict=True)),
        )
        for neighbourhoods, names_in_chain in named_chains
    )
    return sum(steps, Proposals())


@attrs.frozen(eq=False)
class Annealed:
    """The statistics of a search, which has changed the solution that it was given to its result."""

    energy: float
    """The energy of the result; where chains annealed, including extension terms."""
    tally: Tally
    """(TALLY_SIZE,) number of proposals by outcome."""
    end_reason: EndReason
    """Why the search ended."""
    temperature: float | None = None
    """The temperature at the end of the chain with the best result, in units of the energy; None: no chain ran."""
    larger_steps: Proposals = attrs.field(factory=Proposals)
    """Steps tried and accepted in each larger neighbourhood that was searched; all other counts are 0."""


def new_tally() -> Tally:
    """Return a tally of zeros, (TALLY_SIZE,)."""
    return np.zeros(TALLY_SIZE, np.int64)
