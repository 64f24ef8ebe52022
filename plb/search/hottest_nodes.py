"""Relief of the hottest nodes: the last moves of a balancing that may make only few.

Few moves lower the imbalance most where large replicas leave nodes that are full in several metrics. A node that is
full in one metric only may then stay as it is. So a share of the moves is kept for the nodes with the highest
utilisation (docs/search.md, What balancing chooses).
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import Stream, kernel, uniform
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, GENERATED, REJECTED, Tally, evaluate, refusal
from plb.model.rules import NO_REFUSAL, RuleMask
from plb.search.budget import PROPOSALS_A_SECOND, Budget, proposals_of
from plb.settings.config import PlbConfig
from plb.settings.search import Cooling
from plb.state.arrays import Problem, Proposal, Solution, proposed

FEW_MOVES = 0.1
"""Share of the movable replicas below which a limit of moves may leave the hottest nodes as they are."""
HOT_SHARE = 0.15
"""Share of the moves that is kept for the hottest nodes, and the largest share of the proposals and of the time."""
DRAWS = 1000
"""Proposals for each move."""


@attrs.frozen
class Relief:
    """What a balancing search leaves for the relief of the hottest nodes."""

    moves: int
    """Number of moves of the plan that the search may not use."""
    proposals: int
    """Number of proposals of the budget that the search may not use."""

    def held_back(self, problem: Problem, budget: Budget) -> tuple[Problem, Budget]:
        """Return the problem and the budget that remain for the search, less the moves and proposals of the relief."""
        seconds = self.proposals / PROPOSALS_A_SECOND
        search_budget = attrs.evolve(
            budget,
            proposals=None if budget.proposals is None else budget.proposals - self.proposals,
            seconds=None if budget.seconds is None else max(0.0, budget.seconds - seconds),
            until=None if budget.until is None else budget.until - seconds,
        )
        return problem._replace(max_moves=problem.max_moves - self.moves), search_budget


def relief_of(problem: Problem, config: PlbConfig, budget: Budget, movable: int, limit: int) -> Relief | None:
    """Return what the search leaves for the hottest nodes; None if it may move enough or cannot tell hot nodes.

    `movable`: number of replicas that may move; `limit`: largest number that balancing may displace.
    """
    packs = problem.defragmented.any() or problem.reserving.any()
    has_capacity = (problem.inverse_capacity[:, problem.metric_weight > 0.0] > 0.0).any()
    if config.cooling is not Cooling.BY_PRICE or limit >= FEW_MOVES * movable or packs or not has_capacity:
        return None
    moves = int(HOT_SHARE * min(limit, problem.max_moves))
    proposals = min(DRAWS * moves, int(HOT_SHARE * proposals_of(config, budget)))
    return Relief(moves, proposals) if 0 < moves <= proposals else None


class HotNodes(NamedTuple):
    """The nodes above a utilisation, and the replicas on these that may move."""

    level: float
    """Utilisation to which they are to be relieved."""
    nodes: Int
    """(H,)"""
    is_stuck: Bool
    """(H,) whether no move relieves the node."""
    rows: Int
    """The movable rows on the nodes, node by node."""
    first: Int
    """(H + 1,) position of the first row of each node in `rows`, and their number."""
    draws: int
    """Proposals for each move."""


def hot_nodes(problem: Problem, solution: Solution, rows: Int, relief: Relief) -> HotNodes:
    """Return the `relief.moves` most utilised nodes in service, with the replicas `rows`, (m,), that are on them."""
    utilisation = np.where(problem.counted, _utilisations(problem, solution), 0.0)
    order = np.argsort(-utilisation, kind="stable")
    nodes = order[: relief.moves]
    position = np.full(len(order), NOWHERE)
    position[nodes] = np.arange(len(nodes))
    position_of_row = position[solution.node[rows]]
    rows, position_of_row = rows[position_of_row != NOWHERE], position_of_row[position_of_row != NOWHERE]
    by_node = np.argsort(position_of_row, kind="stable")
    first = np.searchsorted(position_of_row[by_node], np.arange(len(nodes) + 1))
    level = float(utilisation[order[relief.moves]]) if relief.moves < len(order) else 0.0
    return HotNodes(
        level, nodes, np.zeros(len(nodes), np.bool_), rows[by_node], first, relief.proposals // relief.moves
    )


def _utilisations(problem: Problem, solution: Solution) -> Float:
    """Return the largest utilisation of each node over the balanced metrics, (N,): load over capacity."""
    balanced = problem.metric_weight > 0.0
    utilisation: Float = (solution.node_load * problem.inverse_capacity)[:, balanced].max(axis=1, initial=0.0)
    return utilisation


@kernel
def relieve(
    problem: Problem, solution: Solution, enforced: RuleMask, limit: int, hot: HotNodes, rng: Stream, tally: Tally
) -> None:
    """Move replicas off the hottest node while that lowers the energy; `limit`: largest number of displaced rows.

    The rules in `enforced` bind the moves. Nodes that no move relieves are marked in `hot`; `tally` counts proposals.
    """
    last_proposal = tally[GENERATED] + hot.draws * hot.nodes.shape[0]
    index = _hottest(problem, solution, hot)
    while index != NOWHERE and tally[GENERATED] + hot.draws <= last_proposal:
        proposal = _best_leave(problem, solution, enforced, limit, hot, index, rng, tally)
        if proposal.row == NOWHERE:
            hot.is_stuck[index] = True
        else:
            apply_proposal(problem, solution, proposal)
            tally[ACCEPTED] += 1
        index = _hottest(problem, solution, hot)


@kernel
def _hottest(problem: Problem, solution: Solution, hot: HotNodes) -> int:
    """Return the position in `hot.nodes` of the hottest node that is above the level and not stuck, or NOWHERE."""
    hottest, highest = NOWHERE, hot.level
    for index in range(hot.nodes.shape[0]):
        utilisation = utilisation_after(problem, solution, hot.nodes[index], NOWHERE, NOWHERE)
        if utilisation > highest and not hot.is_stuck[index]:
            hottest, highest = index, utilisation
    return hottest


@kernel
def utilisation_after(problem: Problem, solution: Solution, node: int, leaver: int, newcomer: int) -> float:
    """Return the largest utilisation of `node` over the balanced metrics after one row leaves and another arrives.

    `leaver`, `newcomer`: these rows, or NOWHERE for none.
    """
    highest = 0.0
    for metric in range(problem.load.shape[1]):
        if problem.metric_weight[metric] > 0.0:
            change = problem.load[newcomer, metric] - problem.load[leaver, metric]
            utilisation = (solution.node_load[node, metric] + change) * problem.inverse_capacity[node, metric]
            highest = max(highest, utilisation)
    return highest


@kernel
def _best_leave(
    problem: Problem,
    solution: Solution,
    enforced: RuleMask,
    limit: int,
    hot: HotNodes,
    index: int,
    rng: Stream,
    tally: Tally,
) -> Proposal:
    """Return the best of random moves off the hot node at position `index`, or all NOWHERE if none is better.

    The best move has the lowest energy of the moves after which the node is at most at the level, or else leaves the
    node least hot. It lowers the energy, displaces at most `limit` rows, and satisfies the `enforced` rules; `tally`
    counts.
    """
    node, rows = hot.nodes[index], hot.rows[hot.first[index] : hot.first[index + 1]]
    best = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    least_utilisation = utilisation_after(problem, solution, node, NOWHERE, NOWHERE)
    present = lowest_energy = present_energy(problem, solution)
    for _ in range(hot.draws if rows.shape[0] > 0 else 0):
        row = rows[int(uniform(rng) * rows.shape[0])]
        target = problem.targets[int(uniform(rng) * problem.targets.shape[0])]
        tally[GENERATED] += 1
        utilisation = max(hot.level, utilisation_after(problem, solution, node, row, NOWHERE))
        if solution.node[row] != node or target == node or utilisation > least_utilisation:
            continue
        if utilisation_after(problem, solution, target, NOWHERE, row) > utilisation:
            continue
        if solution.node[row] == problem.origin[row] and solution.totals.displaced >= limit:
            continue
        proposal = proposed(solution, row, target, NOWHERE)
        rule = refusal(problem, solution, enforced, proposal)
        if rule != NO_REFUSAL:
            tally[FIRST_RULE + rule] += 1
            continue
        highest = lowest_energy if utilisation == least_utilisation else present
        after = evaluate(problem, solution, highest, proposal, tally)
        if after != REJECTED and after < present:
            best, least_utilisation, lowest_energy = proposal, utilisation, after
    return best
