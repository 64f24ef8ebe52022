"""Placement of new replicas: a random walk over the feasible nodes, then annealing over the new replicas only.

Replicas without a feasible node are retried without soft constraints, the softest first; last, existing replicas are
evicted (docs/service-fabric.md, Placement).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs
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
from plb.search.policy_search import place_by_policy
from plb.search.repair.eviction import evict
from plb.search.repair.retries import new_retry, retry
from plb.search.result import Annealed, Search, new_tally
from plb.search.transactions import PlacementGroups, new_transaction, place_in_turn
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.topology import is_packed, packs, reserves, strategy_of


def filtered(problem: Problem, solution: Solution, config: PlbConfig, rows: Int) -> Problem | None:
    """Return the problem with fewer targets for new rows, or None if the filter removes no target.

    `rows`: (m,) rows to place. A metric may limit rows that have load of it to some nodes (`_kept_by`). A target stays
    if, for some row, all metrics of which the row has load keep it.
    """
    kept_by_metric = {
        metric_index: _kept_by(problem, solution, metric, metric_index, rows)
        for metric_index, metric in enumerate(config.metrics)
        if _filters(metric) and problem.load[rows, metric_index].any()
    }
    if not kept_by_metric:
        return None
    kept = np.zeros(len(problem.limit), np.bool_)
    masks = np.array([*kept_by_metric.values()])
    for has_load in np.unique(problem.load[rows][:, [*kept_by_metric]] > 0, axis=0):
        kept |= masks[has_load].all(axis=0)
    targets = problem.targets[kept[problem.targets]]
    return problem._replace(targets=targets) if 0 < len(targets) < len(problem.targets) else None


def _filters(metric: Metric) -> bool:
    """Return whether the settings of a metric limit new replicas to some nodes."""
    limits = metric.placement_heuristic_incoming_load_factor > 0.0 or metric.placement_heuristic_empty_space_percent > 0
    return is_packed(metric) and (limits or reserves(metric))


def _kept_by(problem: Problem, solution: Solution, metric: Metric, metric_index: int, rows: Int) -> Bool:
    """Return a mask, (N,), of the nodes to which a metric limits new `rows`, (m,).

    These are the nodes without a limit, and some others by load. `metric_index`: index of `metric`.
    """
    counted = problem.counted_for[:, metric_index]
    bounded = problem.limit[:, metric_index] < UNLIMITED
    emptied = counted & emptiest_nodes(problem, solution, metric_index) if reserves(metric) else np.zeros_like(counted)
    kept = counted & ~bounded
    offered = counted & bounded & ~emptied
    if strategy_of(metric) is PlacementStrategy.RESERVATION:
        return kept | offered
    free = _free_capacity(problem, solution, metric_index)
    load = problem.load[rows, metric_index]
    empty = free[counted & bounded & (emptied if reserves(metric) else True)].sum()
    least_free = max(
        metric.placement_heuristic_incoming_load_factor * float(load.sum()),
        metric.placement_heuristic_empty_space_percent * float(empty),
    )
    # replicas of one partition need as many nodes
    least_nodes = _largest_partition(problem, rows) - int(kept.sum())
    if packs(metric):
        return kept | _fullest(
            solution, metric_index, free, offered & (free > 0) & (free >= load.min()), least_free, least_nodes
        )
    return kept | _least_loaded(problem, solution, metric_index, offered, least_free, least_nodes)


def _free_capacity(problem: Problem, solution: Solution, metric: int) -> Float:
    """Return the free quanta of each node, (N,), of the metric with index `metric`; meaningless without a limit."""
    load = solution.node_load[:, metric] + problem.leaving_load[:, metric]
    free_capacity: Float = np.maximum(problem.limit[:, metric] - load, 0).astype(np.float64)
    return free_capacity


def _fullest(solution: Solution, metric: int, free: Float, offered: Bool, least_free: float, least_nodes: int) -> Bool:
    """Return a mask, (N,), of the nodes of `offered`, (N,), that have most load of the metric with index `metric`.

    Chosen are `least_nodes` at least, and so many that their `free`, (N,) quanta, adds up to `least_free` at least; all
    if there are fewer.
    """
    order = np.argsort(-solution.node_load[:, metric], kind="stable")
    kept = np.zeros(len(free), np.bool_)
    kept_free = 0.0
    for count, node in enumerate(order[offered[order]].tolist()):
        if count >= least_nodes and kept_free >= least_free:
            break
        kept[node] = True
        kept_free += free[node]
    return kept


def _least_loaded(
    problem: Problem, solution: Solution, metric: int, offered: Bool, least_free: float, least_nodes: int
) -> Bool:
    """Return a mask, (N,), of the least utilised nodes of `offered`, (N,), in the metric with index `metric`.

    Chosen are `least_nodes` at least, and so many that `least_free` quanta can be added to them before all have the
    load of the next node; with 0, all nodes offered.
    """
    load = solution.node_load[:, metric]
    order = np.argsort(load * problem.inverse_capacity[:, metric], kind="stable")
    kept = np.zeros(len(load), np.bool_)
    added = 0.0
    last_load = 0
    for count, node in enumerate(order[offered[order]].tolist()):
        added += float(load[node] - last_load) * count
        last_load = int(load[node])
        if least_free > 0.0 and count >= least_nodes and added >= least_free:
            break
        kept[node] = True
    return kept


def _largest_partition(problem: Problem, rows: Int) -> int:
    """Return the largest number of rows of one partition among `rows`, (m,)."""
    rows_of_partition = Counter(min(siblings_of(problem, row)) for row in rows.tolist())
    return max(rows_of_partition.values(), default=0)


def place_rows(
    search: Search,
    rows: Sequence[int],
    all_or_nothing: PlacementGroups,
    masks: Sequence[RuleMask],
    seed: np.random.SeedSequence,
    budget: Budget,
    *,
    with_moves: bool,
) -> Annealed:
    """Place each replica of `rows` in the solution; rows without a feasible node stay at NOWHERE.

    `masks`: enforced rules, from all to only the hard ones, which apply where a stricter mask finds no node;
    `all_or_nothing`: (m,) groups that are placed as a whole; `with_moves`: whether existing replicas may be evicted.
    """
    problem, solution, config, extensions = search.problem, search.solution, search.config, search.extensions
    slots = migration_slots(problem, solution, config.max_percentage_to_move_for_placement) if with_moves else 0
    if extensions is not None and extensions.policy is not None:
        return place_by_policy(search, rows, all_or_nothing, masks, seed, slots)
    tally, reason = new_tally(), EndReason.NOTHING_TO_DO
    unplaced_rows = np.array(rows, np.int64)
    tries = 1 if config.dummy_plb_enabled else max(1, config.placement_search_iterations_per_round)
    stages = _stages(problem, solution, config, unplaced_rows, masks)
    for stage, (searched, enforced) in enumerate(stages):
        rng, staged = Stream(stream_of(seed, stage, 0)), attrs.evolve(search, problem=searched)
        _place_randomly(staged, unplaced_rows, all_or_nothing, enforced, tries, rng)
        placed_rows = unplaced_rows[solution.node[unplaced_rows] != NOWHERE]
        if len(placed_rows) and not config.dummy_plb_enabled:
            choice = Choice(placed_rows, placed_rows[:0], 0, enforced, 0.0, 0.0)
            result = anneal_chains(staged, choice, stream_of(seed, stage, 1), budget)
            reason = reason if reason is EndReason.OUT_OF_TIME else result.end_reason
            tally += result.tally
        is_unplaced = solution.node[unplaced_rows] == NOWHERE
        unplaced_rows, all_or_nothing = unplaced_rows[is_unplaced], all_or_nothing[is_unplaced]
        if not len(unplaced_rows):
            break
    if len(unplaced_rows) and with_moves:
        rng = Stream(stream_of(seed, len(stages)))
        constraints = constraints_of(extensions, problem, solution)
        with constraints.calls():
            evict(problem, solution, constraints.state, unplaced_rows, all_or_nothing, masks[-1], slots, tries, rng)
        constraints.finish()
    return Annealed(present_energy(problem, solution), tally, reason)


def _stages(
    problem: Problem, solution: Solution, config: PlbConfig, rows: Int, masks: Sequence[RuleMask]
) -> list[tuple[Problem, int]]:
    """Return the stages of placing `rows`: (m,) for each of `masks`, the problem filtered, if it can be, then whole."""
    filtered_problem = filtered(problem, solution, config, rows)
    return [
        (searched, mask)
        for mask in masks
        for searched in ([problem] if filtered_problem is None else [filtered_problem, problem])
    ]


def _place_randomly(
    search: Search, rows: Int, all_or_nothing: PlacementGroups, enforced: RuleMask, tries: int, rng: Stream
) -> None:
    """Place replicas `rows`, (m,), on random nodes that the `enforced` rules allow, in at most `tries` tries.

    With `dummy_plb_enabled`, a replica goes to the newest allowed node.
    """
    problem, solution, takes_last_node = search.problem, search.solution, search.config.dummy_plb_enabled
    constraints = constraints_of(search.extensions, problem, solution)
    state, transaction = constraints.state, new_transaction(2 * len(rows))
    with constraints.calls():
        placed = place_in_turn(
            problem, solution, state, rows, all_or_nothing, enforced, takes_last_node, rng, transaction
        )
        if placed < len(rows) and tries > 1:
            record = new_retry(problem, rows, all_or_nothing)
            retry(problem, solution, state, record, enforced, tries - 1, rng, transaction)
    constraints.finish()
