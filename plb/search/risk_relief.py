"""Relief of the nodes at risk: the few moves that avoid the most violations (docs/rebalancing.md).

The node that expects the most violations (`plb.energy.soft_violations`) is relieved first. Of its replicas, the one
whose departure avoids most is tried first; most of the others then need not be evaluated.
Exchanges are tried where no move is worth its cost. Nodes for which nothing is worth its cost stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import Stream, kernel, uniform, working_time
from plb.energy import movement
from plb.energy.soft_violations import LEAST_WORTH, SoftCount, violations_with
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, GENERATED, REACHED_MONTE_CARLO, SCORED, refusal
from plb.model.rules import NO_REFUSAL
from plb.search.annealing.move_generation import leaves_origin
from plb.search.budget import Budget, EndReason
from plb.search.result import Annealed, new_tally
from plb.state.arrays import TENTHS, Problem, Proposal, Solution, are_siblings, proposed

EXCHANGES = 5_000
"""Largest number of exchanges that are drawn for a node; fewer are all tried."""


class Limits(NamedTuple):
    """What bounds a relief besides the rules."""

    most: int
    """Largest number of rows that may be displaced."""
    enforced: int
    """Bit mask over `Rule`."""
    proposals: int
    """Largest number of proposals that may be generated."""


class Movable(NamedTuple):
    """The replicas that may move."""

    rows: Int
    here: Int
    """Scratch of the same length: the rows on one node, those first whose departure avoids most."""
    gains: Int
    """Scratch of the same length: units that the node loses with each of them."""
    limits: Limits
    """Bounds of the relief."""


class Offer(NamedTuple):
    """A proposal and what it is worth, in moves, after its cost."""

    proposal: Proposal
    worth: float
    """Price of the avoided violations, less the cost of the moves."""


def relieve_nodes_at_risk(
    problem: Problem,
    solution: Solution,
    count: SoftCount,
    limits: Limits,
    seed: np.random.SeedSequence,
    budget: Budget,
) -> Annealed:
    """Move replicas off the nodes at risk, as long as that avoids more than it costs and the budget lasts.

    `count` has the expected violations of each node and is kept current. Parents of an affinity stay, as their children
    would have to follow.
    """
    rows = np.flatnonzero(problem.movable & (solution.node != NOWHERE) & (problem.first_child == NOWHERE))
    movable = Movable(rows, rows.copy(), rows.copy(), limits)
    rng, tally, deadline = Stream(seed), new_tally(), budget.deadline(working_time(), 1.0)
    accepted, end = -1, EndReason.CONVERGED
    while end is EndReason.CONVERGED and tally[ACCEPTED] != accepted:  # moves may make room for nodes without one
        accepted = int(tally[ACCEPTED])
        stuck = count.violations * count.price <= count.least_cost
        while end is EndReason.CONVERGED and _relieve_riskiest(problem, solution, count, movable, stuck, rng, tally):
            if deadline is not None and working_time() >= deadline:
                end = EndReason.OUT_OF_TIME
            elif tally[GENERATED] >= limits.proposals:
                end = EndReason.BUDGET_OF_PROPOSALS
    return Annealed(float(present_energy(problem, solution)), tally, end)


@kernel
def _relieve_riskiest(
    problem: Problem, solution: Solution, count: SoftCount, movable: Movable, stuck: Bool, rng: Stream, tally: Int
) -> bool:
    """Make the best move of the riskiest node, or mark it in `stuck`, (N,); return whether there was such a node.

    The solution, `count` and `tally` change with the move.
    """
    node = _riskiest(count, stuck)
    if node == NOWHERE:
        return False
    best = _best_offer(problem, solution, count, movable, node, rng, tally)
    stuck[node] = best.worth <= LEAST_WORTH
    if not stuck[node]:
        apply_proposal(problem, solution, best.proposal)
        tally[ACCEPTED] += 1
        for changed in (node, best.proposal.target):
            count.violations[changed] = violations_with(problem, solution, count, changed, NOWHERE, NOWHERE)
    return True


@kernel
def _riskiest(count: SoftCount, stuck: Bool) -> int:
    """Return the node that expects the most violations among nodes not in `stuck`, (N,), or NOWHERE if none does."""
    riskiest, most = NOWHERE, 0
    for node in range(stuck.shape[0]):
        if not stuck[node] and count.violations[node] > most:
            riskiest, most = node, count.violations[node]
    return riskiest


@kernel
def _best_offer(
    problem: Problem, solution: Solution, count: SoftCount, movable: Movable, node: int, rng: Stream, tally: Int
) -> Offer:
    """Return the move of a replica of `node` that is worth most after its cost, or else the best exchange found."""
    best = Offer(Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE), LEAST_WORTH)
    rows = _list_rows_on(problem, solution, count, movable, node)
    first, targets = int(uniform(rng) * problem.targets.shape[0]), problem.targets.shape[0]
    for place in range(rows):
        row, gain = movable.here[place], movable.gains[place]
        for step in range(targets):
            if gain * count.price <= best.worth:
                break  # nor is any later row worth more
            target = problem.targets[(first + step) % targets]
            best = _better(
                problem, solution, count, movable, best, proposed(solution, row, target, NOWHERE), gain, tally
            )
    if best.worth > LEAST_WORTH or not _may_exchange(count, node):
        return best
    pairs = rows * movable.rows.shape[0]
    for number in range(min(pairs, EXCHANGES)):
        pair = number if pairs <= EXCHANGES else int(uniform(rng) * pairs)
        place, partner = pair % rows, movable.rows[pair // rows]
        proposal = proposed(solution, movable.here[place], solution.node[partner], partner)
        best = _better(problem, solution, count, movable, best, proposal, movable.gains[place], tally)
    return best


@kernel
def _may_exchange(count: SoftCount, node: int) -> bool:
    """Return whether avoiding all violations of `node` and of another node is worth the cheapest exchange."""
    most = 0
    for partner_node in range(count.violations.shape[0]):
        if partner_node != node:
            most = max(most, count.violations[partner_node])
    return bool((count.violations[node] + most) * count.price > count.least_cost)


@kernel
def _list_rows_on(problem: Problem, solution: Solution, count: SoftCount, movable: Movable, node: int) -> int:
    """Write the movable rows on `node` to `movable.here` and `gains`, by descending gain; return their number."""
    number = 0
    for row in movable.rows:
        if solution.node[row] == node:
            gain = count.violations[node] - violations_with(problem, solution, count, node, NOWHERE, row)
            place = number
            while place > 0 and movable.gains[place - 1] < gain:
                movable.here[place], movable.gains[place] = movable.here[place - 1], movable.gains[place - 1]
                place -= 1
            movable.here[place], movable.gains[place] = row, gain
            number += 1
    return number


@kernel
def _better(
    problem: Problem,
    solution: Solution,
    count: SoftCount,
    movable: Movable,
    best: Offer,
    proposal: Proposal,
    gain: int,
    tally: Int,
) -> Offer:
    """Return the proposal if it is allowed and worth more than `best`, else `best`; cheap bounds come first.

    `gain`: units of expected violations that the source node loses with the row.
    """
    row, target, partner, node = proposal
    if tally[GENERATED] >= movable.limits.proposals:
        return best
    tally[GENERATED] += 1
    most = gain if partner == NOWHERE else gain + count.violations[target]
    if target == node or most * count.price <= best.worth or _is_no_change(problem, row, partner):
        return best
    cost = (movement.after(problem, solution, proposal) - solution.totals.movement) / TENTHS
    if most * count.price - cost <= best.worth or _displaces_too_many(problem, solution, movable, proposal):
        return best
    tally[REACHED_MONTE_CARLO] += 1
    avoided = gain + count.violations[target] - violations_with(problem, solution, count, target, row, partner)
    if partner != NOWHERE and avoided * count.price - cost > best.worth:
        avoided -= violations_with(problem, solution, count, node, partner, row) - (count.violations[node] - gain)
    worth = avoided * count.price - cost
    if worth <= best.worth:
        return best
    refused = refusal(problem, solution, movable.limits.enforced, proposal)
    if refused != NO_REFUSAL:
        tally[FIRST_RULE + refused] += 1
        return best
    tally[SCORED] += 1
    return Offer(proposal, worth)


@kernel
def _is_no_change(problem: Problem, row: int, partner: int) -> bool:
    """Return whether `row` and `partner` (or NOWHERE) are siblings of one role: an exchange changes only names."""
    return partner != NOWHERE and problem.role[row] == problem.role[partner] and are_siblings(problem, row, partner)


@kernel
def _displaces_too_many(problem: Problem, solution: Solution, movable: Movable, proposal: Proposal) -> bool:
    """Return whether a proposal would displace more rows than may be."""
    displaced = solution.totals.displaced + leaves_origin(problem, solution, proposal.row)
    if proposal.partner != NOWHERE:
        displaced += leaves_origin(problem, solution, proposal.partner)
    return bool(displaced > movable.limits.most)
