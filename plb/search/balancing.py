"""Balancing: annealing over all movable replicas when a metric is unbalanced (docs/service-fabric.md, Balancing)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import numpy as np

from plb.search.annealing import anneal_chains
from plb.search.budget import Budget
from plb.search.defragmentation import emptying_moves
from plb.search.extensions import Extensions
from plb.search.move_generation import Choice, migration_slots
from plb.search.result import Annealed
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution


@attrs.frozen
class Variant:
    """One of the alternative searches of balancing.

    Parameters
    ----------
    mask
        Enforced rules.
    swap_probability, exchange_probability
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


def most_displaced(problem: Problem, start: Solution, config: PlbConfig) -> int:
    """Return the largest number of replicas that a balancing run may displace."""
    slots = migration_slots(problem, start, config.max_percentage_to_move)
    return min(slots, problem.max_moves * 2)  # a swap of roles is one move and displaces two replicas


def balance(
    problem: Problem,
    start: Solution,
    config: PlbConfig,
    variants: Sequence[Variant],
    seed: np.random.SeedSequence,
    budget: Budget,
    services: Collection[int] | None = None,
    extensions: Extensions | None = None,
) -> Annealed:
    """Return the solution of lowest energy that the variants find; `start` is unchanged.

    Parameters
    ----------
    services
        Services whose replicas are proposed; replicas of others move only with these. None: all.
    extensions
        Extension terms and constraints.
    """
    movable = np.flatnonzero(problem.movable & (start.node >= 0))
    if services is not None:
        movable = movable[np.isin(problem.service[movable], sorted(services))]
    migrations = most_displaced(problem, start, config)
    found = []
    streams = [seed] if len(variants) == 1 else seed.spawn(len(variants))
    for index, (variant, stream) in enumerate(zip(variants, streams, strict=True)):
        seen, rows = emptying_moves(problem, start, config, movable) if variant.only_empties else (problem, movable)
        seen = seen._replace(biased=variant.biased)
        choice = Choice(
            movable[:0],
            rows,
            migrations,
            variant.mask,
            variant.swap_probability,
            variant.exchange_probability,
            config.spread_moves,
        )
        share = budget.share(len(variants) - index)
        found.append(anneal_chains(seen, start.copy(), choice, config, stream, share, extensions))
    best = min(found, key=lambda result: (result.energy, result.solution.totals.movement))
    tally = np.sum([result.tally for result in found], axis=0)
    return attrs.evolve(best, tally=tally)
