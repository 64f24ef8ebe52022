"""Runs an algorithm of [3] on an instance."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

import numpy as np

from plb.array_types import Float, Int
from plb.provisioning.algorithm_names import Algorithm, Way, parse_algorithm
from plb.provisioning.application_centric import first_fit, no_candidates, ordered_fit
from plb.provisioning.fewest_candidates import fewest_candidates, nothing_struck
from plb.provisioning.matching import match, no_matches
from plb.provisioning.measures import Measure, hybrid, residual_of, sizes
from plb.provisioning.node_centric import fill_nodes, nothing_filled
from plb.provisioning.node_count_search import fewest_nodes, with_enough_nodes
from plb.provisioning.packing import STOPPED, Packing, places_of
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.released_programs import fill_in_turn, nothing_sorted, resorted_fit, whole_shares
from plb.provisioning.solver_context import ReportProgress, SolverContext, order_of
from plb.provisioning.spreading import nothing_spread, spread

FIRST_FIT = parse_algorithm("FF")


class Rules(StrEnum):
    """Whose rules an algorithm follows."""

    PAPER = "paper"
    """The text of [3]."""
    RELEASED = "released"
    """Its authors' programs, which do other things in places; see `plb.provisioning.released_programs`."""


def run(context: SolverContext, algorithm: Algorithm, rules: Rules, report: ReportProgress) -> ProvisioningPlan:
    """Run an algorithm other than the integer program; see `provision`."""
    if algorithm.way in (Way.SPREAD, Way.MATCH):
        return _fewest_nodes(context, algorithm, rules, report)
    if algorithm == FIRST_FIT:
        return first_fit_plan(context)
    order = _order(context, algorithm, rules)
    with context.watched():
        packing, outcome = with_enough_nodes(context, algorithm, partial(_pack, context, algorithm, rules, order))
    return first_fit_plan(context) if outcome == STOPPED else context.plan(packing, algorithm.name)


def _order(context: SolverContext, algorithm: Algorithm, rules: Rules) -> Int:
    """Return the applications, (L,), in the order of an algorithm."""
    return order_of(_sizes(context, algorithm, rules)) if algorithm.decreasing else np.arange(len(context.demand))


def _sizes(context: SolverContext, algorithm: Algorithm, rules: Rules) -> Float:
    if algorithm.demand_share == 0.0:
        return context.degrees.astype(np.float64)
    shares = context.shares
    # the programs do divide by the total as a real number here
    if rules is Rules.RELEASED and algorithm.measure is not Measure.EXTENDED_SUM:
        shares = whole_shares(context.demand, context.capacity)
    size = sizes(algorithm.measure, shares, context.instance.replicas)
    return size if algorithm.demand_share == 1.0 else hybrid(size, context.degrees, algorithm.demand_share)


def _pack(context: SolverContext, algorithm: Algorithm, rules: Rules, order: Int, packing: Packing) -> int:
    """Fill a packing; return 0, `NO_CAPACITY` or `STOPPED`."""
    nodes = len(packing.free)
    if algorithm.way is Way.FIRST_FIT:
        return first_fit(order, packing)
    if algorithm.way is Way.NODE_CANDIDATES:
        return fewest_candidates(packing, nothing_struck(order, nodes))
    if algorithm.way is Way.NODE_CENTRIC:
        fill = fill_in_turn if rules is Rules.RELEASED else fill_nodes
        return fill(packing, nothing_filled(algorithm.score, order, packing, context.capacity))
    sign = 1 if algorithm.way is Way.BEST_FIT else -1
    residual = residual_of(algorithm.measure, context.capacity)
    if rules is Rules.RELEASED:
        return resorted_fit(order, packing, nothing_sorted(nodes, residual), sign)
    return ordered_fit(order, packing, no_candidates(nodes), residual, sign)


def _fewest_nodes(
    context: SolverContext, algorithm: Algorithm, rules: Rules, report: ReportProgress
) -> ProvisioningPlan:
    """Return a plan of an algorithm for a fixed number of nodes, with the smallest at which it succeeds."""
    order = _order(context, algorithm, rules)
    pack = partial(_place_all, context, algorithm, rules, order)
    return fewest_nodes(context, algorithm, first_fit_plan(context), pack, report)


def first_fit_plan(context: SolverContext) -> ProvisioningPlan:
    """Return First Fit's plan; it is never stopped."""
    order, never = _order(context, FIRST_FIT, Rules.PAPER), np.zeros(1, np.int64)

    def pack(packing: Packing) -> int:
        return first_fit(order, packing._replace(stop=never))

    packing, _ = with_enough_nodes(context, FIRST_FIT, pack)
    return context.plan(packing, FIRST_FIT.name)


def _place_all(context: SolverContext, algorithm: Algorithm, rules: Rules, order: Int, packing: Packing) -> int:
    """Place what can be placed on all nodes of a packing; return how many replicas found no place."""
    if algorithm.way is Way.MATCH:
        filling = nothing_filled(algorithm.score, order, packing, context.capacity)
        missing = match(packing, filling, no_matches(packing))
        _sort_places(packing)
        return missing
    released = rules is Rules.RELEASED
    residual = residual_of(algorithm.measure, context.capacity, whole=released)
    return spread(order, packing, nothing_spread(len(packing.free), residual), released)


def _sort_places(packing: Packing) -> None:
    """Sort the places of each application by their nodes."""
    row, application = places_of(packing)
    in_order = row[np.lexsort((packing.node[row], application))]
    packing.node[row], packing.placed[row] = packing.node[in_order], packing.placed[in_order]
