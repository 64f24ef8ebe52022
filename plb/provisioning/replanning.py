"""Plans by the name of an algorithm, and replanning from the present placement with few moves.

Replicas stay if they may: they are moved only if capacity or limits are exceeded, or if there are
more than the application has. Replicas without a node are placed on the nodes with the least free capacity, else on new
ones. If further moves are allowed, nodes are emptied: first in turn, nodes with the fewest replicas first, into
the free capacity of the others; then by the search of `plb.provisioning.large_neighbourhood_search`.
"""

from __future__ import annotations

import itertools

import attrs
import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import Stream, kernel
from plb.errors import ConflictError, NoCapacityError
from plb.provisioning.algorithms import Rules, Way, parse_algorithm, run
from plb.provisioning.instance import Instance
from plb.provisioning.integer_program import solve_exactly
from plb.provisioning.large_neighbourhood_search import (
    TEMPERATURE,
    Annealing,
    ClearedNeighbourhood,
    SearchState,
    allowed_on,
    best_in_time,
    best_node,
    empty_in_turn,
    empty_nodes,
    place_and_log,
    search_state_of,
    set_limits_of,
)
from plb.provisioning.packing import NO_CAPACITY, Measure, Packing, fitting, open_node, sizes, used_slots
from plb.provisioning.plan import ProvisioningPlan, faults_of_rows
from plb.provisioning.replicas_by_node import ANY_MOVES, NOTHING, no_replicas, original_nodes_of
from plb.provisioning.solver_context import ReportProgress, SolverContext, order_of, say_nothing
from plb.validation import check_count, check_kind, check_member, check_text

NAME = "Replanned"
PRICE = 3e-3
"""`Annealing.price` of a move. With less, moves are used up before nodes are empty; with much more, few happen."""
SHARE_OPENED = 20
"""One larger unused node is opened for this many nodes in use."""
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
    context = SolverContext(plan.instance, time_limit)
    search, node_of_plan = _kept_and_placed(context, plan)
    original = search.neighbourhood.original
    original.most[0] = ANY_MOVES if most_moves is None else min(ANY_MOVES, max(most_moves, int(original.away[0])))
    report(f"{NAME}: {search.neighbourhood.nodes[0]:,} nodes, {original.away[0]:,} moves")
    packing, seconds = search.packing, context.elapsed()
    if original.away[0] < original.most[0]:
        packing, seconds = _empty_while_better(context, search, Stream(seed), report)
    return attrs.evolve(context.plan(packing, NAME, _names(plan, search.packing, node_of_plan)), seconds=seconds)


def _empty_while_better(
    context: SolverContext, search: SearchState, rng: Stream, report: ReportProgress
) -> tuple[Packing, float]:
    """Empty nodes; return the packing with the fewest nodes, without later moves, and the seconds until then."""
    neighbourhood = search.neighbourhood
    best = _copy(search.packing), context.elapsed()
    fewest = int(neighbourhood.nodes[0])
    _empty_in_turn(context, search, rng)
    if neighbourhood.nodes[0] < fewest:
        fewest, best = int(neighbourhood.nodes[0]), (_copy(search.packing), context.elapsed())
    while _open_larger(context, search) and not context.time_is_over:
        report(f"{NAME}: {fewest:,} nodes, {neighbourhood.original.away[0]:,} moves")
        _empty_in_turn(context, search, rng)
        if neighbourhood.nodes[0] >= fewest:
            break
        fewest, best = int(neighbourhood.nodes[0]), (_copy(search.packing), context.elapsed())
    annealing = Annealing(TEMPERATURE, PRICE)
    for seconds in empty_nodes(context, search, rng, annealing, NAME, report):
        if neighbourhood.nodes[0] < fewest:
            fewest, best = int(neighbourhood.nodes[0]), (_copy(search.packing), seconds)
    return best


def _empty_in_turn(context: SolverContext, search: SearchState, rng: Stream) -> None:
    """Empty nodes whose replicas fit on others, first nodes with the fewest original replicas, new nodes last."""
    moves, is_original = _replicas_at_original(search), np.zeros(len(search.packing.free), np.bool_)
    is_original[search.neighbourhood.original.node] = True
    moves[~is_original] = ANY_MOVES
    used = search.neighbourhood.used[: search.neighbourhood.nodes[0]]
    used[:] = used[np.argsort(moves[used], kind="stable")]
    with context.watched():
        empty_in_turn(search, rng)


def _replicas_at_original(search: SearchState) -> Int:
    """Return how many replicas on each node, (N,), have it as original node."""
    packing, original = search.packing, search.neighbourhood.original
    slot, application = used_slots(packing)
    nodes = len(packing.free)
    now = application * nodes + packing.node[slot]
    before = np.repeat(np.arange(len(packing.slots)), np.diff(original.start)) * nodes + original.node
    _, in_now, in_before = np.intersect1d(now, before, assume_unique=True, return_indices=True)
    at_original = np.zeros(nodes, np.int64)
    np.add.at(
        at_original, packing.node[slot[in_now]], np.minimum(packing.placed[slot[in_now]], original.replicas[in_before])
    )
    return at_original


def _drop_empty(search: SearchState) -> None:
    """Remove the nodes without replicas from `used`, the nodes in use."""
    neighbourhood = search.neighbourhood
    used = neighbourhood.used[: neighbourhood.nodes[0]]
    kept = used[search.by_node.head[used] != NOTHING]
    neighbourhood.used[: len(kept)] = kept
    neighbourhood.nodes[0] = len(kept)


def _open_larger(context: SolverContext, search: SearchState) -> bool:
    """Open a few unused nodes of the largest kind, if it is larger than the smallest in use; return whether any."""
    packing, neighbourhood = search.packing, search.neighbourhood
    nodes = int(neighbourhood.nodes[0])
    sizes_of_kinds = [
        float((context.instance.capacity(node_type) / context.capacity).mean()) for node_type in context.instance.nodes
    ]
    used = np.searchsorted(packing.end, neighbourhood.used[:nodes], side="right")
    smallest = min(sizes_of_kinds[kind] for kind in np.unique(used).tolist())
    for kind in np.argsort(np.negative(sizes_of_kinds), kind="stable").tolist():
        first, end = int(packing.unused[kind]), int(packing.end[kind])
        if sizes_of_kinds[kind] > smallest and first < end:
            last = min(end, first + max(1, nodes // SHARE_OPENED))
            neighbourhood.used[nodes : nodes + last - first] = np.arange(first, last)
            neighbourhood.nodes[0] += last - first
            packing.unused[kind] = last
            return True
    return False


def _kept_and_placed(context: SolverContext, plan: ProvisioningPlan) -> tuple[SearchState, Int]:
    """Keep the replicas that may stay and place the others.

    The result is the search, and the index in its packing of each node of the plan, (nodes of the plan,).
    """
    size = sizes(Measure.AVERAGE, context.shares, context.instance.replicas)
    # small replicas stay first, so that few have to move
    rows = np.argsort(size[plan.application], kind="stable")
    spare = FIRST_SPARE if len(context.instance.nodes) == 1 else max(FIRST_SPARE, plan.nodes)
    while True:
        search, node_of_plan = _unplaced(context, plan, size, spare)
        node = node_of_plan[plan.node[rows]].astype(np.int32)
        _keep(search, plan.application[rows], node, plan.count[rows])
        application = _place_missing(search, order_of(size))
        if application == NOTHING:
            _drop_empty(search)
            return search, node_of_plan
        if len(search.packing.free) == context.most_nodes or spare > context.instance.replicas.sum():
            raise NoCapacityError(context.instance.name, context.instance.applications[application])
        spare *= 2


def _unplaced(context: SolverContext, plan: ProvisioningPlan, size: Float, spare: int) -> tuple[SearchState, Int]:
    """Return a search without replicas, with a plan's nodes and `spare` more a kind, and each plan node's index.

    `size`: (L,) of a replica of each application.
    """
    instance = context.instance
    packing, node_of_plan = context.packing_for(plan, spare)
    original = original_nodes_of(
        plan.application, node_of_plan[plan.node].astype(np.int32), plan.count, len(size), ANY_MOVES
    )
    placed = np.bincount(plan.application, plan.count, minlength=len(size)).astype(np.int64)
    original.away[0] -= np.maximum(0, placed - instance.replicas).sum()  # surplus replicas are removed
    search = search_state_of(packing, no_replicas(packing), np.sort(node_of_plan), size, original, context.capacity)
    search.neighbourhood.missing[:] = instance.replicas
    return search, node_of_plan


def _copy(packing: Packing) -> Packing:
    """Return a packing whose slots are copied, so that later moves do not change them."""
    return packing._replace(slots=packing.slots.copy(), node=packing.node.copy(), placed=packing.placed.copy())


def _names(plan: ProvisioningPlan, packing: Packing, node_of_plan: Int) -> list[str]:
    """Return names for the nodes of a packing: as in the plan, and for new nodes their type and an unused number.

    `node_of_plan`, (n,), is the index in the packing of each node of the plan.
    """
    names = [""] * len(packing.free)
    for name, node in zip(plan.node_names(), node_of_plan.tolist(), strict=True):
        names[node] = name
    used_names, first = set(names), 0
    for node_type, end in zip(plan.instance.nodes, packing.end.tolist(), strict=True):
        numbered = (f"{node_type.name}-{number}" for number in itertools.count())
        unused = (name for name in numbered if name not in used_names)
        names[first:end] = [name or next(unused) for name in names[first:end]]
        first = end
    return names


@kernel
def _keep(search: SearchState, application: Int32, node: Int32, count: Int32) -> None:
    """Keep `count` replicas of `application` on `node`, at most what capacity and limits allow; others stay missing.

    The arrays are (P,), the rows of a plan in the order in which replicas are kept.
    """
    packing, neighbourhood = search.packing, search.neighbourhood
    for row in range(len(application)):
        owner, host = application[row], node[row]
        most = min(int(count[row]), int(neighbourhood.missing[owner]))
        if most == 0 or fitting(packing, host, owner, 1) == 0:
            continue
        set_limits_of(search, owner, False)  # `allowed_on` reads them; lifted again below
        most = min(most, allowed_on(search, owner, host))
        set_limits_of(search, owner, True)
        most = fitting(packing, host, owner, most) if most > 0 else 0
        if most > 0:
            neighbourhood.missing[owner] -= most
            place_and_log(search, 0, owner, host, most)  # each overwrites entry 0 of the undo log, as none is undone


@kernel
def _place_missing(search: SearchState, order: Int) -> int:
    """Place missing replicas of applications `order`, (L,); return the first one that does not fit, or `NOTHING`."""
    packing, neighbourhood = search.packing, search.neighbourhood
    for application in order:
        if neighbourhood.missing[application] == 0:
            continue
        set_limits_of(search, application, False)
        live_count = _list_used(packing, neighbourhood)
        while neighbourhood.missing[application] > 0:
            node, count = best_node(search, application, 0, live_count, 0)
            if node == NOTHING:
                node = open_node(packing, application)
                if node == NO_CAPACITY:
                    break
                neighbourhood.used[neighbourhood.nodes[0]] = node
                neighbourhood.nodes[0] += 1
                packing.live[live_count] = node
                live_count += 1
                continue
            neighbourhood.missing[application] -= count
            place_and_log(search, 0, application, node, count)
        set_limits_of(search, application, True)
        if neighbourhood.missing[application] > 0:
            return int(application)
    return NOTHING


@kernel
def _list_used(packing: Packing, neighbourhood: ClearedNeighbourhood) -> int:
    """Write the nodes in use that are not full to `packing.live`; return their number."""
    live_count = 0
    for position in range(neighbourhood.nodes[0]):
        node = neighbourhood.used[position]
        if not neighbourhood.full[node]:
            packing.live[live_count] = node
            live_count += 1
    return live_count


AUTO = "auto"
"""The algorithm that chooses by the time allowed."""


def provision(
    instance: Instance,
    algorithm: str = AUTO,
    *,
    rules: Rules | str = Rules.PAPER,
    time_limit: float | None = None,
    seed: int = 0,
    report: ReportProgress | None = None,
) -> ProvisioningPlan:
    """Plan where all replicas go, on as few nodes as the algorithm can.

    Parameters
    ----------
    instance
        The applications and nodes.
    algorithm
        A name as in `plb.provisioning.algorithms`, or "auto": what is best in the time allowed.
    rules
        Of the paper, or of its authors' programs (for demand that does not vary, and not with "auto").
    time_limit
        In seconds. First Fit is never stopped; an algorithm that is stopped gives way to its best plan so far, or to
        First Fit's. With a limit, a plan may depend on the machine.
    seed
        Seed of the random numbers of "auto". The other algorithms use none.
    report
        Called with each number of nodes that is tried.

    Raises
    ------
    InvalidValueError
        An argument is not valid.
    UnknownNameError
        There is no such algorithm.
    ConflictError
        The authors' programs' rules do not go with the instance or the algorithm, or the instance is too large for it.
    NoPlanError
        There are too few nodes for the algorithm.
    """
    check_kind("provisioning", "instance", instance, Instance)
    check_text("provisioning", "algorithm", algorithm)
    check_count("provisioning", "seed", seed)
    rules = check_member("provisioning", "rules", rules, Rules)
    if rules is Rules.RELEASED and instance.time_points > 1:
        raise ConflictError(
            f"instance {instance.name}: rules = 'released' is for demand that does not vary; it has "
            f"{instance.time_points} time points"
        )
    report = report or say_nothing
    if algorithm == AUTO:
        if rules is Rules.RELEASED:
            raise ConflictError(
                "provisioning: rules = 'released' needs the name of an algorithm; 'auto' has its own rules"
            )
        return best_in_time(SolverContext(instance, time_limit), report, seed=seed)
    parsed, context = parse_algorithm(algorithm), SolverContext(instance, time_limit)
    if parsed.way is Way.INTEGER_PROGRAM:
        return solve_exactly(context, report, gap_percent=parsed.gap_percent)
    return run(context, parsed, rules, report)
