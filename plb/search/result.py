"""From a solution back to words: moves in an order in which they can run, reasons, energies."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from plb.arrays import FRAGMENTATION, IMBALANCE, MOVEMENT, NOWHERE, TENTHS, VIOLATIONS, Int, Problem, Solution
from plb.constraints import Rule
from plb.energy.score import REPETITIONS, TERM_NAMES
from plb.model import Role
from plb.plan import Energy, Move, MoveKind, Proposals, Reason
from plb.search.proposal import ACCEPTED, DRAWN, FIRST_RULE, FIRST_TERM, REACHED_MONTE_CARLO, SCORED
from plb.search.transition import present_energy
from plb.state import ClusterState


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
    rules = {rule.name.lower(): int(tally[FIRST_RULE + rule]) for rule in Rule}
    terms = {name: int(tally[FIRST_TERM + index]) for index, name in enumerate(TERM_NAMES)}
    return Proposals(
        drawn=int(tally[DRAWN]),
        scored=int(tally[SCORED]),
        reached_monte_carlo=int(tally[REACHED_MONTE_CARLO]),
        accepted=int(tally[ACCEPTED]),
        refused_by_rule={name: count for name, count in rules.items() if count},
        rejected_by_term={name: count for name, count in terms.items() if count},
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
    ordered = _executable_order(problem, solution, [int(r) for r in changed if r not in swaps and r not in partners])
    moves = [
        _move(state, problem, solution, row, MoveKind.SWAP, _reason_of_swap(reasons[row], reasons[other]))
        for row, other in swaps.items()
    ]
    for row in ordered:
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
    for primary in changed:
        if problem.role[primary] != Role.PRIMARY or problem.origin[primary] == NOWHERE:
            continue
        other = int(problem.sibling[primary])
        while other != primary:
            crossed = (
                solution.node[other] == problem.origin[primary] and solution.node[primary] == problem.origin[other]
            )
            if problem.role[other] == Role.SECONDARY and crossed and not problem.leaving[other]:
                pairs[int(primary)] = other
                break
            other = int(problem.sibling[other])
    return pairs


def _executable_order(problem: Problem, solution: Solution, rows: list[int]) -> list[int]:
    """Return `rows` so that each target is free of siblings and, if possible, has room when its turn comes.

    Where that leaves a choice moves come first, then new replicas.
    """
    load = solution.node_load.copy() + problem.leaving_load
    for row in rows:
        load[solution.node[row]] -= problem.load[row]
        if problem.origin[row] != NOWHERE:
            load[problem.origin[row]] += problem.load[row]
    waiting = sorted(rows, key=lambda row: (problem.origin[row] == NOWHERE, row))
    ordered = []
    while waiting:
        free = [row for row in waiting if not _waits_for_sibling(problem, solution, row, waiting)] or waiting
        fitting = (
            r for r in free if (load[solution.node[r]] + problem.load[r] <= problem.limit[solution.node[r]]).all()
        )
        row = next(fitting, free[0])
        waiting.remove(row)
        ordered.append(row)
        load[solution.node[row]] += problem.load[row]
        if problem.origin[row] != NOWHERE:
            load[problem.origin[row]] -= problem.load[row]
    return ordered


def _waits_for_sibling(problem: Problem, solution: Solution, row: int, waiting: Collection[int]) -> bool:
    """Tell whether a sibling that has yet to move stands on the target of `row`."""
    if not problem.chains:
        return False
    other = int(problem.sibling[row])
    while other != row:
        if problem.origin[other] == solution.node[row] and other in waiting:
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
