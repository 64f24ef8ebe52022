"""Balancing: annealing over all movable replicas when a metric is unbalanced (docs/service-fabric.md, Balancing)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import Stream
from plb.energy.imbalance import lack_of_empty_nodes
from plb.energy.terms import present_energy
from plb.model import Metric
from plb.model.metric import PlacementStrategy
from plb.model.outcome import Proposals
from plb.model.quanta import MetricQuanta
from plb.model.rules import RuleMask
from plb.model.service import Service
from plb.search.annealing.annealing import anneal_chains, without_leaving_load
from plb.search.annealing.move_generation import Choice, migration_slots, similar_partners
from plb.search.annealing.overload_price import is_priceable, with_overload_price
from plb.search.budget import Budget
from plb.search.extensions import Extensions
from plb.search.hottest_nodes import hot_nodes, relief_of, relieve
from plb.search.result import Annealed
from plb.search.transactions import NO_ROWS, go_to, places_of
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.topology import is_packed, packs, reserves, strategy_of, target_empty_nodes


def emptying_moves(problem: Problem, start: Solution, config: PlbConfig, movable: Int) -> tuple[Problem, Int]:
    """Return the problem with only the nodes as targets that are to stay in use, and the rows that load the others.

    For a packed metric, nodes above the mean of the counted nodes stay in use. For one that reserves nodes, all but as
    many of the emptiest as are to be empty.
    """
    used, emptied = np.zeros((2, len(problem.limit)), np.bool_)
    leaves = np.zeros(len(movable), np.bool_)
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if not counted.any() or not (packs(metric) or reserves(metric)):
            continue
        if packs(metric):
            load = start.node_load[:, index]
            stay = load > load[counted].mean()
        else:
            stay = ~emptiest_nodes(problem, start, index)
            emptied |= ~stay
        used |= stay
        leaves |= ~stay[start.node[movable]] & (problem.load[movable, index] > 0)
    targets = problem.targets[(used & ~emptied)[problem.targets]]
    if not len(targets):
        return problem, movable[:0]
    return problem._replace(targets=targets), movable[leaves]


def emptiest_nodes(problem: Problem, start: Solution, metric: int) -> Bool:
    """Return a mask, (N,), of the nodes of which the energy counts the lack of empty nodes."""
    lack_of_empty_nodes(problem, start, metric)
    picked: Bool = start.picked == 1
    return picked


@attrs.frozen
class Variant:
    """One of the alternative searches of balancing."""

    mask: RuleMask
    """Enforced rules."""
    swap_probability: float
    exchange_probability: float
    only_empties: bool = False
    """Whether replicas move only from less loaded to fuller nodes (`RestrictedDefragmentationHeuristic`)."""
    biased: bool = False
    """Whether sampling is biased to moves that may balance an unbalanced metric (`move_generation`)."""
    larger_share: float = 0.0
    """See `plb.search.annealing.move_generation.Choice`."""


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
    """Change `solution` to the one of lowest energy that the variants find.

    `services`: services whose replicas are proposed; replicas of others move only with these. None: all.
    `others`: rows that an earlier search may have placed or dropped.
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
    """Change the solution to the one of lowest energy that the variants find by moving `movable` rows."""
    begun = places_of(problem, solution, others)
    results = []
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
        results.append((result, int(solution.totals.movement), places_of(problem, solution, others)))
        go_to(problem, solution, begun, others)
    best, _, places = min(results, key=lambda ended: (ended[0].energy, ended[1]))
    go_to(problem, solution, places, others)
    tally = np.sum([result.tally for result, *_ in results], axis=0)
    larger_steps = sum((result.larger_steps for result, *_ in results), Proposals())
    return attrs.evolve(best, tally=tally, larger_steps=larger_steps)


def _is_empty(problem: Problem, solution: Solution, metric: int) -> Bool:
    """Return which nodes count as empty for a metric, (N,); with overlap, for all metrics that reserve nodes."""
    empty: Bool = solution.node_load <= problem.empty_limit
    if problem.empty_overlap and problem.reserving[metric]:
        return np.asarray(empty[:, problem.reserving].all(axis=1))
    return empty[:, metric]


def _needs_packing(metric: Metric, loads: Float, empty: Bool, group: Int) -> bool:
    """Return whether a metric is too even to be packed, has too few empty nodes, or is uneven on the other nodes.

    `loads`, `empty`: (n,) of the counted nodes; `group`: (2, n) their fault and upgrade domains.
    """
    if strategy_of(metric) is PlacementStrategy.RESERVATION_AND_BALANCE and not empty.all():
        others = loads[~empty]
        if _is_uneven(others, metric.balancing_threshold, metric.activity_threshold, float(others.max())):
            return True
    if metric.empty_nodes is not None or reserves(metric):
        return _lacks_empty_nodes(metric, empty, group)
    if metric.balancing_threshold == 1:
        return True
    for of_kind in group:
        for domain in np.unique(of_kind):
            inside = loads[of_kind == domain]
            if len(inside) >= 2 and inside.min() > 0 and inside.max() / inside.min() <= metric.balancing_threshold:
                return True
    return False


def _lacks_empty_nodes(metric: Metric, empty: Bool, group: Int) -> bool:
    """Return whether fewer nodes are empty than the metric requires, in total or in some domain."""
    target = target_empty_nodes(metric, len(empty))
    if not metric.empty_nodes_across_domains:
        return bool(empty.sum() < target)
    for of_kind in group:
        counts = [int(empty[of_kind == domain].sum()) for domain in np.unique(of_kind)]
        share, rest = divmod(target, len(counts))
        enough = sum(1 for count in counts if count > share)
        if min(counts) < share or enough < rest:
            return True
    return False


def uneven_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return `Problem.uneven`, (1 + L, R): unbalanced metrics over all services, and within local domains."""
    over_all = unbalanced_metrics(problem, solution, config, quanta)
    return np.vstack([over_all, unbalanced_locals(problem, solution, config, quanta)])


def is_unbalanced(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> bool:
    """Return whether a metric is unbalanced, in all or one service (docs/service-fabric.md, Balancing thresholds)."""
    return bool(uneven_metrics(problem, solution, config, quanta).any())


def unbalanced_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return which metrics are unbalanced over all services, (R,), by loads of counted nodes in user units."""
    uneven = np.zeros(len(config.metrics), np.bool_)
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if problem.metric_weight[index] <= 0 or metric.balancing_threshold <= 0 or not counted.any():
            continue
        loads = quanta.in_user_units(metric.name, solution.node_load[counted, index])
        if is_packed(metric):
            empty = _is_empty(problem, solution, index)[counted]
            uneven[index] = _needs_packing(metric, loads, empty, problem.group[:, counted])
        else:
            uneven[index] = _is_uneven(loads, metric.balancing_threshold, metric.activity_threshold, loads.max())
    return uneven


def unbalanced_services(
    problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta, services: Mapping[int, Service]
) -> set[int]:
    """Return the indices of the services with a metric that is unbalanced over all services or within the service."""
    over_all = unbalanced_metrics(problem, solution, config, quanta)
    names = {metric.name for metric, unbalanced in zip(config.metrics, over_all, strict=True) if unbalanced}
    within = unbalanced_locals(problem, solution, config, quanta)
    uneven = set()
    for index, service in services.items():
        local = int(problem.local_of[index])
        has_one = bool(names) if service.metrics is None else bool(names & set(service.metrics))
        if has_one or (local != NOWHERE and within[local].any()):
            uneven.add(index)
    return uneven


def _is_uneven(loads: Float, threshold: float, activity: float, highest: float) -> bool:
    """Return whether max > min + 1, `highest` exceeds the activity threshold, and max/min exceeds the threshold."""
    low, high = float(loads.min()), float(loads.max())
    active = activity == 0 or highest > activity
    return high > low + 1 and active and (not (threshold > 1 and low > 0) or high / low > threshold)


def unbalanced_locals(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return which metrics of local domains are unbalanced, (L, R); none without `local_balancing_threshold`."""
    unbalanced = np.zeros(problem.local_weight.shape, np.bool_)
    if config.local_balancing_threshold <= 0:
        return unbalanced
    for local in range(len(problem.local_nodes)):
        counted = problem.local_counted[local]
        for index, metric in enumerate(config.metrics):
            if problem.local_weight[local, index] <= 0 or is_packed(metric) or not counted.any():
                continue
            loads = quanta.in_user_units(metric.name, solution.local_load[local, counted, index])
            highest = quanta.to_user(metric.name, int(solution.node_load[counted, index].max()))
            unbalanced[local, index] = _is_uneven(
                loads, config.local_balancing_threshold, metric.activity_threshold, highest
            )
    return unbalanced
