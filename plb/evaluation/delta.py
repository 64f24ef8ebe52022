"""Energy changes by one proposal, and the application of a proposal.

A proposal moves `row` to `target`. With a `partner` on the target the two exchange nodes, which is a swap of roles if
they belong to one partition. NOWHERE means no partner.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy.accumulators import change_load
from plb.energy.failovers import (
    change_aggregate,
    violations_after,
    violations_exchanged,
    violations_joined,
    violations_left,
)
from plb.energy.fragmentation import fragmentation_after, is_held_out
from plb.energy.imbalance import change_load_deviation, imbalance, imbalance_after, load_deviation
from plb.energy.movement import movement_alone, partition_movement, siblings_stand_still
from plb.energy.overload import overload_with
from plb.energy.score import PLAIN_DEVIATION, W_FAILOVERS, W_OVERLOAD, energy_of
from plb.energy.timeline import count_lasting, leave_list, stand_in_list
from plb.evaluation.constraint_chain import are_siblings
from plb.state.arrays import (
    DISPLACED,
    FRAGMENTATION,
    IMBALANCE,
    MOVEMENT,
    MOVES,
    OVERLOAD,
    TENTHS,
    VIOLATIONS,
    Problem,
    Solution,
)


@kernel(inline=True)
def present_energy(problem: Problem, solution: Solution) -> float:
    """Return the energy of the present solution."""
    return energy_of(
        problem.weights,
        solution.counts[MOVEMENT],
        solution.terms[IMBALANCE],
        solution.terms[FRAGMENTATION],
        solution.counts[VIOLATIONS],
        solution.counts[OVERLOAD],
    )


@kernel(inline=True)
def movement_after(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the movement cost of the whole solution after the proposal, in tenths."""
    change = _movement_change(
        problem, solution, problem.move_cost, problem.swap_cost, problem.add_cost, row, target, partner
    )
    return int(solution.counts[MOVEMENT] + change)


@kernel(inline=True)
def moves_after(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the moves of the whole solution after the proposal, in tenths: a swap is one, a new replica 0."""
    change = _movement_change(problem, solution, problem.unit_cost, TENTHS, 0, row, target, partner)
    return int(solution.counts[MOVES] + change)


@kernel(inline=True)
def _movement_change(
    problem: Problem,
    solution: Solution,
    cost: Int,
    swap_cost: int,
    add_cost: int,
    row: int,
    target: int,
    partner: int,
) -> int:
    here = solution.node[row]
    if partner == NOWHERE and siblings_stand_still(problem, solution, row):
        return movement_alone(problem, cost, add_cost, row, target) - movement_alone(problem, cost, add_cost, row, here)
    together = partner if partner != NOWHERE and are_siblings(problem, row, partner) else NOWHERE
    change = partition_movement(problem, solution, cost, swap_cost, add_cost, row, target, together, here)
    change -= partition_movement(problem, solution, cost, swap_cost, add_cost, row, here, NOWHERE, NOWHERE)
    if partner != NOWHERE and together == NOWHERE:
        change += partition_movement(problem, solution, cost, swap_cost, add_cost, partner, here, NOWHERE, NOWHERE)
        change -= partition_movement(problem, solution, cost, swap_cost, add_cost, partner, target, NOWHERE, NOWHERE)
    return change


@kernel(inline=True)
def imbalance_of_proposal(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> float:
    """Return the imbalance after the proposal."""
    return imbalance_after(
        problem.nodes_of_metric,
        solution.total,
        solution.squares,
        problem.metric_weight,
        solution.node_load,
        problem.counted_for,
        problem.load[row],
        problem.load[partner],
        solution.node[row],
        target,
    )


@kernel(inline=True)
def fragmentation_of_proposal(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> float:
    """Return the fragmentation after the proposal; the present value if the proposal changes no held-out node."""
    here = solution.node[row]
    if not (is_held_out(problem.held_out, target) or is_held_out(problem.held_out, here)):
        return float(solution.terms[FRAGMENTATION])
    return fragmentation_after(
        problem.held_out,
        problem.inverse_capacity,
        solution.node_load,
        problem.load[row],
        problem.load[partner],
        here,
        target,
    )


@kernel
def violations_at_source(problem: Problem, solution: Solution, row: int, partner: int) -> int:
    """Return the violations of the source node after the proposal; 0 without a counted source node.

    With repetitions, a replica that leaves adds no violation, so a node without violations is not evaluated.
    """
    here = solution.node[row]
    if here == NOWHERE or not problem.counted[here]:
        return 0
    if problem.estimator_rows.shape[0] > 0:
        return violations_after(problem, solution, here, partner, row)
    aggregate, ceiling, threshold = solution.aggregate[here], solution.ceiling[here], problem.threshold[here]
    if partner == NOWHERE:
        if solution.violating[here] == 0:
            return 0
        found = violations_left(aggregate, ceiling, threshold, problem.peak[row], solution.hit)
    else:
        found = violations_exchanged(
            aggregate,
            ceiling,
            threshold,
            problem.peak[partner],
            problem.peak_ceiling[partner],
            problem.peak[row],
            solution.hit,
        )
    if problem.timeline and found > 0:
        return count_lasting(problem, solution, here, partner, row)
    return found


@kernel
def violations_at_target(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the violations of the target node after the proposal."""
    if target == NOWHERE or not problem.counted[target]:
        return 0
    if problem.estimator_rows.shape[0] > 0:
        return violations_after(problem, solution, target, row, partner)
    aggregate, ceiling, threshold = solution.aggregate[target], solution.ceiling[target], problem.threshold[target]
    peak, peak_ceiling = problem.peak[row], problem.peak_ceiling[row]
    if partner == NOWHERE:
        found = violations_joined(aggregate, ceiling, threshold, peak, peak_ceiling, solution.hit)
    else:
        leaving = problem.peak[partner]
        found = violations_exchanged(aggregate, ceiling, threshold, peak, peak_ceiling, leaving, solution.hit)
    if problem.timeline and found > 0:
        return count_lasting(problem, solution, target, row, partner)
    return found


@kernel
def violations_of_proposal(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the violations of the whole solution after the proposal."""
    others = _total_of_others(solution.counts[VIOLATIONS], solution.violating, solution.node[row], target)
    at_source = violations_at_source(problem, solution, row, partner)
    return int(others + at_source + violations_at_target(problem, solution, row, target, partner))


@kernel
def _total_of_others(total: int, by_node: Int, source: int, target: int) -> int:
    """Return a total without the contributions, `by_node` (N,), of source and target."""
    if target != NOWHERE:
        total -= by_node[target]
    if source != NOWHERE:
        total -= by_node[source]
    return total


@kernel
def overload_at_source(problem: Problem, solution: Solution, row: int, partner: int) -> int:
    """Return the overload of the source node after the proposal; 0 without a counted source node.

    A replica that leaves adds no overload, so a node without overload is not evaluated.
    """
    here = solution.node[row]
    if here == NOWHERE or not problem.counted[here] or not weighs_overload(problem.weights):
        return 0
    if partner == NOWHERE and solution.overload[here] == 0:
        return 0
    return _overload(problem, solution, here, partner, row)


@kernel
def overload_at_target(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the overload of the target node after the proposal."""
    if target == NOWHERE or not problem.counted[target] or not weighs_overload(problem.weights):
        return 0
    return _overload(problem, solution, target, row, partner)


@kernel
def _overload(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the overload of a node after `incoming` joined and `outgoing` left; the row NOWHERE has peaks of 0."""
    return overload_with(
        solution.aggregate[node],
        solution.ceiling[node],
        problem.threshold[node],
        problem.peak[incoming],
        problem.peak_ceiling[incoming],
        problem.peak[outgoing],
    )


@kernel
def overload_of_proposal(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> int:
    """Return the overload of the whole solution after the proposal."""
    others = _total_of_others(solution.counts[OVERLOAD], solution.overload, solution.node[row], target)
    at_source = overload_at_source(problem, solution, row, partner)
    return int(others + at_source + overload_at_target(problem, solution, row, target, partner))


@kernel(shared=True)
def apply_proposal(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> None:
    """Apply the proposal to `solution`; the same call with the old node as target undoes it exactly.

    The target NOWHERE removes the row from its node.
    """
    here = solution.node[row]
    movement = movement_after(problem, solution, row, target, partner)
    solution.counts[MOVES] = moves_after(problem, solution, row, target, partner)
    solution.counts[MOVEMENT] = movement
    solution.terms[FRAGMENTATION] = fragmentation_of_proposal(problem, solution, row, target, partner)
    if problem.peak.shape[2] > 0:
        at_source = violations_at_source(problem, solution, row, partner)
        at_target = violations_at_target(problem, solution, row, target, partner)
        beyond_source = overload_at_source(problem, solution, row, partner)
        beyond_target = overload_at_target(problem, solution, row, target, partner)
        if here != NOWHERE:
            _set_risk(solution, here, at_source, beyond_source)
        if target != NOWHERE:
            _set_risk(solution, target, at_target, beyond_target)
    _move_row(problem, solution, row, here, target)
    if partner != NOWHERE:
        _move_row(problem, solution, partner, target, here)
    if problem.weights[PLAIN_DEVIATION] > 0.0:
        solution.terms[IMBALANCE] = imbalance(
            problem.nodes_of_metric, solution.total, solution.squares, problem.metric_weight
        )
    else:
        solution.terms[IMBALANCE] = load_deviation(problem, solution)


@kernel
def _set_risk(solution: Solution, node: int, violations: int, overload: int) -> None:
    """Set the violations and the overload of a node and update their sums."""
    solution.counts[VIOLATIONS] += violations - solution.violating[node]
    solution.violating[node] = violations
    solution.counts[OVERLOAD] += overload - solution.overload[node]
    solution.overload[node] = overload


@kernel
def _move_row(problem: Problem, solution: Solution, row: int, source: int, target: int) -> None:
    """Move `row` from `source` to `target` in all loads, aggregates and move counts."""
    _change_departed_and_arrivals(problem, solution, row, -1)
    add_to_node(problem, solution, row, source, -1)
    add_to_node(problem, solution, row, target, 1)
    _count_moves(problem, solution, row, source, -1)
    solution.node[row] = target
    _count_moves(problem, solution, row, target, 1)
    _change_departed_and_arrivals(problem, solution, row, 1)


@kernel
def _change_departed_and_arrivals(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add `sign` times what the partition of `row` leaves behind and builds in this plan, where a rule needs it."""
    if not (problem.keeps_departed or problem.throttles):
        return
    this = row
    while True:
        if problem.keeps_departed:
            leave_behind(problem, solution, this, sign)
        if problem.throttles:
            arrive(problem, solution, this, sign)
        this = problem.sibling[this]
        if this == row:
            return


@kernel
def add_to_node(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load and the peaks of `row` to `node`."""
    if node == NOWHERE:
        return
    if problem.weights[PLAIN_DEVIATION] > 0.0:
        change_load(
            solution.node_load, solution.total, solution.squares, problem.counted_for, node, problem.load[row], sign
        )
    else:
        change_load_deviation(problem, solution, row, node, sign)
    change_aggregate(solution.aggregate, solution.ceiling, node, problem.peak[row], problem.peak_ceiling[row], sign)
    if problem.timeline and sign > 0:
        stand_in_list(solution.first_on, solution.next_on, row, node)
    elif problem.timeline:
        leave_list(solution.first_on, solution.next_on, row, node)


@kernel
def _count_moves(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add (`sign` 1) or remove (−1) `row` on `node` in the list of displaced rows and the move counts."""
    origin = problem.origin[row]
    if origin == NOWHERE or node == origin or node == NOWHERE:  # noqa: SIM109
        return
    solution.node_moves[origin] += sign
    solution.node_moves[node] += sign
    solution.service_moves[problem.service[row]] += sign
    if sign > 0:
        solution.displaced[solution.counts[DISPLACED]] = row
        solution.displaced_at[row] = solution.counts[DISPLACED]
        solution.counts[DISPLACED] += 1
    else:
        solution.counts[DISPLACED] -= 1
        last = solution.displaced[solution.counts[DISPLACED]]
        solution.displaced[solution.displaced_at[row]] = last
        solution.displaced_at[last] = solution.displaced_at[row]
        solution.displaced_at[row] = NOWHERE


@kernel
def evaluates_risk(weights: Float, repetitions: int) -> bool:
    """Return whether expected failovers or the expected overload contribute to the energy."""
    return repetitions > 0 and (weights[W_FAILOVERS] > 0.0 or weights[W_OVERLOAD] > 0.0)


@kernel
def weighs_overload(weights: Float) -> bool:
    """Return whether the expected overload contributes to the energy; if not, it is not computed."""
    return bool(weights[W_OVERLOAD] > 0.0)


@kernel
def count_violations_with(problem: Problem, solution: Solution, row: int, found: Int) -> None:
    """Write the violations of each node with `row` on it to `found`.

    Parameters
    ----------
    found
        (N,) modified; 0 for nodes that are not counted.
    """
    for node in range(found.shape[0]):
        if solution.node[row] == node:
            found[node] = solution.violating[node]
        else:
            found[node] = violations_at_target(problem, solution, row, node, NOWHERE)
