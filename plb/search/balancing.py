"""Balancing: annealing over all movable replicas when a metric is unbalanced (docs/service-fabric.md, Balancing)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import numpy as np

from plb.array_types import Int
from plb.compiler import Stream
from plb.energy.terms import present_energy
from plb.model.outcome import Proposals
from plb.search.annealing import anneal_chains, without_leaving_load
from plb.search.budget import Budget
from plb.search.defragmentation import emptying_moves
from plb.search.extensions import Extensions
from plb.search.hottest_nodes import hot_nodes, relief_of, relieve
from plb.search.move_generation import Choice, migration_slots
from plb.search.overload_price import is_priceable, with_overload_price
from plb.search.places import NO_ROWS, go_to, places_of
from plb.search.result import Annealed
from plb.search.similar_replicas import similar_partners
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution


@attrs.frozen
class Variant:
    """One of the alternative searches of balancing.

    Parameters
    ----------
    mask
        Enforced rules.
    swap_probability, exchange_probability, larger_share
        See `plb.search.move_generation.Choice`.
    only_empties
        Whether replicas move only from less loaded to fuller nodes (`RestrictedDefragmentationHeuristic`).
    biased
        Whether sampling is biased to moves that may balance an unbalanced metric (`plb.search.biased_sampling`).
    """

    mask: int
    swap_probability: float
    exchange_probability: float
    only_empties: bool = False
    biased: bool = False
    larger_share: float = 0.0


def most_displaced(problem: Problem, start: Solution, config: PlbConfig) -> int:
    """Return the largest number of replicas that a balancing run may displace."""
    slots = migration_slots(problem, start, config.max_percentage_to_move)
    return min(slots, problem.max_moves * 2)  # a swap of roles is one move and displaces two replicas


def balance(
    problem: Problem,
    solution: Solution,
    config: PlbConfig,
    variants: Sequence[Variant],
    seed: np.random.SeedSequence,
    budget: Budget,
    services: Collection[int] | None = None,
    extensions: Extensions | None = None,
    others: Int = NO_ROWS,
) -> Annealed:
    """Change the solution to that of lowest energy that the variants find.

    Parameters
    ----------
    solution
        Modified.
    services
        Services whose replicas are proposed; replicas of others move only with these. None: all.
    extensions
        Extension terms and constraints.
    others
        Rows that an earlier search may have placed or dropped.
    """
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    if services is not None:
        movable = movable[np.isin(problem.service[movable], sorted(services))]
    limit = most_displaced(problem, solution, config)
    is_plain = extensions is None and solution.totals.displaced == 0
    relief = relief_of(problem, config, budget, len(movable), limit) if is_plain else None
    moves, held, rest = (0, problem, budget) if relief is None else (relief.moves, *relief.held_back(problem, budget))
    result = _best_of_variants(held, solution, config, variants, seed, rest, movable, limit - moves, extensions, others)
    if relief is None:
        return result
    hot = hot_nodes(problem, solution, movable, relief)
    relieve(problem, solution, variants[0].mask, limit, hot, Stream(seed.spawn(1)[0]), result.tally)
    return attrs.evolve(result, energy=float(present_energy(problem, solution)))


def _best_of_variants(
    problem: Problem,
    solution: Solution,
    config: PlbConfig,
    variants: Sequence[Variant],
    seed: np.random.SeedSequence,
    budget: Budget,
    movable: Int,
    migrations: int,
    extensions: Extensions | None,
    others: Int,
) -> Annealed:
    """Change the solution to that of lowest energy that the variants find by moving `movable` rows."""
    begun = places_of(problem, solution, others)
    found = []
    streams = [seed] if len(variants) == 1 else seed.spawn(len(variants))
    for index, (variant, stream) in enumerate(zip(variants, streams, strict=True)):
        seen, rows = emptying_moves(problem, solution, config, movable) if variant.only_empties else (problem, movable)
        seen = seen._replace(biased=variant.biased)
        choice = Choice(
            movable[:0],
            rows,
            migrations,
            variant.mask,
            variant.swap_probability,
            variant.exchange_probability,
            config.spread_moves,
            exchanges_of_moved=variant.exchange_probability if config.exchange_moved_replicas else 0.0,
            larger_share=variant.larger_share,
            **similar_partners(problem, solution, rows, config),
        )
        share = budget.share(len(variants) - index)
        searched = extensions
        if config.soft_capacity and extensions is not None and is_priceable(seen):
            seen = without_leaving_load(seen, config)
            searched = with_overload_price(extensions, seen, solution)
        result = anneal_chains(seen, solution, choice, config, stream, share, searched, others)
        if len(variants) == 1:
            return result
        found.append((result, int(solution.totals.movement), places_of(problem, solution, others)))
        go_to(problem, solution, begun, others)
    best, _, places = min(found, key=lambda one: (one[0].energy, one[1]))
    go_to(problem, solution, places, others)
    tally = np.sum([result.tally for result, *_ in found], axis=0)
    larger_steps = sum((result.larger_steps for result, *_ in found), Proposals())
    return attrs.evolve(best, tally=tally, larger_steps=larger_steps)
