"""The larger neighbourhoods of a chain: their parts of the budget, and steps that users propose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import CallByAddress, Stream, call_python, kernel, pointer_to, uniform
from plb.evaluation.proposals import TALLY_SIZE
from plb.extensions.neighbourhoods import MOST_PROPOSED
from plb.search.annealing.move_generation import Choice, costly_row
from plb.search.extension_kernels import IN_PYTHON, OUT_OF_RANGE, PROPOSE, ExtensionState, begin_call, end_call
from plb.search.transactions import Draft, may_move, try_with_terms
from plb.settings.config import NEIGHBOURHOODS
from plb.state.arrays import Problem, Solution

SINGLE, EJECTION_CHAIN, PARTITION, NODE, SERVICE, OF_USERS = range(6)
"""Kinds of neighbourhoods: single proposals, the built-in larger ones in the order of their names, and the first of
those of users."""
MOST_EJECTED = 8
"""Largest number of replicas that make room in one ejection chain."""
TARGETS_OF_EJECTED = 2
"""Random nodes that are tried for a replica that makes room, besides its place before the search and the start."""
MOST_DESTROYED = 5
"""Largest number of replicas that leave their nodes together."""
TARGETS_TRIED = 6
"""Random nodes that are compared for a replica, besides nodes that replicas have left."""
VICTIMS_TRIED = 4
"""Replicas of a node that are tried one after the other."""
MOST_ASKED = 100
"""Largest number of proposals that a step counts as: a chain near the end of its budget makes single proposals only."""
USUAL_COST = 25.0
"""Cost of a step in a larger neighbourhood before any was made."""
LEAST_PART = 0.05
"""Least part of a larger neighbourhood, so that one that did not pay is tried again later."""
LEAST_OF_ALL = 0.5
"""Where there are many, their least parts add up to this."""
STRETCH = 5000
"""Proposals after which the parts are adapted."""
REACTION = 0.3
"""How far a part goes to that which the last stretch deserves; the rest stays."""


class RowsOfServices(NamedTuple):
    """The movable rows of the services that have some in several partitions, service after service."""

    row: Int
    """(n,) all these rows."""
    first: Int
    """(S+1,) position in `row` of the first row of each service; the last one is n."""


NO_SERVICES = RowsOfServices(np.zeros(0, np.int64), np.zeros(1, np.int64))


class Scratch(NamedTuple):
    """Arrays that mean nothing between two steps, and the rows of services."""

    scored: Int
    """(TALLY_SIZE,) tally of the nodes that are compared within a step."""
    order: Int
    """(MOST_DESTROYED,) order in which replicas are placed again."""
    asked: Int
    """(1,) number of nodes that the step has asked for, and of rows that it has drawn."""
    services: RowsOfServices
    """Empty where no kind needs them."""


class Neighbourhoods(NamedTuple):
    """Parts and counts of L neighbourhoods in one chain. All arrays are empty where only single proposals are made."""

    budget_share: float
    """Part of the budget of the larger neighbourhoods together."""
    kind: Int
    """(L,) the kind of each; single proposals first."""
    probability: Float
    """(L,) probability that a step is drawn from each; the sum is 1."""
    part: Float
    """(L,) part of each in the budget of the larger ones; the sum is 1. That of single proposals is 0."""
    usual_cost: Float
    """(L,) cost of a step in the last stretch with one, in proposals."""
    won: Float
    """(L,) by how much accepted steps have lowered the energy in this stretch, less by how much they have raised it."""
    cost: Int
    """(L,) cost of the steps in this stretch, in proposals."""
    steps: Int
    """(L,) steps in this stretch."""
    tried: Int
    """(L,) steps in all stretches."""
    accepted: Int
    """(L,) accepted steps in all stretches."""
    scratch: Scratch
    """Arrays for the work within a step."""


def kinds_of(names: Sequence[str]) -> list[int]:
    """Return the kind of each larger neighbourhood by its name; users' kinds are numbered from OF_USERS in order."""
    names_of_users = [name for name in names if name not in NEIGHBOURHOODS]
    return [
        OF_USERS + names_of_users.index(name) if name in names_of_users else EJECTION_CHAIN + NEIGHBOURHOODS.index(name)
        for name in names
    ]


def rows_of_services(problem: Problem, movable: Int) -> RowsOfServices:
    """Return the `movable` rows, (M,), by service, without services whose movable rows are all of one partition."""
    # siblings form a ring: each pass doubles the distance over which the lowest row of a partition spreads
    first_sibling, sibling_ahead = np.arange(len(problem.sibling)), problem.sibling
    while not np.array_equal(lower := np.minimum(first_sibling, first_sibling[sibling_ahead]), first_sibling):
        first_sibling, sibling_ahead = lower, sibling_ahead[sibling_ahead]
    service = problem.service[movable].astype(np.int64)
    service_and_partition = np.unique(np.stack([service, first_sibling[movable]]), axis=1)
    has_several = np.bincount(service_and_partition[0], minlength=len(problem.max_service_moves)) > 1
    rows = movable[has_several[service]]
    rows = rows[np.argsort(problem.service[rows], kind="stable")]
    starts = np.searchsorted(problem.service[rows], np.arange(len(has_several) + 1))
    return RowsOfServices(rows, starts.astype(np.int64))


def that_apply(kinds: Sequence[int], problem: Problem, movable: Int) -> tuple[list[int], RowsOfServices]:
    """Return the `kinds` with steps that can move several of the rows `movable`, (M,), and the rows of services."""
    services = rows_of_services(problem, movable) if SERVICE in kinds else NO_SERVICES
    are_single = bool((problem.sibling[movable] == movable).all())
    useless = {PARTITION} if are_single else set()
    useless |= set() if len(services.row) else {SERVICE}
    return [kind for kind in kinds if kind not in useless], services


def new_neighbourhoods(
    larger: Sequence[int], budget_share: float, services: RowsOfServices = NO_SERVICES
) -> Neighbourhoods:
    """Return the neighbourhoods of a chain: single proposals and these `larger` kinds, at least one.

    `budget_share`: part of the budget for the larger ones together.
    """
    neighbourhoods = _neighbourhoods_of([SINGLE, *larger], budget_share, services)
    neighbourhoods.part[:], neighbourhoods.usual_cost[:] = 1.0 / len(larger), USUAL_COST
    neighbourhoods.part[SINGLE], neighbourhoods.usual_cost[SINGLE] = 0.0, 1.0
    set_probabilities(neighbourhoods)
    return neighbourhoods


def _neighbourhoods_of(
    kinds: Sequence[int], budget_share: float, services: RowsOfServices = NO_SERVICES
) -> Neighbourhoods:
    """Return neighbourhoods of these kinds with this `budget_share`, and zeros for all counts and parts."""
    count = len(kinds)
    sizes = (count, count, count, count, TALLY_SIZE, MOST_DESTROYED, 1)
    cost, steps, tried, accepted, scored, order, asked = (np.zeros(size, np.int64) for size in sizes)
    probability, part, usual_cost, won = (np.zeros(count) for _ in range(4))
    scratch = Scratch(scored, order, asked, services)
    kind = np.array(kinds, np.int64)
    return Neighbourhoods(budget_share, kind, probability, part, usual_cost, won, cost, steps, tried, accepted, scratch)


SINGLE_ONLY = _neighbourhoods_of((), 0.0)
"""The neighbourhoods of every chain that makes single proposals only, which changes none of its arrays."""


@kernel
def random_neighbourhood(neighbourhoods: Neighbourhoods, rng: Stream) -> int:
    """Return the index of a random neighbourhood, drawn by the probabilities."""
    remainder = uniform(rng)
    last_neighbourhood = neighbourhoods.probability.shape[0] - 1
    for neighbourhood in range(last_neighbourhood):
        remainder -= neighbourhoods.probability[neighbourhood]
        if remainder < 0.0:
            return neighbourhood
    return int(last_neighbourhood)


@kernel
def note_step(
    neighbourhoods: Neighbourhoods, neighbourhood: int, cost: int, energy_before: float, energy_after: float
) -> None:
    """Count a step in the neighbourhood with this index: `cost` in proposals, and the energies before and after it."""
    neighbourhoods.steps[neighbourhood] += 1
    neighbourhoods.cost[neighbourhood] += cost
    neighbourhoods.won[neighbourhood] += energy_before - energy_after


@kernel
def adapt_parts(neighbourhoods: Neighbourhoods) -> None:
    """When a stretch ends, shift the neighbourhoods' parts of the budget towards the energy won per proposal."""
    if neighbourhoods.cost.sum() < STRETCH:
        return
    count = neighbourhoods.part.shape[0]
    total_won = 0.0
    for neighbourhood in range(1, count):
        if neighbourhoods.steps[neighbourhood] > 0:
            neighbourhoods.usual_cost[neighbourhood] = (
                neighbourhoods.cost[neighbourhood] / neighbourhoods.steps[neighbourhood]
            )
            neighbourhoods.won[neighbourhood] = (
                max(0.0, neighbourhoods.won[neighbourhood]) / neighbourhoods.cost[neighbourhood]
            )
            total_won += neighbourhoods.won[neighbourhood]
    least_part = min(LEAST_PART, LEAST_OF_ALL / (count - 1))
    if total_won > 0.0:
        for neighbourhood in range(1, count):
            deserved = least_part + (1.0 - (count - 1) * least_part) * neighbourhoods.won[neighbourhood] / total_won
            neighbourhoods.part[neighbourhood] += REACTION * (deserved - neighbourhoods.part[neighbourhood])
    neighbourhoods.won[:] = 0.0
    neighbourhoods.cost[:] = 0
    neighbourhoods.steps[:] = 0
    set_probabilities(neighbourhoods)


@kernel
def set_probabilities(neighbourhoods: Neighbourhoods) -> None:
    """Set the probabilities such that each neighbourhood has its part of the budget at its usual cost."""
    probability = neighbourhoods.probability
    total = 0.0
    for neighbourhood in range(probability.shape[0]):
        part = neighbourhoods.budget_share * neighbourhoods.part[neighbourhood]
        if neighbourhood == SINGLE:
            part = 1.0 - neighbourhoods.budget_share
        probability[neighbourhood] = part / neighbourhoods.usual_cost[neighbourhood]
        total += probability[neighbourhood]
    for neighbourhood in range(probability.shape[0]):
        probability[neighbourhood] /= total


SEEDS = 2.0**53
"""Number of seeds that a number of the stream stands for."""
_propose = CallByAddress(int)


@kernel
def make_proposed_step(
    problem: Problem, solution: Solution, choice: Choice, draft: Draft, index: int, scratch: Scratch
) -> bool:
    """Make the moves that users' neighbourhood `index` proposes; return whether all could be made.

    All moved rows leave their nodes first, so that they may change places.
    """
    row = costly_row(problem, solution, choice, draft.extension_state, draft.rng)
    if solution.node[row] == NOWHERE:
        return False
    count = _ask_for_moves(problem, solution, draft.extension_state, index, row, draft.rng)
    rows, targets = draft.extension_state.proposed_row, draft.extension_state.proposed_target
    for move in range(count):
        is_valid = _is_among(choice.movable, rows[move]) and _is_among(problem.targets, targets[move])
        if not is_valid or solution.node[rows[move]] == NOWHERE:  # also a row that is proposed twice
            return False
        try_with_terms(problem, solution, draft, rows[move], NOWHERE)
    for move in range(count):
        scratch.asked[0] += 1
        if not may_move(problem, solution, draft.extension_state, choice.enforced, rows[move], targets[move]):
            return False
        try_with_terms(problem, solution, draft, rows[move], targets[move])
    return bool(count > 0)


@kernel
def _ask_for_moves(
    problem: Problem, solution: Solution, extension_state: ExtensionState, index: int, row: int, rng: Stream
) -> int:
    """Let users' neighbourhood `index` write moves for `row` to `extension_state`; return their number.

    A number, row or node out of range ends the search with an error.
    """
    address = extension_state.propose[index]
    if address == IN_PYTHON:
        seed = int(uniform(rng) * SEEDS)
        return int(call_python(extension_state.python[0], PROPOSE, index, row, seed, NOWHERE, NOWHERE))
    data = pointer_to(extension_state.propose_data[index])
    moves = pointer_to(extension_state.moves[0])
    begin_call(extension_state, PROPOSE, index)
    count = int(_propose(address, problem, solution, data, row, rng, moves))
    if not 0 <= count <= MOST_PROPOSED:
        _refuse(problem, solution, extension_state, count, NOWHERE, NOWHERE)
    for move in range(count):
        row_of_move, target = extension_state.proposed_row[move], extension_state.proposed_target[move]
        if not (0 <= row_of_move < solution.node.shape[0] and 0 <= target < problem.limit.shape[0]):
            _refuse(problem, solution, extension_state, count, row_of_move, target)
    end_call(extension_state)
    return count


@kernel
def _refuse(
    problem: Problem, solution: Solution, extension_state: ExtensionState, count: int, row: int, target: int
) -> None:
    """End the search with an error: the number `count` of proposed moves, or `row` or `target`, is out of range."""
    running = extension_state.running
    running[0] = OUT_OF_RANGE
    running[2], running[3], running[4] = count, row, target
    running[5], running[6] = solution.node.shape[0], problem.limit.shape[0]
    raise IndexError("out of range")


@kernel
def _is_among(values: Int, value: int) -> bool:
    """Return whether `value` is among `values`, (n,) ascending."""
    low, high = 0, values.shape[0]
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < values.shape[0] and values[low] == value)
