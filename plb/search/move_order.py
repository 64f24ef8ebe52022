"""An executable order of the moves of a plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import by_pointer, kernel
from plb.state.arrays import Problem, Solution

CANDIDATES, FREE = 0, 1
"""The heaps of `_Queue`: steps that may be executable within the limits, and all whose target has no sibling."""
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Steps(NamedTuple):
    """Moves of rows, and swaps of roles; S steps."""

    row: Int
    """(S,) the row that moves."""
    partner: Int
    """(S,) the row with which it swaps roles, or NOWHERE."""


def executable_order(problem: Problem, solution: Solution, steps: Steps) -> Steps:
    """Return `steps` in an order in which no target has a sibling or, if possible, is full.

    Where the order is free, swaps come first, then moves, then adds.
    """
    if len(steps.row) < 2:
        return steps
    preferred = np.lexsort((steps.row, steps.partner == NOWHERE, problem.origin[steps.row] == NOWHERE))
    steps = Steps(steps.row[preferred], steps.partner[preferred])
    if _is_any_order_right(problem, solution, steps):
        return steps
    order = np.empty(len(steps.row), np.int64)
    _put_in_order(problem, solution, _queue_of(problem, solution, steps), order)
    return Steps(steps.row[order], steps.partner[order])


def _is_any_order_right(problem: Problem, solution: Solution, steps: Steps) -> bool:
    """Return whether the steps can be executed in any order: none goes to a node that another leaves, and all fit."""
    rows = np.concatenate([steps.row, steps.partner[steps.partner != NOWHERE]])
    origins = problem.origin[rows]
    is_target, is_left = np.zeros((2, len(problem.limit)), np.bool_)
    is_target[solution.node[rows]] = True
    is_left[origins[origins != NOWHERE]] = True
    if (is_target & is_left).any():
        return False
    load = solution.node_load[is_target] + problem.leaving_load[is_target]
    return bool((load <= problem.limit[is_target]).all())


@by_pointer
class _Queue(NamedTuple):
    """Pending steps in order of preference.

    A step that cannot be executed is deferred until the blocking sibling has moved or the full node has lost load. The
    steps that do not fit on a node are in its crowd: a binary tree over all steps that may be, with the least growths.
    The root of a tree is place 1; below place p are 2p and 2p + 1.

    Shapes: S steps, N nodes, R metrics, T places of all trees.
    """

    row: Int
    """(S,) `Steps.row`."""
    partner: Int
    """(S,) `Steps.partner`."""
    end: Int
    """(2, S) the node to which each row goes, and the node that it leaves, or NOWHERE."""
    growth: Int
    """(S, R) how much the load of the first end grows, in quanta; the load of the second decreases by as much."""
    free: Int
    """(N, R) free load before the next step, in quanta."""
    is_waiting: Bool
    """(S,) whether the step has yet to be executed."""
    blockers: Int
    """(S,) number of siblings on the first end that have yet to move."""
    step_of: Int
    """(M,) the step of each row, or NOWHERE; empty where no step waits for a sibling."""
    heap: Int
    """(2, S) `CANDIDATES` and `FREE`: binary heaps of steps, the first step at position 0."""
    size: Int
    """(2,) number of steps in each heap."""
    first_of: Int
    """(S,) the node whose crowd the step has left to be a candidate, or NOWHERE."""
    leaf: Int
    """(2, S) place of the step in the tree of each end, or NOWHERE if it cannot be in the crowd of this end."""
    tree: Int
    """(N,) index of place 0 of each node's tree in `least` and `step_at`."""
    leaves: Int
    """(N,) number of leaves of the tree, a power of two."""
    least: Int
    """(T, R) the least growth of each metric among the steps at or below each place."""
    step_at: Int
    """(T,) the step at each place that is a leaf."""


def _queue_of(problem: Problem, solution: Solution, steps: Steps) -> _Queue:
    """Return the queue of `steps`, which are in order of preference, before any is executed."""
    rows, partners = steps
    count, (nodes, metrics) = len(rows), problem.limit.shape
    end = np.stack([solution.node[rows], problem.origin[rows]])
    growth: Int = problem.load[rows]
    growth[partners != NOWHERE] -= problem.load[partners[partners != NOWHERE]]
    tree, leaves, leaf, places = _trees(end, partners != NOWHERE, nodes)
    return _Queue(
        row=rows,
        partner=partners,
        end=end,
        growth=growth,
        free=problem.limit - solution.node_load - problem.leaving_load,
        is_waiting=np.ones(count, np.bool_),
        blockers=np.zeros(count, np.int64),
        step_of=np.full(len(problem.origin) if problem.chains else 0, NOWHERE),
        heap=np.empty((2, count), np.int64),
        size=np.zeros(2, np.int64),
        first_of=np.full(count, NOWHERE),
        leaf=leaf,
        tree=tree,
        leaves=leaves,
        least=np.full((places, metrics), _MOST),
        step_at=np.full(places, NOWHERE),
    )


def _trees(end: Int, is_swap: Bool, nodes: int) -> tuple[Int, Int, Int, int]:
    """Return `_Queue.tree`, `leaves` and `leaf`, and the number of places of all trees; `nodes`: number of nodes.

    `end`: as in `_Queue`; `is_swap`: (S,). A step may be in the crowd of its target, a swap in the crowds of both ends.
    """
    step_of_member = np.concatenate([np.arange(end.shape[1]), np.flatnonzero(is_swap)])
    side_of_member = np.repeat([0, 1], [end.shape[1], len(step_of_member) - end.shape[1]])
    node_of_member = end[side_of_member, step_of_member]
    by_node = np.lexsort((step_of_member, node_of_member))
    members = np.bincount(node_of_member, minlength=nodes)
    leaves = 1 << np.ceil(np.log2(np.maximum(1, members))).astype(np.int64)
    tree = np.cumsum(2 * leaves) - 2 * leaves
    first = np.cumsum(members) - members
    leaf = np.full(end.shape, NOWHERE)
    place = np.arange(len(step_of_member)) - first[node_of_member[by_node]] + leaves[node_of_member[by_node]]
    leaf[side_of_member[by_node], step_of_member[by_node]] = place
    return tree, leaves, leaf, int(2 * leaves.sum())


@kernel
def _put_in_order(problem: Problem, solution: Solution, queue: _Queue, order: Int) -> None:
    """Write to `order`, (S,), the steps in the order in which they are executed."""
    _start(problem, solution, queue)
    for position in range(order.shape[0]):
        step = _first_that_fits(queue)
        if step == NOWHERE:
            step = _first_that_is_free(queue)
        if step == NOWHERE:
            step = _first_of_all(queue)
        order[position] = step
        _execute(problem, solution, queue, step)


@kernel
def _start(problem: Problem, solution: Solution, queue: _Queue) -> None:
    """Fill a new queue: free loads before any step, blockers, the leaf of each step, and both heaps."""
    for step in range(queue.row.shape[0]):
        _grow(queue, step, -1)
        for side in range(2):
            if queue.leaf[side, step] != NOWHERE:
                queue.step_at[queue.tree[queue.end[side, step]] + queue.leaf[side, step]] = step
        if problem.chains:
            queue.step_of[queue.row[step]] = step
            if queue.partner[step] != NOWHERE:
                queue.step_of[queue.partner[step]] = step
    for step in range(queue.row.shape[0]):
        if problem.chains and queue.partner[step] == NOWHERE:
            queue.blockers[step] = _siblings_that_leave(problem, solution, queue, queue.row[step])
        if not queue.blockers[step]:
            _push(queue, CANDIDATES, step)
            _push(queue, FREE, step)


@kernel
def _siblings_that_leave(problem: Problem, solution: Solution, queue: _Queue, row: int) -> int:
    """Return how many siblings of replica `row` have yet to leave its target."""
    leaving = 0
    sibling = problem.sibling[row]
    while sibling != row:
        leaving += queue.step_of[sibling] != NOWHERE and problem.origin[sibling] == solution.node[row]
        sibling = problem.sibling[sibling]
    return leaving


@kernel
def _grow(queue: _Queue, step: int, sign: int) -> None:
    """Apply (`sign` 1) or take back (-1) the growth of `step` in the free loads of its target and its source."""
    for metric in range(queue.growth.shape[1]):
        queue.free[queue.end[0, step], metric] -= sign * queue.growth[step, metric]
        if queue.end[1, step] != NOWHERE:
            queue.free[queue.end[1, step], metric] += sign * queue.growth[step, metric]


@kernel
def _first_that_fits(queue: _Queue) -> int:
    """Return the first candidate that fits on its nodes, or NOWHERE; earlier ones join the crowd of a full node."""
    while queue.size[CANDIDATES]:
        step = int(queue.heap[CANDIDATES, 0])
        if queue.is_waiting[step]:
            side = _full_side(queue, step)
            if side == NOWHERE:
                return step
            _join_crowd(queue, step, side)
        _pop(queue, CANDIDATES)
        node = queue.first_of[step]
        queue.first_of[step] = NOWHERE
        _release(queue, node)
    return NOWHERE


@kernel
def _first_that_is_free(queue: _Queue) -> int:
    """Return the first waiting step that no sibling blocks, or NOWHERE; it may not fit."""
    while queue.size[FREE]:
        step = int(queue.heap[FREE, 0])
        if queue.is_waiting[step]:
            return step
        _pop(queue, FREE)
    return NOWHERE


@kernel
def _first_of_all(queue: _Queue) -> int:
    """Return the first waiting step that fits, though siblings may block it, or else the first waiting step."""
    first = NOWHERE
    for step in range(queue.row.shape[0]):
        if queue.is_waiting[step]:
            if _full_side(queue, step) == NOWHERE:
                return step
            if first == NOWHERE:
                first = step
    return first


@kernel
def _full_side(queue: _Queue, step: int) -> int:
    """Return which end of `step`, 0 for its target or 1 for its source, it would make too full, or NOWHERE."""
    for side in range(2):
        node = queue.end[side, step]
        for metric in range(queue.growth.shape[1] if node != NOWHERE else 0):
            growth = queue.growth[step, metric] if side == 0 else -queue.growth[step, metric]
            if growth > 0 and growth > queue.free[node, metric]:
                return side
    return NOWHERE


@kernel
def _execute(problem: Problem, solution: Solution, queue: _Queue, step: int) -> None:
    """Mark `step` as executed, change the free loads by it, and make candidates of steps that waited for it."""
    queue.is_waiting[step] = False
    _grow(queue, step, 1)
    if problem.chains:
        _unblock(problem, solution, queue, queue.row[step])
        if queue.partner[step] != NOWHERE:
            _unblock(problem, solution, queue, queue.partner[step])
    for side in range(2):
        for metric in range(queue.growth.shape[1]):
            if (queue.growth[step, metric] < 0) if side == 0 else (queue.growth[step, metric] > 0):
                _release(queue, queue.end[side, step])
                break


@kernel
def _unblock(problem: Problem, solution: Solution, queue: _Queue, row: int) -> None:
    """Note that replica `row` has left its origin: steps of siblings that go there have one blocker less."""
    sibling = problem.sibling[row]
    while sibling != row:
        step = queue.step_of[sibling]
        goes_there = step != NOWHERE and solution.node[sibling] == problem.origin[row]
        if goes_there and queue.is_waiting[step] and queue.partner[step] == NOWHERE:
            queue.blockers[step] -= 1
            if not queue.blockers[step]:
                _push(queue, CANDIDATES, step)
                _push(queue, FREE, step)
        sibling = problem.sibling[sibling]


@kernel
def _join_crowd(queue: _Queue, step: int, side: int) -> None:
    """Add `step` to the crowd, the steps that wait for free load, of its target (`side` 0) or source (1)."""
    node, leaf = queue.end[side, step], queue.leaf[side, step]
    for metric in range(queue.growth.shape[1]):
        growth = queue.growth[step, metric] if side == 0 else -queue.growth[step, metric]
        queue.least[queue.tree[node] + leaf, metric] = growth if growth > 0 else _LEAST
    _renew_above(queue, node, leaf)


@kernel
def _release(queue: _Queue, node: int) -> None:
    """Make the first step of the crowd of `node` that fits there a candidate; nothing happens for NOWHERE."""
    if node == NOWHERE:
        return
    leaf = _first_leaf(queue, node)
    if leaf == NOWHERE:
        return
    step = queue.step_at[queue.tree[node] + leaf]
    for metric in range(queue.growth.shape[1]):
        queue.least[queue.tree[node] + leaf, metric] = _MOST
    _renew_above(queue, node, leaf)
    queue.first_of[step] = node
    _push(queue, CANDIDATES, step)


@kernel
def _renew_above(queue: _Queue, node: int, leaf: int) -> None:
    """Compute the least growths at the places above `leaf` in the tree of `node` again."""
    tree, place = queue.tree[node], leaf // 2
    while place:
        for metric in range(queue.growth.shape[1]):
            left, right = tree + 2 * place, tree + 2 * place + 1
            queue.least[tree + place, metric] = min(queue.least[left, metric], queue.least[right, metric])
        place //= 2


@kernel
def _first_leaf(queue: _Queue, node: int) -> int:
    """Return the first leaf in the tree of `node` whose growths fit on the node, or NOWHERE."""
    place = 1
    while place:
        if _is_free(queue, node, place):
            if place >= queue.leaves[node]:
                return place
            place *= 2
        else:
            # no step below this place fits: go up past right places, then to the right
            while place % 2:
                place //= 2
            place += place > 0
    return NOWHERE


@kernel
def _is_free(queue: _Queue, node: int, place: int) -> bool:
    """Return whether the least growths at `place` in the tree of `node` fit on the node in every metric."""
    for metric in range(queue.growth.shape[1]):
        if queue.least[queue.tree[node] + place, metric] > queue.free[node, metric]:
            return False
    return True


@kernel
def _push(queue: _Queue, heap: int, step: int) -> None:
    """Add `step` to the binary heap `heap`, CANDIDATES or FREE, which is ordered by the numbers of steps."""
    place = queue.size[heap]
    queue.size[heap] += 1
    while place and queue.heap[heap, (place - 1) // 2] > step:
        queue.heap[heap, place] = queue.heap[heap, (place - 1) // 2]
        place = (place - 1) // 2
    queue.heap[heap, place] = step


@kernel
def _pop(queue: _Queue, heap: int) -> None:
    """Remove the step with the lowest number from the binary heap `heap`, CANDIDATES or FREE."""
    queue.size[heap] -= 1
    size, place, lower = queue.size[heap], 0, 1
    last = queue.heap[heap, size]
    while lower < size:
        if lower + 1 < size and queue.heap[heap, lower + 1] < queue.heap[heap, lower]:
            lower += 1
        if queue.heap[heap, lower] > last:
            break
        queue.heap[heap, place] = queue.heap[heap, lower]
        place, lower = lower, 2 * lower + 1
    queue.heap[heap, place] = last
