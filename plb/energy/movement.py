"""The term movement: the cost m(X) of the moves from the present configuration to X (docs/terms/movement.md).

It is counted in tenths. A displaced replica costs its move cost and a new replica the cost of an add. A primary and a
secondary that have exchanged nodes cost one swap of roles.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.energy.score import TermDescription
from plb.model.role import PRIMARY, SECONDARY
from plb.model.service import MoveCost
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS, Problem, Proposal, Solution, are_siblings


@kernel(inline=True)
def after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the movement cost of the whole solution after a proposal, in tenths."""
    change = _change(problem, solution, problem.move_cost, problem.swap_cost, problem.add_cost, proposal)
    return int(solution.totals.movement + change)


@kernel(inline=True)
def moves_after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the moves of the whole solution after a proposal, in tenths: a swap is one, a new replica 0."""
    return int(solution.totals.moves + _change(problem, solution, problem.unit_cost, TENTHS, 0, proposal))


@kernel
def builds_and_swaps_after(problem: Problem, solution: Solution, proposal: Proposal) -> tuple[int, int]:
    """Return the builds and the swaps of roles of the whole solution after a proposal, in tenths.

    New and moved replicas are built; the replicas of a swap are not.
    """
    builds = _change(problem, solution, problem.unit_cost, 0, TENTHS, proposal)
    builds_and_swaps = _change(problem, solution, problem.unit_cost, TENTHS, TENTHS, proposal)
    return solution.totals.builds + builds, solution.totals.swaps + builds_and_swaps - builds


@kernel(shared=True)
def _count_builds_and_swaps(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update builds and swaps for a proposal whose rows have yet to move; shared, to keep the innermost loop short."""
    solution.totals.builds, solution.totals.swaps = builds_and_swaps_after(problem, solution, proposal)


@kernel(inline=True)
def apply(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update movement, moves and, if throttled, builds and swaps for a proposal whose rows have yet to move."""
    movement = after(problem, solution, proposal)
    if problem.throttled:
        _count_builds_and_swaps(problem, solution, proposal)
    solution.totals.moves = moves_after(problem, solution, proposal)
    solution.totals.movement = movement


@kernel
def from_scratch(problem: Problem, solution: Solution) -> None:
    """Compute movement and moves and, if throttled, builds and swaps from the nodes of all rows."""
    solution.totals.movement = _total(problem, solution.node, problem.move_cost, problem.swap_cost, problem.add_cost)
    solution.totals.moves = _total(problem, solution.node, problem.unit_cost, problem.unit_cost[0], 0)
    if problem.throttled:
        builds_and_swaps = _total(problem, solution.node, problem.unit_cost, TENTHS, TENTHS)
        solution.totals.builds = _total(problem, solution.node, problem.unit_cost, 0, TENTHS)
        solution.totals.swaps = builds_and_swaps - solution.totals.builds


@kernel(inline=True)
def _change(problem: Problem, solution: Solution, cost: Int, swap_cost: int, add_cost: int, proposal: Proposal) -> int:
    """Return by how much a proposal raises the cost of all moves.

    Costs in tenths: `cost`, (M,), of a move of each row, `swap_cost` of a swap of roles, `add_cost` of a new replica.
    """
    row, target, partner, source = proposal
    # without a sibling off its origin there can be no swap of roles, so the row counts alone
    if partner == NOWHERE and _siblings_stand_still(problem, solution, row):
        return _movement_alone(problem, cost, add_cost, row, target) - _movement_alone(
            problem, cost, add_cost, row, source
        )
    sibling = partner if partner != NOWHERE and are_siblings(problem, row, partner) else NOWHERE
    change = _partition_movement(problem, solution, cost, swap_cost, add_cost, row, target, sibling, source)
    change -= _partition_movement(problem, solution, cost, swap_cost, add_cost, row, source, NOWHERE, NOWHERE)
    if partner != NOWHERE and sibling == NOWHERE:
        change += _partition_movement(problem, solution, cost, swap_cost, add_cost, partner, source, NOWHERE, NOWHERE)
        change -= _partition_movement(problem, solution, cost, swap_cost, add_cost, partner, target, NOWHERE, NOWHERE)
    return change


@kernel(inline=True)
def _siblings_stand_still(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether no sibling of replica `row` has left its origin, so that `row` cannot be part of a swap of roles.

    New replicas are ignored, because they never swap.
    """
    sibling = problem.sibling[row]
    while sibling != row:
        if solution.node[sibling] != problem.origin[sibling] and problem.origin[sibling] != NOWHERE:
            return False
        sibling = problem.sibling[sibling]
    return True


@kernel(inline=True)
def _movement_alone(problem: Problem, cost: Int, add_cost: int, row: int, node: int) -> int:
    """Return the movement cost of replica `row` on `node`, or NOWHERE, without a swap.

    Costs in tenths: `cost`, (M,), of a move of each row, `add_cost` of a new replica.
    """
    if node == NOWHERE:
        return 0
    if problem.origin[row] == NOWHERE:
        return add_cost
    return int(cost[row]) if node != problem.origin[row] else 0


@kernel(inline=True)
def _partition_movement(
    problem: Problem,
    solution: Solution,
    cost: Int,
    swap_cost: int,
    add_cost: int,
    row: int,
    row_node: int,
    partner: int,
    partner_node: int,
) -> int:
    """Return the movement cost of the partition of `row` with `row` on `row_node` and `partner` on `partner_node`.

    `cost` (M,) is the cost of a move of each row, `swap_cost` of a swap of roles and `add_cost` of a new replica, all
    in tenths. `partner`, perhaps NOWHERE, is a second row of the partition. Nodes may be NOWHERE.
    """
    movement = 0
    primary = NOWHERE
    primary_node = NOWHERE
    sibling = row
    while True:
        node = row_node if sibling == row else (partner_node if sibling == partner else solution.node[sibling])
        origin = problem.origin[sibling]
        if origin == NOWHERE:
            movement += add_cost if node != NOWHERE else 0
        elif node != origin and node != NOWHERE:
            movement += cost[sibling]
            if problem.role[sibling] == PRIMARY:
                primary = sibling
                primary_node = node
        sibling = problem.sibling[sibling]
        if sibling == row:
            break
    if primary == NOWHERE:
        return movement
    while True:
        node = row_node if sibling == row else (partner_node if sibling == partner else solution.node[sibling])
        crosses = node == problem.origin[primary] and primary_node == problem.origin[sibling]
        if problem.role[sibling] == SECONDARY and crosses:
            return int(movement - cost[primary] - cost[sibling] + swap_cost)
        sibling = problem.sibling[sibling]
        if sibling == row:
            return movement


def move_cost_values(config: PlbConfig) -> dict[MoveCost, int]:
    """Return what a move of a replica with each level of move cost counts, in tenths of a move."""
    values = {
        MoveCost.ZERO: config.move_cost_zero_value,
        MoveCost.LOW: config.move_cost_low_value,
        MoveCost.MEDIUM: config.move_cost_medium_value,
        MoveCost.HIGH: config.move_cost_high_value,
    }
    return {cost: round(TENTHS * value) for cost, value in values.items()}


@kernel
def _total(problem: Problem, node: Int, cost: Int, swap_cost: int, add_cost: int) -> int:
    """Return the movement cost of all rows on their nodes `node`, (M,).

    Costs in tenths: `cost`, (M,), of a move of each row, `swap_cost` of a swap of roles, `add_cost` of a new replica.
    """
    movement = 0
    for row in range(node.shape[0]):
        if node[row] in (NOWHERE, problem.origin[row]):
            continue
        if problem.origin[row] == NOWHERE:
            movement += add_cost
            continue
        movement += cost[row]
        if problem.role[row] == PRIMARY:
            swapped = _swapped_with(problem, node, row)
            if swapped != NOWHERE:
                movement += swap_cost - cost[row] - cost[swapped]
    return int(movement)


@kernel
def _swapped_with(problem: Problem, node: Int, primary: int) -> int:
    """Return the secondary that exchanged nodes with a displaced primary, or NOWHERE; `node`: (M,) node of each row."""
    candidate = problem.sibling[primary]
    while candidate != primary:
        is_secondary = problem.role[candidate] == SECONDARY and not problem.leaving[candidate]
        if is_secondary and node[candidate] == problem.origin[primary] and node[primary] == problem.origin[candidate]:
            return int(candidate)
        candidate = problem.sibling[candidate]
    return NOWHERE


DESCRIPTION = TermDescription(
    "movement",
    after,
    weight=lambda config: 0.0 if config.ignore_cost_in_scoring else 1.0,
    unit=lambda _problem: TENTHS,
    drives_moves=False,
)
