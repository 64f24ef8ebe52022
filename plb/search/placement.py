"""Placement of new replicas: a random walk over the feasible nodes, then annealing over the new replicas only.

Replicas without a feasible node are retried without soft constraints, the softest first; last, existing replicas are
evicted (docs/service-fabric.md, Placement).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream
from plb.energy.terms import present_energy
from plb.search.annealing import anneal_chains
from plb.search.budget import Budget, EndReason
from plb.search.candidate_filter import filtered
from plb.search.eviction import evict
from plb.search.extension_state import constraints_of
from plb.search.extensions import Extensions
from plb.search.move_generation import Choice, migration_slots
from plb.search.places import NO_ROWS
from plb.search.policy_search import place_by_policy
from plb.search.random_streams import stream_of
from plb.search.result import Annealed, new_tally
from plb.search.retries import new_retry, retry
from plb.search.transactions import new_transaction, place_in_turn
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution


def place_rows(
    problem: Problem,
    solution: Solution,
    rows: Sequence[int],
    all_or_nothing: Int,
    config: PlbConfig,
    masks: Sequence[int],
    seed: np.random.SeedSequence,
    budget: Budget,
    *,
    with_moves: bool,
    extensions: Extensions | None = None,
    others: Int = NO_ROWS,
) -> Annealed:
    """Place each of `rows`; rows without a feasible node stay at NOWHERE.

    Parameters
    ----------
    solution
        Modified.
    all_or_nothing
        Same shape as `rows`: consecutive rows of one number are placed all or not at all; NOWHERE: individually.
    masks
        Enforced rules, from all to only the hard ones.
    with_moves
        Whether existing replicas may be evicted.
    extensions
        Extension terms and constraints; a policy decides in place of the search.
    others
        Rows that an earlier search may have placed or dropped.
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
    problem: Problem, solution: Solution, config: PlbConfig, rows: Int, masks: Sequence[int]
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
    enforced: int,
    tries: int,
    last: bool,
    rng: Stream,
) -> None:
    """Place `rows` in turn on random feasible nodes, and again what found none, within the extension constraints.

    Parameters
    ----------
    all_or_nothing
        See `place_rows`.
    tries
        The first, and those of what found no node.
    last
        Whether to use the last feasible node instead of a random one.
    """
    constraints = constraints_of(extensions, problem, solution)
    state, transaction = constraints.state, new_transaction(2 * len(rows))
    with constraints.calls():
        placed = place_in_turn(problem, solution, state, rows, all_or_nothing, enforced, last, rng, transaction)
        if placed < len(rows) and tries > 1:
            again = new_retry(problem, rows, all_or_nothing)
            retry(problem, solution, state, again, enforced, tries - 1, rng, transaction)
    constraints.finish()
