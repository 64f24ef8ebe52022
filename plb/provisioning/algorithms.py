"""The algorithms of [3] by name, run on an instance with as many nodes as each needs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum, StrEnum
from functools import partial

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.errors import NoPlanError, UnknownNameError
from plb.provisioning.application_centric import (
    empty_candidates,
    empty_spread,
    empty_struck_nodes,
    fewest_candidates,
    first_fit,
    ordered_fit,
    spread,
)
from plb.provisioning.node_centric import Score, empty_filling, empty_matches, fill_nodes, match
from plb.provisioning.packing import NO_CAPACITY, STOPPED, Measure, Packing, hybrid, residual_of, sizes, used_slots
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.released_programs import empty_sorted_nodes, fill_in_turn, resorted_fit, whole_shares
from plb.provisioning.solver_context import ReportProgress, SolverContext, order_of


class Way(Enum):
    """How nodes are chosen for replicas; values begin the names of algorithms."""

    FIRST_FIT = "FF"
    BEST_FIT = "BF"
    WORST_FIT = "WF"
    NODE_CENTRIC = "NCD"
    SPREAD = "SpreadWF"
    MATCH = "Match"
    NODE_CANDIDATES = "Medea-NodeCandidates"
    INTEGER_PROGRAM = "ILP"


@attrs.frozen
class Algorithm:
    """An algorithm of [3] by the parts of its name."""

    name: str
    """Name in [3], which `parse_algorithm` reads."""
    way: Way
    """How nodes are chosen for replicas."""
    measure: Measure = Measure.AVERAGE
    """How the free capacity of nodes and, if `decreasing`, the demand of applications becomes one number."""
    score: Score = Score.DOT_PRODUCT
    """Score of an application for a node, for `NODE_CENTRIC` and `MATCH`."""
    decreasing: bool = False
    """Whether applications are ordered from large to small."""
    demand_share: float = 1.0
    """α of equation 3 for the order of applications: 1 is demand alone, 0 degree alone."""
    decrement_percent: float | None = None
    """Steps by which the number of nodes decreases, in percent of the lower bound; None: by bisection, if the number of
    nodes is searched.
    """
    gap_percent: float = 0.0
    """Accepted percentage of nodes above the bound of an integer program."""


BASELINES = {
    "Medea-TagPopularity": Algorithm("Medea-TagPopularity", Way.FIRST_FIT, decreasing=True, demand_share=0.0),
    "Medea-NodeCandidates": Algorithm("Medea-NodeCandidates", Way.NODE_CANDIDATES, decreasing=True, demand_share=0.0),
    "LRASched-Fitness": Algorithm("LRASched-Fitness", Way.NODE_CENTRIC, score=Score.FITNESS),
}
_MEASURE = rf"(?P<measure>{'|'.join(Measure)})"
_SIZE = rf"{_MEASURE}(-Hybrid(?P<share>0(\.\d+)?|1(\.0+)?))?"
_SEARCH = r"(BinSearch|Decr(?P<decrement>\d+(\.\d+)?))"
_SCORE = rf"(?P<score>{'|'.join(Score)})"
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?P<way>FF)",
        r"(?P<way>FF)(?P<decreasing>D)-(?P<degree>Degree)",
        rf"(?P<way>FF|BF|WF)(?P<decreasing>D)-{_SIZE}",
        rf"(?P<way>BF|WF)-{_MEASURE}",
        rf"(?P<way>NCD)-{_SCORE}",
        rf"(?P<way>SpreadWF)(?P<decreasing>D)-{_SIZE}-{_SEARCH}",
        rf"(?P<way>SpreadWF)-{_MEASURE}-{_SEARCH}",
        rf"(?P<way>Match)-{_SCORE}-{_SEARCH}",
        r"(?P<way>ILP)(-Gap(?P<gap>\d{1,2}(\.\d+)?))?",
    )
)


def algorithm_names() -> tuple[str, ...]:
    """Return the names of the algorithms, with 2 for the percentage of steps, without hybrid sizes and gaps."""
    fits = [f"{way}-{measure}" for way in ("FFD", "BF", "BFD", "WF", "WFD") for measure in Measure]
    nodes = [f"NCD-{score}" for score in Score]
    searches = [
        f"{first}-{search}"
        for first in [f"SpreadWF{d}-{measure}" for d in ("", "D") for measure in Measure]
        + [f"Match-{score}" for score in Score]
        for search in ("BinSearch", "Decr2")
    ]
    return ("FF", "FFD-Degree", *fits, *nodes, *searches, *BASELINES, "ILP")


def parse_algorithm(name: str) -> Algorithm:
    """Return the algorithm that a name describes, such as ``"FFD-Avg"``, or raise `UnknownNameError`."""
    if name in BASELINES:
        return BASELINES[name]
    for form in _FORMS:
        match = form.fullmatch(name)
        if match:
            return _algorithm(name, match.groupdict())
    raise UnknownNameError("algorithm", name, algorithm_names())


def _algorithm(name: str, parts: dict[str, str | None]) -> Algorithm:
    """Return the algorithm of a name, whose parts are the groups of one of `_FORMS`."""
    share, decrement = parts.get("share"), parts.get("decrement")
    return Algorithm(
        name,
        Way(parts["way"]),
        Measure(parts.get("measure") or Measure.AVERAGE),
        Score(parts.get("score") or Score.DOT_PRODUCT),
        decreasing=parts.get("decreasing") is not None,
        demand_share=0.0 if parts.get("degree") else 1.0 if share is None else float(share),
        decrement_percent=None if decrement is None else float(decrement),
        gap_percent=float(parts.get("gap") or 0.0),
    )


FIRST_SPARE = 64
"""Packings have 3/2 of the lower bound and this many nodes of each kind at first."""
FIRST_FIT = parse_algorithm("FF")


class Rules(StrEnum):
    """Whose rules an algorithm follows."""

    PAPER = "paper"
    """The text of [3]."""
    RELEASED = "released"
    """Its authors' programs, which do other things in places; see `plb.provisioning.released_programs`."""


def run(context: SolverContext, algorithm: Algorithm, rules: Rules, report: ReportProgress) -> ProvisioningPlan:
    """Return the plan of an algorithm other than the integer program by `rules`; `report` gets lines of progress."""
    if algorithm == FIRST_FIT:
        return first_fit_plan(context)
    order = _order(context, algorithm, rules)
    if algorithm.way in (Way.SPREAD, Way.MATCH):
        return _plan_with_fewest_nodes(
            context, algorithm, partial(_place_all, context, algorithm, rules, order), report
        )
    with context.watched():
        packing, outcome = _with_enough_nodes(context, algorithm, partial(_pack, context, algorithm, rules, order))
    return first_fit_plan(context) if outcome == STOPPED else context.plan(packing, algorithm.name)


def first_fit_plan(context: SolverContext) -> ProvisioningPlan:
    """Return First Fit's plan of the instance; the end of the time does not stop it."""
    order, never = np.arange(len(context.demand)), np.zeros(1, np.int64)

    def pack(packing: Packing) -> int:
        """Fill a packing by First Fit, without an end of time."""
        return first_fit(order, packing._replace(stop=never))

    packing, _ = _with_enough_nodes(context, FIRST_FIT, pack)
    return context.plan(packing, FIRST_FIT.name)


def _with_enough_nodes(
    context: SolverContext, algorithm: Algorithm, pack: Callable[[Packing], int]
) -> tuple[Packing, int]:
    """Fill packings with increasing numbers of nodes of each kind until all fits; return the last one and its result.

    `pack` fills a packing and returns 0, `NO_CAPACITY` or `STOPPED`.
    """
    nodes = min(context.most_nodes, context.lower_bound + context.lower_bound // 2 + FIRST_SPARE)
    while True:
        packing = context.packing(nodes)
        outcome = pack(packing)
        if outcome != NO_CAPACITY:
            return packing, outcome
        if nodes == context.most_nodes:
            raise NoPlanError(context.instance.name, algorithm.name, nodes)
        nodes = min(context.most_nodes, 2 * nodes)


def _plan_with_fewest_nodes(
    context: SolverContext, algorithm: Algorithm, pack: Callable[[Packing], int], report: ReportProgress
) -> ProvisioningPlan:
    """Return the plan with the smallest number of nodes at which an algorithm succeeds ([3] section 5.1).

    `pack` runs the algorithm on a packing and returns how many replicas are not placed, or `STOPPED`. The number of
    First Fit suffices; its plan is the result if the algorithm fails with this number.
    """
    best = first_fit_plan(context)
    most = context.reach(best)

    def succeeds(nodes: int) -> bool:
        """Return whether a number of nodes suffices; if so, its plan becomes the best."""
        nonlocal best
        packing = context.packing_of_first(nodes)
        with context.watched():
            missing = pack(packing)
        if missing == STOPPED:
            return False
        report(f"{algorithm.name}: {nodes:,} nodes {'suffice' if missing == 0 else f'leave {missing:,} replicas over'}")
        if missing == 0:
            best = context.plan(packing, algorithm.name)
        return missing == 0

    if most == 0 or not succeeds(most):  # 0: First Fit passes by the first kind, of which there is no end
        return best
    if algorithm.decrement_percent is None:
        low = context.lower_bound
        while low < most and not context.time_is_over:
            nodes = (low + most) // 2
            low, most = (low, nodes) if succeeds(nodes) else (nodes + 1, most)
    else:
        step = max(1, math.ceil(context.lower_bound * algorithm.decrement_percent / 100.0))
        while most - step >= context.lower_bound and not context.time_is_over and succeeds(most - step):
            most -= step
    return best


def _order(context: SolverContext, algorithm: Algorithm, rules: Rules) -> Int:
    """Return the applications, (L,) indices, by descending size if the algorithm is decreasing, else as given."""
    return (
        order_of(_application_sizes(context, algorithm, rules))
        if algorithm.decreasing
        else np.arange(len(context.demand))
    )


def _application_sizes(context: SolverContext, algorithm: Algorithm, rules: Rules) -> Float:
    """Return the size of each application, (L,), by which an algorithm orders them."""
    if algorithm.demand_share == 0.0:
        return context.degrees.astype(np.float64)
    shares = context.shares
    # the programs do divide by the total as a real number here
    if rules is Rules.RELEASED and algorithm.measure is not Measure.EXTENDED_SUM:
        shares = whole_shares(context.demand, context.capacity)
    size = sizes(algorithm.measure, shares, context.instance.replicas)
    return size if algorithm.demand_share == 1.0 else hybrid(size, context.degrees, algorithm.demand_share)


def _pack(context: SolverContext, algorithm: Algorithm, rules: Rules, order: Int, packing: Packing) -> int:
    """Fill a packing by an algorithm, applications, (L,), in `order`; return 0, `NO_CAPACITY` or `STOPPED`."""
    nodes = len(packing.free)
    if algorithm.way is Way.FIRST_FIT:
        return first_fit(order, packing)
    if algorithm.way is Way.NODE_CANDIDATES:
        return fewest_candidates(packing, empty_struck_nodes(order, nodes))
    if algorithm.way is Way.NODE_CENTRIC:
        fill = fill_in_turn if rules is Rules.RELEASED else fill_nodes
        return fill(packing, empty_filling(algorithm.score, order, packing, context.capacity))
    sign = 1 if algorithm.way is Way.BEST_FIT else -1
    residual = residual_of(algorithm.measure, context.capacity)
    if rules is Rules.RELEASED:
        return resorted_fit(order, packing, empty_sorted_nodes(nodes, residual), sign)
    return ordered_fit(order, packing, empty_candidates(nodes), residual, sign)


def _place_all(context: SolverContext, algorithm: Algorithm, rules: Rules, order: Int, packing: Packing) -> int:
    """Place what can be placed on the nodes of a packing, applications, (L,), in `order`.

    The result is how many replicas are not placed, or `STOPPED`.
    """
    if algorithm.way is Way.MATCH:
        filling = empty_filling(algorithm.score, order, packing, context.capacity)
        missing = match(packing, filling, empty_matches(packing))
        _sort_slots(packing)
        return missing
    released = rules is Rules.RELEASED
    residual = residual_of(algorithm.measure, context.capacity, whole=released)
    return spread(order, packing, empty_spread(len(packing.free), residual), released)


def _sort_slots(packing: Packing) -> None:
    """Sort the slots in use of each application by their nodes, in place."""
    slot, application = used_slots(packing)
    in_order = slot[np.lexsort((packing.node[slot], application))]
    packing.node[slot], packing.placed[slot] = packing.node[in_order], packing.placed[in_order]
