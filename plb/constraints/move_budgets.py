"""Move budgets: the largest number of moves of a plan, of a node and of a service (docs/constraints/budgets.md).

Builds and swaps of roles are limited for the whole cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.description import RuleDescription
from plb.model.rules import NO_REFUSAL, Rule
from plb.state.arrays import NO_BUDGET, TENTHS, Problem, Proposal, Solution, most_or_any
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology

_MOVES = int(Rule.MOVES)
_NODE_MOVES = int(Rule.NODE_MOVES)
_SERVICE_MOVES = int(Rule.SERVICE_MOVES)
_BUILDS = int(Rule.BUILDS)
_SWAPS = int(Rule.SWAPS)


@kernel
def refusal_of_budget(problem: Problem, solution: Solution, moves: int, proposal: Proposal) -> int:
    """Return the rule of the budget that a proposal would exceed, or NO_REFUSAL.

    `moves`: `Totals.moves` after the proposal. No budget of a node or a service refuses a proposal that does not
    increase its number of moves.
    """
    if moves > problem.max_moves * TENTHS:
        return _MOVES
    row, target, partner, source = proposal
    row_origin = problem.origin[row]
    partner_origin = problem.origin[partner] if partner != NOWHERE else NOWHERE
    for node in (target, source, row_origin, partner_origin):
        change = _touches(row_origin, target, node) - _touches(row_origin, source, node)
        if partner != NOWHERE:
            change += _touches(partner_origin, source, node) - _touches(partner_origin, target, node)
        if change > 0 and solution.node_moves[node] + change > problem.max_node_moves[node]:
            return _NODE_MOVES
    change = _is_move(row_origin, target) - _is_move(row_origin, source)
    partner_change = _is_move(partner_origin, source) - _is_move(partner_origin, target)
    service = problem.service[row]
    if partner != NOWHERE:
        partner_service = problem.service[partner]
        partner_budget = problem.max_service_moves[partner_service]
        if partner_service == service:
            change += partner_change
        elif _exceeds(solution.service_moves[partner_service], partner_change, partner_budget):
            return _SERVICE_MOVES
    if _exceeds(solution.service_moves[service], change, problem.max_service_moves[service]):
        return _SERVICE_MOVES
    return NO_REFUSAL


@kernel
def budget_that_holds(problem: Problem, solution: Solution, row: int) -> int:
    """Return the rule of the budget that keeps a placed `row` on its node; NO_REFUSAL if none, or if it has moved."""
    source = solution.node[row]
    if not problem.bounded or source != problem.origin[row]:
        return NO_REFUSAL
    if solution.totals.moves + TENTHS > problem.max_moves * TENTHS:
        return _MOVES
    if solution.node_moves[source] + 1 > problem.max_node_moves[source]:
        return _NODE_MOVES
    service = problem.service[row]
    if solution.service_moves[service] + 1 > problem.max_service_moves[service]:
        return _SERVICE_MOVES
    return NO_REFUSAL


@kernel
def refusal_of_throttle(problem: Problem, solution: Solution, builds: int, swaps: int) -> int:
    """Return the rule of the throttle of the whole cluster that a proposal would exceed, or NO_REFUSAL.

    `builds`, `swaps`: of `Totals` after the proposal, in tenths.
    """
    if builds > solution.totals.builds and builds > problem.max_builds * TENTHS:
        return _BUILDS
    if swaps > solution.totals.swaps and swaps > problem.max_swaps * TENTHS:
        return _SWAPS
    return NO_REFUSAL


@kernel
def _is_move(origin_node: int, node: int) -> int:
    """Return 1 if a row with the origin `origin_node` on `node` is a move of the plan, else 0; each may be NOWHERE."""
    return int(origin_node != NOWHERE and node != NOWHERE and node != origin_node)


@kernel
def _touches(origin_node: int, target: int, node: int) -> int:
    """Return 1 if the move of a row from `origin_node` to `target` has an end, source or target, on `node`, else 0."""
    return _is_move(origin_node, target) * (int(origin_node == node) + int(target == node))


@kernel
def _exceeds(moves: int, change: int, budget: int) -> bool:
    """Return whether `change` more moves exceed a budget; fewer moves never do."""
    return change > 0 and moves + change > budget


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the fields of `Problem` on budgets that follow from settings, by name."""
    config = state.config
    return {
        "bounded": state.limits_moves,
        "max_moves": most_or_any(config.max_moves),
        "max_node_moves": np.full(len(state.nodes), most_or_any(config.max_moves_per_node), np.int64),
        "max_service_moves": state.service_table.max_moves,
        "throttled": config.throttles_cluster,
        "max_builds": config.in_build_throttling_global_max_value if config.in_build_throttling_enabled else NO_BUDGET,
        "max_swaps": (
            config.swap_primary_throttling_global_max_value if config.swap_primary_throttling_enabled else NO_BUDGET
        ),
    }


DESCRIPTIONS = (
    RuleDescription(Rule.MOVES, words="the plan has no moves left", fields=_fields),
    RuleDescription(Rule.NODE_MOVES, words="the plan has no moves left for a node"),
    RuleDescription(Rule.SERVICE_MOVES, words="the plan has no moves left for the service"),
    RuleDescription(Rule.BUILDS, words="the cluster builds as many replicas as it may"),
    RuleDescription(Rule.SWAPS),
)
