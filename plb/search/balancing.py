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
from plb.search.hottest_nodes import hot_nodes, relief_of, relieve
from plb.search.result import Annealed, Search
from plb.search.transactions import go_to, places_of
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.topology import is_packed, packs, reserves, strategy_of, target_empty_nodes


def emptying_moves(problem: Problem, start: Solution, config: PlbConfig, movable: Int) -> tuple[Problem, Int]:
    """Return the problem with only nodes that stay in use as targets, and the `movable` rows, (n,), on other nodes.

    A packed metric keeps the nodes in use whose load is above the mean of the counted nodes. A metric that reserves
    nodes keeps all but its emptiest ones. No row is returned if no node stays in use.
    """
    kept, to_be_empty = np.zeros((2, len(problem.limit)), np.bool_)
    is_leaving = np.zeros(len(movable), np.bool_)
    for metric_index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, metric_index]
        if not counted.any() or not (packs(metric) or reserves(metric)):
            continue
        if packs(metric):
            load = start.node_load[:, metric_index]
            kept_for_metric = load > load[counted].mean()
        else:
            kept_for_metric = ~emptiest_nodes(problem, start, metric_index)
            to_be_empty |= ~kept_for_metric
        kept |= kept_for_metric
        is_leaving |= ~kept_for_metric[start.node[movable]] & (problem.load[movable, metric_index] > 0)
    targets = problem.targets[(kept & ~to_be_empty)[problem.targets]]
    if not len(targets):
        return problem, movable[:0]
    return problem._replace(targets=targets), movable[is_leaving]


def emptiest_nodes(problem: Problem, start: Solution, metric: int) -> Bool:
    """Return a mask, (N,), of the nodes that are the nearest to being empty of the metric with index `metric`."""
    # marks the nodes in `start.picked`, scratch
    lack_of_empty_nodes(problem, start, metric)
    is_emptiest: Bool = start.picked == 1
    return is_emptiest


@attrs.frozen
class Variant:
    """One of the alternative searches of balancing."""

    mask: RuleMask
    """Enforced rules."""
    swap_probability: float
    """Probability that a proposal for a row on its origin swaps roles."""
    exchange_probability: float
    """Probability that it exchanges two replicas of different partitions."""
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
    search: Search,
    variants: Sequence[Variant],
    seed: np.random.SeedSequence,
    budget: Budget,
    services: Collection[int] | None = None,
) -> Annealed:
    """Change the solution to the one of lowest energy that the variants find, and return its energy and the statistics.

    `services`: indices of the services whose replicas are proposed, or None for all; others move only with these.
    """
    problem, solution, config = search.problem, search.solution, search.config
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    if services is not None:
        movable = movable[np.isin(problem.service[movable], sorted(services))]
    limit = most_displaced(problem, solution, config)
    is_plain = search.extensions is None and solution.totals.displaced == 0
    relief = relief_of(problem, config, budget, len(movable), limit) if is_plain else None
    if relief is None:
        return _best_of_variants(search, variants, seed, budget, movable, limit)
    # some moves and a part of the budget are kept for the hottest nodes
    searched, search_budget = relief.held_back(problem, budget)
    search = attrs.evolve(search, problem=searched)
    result = _best_of_variants(search, variants, seed, search_budget, movable, limit - relief.moves)
    hot = hot_nodes(problem, solution, movable, relief)
    relieve(problem, solution, variants[0].mask, limit, hot, Stream(seed.spawn(1)[0]), result.tally)
    return attrs.evolve(result, energy=float(present_energy(problem, solution)))


def _best_of_variants(
    search: Search, variants: Sequence[Variant], seed: np.random.SeedSequence, budget: Budget, movable: Int, limit: int
) -> Annealed:
    """Change the solution to the one of lowest energy that a variant finds by moving rows of `movable`, (n,).

    Variants share the budget and begin at the same solution. `limit`: most rows displaced at once.
    """
    problem, solution, config, others = search.problem, search.solution, search.config, search.others
    start_places = places_of(problem, solution, others)
    results = []
    seeds = [seed] if len(variants) == 1 else seed.spawn(len(variants))
    for index, (variant, variant_seed) in enumerate(zip(variants, seeds, strict=True)):
        searched, rows = problem, movable
        if variant.only_empties:
            searched, rows = emptying_moves(problem, solution, config, movable)
        searched = searched._replace(biased=variant.biased)
        choice = Choice(
            movable[:0],
            rows,
            limit,
            variant.mask,
            variant.swap_probability,
            variant.exchange_probability,
            config.spread_moves,
            exchanges_of_moved=variant.exchange_probability if config.exchange_moved_replicas else 0.0,
            larger_share=variant.larger_share,
            **similar_partners(problem, solution, rows, config),
        )
        variant_budget = budget.share(len(variants) - index)
        extensions = search.extensions
        if config.soft_capacity and extensions is not None and is_priceable(searched):
            searched = without_leaving_load(searched, config)
            extensions = with_overload_price(extensions, searched, solution)
        variant_search = attrs.evolve(search, problem=searched, extensions=extensions)
        result = anneal_chains(variant_search, choice, variant_seed, variant_budget)
        if len(variants) == 1:
            return result
        results.append((result, int(solution.totals.movement), places_of(problem, solution, others)))
        go_to(problem, solution, start_places, others)
    best, _, places = min(results, key=lambda entry: (entry[0].energy, entry[1]))
    go_to(problem, solution, places, others)
    tally = np.sum([result.tally for result, *_ in results], axis=0)
    larger_steps = sum((result.larger_steps for result, *_ in results), Proposals())
    return attrs.evolve(best, tally=tally, larger_steps=larger_steps)


def _is_empty(problem: Problem, solution: Solution, metric: int) -> Bool:
    """Return which nodes, (N,), are empty of the metric with this index; with overlap, of all that reserve nodes."""
    empty: Bool = solution.node_load <= problem.empty_limit
    if problem.empty_overlap and problem.reserving[metric]:
        return np.asarray(empty[:, problem.reserving].all(axis=1))
    return empty[:, metric]


def _needs_packing(metric: Metric, loads: Float, empty: Bool, domains: Int) -> bool:
    """Return whether a metric is too even to be packed, has too few empty nodes, or is uneven on the other nodes.

    `loads`, `empty`: (n,) of the counted nodes, user units; `domains`: (2, n) their fault and upgrade domains.
    """
    if strategy_of(metric) is PlacementStrategy.RESERVATION_AND_BALANCE and not empty.all():
        not_empty = loads[~empty]
        if _is_uneven(not_empty, metric.balancing_threshold, metric.activity_threshold, float(not_empty.max())):
            return True
    if metric.empty_nodes is not None or reserves(metric):
        return _lacks_empty_nodes(metric, empty, domains)
    if metric.balancing_threshold == 1:
        return True
    for domain_of_node in domains:
        for domain in np.unique(domain_of_node):
            in_domain = loads[domain_of_node == domain]
            low, high = in_domain.min(), in_domain.max()
            if len(in_domain) >= 2 and low > 0 and high / low <= metric.balancing_threshold:
                return True
    return False


def _lacks_empty_nodes(metric: Metric, empty: Bool, domains: Int) -> bool:
    """Return whether fewer nodes are empty than the metric requires, in total or in some domain.

    `empty`: (n,) of the counted nodes; `domains`: (2, n) their fault and upgrade domains.
    """
    target = target_empty_nodes(metric, len(empty))
    if not metric.empty_nodes_across_domains:
        return bool(empty.sum() < target)
    for domain_of_node in domains:
        counts = [int(empty[domain_of_node == domain].sum()) for domain in np.unique(domain_of_node)]
        # evenly spread, each domain has `share` empty nodes, and some domains have one more
        share, domains_with_more = divmod(target, len(counts))
        domains_above = sum(1 for count in counts if count > share)
        if min(counts) < share or domains_above < domains_with_more:
            return True
    return False


def uneven_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return `Problem.uneven`, (1 + L, R): unbalanced metrics over all services, and within local domains."""
    globally = unbalanced_metrics(problem, solution, config, quanta)
    return np.vstack([globally, unbalanced_locals(problem, solution, config, quanta)])


def is_unbalanced(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> bool:
    """Return whether a metric is unbalanced, in all or one service (docs/service-fabric.md, Balancing thresholds)."""
    return bool(uneven_metrics(problem, solution, config, quanta).any())


def unbalanced_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return which metrics are unbalanced over all services, (R,), by the loads of counted nodes in user units."""
    uneven = np.zeros(len(config.metrics), np.bool_)
    for metric_index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, metric_index]
        if problem.metric_weight[metric_index] <= 0 or metric.balancing_threshold <= 0 or not counted.any():
            continue
        loads = quanta.in_user_units(metric.name, solution.node_load[counted, metric_index])
        if is_packed(metric):
            empty = _is_empty(problem, solution, metric_index)[counted]
            uneven[metric_index] = _needs_packing(metric, loads, empty, problem.group[:, counted])
        else:
            uneven[metric_index] = _is_uneven(loads, metric.balancing_threshold, metric.activity_threshold, loads.max())
    return uneven


def unbalanced_services(
    problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta, services: Mapping[int, Service]
) -> set[int]:
    """Return the indices of the services with a metric that is unbalanced over all services or within the service."""
    globally = unbalanced_metrics(problem, solution, config, quanta)
    names = {metric.name for metric, unbalanced in zip(config.metrics, globally, strict=True) if unbalanced}
    locally = unbalanced_locals(problem, solution, config, quanta)
    uneven = set()
    for service_index, service in services.items():
        local = int(problem.local_of[service_index])
        has_unbalanced_metric = bool(names) if service.metrics is None else bool(names & set(service.metrics))
        if has_unbalanced_metric or (local != NOWHERE and locally[local].any()):
            uneven.add(service_index)
    return uneven


def _is_uneven(loads: Float, threshold: float, activity: float, highest: float) -> bool:
    """Return whether loads are uneven: max > min + 1, max/min > `threshold`, and `highest` > `activity`.

    `loads`: (n,) of nodes, and `highest`, the largest total load of a node, in user units. The ratio counts only if
    `threshold` > 1 and the minimum is above 0, `highest` only if `activity` is not 0.
    """
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
        for metric_index, metric in enumerate(config.metrics):
            if problem.local_weight[local, metric_index] <= 0 or is_packed(metric) or not counted.any():
                continue
            loads = quanta.in_user_units(metric.name, solution.local_load[local, counted, metric_index])
            highest = quanta.to_user(metric.name, int(solution.node_load[counted, metric_index].max()))
            unbalanced[local, metric_index] = _is_uneven(
                loads, config.local_balancing_threshold, metric.activity_threshold, highest
            )
    return unbalanced
