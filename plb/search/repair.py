"""Repair: random moves that repair violated constraints, then annealing over the affected replicas.

The first round enforces all constraints; each later round drops the softest and retries what is still violated. A
repair is kept if it leaves fewer violations, then less overload, then less energy (docs/service-fabric.md,
Constraint check, Departures).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import Stream
from plb.evaluation.delta import present_energy
from plb.search.annealing import anneal_chains
from plb.search.breaches import Breaches, find_breaches
from plb.search.budget import Budget, EndReason
from plb.search.extended.extensions import Extensions
from plb.search.extended.policy_search import repair_by_policy
from plb.search.extended.repair import repair_randomly
from plb.search.move_generation import Choice
from plb.search.repair_moves import Repairs, try_repairs
from plb.search.result import Annealed, new_tally
from plb.search.transactions import new_transaction
from plb.settings.config import PlbConfig
from plb.state.arrays import DISPLACED, MOVES, Problem, Solution, siblings_of


def repair(
    problem: Problem,
    start: Solution,
    config: PlbConfig,
    masks: Sequence[int],
    seed: np.random.SeedSequence,
    budget: Budget,
    passed_over: int = 0,
    extensions: Extensions | None = None,
) -> Annealed:
    """Repair violated constraints with as few moves as the search finds; `start` is unchanged.

    Parameters
    ----------
    masks
        Enforced rules, from all to only the hard ones. Violations left under one mask are retried under the next, so
        that a soft rule never prevents the repair of a hard one.
    passed_over
        Bits of rules that bind the moves but are not repaired.
    extensions
        Extension terms and constraints; these constraints are repaired last, by moves that violate no rule. A policy
        decides in place of the search.
    """
    if extensions is not None and extensions.policy is not None:
        return repair_by_policy(extensions, problem, start, masks, seed, passed_over)
    result = Annealed(start, present_energy(problem, start), new_tally(), EndReason.NOTHING_TO_DO)
    for mask, stream in zip(masks, seed.spawn(len(masks)), strict=True):
        if budget.is_up:
            return attrs.evolve(result, end_reason=EndReason.OUT_OF_TIME)
        breaches = find_breaches(problem, result.solution, mask & ~passed_over)
        if not breaches:
            continue
        transactions, annealing = stream.spawn(2)
        solution = result.solution.copy()
        rng = Stream(transactions)
        if not _repair_randomly(problem, solution, mask & ~passed_over, mask, config, rng):
            continue
        movable = _affected_rows(problem, result.solution, breaches)
        displaced = int(solution.counts[DISPLACED])
        choice = Choice(movable[:0], movable, displaced, mask, config.swap_primary_probability, 0.0, spare=1)
        repaired = anneal_chains(problem, solution, choice, config, annealing, budget, extensions)
        if repaired.solution.counts[MOVES] > solution.counts[MOVES]:
            repaired = attrs.evolve(repaired, solution=solution, energy=present_energy(problem, solution))
        result = attrs.evolve(repaired, tally=result.tally + repaired.tally)
    if extensions is not None and extensions.constraints:
        rng = Stream(seed.spawn(1)[0])
        return repair_randomly(extensions, problem, start, result, masks[0], rng)
    return result


def _relatives(problem: Problem, affected: Bool) -> Bool:
    """Return a mask, (M,), of the rows of the partitions of `affected`, of their parents and of their children."""
    found = np.zeros(len(affected), np.bool_)
    for row in np.flatnonzero(affected).tolist():
        heads = [row, int(problem.parent_row[row]), int(problem.first_child[row])]
        while heads[-1] != NOWHERE and problem.next_child[heads[-1]] != NOWHERE:
            heads.append(int(problem.next_child[heads[-1]]))
        for head in heads:
            if head != NOWHERE and not found[head]:
                found[list(siblings_of(problem, head))] = True
    return found


def _affected_rows(problem: Problem, start: Solution, breaches: Breaches) -> Int:
    """Return the movable rows that are on overloaded nodes, in crowded domains, or misplaced.

    Where partitions have parents, all rows of these partitions, their parents and their children are added.
    """
    on_overloaded = np.zeros(len(start.node), np.bool_)
    placed = start.node != NOWHERE
    crowded = np.any(breaches.overloaded, axis=1)
    on_overloaded[placed] = crowded[start.node[placed]]
    affected = on_overloaded | breaches.crowded.any(axis=0) | breaches.astray
    if (problem.parent_row != NOWHERE).any():
        affected |= _relatives(problem, affected)
    affected &= problem.movable
    return np.flatnonzero(affected)


def _repair_randomly(
    problem: Problem, solution: Solution, repaired: int, binding: int, config: PlbConfig, rng: Stream
) -> bool:
    """Apply the best of several random repairs to `solution`; return whether one was applied."""
    capacity = 8 * len(solution.node) + 8
    transaction, best = new_transaction(capacity), new_transaction(capacity)
    load = solution.node_load.copy()
    repairs = Repairs(
        repaired,
        binding,
        transactions=max(1, config.constraint_check_iterations_per_round),
        swaps=config.enable_preferred_swap_solution_in_constraint_check,
        scores=config.use_score_in_constraint_check,
    )
    try_repairs(problem, solution, repairs, load, rng, transaction, best)
    return bool(best.length[0] > 0)
