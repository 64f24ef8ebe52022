"""Placement of new replicas: a random walk over the feasible nodes, then annealing over the new replicas only.

Replicas without a feasible node are retried without soft constraints, the softest first; last, existing replicas are
evicted (docs/service-fabric.md, Placement).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import Stream
from plb.energy.terms import present_energy
from plb.model import Metric
from plb.model.metric import PlacementStrategy
from plb.model.quanta import UNLIMITED
from plb.model.rules import RuleMask
from plb.search.annealing.annealing import anneal_chains
from plb.search.annealing.move_generation import Choice, migration_slots
from plb.search.balancing import emptiest_nodes
from plb.search.budget import Budget, EndReason, stream_of
from plb.search.extension_state import constraints_of
from plb.search.extensions import Extensions
from plb.search.policy_search import place_by_policy
from plb.search.repair.eviction import evict
from plb.search.repair.retries import new_retry, retry
from plb.search.result import Annealed, new_tally
from plb.search.transactions import NO_ROWS, new_transaction, place_in_turn
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.topology import is_packed, packs, reserves, strategy_of


def filtered(problem: Problem, solution: Solution, config: PlbConfig, rows: Int) -> Problem | None:
    """Return the problem with fewer targets for new `rows`, or None if the filter removes no target.

    A node is kept if, for the loads of some row, each of several such metrics keeps it.
    """
    filters = {
        index: _kept_by(problem, solution, metric, index, rows)
        for index, metric in enumerate(config.metrics)
        if _filters(metric) and problem.load[rows, index].any()
    }
    if not filters:
        return None
    kept = np.zeros(len(problem.limit), np.bool_)
    by_metric = np.array([*filters.values()])
    for concerned in np.unique(problem.load[rows][:, [*filters]] > 0, axis=0):
        kept |= by_metric[concerned].all(axis=0)
    targets = problem.targets[kept[problem.targets]]
    return problem._replace(targets=targets) if 0 < len(targets) < len(problem.targets) else None


def _filters(metric: Metric) -> bool:
    """Return whether a metric limits new replicas to some nodes."""
    limits = metric.placement_heuristic_incoming_load_factor > 0.0 or metric.placement_heuristic_empty_space_percent > 0
    return is_packed(metric) and (limits or reserves(metric))


def _kept_by(problem: Problem, solution: Solution, metric: Metric, index: int, rows: Int) -> Bool:
    """Return a mask, (N,), of the nodes to which a metric limits new `rows`: all without capacity, and some others."""
    counted = problem.counted_for[:, index]
    bounded = problem.limit[:, index] < UNLIMITED
    emptied = counted & emptiest_nodes(problem, solution, index) if reserves(metric) else np.zeros_like(counted)
    kept = counted & ~bounded
    offered = counted & bounded & ~emptied
    if strategy_of(metric) is PlacementStrategy.RESERVATION:
        return kept | offered
    free = _free_capacity(problem, solution, index)
    load = problem.load[rows, index]
    empty = free[counted & bounded & (emptied if reserves(metric) else True)].sum()
    goal = max(
        metric.placement_heuristic_incoming_load_factor * float(load.sum()),
        metric.placement_heuristic_empty_space_percent * float(empty),
    )
    least = _largest_partition(problem, rows) - int(kept.sum())
    if packs(metric):
        return kept | _fullest(solution, index, free, offered & (free > 0) & (free >= load.min()), goal, least)
    return kept | _least_loaded(problem, solution, index, offered, goal, least)


def _free_capacity(problem: Problem, solution: Solution, metric: int) -> Float:
    """Return the free quanta of each node, (N,); meaningless if it has no limit."""
    load = solution.node_load[:, metric] + problem.leaving_load[:, metric]
    free: Float = np.maximum(problem.limit[:, metric] - load, 0).astype(np.float64)
    return free


def _fullest(solution: Solution, metric: int, free: Float, offered: Bool, goal: float, least: int) -> Bool:
    """Return a mask, (N,), of the fullest of some nodes: at least `least`, with at least `goal` free."""
    order = np.argsort(-solution.node_load[:, metric], kind="stable")
    kept = np.zeros(len(free), np.bool_)
    total = 0.0
    for count, node in enumerate(order[offered[order]].tolist()):
        if count >= least and total >= goal:
            break
        kept[node] = True
        total += free[node]
    return kept


def _least_loaded(problem: Problem, solution: Solution, metric: int, offered: Bool, goal: float, least: int) -> Bool:
    """Return a mask, (N,), of the least loaded nodes: at least `least`, and as many as `goal` (0: any) levels."""
    load = solution.node_load[:, metric]
    order = np.argsort(load * problem.inverse_capacity[:, metric], kind="stable")
    kept = np.zeros(len(load), np.bool_)
    total = 0.0
    before = 0
    for count, node in enumerate(order[offered[order]].tolist()):
        total += float(load[node] - before) * count
        before = int(load[node])
        if goal > 0.0 and count >= least and total >= goal:
            break
        kept[node] = True
    return kept


def _largest_partition(problem: Problem, rows: Int) -> int:
    """Return the largest number of rows of one partition among `rows`, the least number of nodes that they need."""
    sizes = Counter(min(siblings_of(problem, row)) for row in rows.tolist())
    return max(sizes.values(), default=0)


def place_rows(
    problem: Problem,
    solution: Solution,
    rows: Sequence[int],
    all_or_nothing: Int,
    config: PlbConfig,
    masks: Sequence[RuleMask],
    seed: np.random.SeedSequence,
    budget: Budget,
    *,
    with_moves: bool,
    extensions: Extensions | None = None,
    others: Int = NO_ROWS,
) -> Annealed:
    """Place each of `rows` in `solution`; rows without a feasible node stay at NOWHERE.

    `all_or_nothing`: consecutive rows of one number are placed all or not at all; NOWHERE: individually.
    `masks`: enforced rules, from all to only the hard ones; `with_moves`: whether existing replicas may be evicted.
    `others`: rows that an earlier search may have placed or dropped.
    """
    slots = migration_slots(problem, solution, config.max_percentage_to_move_for_placement) if with_moves else 0
    if extensions is not None and extensions.policy is not None:
        return place_by_policy(extensions, problem, solution, rows, all_or_nothing, masks, seed, slots)
    tally, reason = new_tally(), EndReason.NOTHING_TO_DO
    left = np.array(rows, np.int64)
    last = config.dummy_plb_enabled
    tries = 1 if last else max(1, config.placement_search_iterations_per_round)
    stages = _stages(problem, solution, config, left, masks)
    for stage, (seen, mask) in enumerate(stages):
        rng = Stream(stream_of(seed, stage, 0))
        _place_randomly(seen, solution, extensions, left, all_or_nothing, mask, tries, last, rng)
        placed = left[solution.node[left] != NOWHERE]
        if len(placed) and not last:
            choice = Choice(placed, placed[:0], 0, mask, 0.0, 0.0)
            stream = stream_of(seed, stage, 1)
            result = anneal_chains(seen, solution, choice, config, stream, budget, extensions, others)
            reason = reason if reason is EndReason.OUT_OF_TIME else result.end_reason
            tally += result.tally
        unplaced = solution.node[left] == NOWHERE
        left, all_or_nothing = left[unplaced], all_or_nothing[unplaced]
        if not len(left):
            break
    if len(left) and with_moves:
        rng = Stream(stream_of(seed, len(stages)))
        constraints = constraints_of(extensions, problem, solution)
        with constraints.calls():
            evict(problem, solution, constraints.state, left, all_or_nothing, masks[-1], slots, tries, rng)
        constraints.finish()
    return Annealed(present_energy(problem, solution), tally, reason)


def _stages(
    problem: Problem, solution: Solution, config: PlbConfig, rows: Int, masks: Sequence[RuleMask]
) -> list[tuple[Problem, int]]:
    """Return what is searched in turn: problems with the targets of the candidate filter first, and masks."""
    few = filtered(problem, solution, config, rows)
    return [(seen, mask) for mask in masks for seen in ([problem] if few is None else [few, problem])]


def _place_randomly(
    problem: Problem,
    solution: Solution,
    extensions: Extensions | None,
    rows: Int,
    all_or_nothing: Int,
    enforced: RuleMask,
    tries: int,
    last: bool,
    rng: Stream,
) -> None:
    """Place `rows` in turn on random feasible nodes (or the `last` ones), at most `tries` times."""
    constraints = constraints_of(extensions, problem, solution)
    state, transaction = constraints.state, new_transaction(2 * len(rows))
    with constraints.calls():
        placed = place_in_turn(problem, solution, state, rows, all_or_nothing, enforced, last, rng, transaction)
        if placed < len(rows) and tries > 1:
            again = new_retry(problem, rows, all_or_nothing)
            retry(problem, solution, state, again, enforced, tries - 1, rng, transaction)
    constraints.finish()
