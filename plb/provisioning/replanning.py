"""Replanning from the present placement, with few moves.

Replicas stay if they may: they are moved only if capacity or limits are exceeded, or if there are
more than the application has. Replicas without a node are placed on the nodes with the least free capacity, else on new
ones. If further moves are allowed, nodes are emptied: first in turn, those with the fewest replicas first, into
the free capacity of the others; then by the search of `plb.provisioning.emptying`.
"""

from __future__ import annotations

import itertools

import attrs
import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import Stream, kernel
from plb.errors import ConflictError, NoCapacityError
from plb.provisioning.emptying import Annealing, empty_in_turn
from plb.provisioning.improvement import TEMPERATURE, empty
from plb.provisioning.measures import Measure, sizes
from plb.provisioning.neighbourhood import (
    Clearing,
    Site,
    allowed_on,
    best_node,
    change,
    lift_limits,
    note_limits,
    site_of,
)
from plb.provisioning.packing import NO_CAPACITY, Packing, fitting, open_node, places_of
from plb.provisioning.plan import ProvisioningPlan, faults_of_rows
from plb.provisioning.standing import ANY_MOVES, NOTHING, homes_of, no_replicas
from plb.provisioning.workbench import ReportProgress, Workbench, order_of, say_nothing
from plb.validation import check_count, check_kind

NAME = "Replanned"
PRICE = 3e-3
"""Temperature of a move (`Annealing`). With less, moves are used before nodes are empty; with much more, few happen."""
SHARE_OPENED = 20
"""One node is opened for this many nodes in use, if larger ones are unused."""
FIRST_SPARE = 64
"""Further nodes of each kind besides those in use, at first."""


def replan(
    plan: ProvisioningPlan,
    *,
    most_moves: int | None = 0,
    time_limit: float | None = None,
    seed: int = 0,
    report: ReportProgress | None = None,
) -> ProvisioningPlan:
    """Return a valid plan that differs little from a plan that may be invalid or incomplete.

    Parameters
    ----------
    plan
        The present placement; `plan.instance` is the new instance. Nodes keep their names.
    most_moves
        Largest number of moves to reduce the nodes. Necessary moves count, and are always
        made. 0: only these. None: any number.
    time_limit
        Seconds, after which no further node is emptied; with a limit, a plan may depend on the machine.
    seed
        Seed of the random numbers.
    report
        Called with the number of nodes.

    Raises
    ------
    InvalidValueError
        An argument is not valid.
    ConflictError
        Rows of the plan are not valid (`faults_of_rows`).
    NoCapacityError
        A replica fits on no node.
    """
    check_kind("provisioning", "plan", plan, ProvisioningPlan)
    if most_moves is not None:
        check_count("provisioning", "most_moves", most_moves)
    check_count("provisioning", "seed", seed)
    fault = next(faults_of_rows(plan), None)
    if fault is not None:
        raise ConflictError(f"plan for {plan.instance.name}: {fault}")
    report = report or say_nothing
    bench = Workbench(plan.instance, time_limit)
    site, number = _settled(bench, plan)
    homes = site.clearing.homes
    homes.most[0] = ANY_MOVES if most_moves is None else min(ANY_MOVES, max(most_moves, int(homes.away[0])))
    report(f"{NAME}: {site.clearing.nodes[0]:,} nodes, {homes.away[0]:,} moves")
    packing, seconds = site.packing, bench.elapsed()
    if homes.away[0] < homes.most[0]:
        packing, seconds = _emptied(bench, site, Stream(seed), report)
    return attrs.evolve(bench.plan(packing, NAME, _names(plan, site.packing, number)), seconds=seconds)


def _emptied(bench: Workbench, site: Site, rng: Stream, report: ReportProgress) -> tuple[Packing, float]:
    """Empty nodes; return the packing after the last emptied node, and the seconds until then.

    Later moves, which empty no node, are not made.
    """
    clearing = site.clearing
    found = _copy(site.packing), bench.elapsed()
    fewest = int(clearing.nodes[0])
    _empty_in_turn(bench, site, rng)
    if clearing.nodes[0] < fewest:
        fewest, found = int(clearing.nodes[0]), (_copy(site.packing), bench.elapsed())
    while _open_larger(bench, site) and not bench.time_is_over:
        report(f"{NAME}: {fewest:,} nodes, {clearing.homes.away[0]:,} moves")
        _empty_in_turn(bench, site, rng)
        if clearing.nodes[0] >= fewest:
            break
        fewest, found = int(clearing.nodes[0]), (_copy(site.packing), bench.elapsed())
    annealing = Annealing(TEMPERATURE, PRICE)
    for seconds in empty(bench, site, rng, annealing, NAME, report):
        if clearing.nodes[0] < fewest:
            fewest, found = int(clearing.nodes[0]), (_copy(site.packing), seconds)
    return found


def _empty_in_turn(bench: Workbench, site: Site, rng: Stream) -> None:
    """Empty nodes whose replicas fit on others, first those with the fewest moves; new nodes last."""
    leave, stood_on = _at_home(site), np.zeros(len(site.packing.free), np.bool_)
    stood_on[site.clearing.homes.node] = True
    leave[~stood_on] = ANY_MOVES
    used = site.clearing.used[: site.clearing.nodes[0]]
    used[:] = used[np.argsort(leave[used], kind="stable")]
    with bench.watched():
        empty_in_turn(site, rng)


def _at_home(site: Site) -> Int:
    """Return how many replicas on each node, (N,), were there before."""
    packing, homes = site.packing, site.clearing.homes
    place, application = places_of(packing)
    nodes = len(packing.free)
    now = application * nodes + packing.node[place]
    before = np.repeat(np.arange(len(packing.places)), np.diff(homes.start)) * nodes + homes.node
    _, in_now, in_before = np.intersect1d(now, before, assume_unique=True, return_indices=True)
    found = np.zeros(nodes, np.int64)
    np.add.at(found, packing.node[place[in_now]], np.minimum(packing.placed[place[in_now]], homes.stood[in_before]))
    return found


def _leave_out_empty(site: Site) -> None:
    """Update the nodes in use to those with replicas."""
    clearing = site.clearing
    used = clearing.used[: clearing.nodes[0]]
    kept = used[site.standing.head[used] != NOTHING]
    clearing.used[: len(kept)] = kept
    clearing.nodes[0] = len(kept)


def _open_larger(bench: Workbench, site: Site) -> bool:
    """Open a few unused nodes that are larger than the smallest in use; return whether there were any."""
    packing, clearing = site.packing, site.clearing
    nodes = int(clearing.nodes[0])
    sizes_of_kinds = [float((bench.instance.capacity(one) / bench.capacity).mean()) for one in bench.instance.nodes]
    used = np.searchsorted(packing.end, clearing.used[:nodes], side="right")
    smallest = min(sizes_of_kinds[kind] for kind in np.unique(used).tolist())
    for kind in np.argsort(np.negative(sizes_of_kinds), kind="stable").tolist():
        first, end = int(packing.unused[kind]), int(packing.end[kind])
        if sizes_of_kinds[kind] > smallest and first < end:
            last = min(end, first + max(1, nodes // SHARE_OPENED))
            clearing.used[nodes : nodes + last - first] = np.arange(first, last)
            clearing.nodes[0] += last - first
            packing.unused[kind] = last
            return True
    return False


def _settled(bench: Workbench, plan: ProvisioningPlan) -> tuple[Site, Int]:
    """Keep the replicas that may stay, and place the others; with more spare nodes until these are enough.

    Returns
    -------
    The site, and (N,) where the nodes of the plan are in its packing.
    """
    size = sizes(Measure.AVERAGE, bench.shares, bench.instance.replicas)
    # small replicas stay first, so that few have to move
    rows = np.argsort(size[plan.application], kind="stable")
    spare = FIRST_SPARE if len(bench.instance.nodes) == 1 else max(FIRST_SPARE, plan.nodes)
    while True:
        site, number = _vacant(bench, plan, size, spare)
        node = number[plan.node[rows]].astype(np.int32)
        _stay(site, plan.application[rows], node, plan.count[rows])
        left = _place_missing(site, order_of(size))
        if left == NOTHING:
            _leave_out_empty(site)
            return site, number
        if len(site.packing.free) == bench.most_nodes or spare > bench.instance.replicas.sum():
            raise NoCapacityError(bench.instance.name, bench.instance.applications[left])
        spare *= 2


def _vacant(bench: Workbench, plan: ProvisioningPlan, size: Float, spare: int) -> tuple[Site, Int]:
    """Return the nodes of a plan and spare ones, without replicas; as `_settled`."""
    instance = bench.instance
    packing, number = bench.packing_for(plan, spare)
    homes = homes_of(plan.application, number[plan.node].astype(np.int32), plan.count, len(size), ANY_MOVES)
    stand = np.bincount(plan.application, plan.count, minlength=len(size)).astype(np.int64)
    homes.away[0] -= np.maximum(0, stand - instance.replicas).sum()  # surplus replicas are removed
    site = site_of(packing, no_replicas(packing), np.sort(number), size, homes, bench.capacity)
    site.clearing.missing[:] = instance.replicas
    return site, number


def _copy(packing: Packing) -> Packing:
    """Return a packing with the present replicas of another one."""
    return packing._replace(places=packing.places.copy(), node=packing.node.copy(), placed=packing.placed.copy())


def _names(plan: ProvisioningPlan, packing: Packing, number: Int) -> list[str]:
    """Return names for the nodes of a packing: those of the plan, and for others their type and an unused number."""
    names = [""] * len(packing.free)
    for name, place in zip(plan.node_names(), number.tolist(), strict=True):
        names[place] = name
    taken, first = set(names), 0
    for node_type, end in zip(plan.instance.nodes, packing.end.tolist(), strict=True):
        numbered = (f"{node_type.name}-{number}" for number in itertools.count())
        free = (name for name in numbered if name not in taken)
        names[first:end] = [name or next(free) for name in names[first:end]]
        first = end
    return names


@kernel
def _stay(site: Site, application: Int32, node: Int32, count: Int32) -> None:
    """Place replicas on their present nodes, row by row, (P,), within capacity and limits.

    `clearing.missing` has the replicas of each application, and at the end those without a node.
    """
    packing, clearing = site.packing, site.clearing
    for row in range(len(application)):
        who, where = application[row], node[row]
        most = min(int(count[row]), int(clearing.missing[who]))
        if most == 0 or fitting(packing, where, who, 1) == 0:
            continue
        note_limits(site, who)
        most = min(most, allowed_on(site, who, where))
        lift_limits(site, who)
        most = fitting(packing, where, who, most) if most > 0 else 0
        if most > 0:
            clearing.missing[who] -= most
            change(site, 0, who, where, most)


@kernel
def _place_missing(site: Site, order: Int) -> int:
    """Place what is missing on the nodes in use on which least is left, else on unused ones; `order` is (L,).

    Returns
    -------
    The application of which a replica finds none, or `NOTHING`.
    """
    packing, clearing = site.packing, site.clearing
    for application in order:
        if clearing.missing[application] == 0:
            continue
        note_limits(site, application)
        live = _list_used(packing, clearing)
        while clearing.missing[application] > 0:
            node, count = best_node(site, application, 0, live, 0)
            if node == NOTHING:
                node = open_node(packing, application)
                if node == NO_CAPACITY:
                    break
                clearing.used[clearing.nodes[0]] = node
                clearing.nodes[0] += 1
                packing.live[live] = node
                live += 1
                continue
            clearing.missing[application] -= count
            change(site, 0, application, node, count)
        lift_limits(site, application)
        if clearing.missing[application] > 0:
            return int(application)
    return NOTHING


@kernel
def _list_used(packing: Packing, clearing: Clearing) -> int:
    """List the nodes in use that are not full; return how many there are."""
    live = 0
    for number in range(clearing.nodes[0]):
        node = clearing.used[number]
        if not clearing.full[node]:
            packing.live[live] = node
            live += 1
    return live
