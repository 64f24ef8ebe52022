"""From a solution back to words: moves in an order in which they can run, reasons, energies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from plb.arrays import FRAGMENTATION, IMBALANCE, MOVEMENT, NOWHERE, TENTHS, VIOLATIONS, Int, Problem, Solution
from plb.constraints import Rule
from plb.energy.score import REPETITIONS, TERM_NAMES
from plb.model import Role
from plb.plan import Energy, Move, MoveKind, Proposals, Reason
from plb.search.proposal import ACCEPTED, DRAWN, FIRST_RULE, FIRST_TERM, REACHED_MONTE_CARLO, SCORED
from plb.search.transition import present_energy
from plb.state import ClusterState

RULE_NAMES = tuple(rule.name.lower() for rule in Rule)
"""Names of the rules, in the order in which tallies count them."""


def energy_of_solution(problem: Problem, solution: Solution) -> Energy:
    """Return the energy of a solution with its terms."""
    return Energy(
        total=float(present_energy(problem, solution)),
        movement=int(solution.counts[MOVEMENT]) / TENTHS,
        imbalance=float(solution.terms[IMBALANCE]),
        fragmentation=float(solution.terms[FRAGMENTATION]),
        expected_failovers=float(solution.counts[VIOLATIONS] / problem.weights[REPETITIONS]),
    )


def proposals_of(tally: Int) -> Proposals:
    """Return a tally as a value with names."""
    counts = tally.tolist()
    rules = zip(RULE_NAMES, counts[FIRST_RULE:FIRST_TERM], strict=True)
    terms = zip(TERM_NAMES, counts[FIRST_TERM:], strict=True)
    return Proposals(
        drawn=counts[DRAWN],
        scored=counts[SCORED],
        reached_monte_carlo=counts[REACHED_MONTE_CARLO],
        accepted=counts[ACCEPTED],
        refused_by_rule={name: count for name, count in rules if count},
        rejected_by_term={name: count for name, count in terms if count},
    )


def moves_of(state: ClusterState, problem: Problem, solution: Solution, reasons: Mapping[int, Reason]) -> list[Move]:
    """Return the moves that lead from the origins to `solution`, in an order in which they can be carried out.

    Parameters
    ----------
    reasons
        Why each row moves.
    """
    changed = np.flatnonzero((solution.node != problem.origin) & (solution.node != NOWHERE))
    swaps = _swapped(problem, solution, changed)
    partners = set(swaps.values())
    steps = [(row, swaps.get(row, NOWHERE)) for row in changed.tolist() if row not in partners]
    moves = []
    for row, other in _executable_order(problem, solution, steps):
        if other != NOWHERE:
            reason = _reason_of_swap(reasons[row], reasons[other])
            moves.append(_move(state, problem, solution, row, MoveKind.SWAP, reason))
        else:
            kind = MoveKind.ADD if problem.origin[row] == NOWHERE else MoveKind.MOVE
            moves.append(_move(state, problem, solution, row, kind, reasons[row]))
    gone = np.flatnonzero((problem.origin != NOWHERE) & (solution.node == NOWHERE))
    drops = [_move(state, problem, solution, int(row), MoveKind.DROP, reasons[int(row)]) for row in gone]
    return drops + moves


def _reason_of_swap(primary: Reason, secondary: Reason) -> Reason:
    """Return why a pair changed roles: a swap may be for the sake of the node that the secondary leaves."""
    return secondary if primary.node is None else primary


def _swapped(problem: Problem, solution: Solution, changed: Int) -> dict[int, int]:
    """Return the primaries that changed nodes with a secondary of their partition, and that secondary."""
    pairs = {}
    for primary in changed.tolist():
        if problem.origin[primary] == NOWHERE or problem.role[primary] != Role.PRIMARY:
            continue
        other = int(problem.sibling[primary])
        while other != primary:
            crossed = (
                solution.node[other] == problem.origin[primary] and solution.node[primary] == problem.origin[other]
            )
            if problem.role[other] == Role.SECONDARY and crossed and not problem.leaving[other]:
                pairs[primary] = other
                break
            other = int(problem.sibling[other])
    return pairs


def _executable_order(problem: Problem, solution: Solution, steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return `steps` so that each target is free of siblings and, if possible, has room when its turn comes.

    Where that leaves a choice swaps come first, then moves, then new replicas.

    Parameters
    ----------
    steps
        Rows that move, each with the row it swaps roles with, or NOWHERE.
    """
    load = solution.node_load + problem.leaving_load
    if _is_any_order_right(problem, solution, load, [row for row, _ in steps]):
        return sorted(steps)
    changes = {step: _load_changes(problem, solution, step) for step in steps}
    for change in changes.values():
        for node, growth in change.items():
            load[node] -= growth
    waiting = sorted(steps, key=lambda step: (problem.origin[step[0]] == NOWHERE, step[1] == NOWHERE, step[0]))
    ordered = []
    while waiting:
        free = [step for step in waiting if not _waits_for_sibling(problem, solution, step, waiting)] or waiting
        step = next((s for s in free if _fits(problem, load, changes[s])), free[0])
        waiting.remove(step)
        ordered.append(step)
        for node, growth in changes[step].items():
            load[node] += growth
    return ordered


def _is_any_order_right(problem: Problem, solution: Solution, load: Int, rows: Sequence[int]) -> bool:
    """Tell whether all rows are new and have room together: none frees a place, and none waits for room.

    Parameters
    ----------
    load
        (N, R) steps of the nodes in the end.
    """
    nodes = solution.node[rows]
    return bool((problem.origin[rows] == NOWHERE).all() and (load[nodes] <= problem.limit[nodes]).all())


def _load_changes(problem: Problem, solution: Solution, step: tuple[int, int]) -> dict[int, Int]:
    """Return by how much the load of each node changes in a step, (R,) each."""
    changes: dict[int, Int] = {}
    for row in step:
        if row != NOWHERE:
            for node, sign in ((int(solution.node[row]), 1), (int(problem.origin[row]), -1)):
                if node != NOWHERE:
                    changes[node] = changes.get(node, 0) + sign * problem.load[row]
    return changes


def _fits(problem: Problem, load: Int, change: Mapping[int, Int]) -> bool:
    """Tell whether no node gets fuller than its limit; `load` is (N, R)."""
    return all(((growth <= 0) | (load[node] + growth <= problem.limit[node])).all() for node, growth in change.items())


def _waits_for_sibling(
    problem: Problem, solution: Solution, step: tuple[int, int], waiting: Collection[tuple[int, int]]
) -> bool:
    """Tell whether a sibling that has yet to move stands on the target of a step."""
    row, partner = step
    if not problem.chains or partner != NOWHERE:
        return False
    yet_to_move = {other for pair in waiting for other in pair}
    other = int(problem.sibling[row])
    while other != row:
        if problem.origin[other] == solution.node[row] and other in yet_to_move:
            return True
        other = int(problem.sibling[other])
    return False


def _move(state: ClusterState, problem: Problem, solution: Solution, row: int, kind: MoveKind, reason: Reason) -> Move:
    source = int(problem.origin[row])
    target = int(solution.node[row])
    costs = {MoveKind.ADD: problem.add_cost, MoveKind.SWAP: problem.swap_cost, MoveKind.DROP: problem.add_cost}
    return Move(
        kind=kind,
        partition=state.row_partition[row],
        role=Role(int(problem.role[row])),
        source=None if source == NOWHERE else state.nodes[source].name,
        target=None if target == NOWHERE else state.nodes[target].name,
        reason=reason,
        cost=costs.get(kind, int(problem.move_cost[row])) / TENTHS,
        index=row,
    )
