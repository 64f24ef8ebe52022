"""Random proposals: moves, swaps and exchanges, also biased to what balances, or between similar replicas."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int, Int32
from plb.compiler import Peek, Stream, by_pointer, fetch, kernel, uniform
from plb.energy.imbalance import counted_as
from plb.energy.terms import cost_of_node
from plb.model.role import PRIMARY
from plb.model.rules import RuleMask
from plb.search.extension_kernels import ExtensionState, cost_in_terms
from plb.search.transactions import NO_ROWS, takes_place
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Proposal, Solution, are_siblings, proposed

BIASED_SAMPLES = 16
"""Largest number of samples of a replica or a node."""
LEAVING, ARRIVING = 1, -1
"""Signs of the load of a replica that leaves a node, or arrives there."""


@kernel
def replica_worth_moving(problem: Problem, solution: Solution, movable: Int, row: int, rng: Stream) -> int:
    """Return the first of `row` and random rows of `movable` that may balance a metric by leaving, or NOWHERE."""
    for _ in range(BIASED_SAMPLES):
        if _may_balance_any(problem, solution, row, solution.node[row], LEAVING):
            return row
        row = movable[int(uniform(rng) * movable.shape[0])]
    return NOWHERE


@kernel
def node_worth_reaching(problem: Problem, solution: Solution, row: int, rng: Stream) -> int:
    """Return a random target where replica `row` may balance a metric, or the node of `row` if none was found."""
    targets = problem.targets
    for _ in range(BIASED_SAMPLES):
        target = targets[int(uniform(rng) * targets.shape[0])]
        if _may_balance_any(problem, solution, row, target, ARRIVING):
            return int(target)
    return int(solution.node[row])


@kernel
def is_worth_swapping(problem: Problem, solution: Solution, row: int, partner: int) -> bool:
    """Return whether a swap of the roles of siblings `row` and `partner` may balance a metric on the primary's node."""
    primary = row if problem.role[row] == PRIMARY else partner
    secondary = partner if primary == row else row
    node = solution.node[primary]
    for metric in range(problem.load.shape[1]):
        leaving = problem.load[primary, metric] - problem.load[secondary, metric]
        if _may_balance(problem, solution, row, metric, node, leaving):
            return True
    return False


@kernel
def _may_balance_any(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> bool:
    """Return whether replica `row` may balance any metric at `node`; `sign`: LEAVING or ARRIVING."""
    for metric in range(problem.load.shape[1]):
        if _may_balance(problem, solution, row, metric, node, sign * problem.load[row, metric]):
            return True
    return False


@kernel
def _may_balance(problem: Problem, solution: Solution, row: int, metric: int, node: int, leaving_load: int) -> bool:
    """Return whether `leaving_load` quanta that leave `node` (below 0: arrive) may balance a metric for `row`."""
    if leaving_load == 0:
        return False
    if _packs_any(problem, metric):
        return True
    if problem.uneven[0, metric] and leaving_load * _above_mean(problem, solution, metric, node) > 0:
        return True
    local_domain = problem.local_of[problem.service[row]]
    is_uneven = local_domain != NOWHERE and problem.uneven[1 + local_domain, metric]
    return bool(is_uneven and leaving_load * _above_local_mean(problem, solution, local_domain, metric, node) > 0)


@kernel
def _packs_any(problem: Problem, metric: int) -> bool:
    """Return whether the metric calls for balancing over all services, and is packed or reserves nodes."""
    return bool(problem.uneven[0, metric] and (problem.defragmented[metric] or problem.reserving[metric]))


@kernel
def _above_mean(problem: Problem, solution: Solution, metric: int, node: int) -> int:
    """Return 1, 0 or -1: the load of `metric` on `node` is above, at or below the mean of the counted nodes."""
    load = counted_as(problem, node, metric, solution.node_load[node, metric])
    return _sign(load * problem.nodes_of_metric[metric] - solution.total[metric])


@kernel
def _above_local_mean(problem: Problem, solution: Solution, local_domain: int, metric: int, node: int) -> int:
    """Return 1, 0 or -1: the load of a local domain on `node`, of `metric`, is above, at or below its mean."""
    load = counted_as(problem, node, metric, solution.local_load[local_domain, node, metric])
    return _sign(load * problem.local_nodes[local_domain] - solution.local_total[local_domain, metric])


@kernel
def _sign(value: int) -> int:
    """Return 1, 0 or -1: the sign of `value`."""
    return 1 if value > 0 else (-1 if value < 0 else 0)


ROWS_IN_CACHE = 10_000
"""Up to this number of rows, the arrays of a search stay in the cache."""
_peek_first, _peek_second, _peek_third = Peek(0), Peek(1), Peek(2)
"""A proposal refused by a rule samples no more numbers; an evaluated one samples one number for its threshold."""
RETARGET_PROBABILITY = 0.4
"""Share of the proposals for a displaced replica that try another target."""
SUBSTITUTE_PROBABILITY = 0.3
"""Share that move another replica off the origin instead; the rest return the replica to its origin."""
NO_PARTNERS: Int32 = np.zeros((0, 0), np.int32)
COMPARED_ROWS = 3
"""Random rows of which the one on the costliest node begins a step in a larger neighbourhood."""


@by_pointer
class Choice(NamedTuple):
    """The proposals that a search may generate."""

    creation: Int
    """Rows of new replicas, whose target may change."""
    movable: Int
    """Rows of existing replicas that may move."""
    migrations: int
    """Largest number of displaced rows; 0: no row may move."""
    enforced: RuleMask
    """Rules that every proposal has to satisfy."""
    swap_probability: float
    """Share of swaps of roles among the proposals for replicas on their origins."""
    exchange_probability: float
    """Share of exchanges among these."""
    makes_spread_moves: bool = False
    """Whether siblings move where a proposal violates the spread over domains."""
    spare: int = 0
    """1: a parent may move although all `migrations` are used, because its children may return to it."""
    exchanges_of_moved: float = 0.0
    """Share of exchanges among the proposals for replicas that have moved."""
    similar_share: float = 0.0
    """Share of the exchanges with a replica of similar size."""
    similar: Int32 = NO_PARTNERS
    """(movable rows, P) the rows with the most similar load, the most similar first; empty without such exchanges."""
    place: Int = NO_ROWS
    """(M,) position of each row among the movable ones; empty without such exchanges."""
    larger_share: float = 0.0
    """Part of the budget for steps of several moves (`plb.search.annealing.neighbourhoods`)."""


def migration_slots(problem: Problem, start: Solution, share: float) -> int:
    """Return the number of replicas that a search may displace: `share` of the movable placed ones, rounded up."""
    return math.ceil(share * int((problem.movable & (start.node != NOWHERE)).sum()))


@kernel
def generate_proposal(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> Proposal:
    """Return a random proposal, with the row NOWHERE if none was possible; prefetch rows in a large cluster."""
    proposal = _random_proposal(problem, solution, choice, rng)
    if solution.node.shape[0] > ROWS_IN_CACHE:
        _fetch_for_energy(problem, proposal.row)
        first, second, third = _peek_first(rng), _peek_second(rng), _peek_third(rng)
        _fetch_for_rules(problem, solution, _likely_row(solution, choice, first, second))
        _fetch_for_rules(problem, solution, _likely_row(solution, choice, second, third))
    return proposal


@kernel
def _random_proposal(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> Proposal:
    """Return a random proposal for a uniformly sampled slot (docs/service-fabric.md, Proposals).

    Slots are the new rows, then the rows that may be displaced at once. A new replica changes its target, a displaced
    one returns or changes its target; an empty slot moves, swaps or exchanges. A search that only swaps undoes only
    swaps.
    """
    slot = int(uniform(rng) * (choice.creation.shape[0] + choice.migrations + choice.spare))
    if slot < choice.creation.shape[0]:
        row = choice.creation[slot]
        target = _random_of(problem.targets, rng)
        return proposed(solution, row, target, _new_sibling_on(problem, solution, row, target))
    slot -= choice.creation.shape[0]
    if slot < solution.totals.displaced:
        row = solution.displaced[slot]
        origin = problem.origin[row]
        if choice.swap_probability == 1.0:
            return proposed(solution, row, origin, _sibling_on(problem, solution, row, origin))
        draw = uniform(rng)
        if draw < choice.exchanges_of_moved:
            return _exchange(problem, solution, choice, row, rng)
        draw = (draw - choice.exchanges_of_moved) / (1.0 - choice.exchanges_of_moved)
        if draw < RETARGET_PROBABILITY:
            return proposed(solution, row, _random_of(problem.targets, rng), NOWHERE)
        if draw < RETARGET_PROBABILITY + SUBSTITUTE_PROBABILITY and choice.movable.shape[0] > 0:
            partner = _random_of(choice.movable, rng)
            if solution.node[partner] != origin or are_siblings(problem, row, partner):
                return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
            return proposed(solution, row, origin, partner)
        return proposed(solution, row, origin, _sibling_on(problem, solution, row, origin))
    row = _random_of(choice.movable, rng)
    if slot >= choice.migrations and problem.first_child[row] == NOWHERE:
        return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    draw = uniform(rng)
    if draw < choice.swap_probability:
        partner = _swap_partner(problem, row, rng)
        if problem.biased and partner != NOWHERE and not is_worth_swapping(problem, solution, row, partner):
            partner = NOWHERE
    elif draw < choice.swap_probability + choice.exchange_probability:
        return _exchange(problem, solution, choice, row, rng)
    elif problem.biased:
        row = replica_worth_moving(problem, solution, choice.movable, row, rng)
        if row == NOWHERE:
            return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
        return proposed(solution, row, node_worth_reaching(problem, solution, row, rng), NOWHERE)
    else:
        return proposed(solution, row, _random_of(problem.targets, rng), NOWHERE)
    if partner == NOWHERE:
        return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    return proposed(solution, row, solution.node[partner], partner)


@kernel
def _exchange(problem: Problem, solution: Solution, choice: Choice, row: int, rng: Stream) -> Proposal:
    """Return an exchange of the nodes of `row` and a random movable row of another partition; NOWHERE if impossible."""
    partner = _partner_of(choice, row, rng)
    displaced = solution.totals.displaced + leaves_origin(problem, solution, row)
    displaced += leaves_origin(problem, solution, partner)
    if displaced > choice.migrations or partner == row or are_siblings(problem, row, partner):
        return Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    return proposed(solution, row, solution.node[partner], partner)


@kernel
def leaves_origin(problem: Problem, solution: Solution, row: int) -> int:
    """Return 1 if replica `row` is on its origin, so that a move makes it one more displaced row, else 0."""
    return int(solution.node[row] == problem.origin[row])


@kernel
def _partner_of(choice: Choice, row: int, rng: Stream) -> int:
    """Return a random movable row or, in `choice.similar_share` of the draws, one of the most similar to `row`."""
    partners = choice.similar.shape[1]
    if partners == 0 or uniform(rng) >= choice.similar_share:
        return _random_of(choice.movable, rng)
    rank = int((partners + 1.0) ** uniform(rng)) - 1
    return int(choice.similar[choice.place[row], rank])


@kernel
def costly_row(
    problem: Problem, solution: Solution, choice: Choice, extension_state: ExtensionState, rng: Stream
) -> int:
    """Return the one of COMPARED_ROWS random movable rows on the node that costs most; a row without a node at once."""
    costliest = _random_of(choice.movable, rng)
    if solution.node[costliest] == NOWHERE:
        return costliest
    highest = _cost_by_all_terms(problem, solution, extension_state, solution.node[costliest])
    for _ in range(COMPARED_ROWS - 1):
        row = _random_of(choice.movable, rng)
        if solution.node[row] != NOWHERE:
            cost = _cost_by_all_terms(problem, solution, extension_state, solution.node[row])
            if cost > highest:
                costliest, highest = row, cost
    return costliest


@kernel
def _cost_by_all_terms(problem: Problem, solution: Solution, extension_state: ExtensionState, node: int) -> float:
    """Return what a node contributes to the energy by built-in and extension terms."""
    return cost_of_node(problem, solution, node) + cost_in_terms(problem, solution, extension_state, node)


@kernel
def _likely_row(solution: Solution, choice: Choice, slot_number: float, row_number: float) -> int:
    """Return the row of the next proposal if it is for an existing replica.

    `slot_number`, `row_number`: in [0, 1), the random numbers by which it would choose the slot and a movable row.
    """
    slot = int(slot_number * (choice.creation.shape[0] + choice.migrations + choice.spare)) - choice.creation.shape[0]
    if 0 <= slot < solution.totals.displaced:
        return int(solution.displaced[slot])
    if choice.movable.shape[0] == 0:
        return 0
    return int(choice.movable[int(row_number * choice.movable.shape[0])])


@kernel
def _fetch_for_rules(problem: Problem, solution: Solution, row: int) -> None:
    """Prefetch the entries of replica `row` that the rules read first, into the cache of the processor."""
    fetch(solution.node, row)
    fetch(problem.sibling, row)
    fetch(problem.origin, row)
    fetch(problem.kind, row)
    fetch(problem.feasibility_class, row)
    fetch(problem.service, row)


@kernel
def _fetch_for_energy(problem: Problem, row: int) -> None:
    """Prefetch the entries of replica `row` that capacity and energy read, into the cache of the processor."""
    fetch(problem.load, row)
    fetch(problem.peak_ceiling, row)
    fetch(problem.move_cost, row)


@kernel
def _random_of(values: Int, rng: Stream) -> int:
    """Return a random one of `values`, (n,) with n > 0."""
    return int(values[int(uniform(rng) * values.shape[0])])


@kernel
def _sibling_on(problem: Problem, solution: Solution, row: int, node: int) -> int:
    """Return the row of the sibling of replica `row` on `node`, or NOWHERE if there is none."""
    sibling = problem.sibling[row]
    while sibling != row:
        if solution.node[sibling] == node:
            return int(sibling)
        sibling = problem.sibling[sibling]
    return NOWHERE


@kernel
def _new_sibling_on(problem: Problem, solution: Solution, row: int, target: int) -> int:
    """Return the new sibling of replica `row` that is placed on `target`, or NOWHERE."""
    sibling = problem.sibling[row]
    while sibling != row:
        if solution.node[sibling] == target and problem.origin[sibling] == NOWHERE:
            return int(sibling)
        sibling = problem.sibling[sibling]
    return NOWHERE


@kernel
def _swap_partner(problem: Problem, row: int, rng: Stream) -> int:
    """Return a random movable sibling of replica `row` with another role, or NOWHERE."""
    chosen = NOWHERE
    candidates = 0
    sibling = problem.sibling[row]
    while sibling != row:
        if problem.role[sibling] != problem.role[row] and problem.movable[sibling]:
            candidates += 1
            if takes_place(rng, candidates):
                chosen = sibling
        sibling = problem.sibling[sibling]
    return int(chosen)


PARTNERS = 32
"""Largest number of similar replicas that are known for each replica."""
ACCURACY = 0.5
"""By how much, as a share, distances may exceed the nearest, which take long to find in many dimensions."""


def similar_partners(problem: Problem, solution: Solution, rows: Int, config: PlbConfig) -> dict[str, Any]:
    """Return `similar_share`, `similar` and `place` of `Choice` by name for exchanges of `rows`, (n,), or none."""
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    partners = min(PARTNERS, len(rows) - 1)
    if not config.similar_exchange_share or not config.exchange_probability or partners < 1:
        return {}
    sizes = relative_sizes(problem, solution, rows)
    neighbours: Int = cKDTree(sizes).query(sizes, partners + 1, p=np.inf, eps=ACCURACY)[1]
    is_itself = neighbours == np.arange(len(rows))[:, None]
    is_itself[~is_itself.any(axis=1), -1] = True  # so many are equal that it is not among them
    position = np.zeros(len(problem.origin), np.int64)
    position[rows] = np.arange(len(rows))
    similar = rows.astype(np.int32)[neighbours[~is_itself].reshape(len(rows), partners)]
    return {"similar_share": config.similar_exchange_share, "similar": similar, "place": position}


def relative_sizes(problem: Problem, solution: Solution, rows: Int) -> Float:
    """Return the loads of `rows`, (n, R), in units of a node's mean free capacity, or of its mean load if that is less.

    The largest difference over metrics is the distance of two rows: a metric with much free capacity hardly counts.
    """
    free = np.maximum(0, problem.limit - solution.node_load).mean(axis=0)
    unit = np.maximum(1.0, np.minimum(free, solution.node_load.mean(axis=0)))
    sizes: Float = problem.load[rows] / unit
    return sizes
