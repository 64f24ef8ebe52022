"""Repair: random moves that repair violated constraints, then annealing over the affected replicas.

The first round enforces all constraints; each later round drops the softest and retries what is still violated. A
repair is kept if it leaves fewer violations, then less overload, then less energy (docs/service-fabric.md,
Constraint check, Departures).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import Stream, kernel
from plb.constraints.application_sums import occupied_nodes
from plb.constraints.capacity import RULE
from plb.constraints.domains import SPREADING
from plb.energy.terms import present_energy
from plb.extensions.configuration import Proposal
from plb.model.rules import Rule, RuleMask
from plb.search.annealing.annealing import anneal_chains, without_leaving_load
from plb.search.annealing.move_generation import Choice
from plb.search.budget import Budget, EndReason
from plb.search.extension_kernels import ExtensionState
from plb.search.extension_state import constraints_of
from plb.search.extensions import Extensions
from plb.search.policy_search import repair_by_policy
from plb.search.repair.applications import repair_applications
from plb.search.repair.breaches import (
    Breaches,
    broken_rules,
    count_breaches_of,
    find_breaches,
    movable_rows_of,
    suspects_after,
)
from plb.search.repair.lists import (
    APPLICATIONS,
    ROWS,
    Attempt,
    RepairState,
    Suspects,
    adds_overload,
    new_repair_state,
    remaining_breaches,
    undo_repair,
)
from plb.search.repair.nodes import leave_crowded_domains, move_misplaced, move_parents_without_child, unload
from plb.search.result import Annealed, Search, new_tally
from plb.search.transactions import (
    NO_ROWS,
    Draft,
    Transaction,
    go_to,
    keep_transaction,
    new_transaction,
    places_of,
    random_target,
    redo_transaction,
)
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.replica_table import merged


@kernel
def repair_each_rule(problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState) -> None:
    """Repair the rules of `attempt` one after the other: capacity, applications, domains, then single rows."""
    if attempt.repaired >> RULE & 1:
        unload(problem, solution, draft, attempt, state)
    if problem.grouped:
        repair_applications(problem, solution, draft, attempt, state)
    leave_crowded_domains(problem, solution, draft, attempt, state)
    move_misplaced(problem, solution, draft, attempt, state)


_CAPACITY, _AFFINITY = int(Rule.CAPACITY), int(Rule.AFFINITY)
_SCALE_OUT, _APPLICATION_CAPACITY = 1 << int(Rule.SCALE_OUT), 1 << int(Rule.APPLICATION_CAPACITY)
_IN_ORDER = (
    _CAPACITY,
    int(Rule.SCALE_OUT),
    int(Rule.APPLICATION_CAPACITY),
    int(Rule.FAULT_DOMAIN),
    int(Rule.UPGRADE_DOMAIN),
    int(Rule.PLACEMENT),
    _AFFINITY,
)
"""The rules that moves can repair, in the order in which each is repaired alone."""
_REPAIRABLE = sum(1 << rule for rule in _IN_ORDER)
_OF_PLACES = 1 << int(Rule.NODE) | 1 << int(Rule.EXCLUSION) | 1 << int(Rule.PLACEMENT) | 1 << _AFFINITY
"""The rules that single rows break."""
_OF_ROWS = SPREADING | _OF_PLACES
"""The rules that single rows or partitions break."""


@kernel
def repair_rules_alone(
    problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState
) -> None:
    """Repair one rule after the other, affinity last; of the rules that moves can repair, it alone binds the moves.

    Then nodes are unloaded while all rules bind but the spread, so that replicas may go back to where they broke it.
    """
    for rule in _IN_ORDER:
        if attempt.repaired >> rule & 1:
            binding = attempt.binding & ~_REPAIRABLE | 1 << rule
            if rule == _AFFINITY and attempt.moves_parents:
                move_parents_without_child(problem, solution, draft, binding, state)
            repair_each_rule(problem, solution, draft, _bound_by(attempt, 1 << rule, binding), state)
    if attempt.repaired >> _CAPACITY & 1:
        without_spread = _bound_by(attempt, attempt.repaired, attempt.binding & ~SPREADING)
        unload(problem, solution, draft, without_spread, state)


@kernel
def _bound_by(attempt: Attempt, repaired: RuleMask, binding: RuleMask) -> Attempt:
    """Return `attempt` with other rules to repair, `repaired`, and other rules that its moves obey, `binding`."""
    return Attempt(
        repaired, binding, attempt.may_swap, attempt.prefers_swaps, attempt.moves_parents, attempt.unusable_first
    )


def rules_broken_before(problem: Problem, solution: Solution, enforced: RuleMask, suspects: Int) -> Int:
    """Return the enforced rules that each row breaks, (M,) of RuleMask; siblings break a rule on domains together.

    `suspects`: (n,) the rows that may break one.
    """
    broken = np.zeros(len(solution.node), np.int64)
    _mark_broken_rules(problem, solution, enforced, suspects, broken)
    return broken


@kernel
def _mark_broken_rules(problem: Problem, solution: Solution, enforced: RuleMask, rows: Int, broken: Int) -> None:
    """Add to `broken`, (M,) of RuleMask, the `enforced` rules that `rows`, (n,), and immovable rows break.

    A rule on domains is added for all siblings of a row that breaks it.
    """
    for row in rows:
        broken_by_row = broken_rules(problem, solution, enforced & _OF_ROWS, row)
        broken[row] |= broken_by_row
        sibling = problem.sibling[row]
        while sibling != row:
            broken[sibling] |= broken_by_row & SPREADING
            sibling = problem.sibling[sibling]
    for row in range(broken.shape[0]):
        if solution.node[row] != NOWHERE and not problem.movable[row]:
            broken[row] |= broken_rules(problem, solution, enforced & _OF_PLACES, row)


def breaches_of_applications_before(
    problem: Problem, solution: Solution, enforced: RuleMask, applications: Int
) -> Float:
    """Return the `_breaches_by_rule` of each of `applications`, (n,) indices; 0 for other applications, (A, 3)."""
    counts = np.zeros((len(problem.most_nodes), 3))
    _count_breaches_of(problem, solution, enforced, applications, counts)
    return counts


@kernel
def _count_breaches_of(
    problem: Problem, solution: Solution, enforced: RuleMask, applications: Int, counts: Float
) -> None:
    """Write to `counts`, (A, 3), the `_breaches_by_rule` of each of `applications`, (n,) indices."""
    for application in applications:
        nodes, overloads, excess = _breaches_by_rule(problem, solution, enforced, application)
        counts[application, 0], counts[application, 1], counts[application, 2] = nodes, overloads, excess


@kernel
def _breaches_by_rule(
    problem: Problem, solution: Solution, enforced: RuleMask, application: int
) -> tuple[float, float, float]:
    """Return an application's nodes too many, its overloads on nodes, and their sum relative to its limits."""
    nodes, _ = count_breaches_of(problem, solution, enforced & _SCALE_OUT, application)
    overloads, excess = count_breaches_of(problem, solution, enforced & _APPLICATION_CAPACITY, application)
    return float(nodes), float(overloads), excess


@kernel
def breaks_anew(
    problem: Problem,
    solution: Solution,
    binding: RuleMask,
    broken_before: Int,
    application_breaches: Float,
    suspects: Suspects,
) -> bool:
    """Return whether a row or an application breaks one of the `binding` rules more than before a repair.

    `broken_before`: (M,) of RuleMask, the rules that each row broke; `application_breaches`: (A, 3) nodes too many,
    overloads and their relative sum; `suspects`: the rows and applications that are tested.
    """
    for index in range(suspects.length[ROWS]):
        row = suspects.rows[index]
        if broken_rules(problem, solution, binding & _OF_ROWS, row) & ~broken_before[row]:
            return True
    for index in range(suspects.length[APPLICATIONS]):
        application = suspects.applications[index]
        nodes, overloads, excess = _breaches_by_rule(problem, solution, binding, application)
        more = nodes > application_breaches[application, 0] or overloads > application_breaches[application, 1]
        if more or excess > application_breaches[application, 2]:
            return True
    return False


def repair_constraints(
    extensions: Extensions, problem: Problem, solution: Solution, enforced: RuleMask, rng: Stream
) -> None:
    """Move each replica that violates an extension constraint to a random node that nothing refuses.

    `enforced`: the rules that bind the moves.
    """
    configuration = extensions.configuration(problem, solution)
    constraints = constraints_of(extensions, problem, solution)
    for row in sorted(extensions.broken(configuration)):
        if not problem.movable[row] or row not in extensions.broken(configuration):
            continue
        with constraints.calls():
            target = int(random_target(problem, solution, constraints.state, enforced, row, rng))
        constraints.raise_error()
        if target != NOWHERE:
            configuration.apply(Proposal(row, target))
    constraints.finish()


_WITHOUT_CAPACITY = ~(1 << RULE)
CHECKS_OF_A_MOVE = 100
ENOUGH_CHECKS = 1_000_000
"""Nodes checked in all attempts after which none follows that repairs everything or is no better than those before.

A move counts as `CHECKS_OF_A_MOVE`, a violation that is left as a check of every node. Random repairs of so many
replicas differ little.
"""


class Repairs(NamedTuple):
    """Settings of random repairs."""

    repaired: RuleMask
    """Rules to repair."""
    binding: RuleMask
    """Rules that bind the moves."""
    attempts: int
    """Number of attempts."""
    may_swap: bool
    """Whether roles may be swapped where no replica can move."""
    compares_energy: bool
    """Whether the energy decides between repairs that leave equal violations."""
    prefers_swaps: bool
    """Whether half of the attempts prefer swaps (`plb.search.repair.swaps`)."""
    one_action: bool
    """Whether a quarter of the attempts repairs each rule alone at first (`repair_rules_alone`), replicas in
    unusable domains leave crowded ones first, and a partition in crowded domains counts as one violation."""
    broken_before: Int
    """(M,) if `one_action`, the rules that each row breaks before the repair (`rules_broken_before`)."""
    application_breaches: Float
    """(A, 3) if `one_action`, what each application breaks before it (`breaches_of_applications_before`)."""
    compares_rows: bool
    """If `one_action`, whether fewer replicas in crowded domains decide between equal repairs. So a spread improves
    even if too few replicas may move to make it even."""


@kernel
def try_repairs(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    repairs: Repairs,
    load: Int,
    rng: Stream,
    state: RepairState,
    best: Transaction,
) -> None:
    """Try random repairs and apply the best one, which adds no load to an overloaded node.

    `load`: (N, R) quanta of each node before the repair; `best`: scratch, set to the moves of the best repair.
    """
    repaired, binding, one_action = repairs.repaired, repairs.binding, repairs.one_action
    draft = Draft(extension_state, rng, state.transaction)
    fewest_breaches, least_overload = remaining_breaches(problem, solution, repaired, one_action, state.suspects)
    fewest_by_row = _count_breaches_by_row(problem, solution, repairs, state)
    lowest_energy = -np.inf  # energy only decides between repairs: it must not select one that repairs nothing
    checks = 0
    for index in range(repairs.attempts):
        moves_parents = index >= repairs.attempts * (1.0 - problem.parents_move)
        prefers_swaps = repairs.prefers_swaps and index // 2 % 2 == 1
        each_rule_alone = one_action and index % 4 == 1
        attempt = Attempt(repaired, binding, repairs.may_swap, prefers_swaps, moves_parents, one_action)
        if each_rule_alone:
            repair_rules_alone(problem, solution, draft, attempt, state)
        elif index % 2 == 1:
            without_capacity = _bound_by(attempt, repaired, binding & _WITHOUT_CAPACITY)
            repair_each_rule(problem, solution, draft, without_capacity, state)
        repair_each_rule(problem, solution, draft, attempt, state)
        breaches, overload = remaining_breaches(problem, solution, repaired, one_action, state.suspects)
        energy = present_energy(problem, solution)
        breaches_by_row = _count_breaches_by_row(problem, solution, repairs, state)
        is_better = breaches < fewest_breaches or (breaches == fewest_breaches and overload < least_overload)
        if breaches == fewest_breaches and overload == least_overload:
            is_better = breaches_by_row < fewest_by_row or (
                repairs.compares_energy and breaches_by_row == fewest_by_row and energy < lowest_energy
            )
        if each_rule_alone and is_better:
            broken_before, application_breaches = repairs.broken_before, repairs.application_breaches
            is_better = not breaks_anew(problem, solution, binding, broken_before, application_breaches, state.suspects)
        if is_better and not (repaired >> RULE & 1 and adds_overload(problem, solution, state.suspects, load)):
            fewest_breaches = breaches
            least_overload = overload
            fewest_by_row = breaches_by_row
            lowest_energy = energy
            keep_transaction(state.transaction, best)
        checks += state.transaction.length[0] * CHECKS_OF_A_MOVE + breaches * problem.targets.shape[0]
        undo_repair(problem, solution, state)
        is_complete = fewest_breaches == 0 and least_overload == 0.0 and fewest_by_row == 0
        if checks >= ENOUGH_CHECKS and index > 0 and not problem.related and (is_complete or not is_better):
            break
    redo_transaction(problem, solution, best)


@kernel
def _count_breaches_by_row(problem: Problem, solution: Solution, repairs: Repairs, state: RepairState) -> int:
    """Return the number of violations, with each replica in a crowded domain; 0 unless `repairs.compares_rows`."""
    if not repairs.compares_rows:
        return 0
    breaches, _ = remaining_breaches(problem, solution, repairs.repaired, False, state.suspects)
    return breaches


def repair(
    search: Search,
    masks: Sequence[RuleMask],
    seed: np.random.SeedSequence,
    budget: Budget,
    breaking: Int,
    passed_over: RuleMask = 0,
) -> Annealed:
    """Repair violated constraints in the solution with as few moves as the search finds.

    `masks`: enforced rules, from all to only the hard ones. Violations left under one mask are retried under the next,
    so that a soft rule never prevents the repair of a hard one; with `one_action_per_refresh`, until one succeeds.
    `breaking`: (n,) the rows, ascending, that may break a rule; `passed_over`: rules that bind but are not repaired.
    """
    config, extensions, solution = search.config, search.extensions, search.solution
    if extensions is not None and extensions.policy is not None:
        return repair_by_policy(search, masks, seed, breaking, passed_over)
    problem, is_improved = without_leaving_load(search.problem, config), False
    search = attrs.evolve(search, problem=problem)
    result = Annealed(present_energy(problem, solution), new_tally(), EndReason.NOTHING_TO_DO)
    for mask, mask_seed in zip(masks, seed.spawn(len(masks)), strict=True):
        if is_improved and config.one_action_per_refresh:
            break  # a later refresh repairs what is left
        if is_improved and budget.is_up:
            return attrs.evolve(result, end_reason=EndReason.OUT_OF_TIME)
        suspects = suspects_after(problem, solution, breaking, search.others)
        breaches = find_breaches(problem, solution, mask & ~passed_over, suspects)
        if not breaches:
            continue
        repair_seed, annealing_seed = mask_seed.spawn(2)
        movable = _affected_rows(problem, solution, breaches)
        rng, repaired, is_first = Stream(repair_seed), mask & ~passed_over, mask == masks[0]
        if not _repair_randomly(search, repaired, mask, breaches, suspects, rng, compares_rows=is_first):
            continue
        is_improved = True
        annealed = _improve(search, movable, mask, annealing_seed, budget)
        result = attrs.evolve(annealed, tally=result.tally + annealed.tally)
    if extensions is not None and extensions.constraints:
        repair_constraints(extensions, problem, solution, masks[0], Stream(seed.spawn(1)[0]))
        return attrs.evolve(result, energy=float(present_energy(problem, solution)))
    return result


def _improve(search: Search, movable: Int, mask: RuleMask, seed: np.random.SeedSequence, budget: Budget) -> Annealed:
    """Anneal over rows `movable`, (n,), by the rules of `mask`; keep the solution if the result has more moves."""
    problem, solution, config, others = search.problem, search.solution, search.config, search.others
    places, moves = places_of(problem, solution, others), int(solution.totals.moves)
    displaced = int(solution.totals.displaced)
    choice = Choice(movable[:0], movable, displaced, mask, config.swap_primary_probability, 0.0, spare=1)
    annealed = anneal_chains(search, choice, seed, budget)
    if solution.totals.moves <= moves:
        return annealed
    go_to(problem, solution, places, others)
    return attrs.evolve(annealed, energy=present_energy(problem, solution))


def _relatives(problem: Problem, affected: Int) -> Int:
    """Return the rows, ascending, of the partitions of rows `affected`, (n,), their parents and their children."""
    relatives: set[int] = set()
    for row in affected.tolist():
        partition_rows = [row, int(problem.parent_row[row]), int(problem.first_child[row])]
        while partition_rows[-1] != NOWHERE and problem.next_child[partition_rows[-1]] != NOWHERE:
            partition_rows.append(int(problem.next_child[partition_rows[-1]]))
        for partition_row in partition_rows:
            if partition_row != NOWHERE and partition_row not in relatives:
                relatives.update(siblings_of(problem, partition_row))
    return np.array(sorted(relatives), np.int64)


def _affected_rows(problem: Problem, solution: Solution, breaches: Breaches) -> Int:
    """Return the movable rows on overloaded nodes, in crowded domains, misplaced, or of broken applications.

    Placed rows of related partitions are added; a repair adds no missing replica, so none may count for the spread.
    """
    affected = breaches.rows
    is_overloaded: Bool = np.asarray(breaches.overloaded.any(axis=1))
    if is_overloaded.any():
        is_on_overloaded = is_overloaded[solution.node] & (solution.node != NOWHERE)
        affected = merged(affected, np.flatnonzero(is_on_overloaded))
    if len(breaches.applications):
        affected = merged(affected, movable_rows_of(problem, solution, breaches.applications))
    if problem.related and (problem.parent_row != NOWHERE).any():
        affected = _relatives(problem, affected)
    is_placed: Bool = solution.node[affected] != NOWHERE
    return affected[problem.movable[affected] & is_placed]


def _repair_randomly(
    search: Search,
    repaired: RuleMask,
    binding: RuleMask,
    breaches: Breaches,
    suspects: Int,
    rng: Stream,
    *,
    compares_rows: bool,
) -> bool:
    """Apply the best of several random repairs to the solution; return whether one was applied.

    `repaired`: rules to repair; `binding`: rules that bind the moves; `suspects`: (n,) the rows that may break a rule.
    `compares_rows`: see `Repairs`. It is only set under all rules: else two repairs could alternate, as one that
    improves a spread in part may break the rules that do not bind it, and a repair of these may break that spread
    otherwise.
    """
    problem, solution, config = search.problem, search.solution, search.config
    most_moves = 8 * len(solution.node) + 8
    state, best = new_repair_state(problem, breaches, most_moves), new_transaction(most_moves)
    load = occupied_nodes(problem, solution) + (solution.departed * problem.transient if problem.counts_departed else 0)
    one_action = config.one_action_per_refresh
    repairs = Repairs(
        repaired,
        binding,
        attempts=max(1, config.constraint_check_iterations_per_round),
        may_swap=config.enable_preferred_swap_solution_in_constraint_check,
        compares_energy=config.use_score_in_constraint_check,
        prefers_swaps=config.enable_preferred_swap_solution_in_constraint_check and one_action,
        one_action=one_action,
        broken_before=rules_broken_before(problem, solution, binding, suspects) if one_action else NO_ROWS,
        application_breaches=breaches_of_applications_before(
            problem, solution, binding, breaches.applications if one_action else NO_ROWS
        ),
        compares_rows=one_action and compares_rows,
    )
    constraints = constraints_of(search.extensions, problem, solution)
    with constraints.calls():
        try_repairs(problem, solution, constraints.state, repairs, load, rng, state, best)
    constraints.finish()
    return bool(best.length[0] > 0)
