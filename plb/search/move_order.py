"""An executable order of the moves of a plan."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from plb.array_types import NOWHERE, Int
from plb.state.arrays import Problem, Solution, siblings_of

Step = tuple[int, int]
"""A row that moves, and the row with which it swaps roles, or NOWHERE."""
Loads = list[int]
"""Loads of all metrics in quanta."""


def executable_order(problem: Problem, solution: Solution, steps: Sequence[Step]) -> list[Step]:
    """Return `steps` in an order in which each target has no sibling and, if possible, enough free capacity.

    Among executable steps, swaps come first, then moves, then new replicas.
    """
    preferred = sorted(steps, key=lambda step: (problem.origin[step[0]] == NOWHERE, step[1] == NOWHERE, step[0]))
    if len(steps) < 2 or _is_any_order_right(problem, solution, steps):
        return preferred
    return _Queue(problem, solution, preferred).in_order()


class _Queue:
    """Pending steps in order of preference.

    A step that cannot be executed is deferred until the blocking sibling has moved or the full node has lost load.

    Parameters
    ----------
    steps
        By preference.
    """

    def __init__(self, problem: Problem, solution: Solution, steps: Sequence[Step]) -> None:
        self.problem, self.solution, self.steps = problem, solution, steps
        self.changes = [_load_changes(problem, solution, step) for step in steps]
        self.free_load = self._free_load()
        self.steps_of: defaultdict[int, list[int]] = defaultdict(list)
        """By node, the steps that change it."""
        for index, change in enumerate(self.changes):
            for node in change:
                self.steps_of[node].append(index)
        self.waiting = set(range(len(steps)))
        self.step_of_row = {row: index for index, step in enumerate(steps) for row in step if row != NOWHERE}
        self.candidates = list(range(len(steps)))
        """Heap of the steps that may be executable within the limits."""
        self.free = list(range(len(steps)))
        """Heap of the steps whose target may have no sibling."""
        self.crowds: dict[int, _Crowd] = {}
        """By node, the steps that do not fit on it."""
        self.first_of: dict[int, int] = {}
        """By step among the candidates, the node whose crowd it was the first of."""
        self.blocked: defaultdict[int, list[int]] = defaultdict(list)
        """By step, the steps that wait for the sibling that it moves."""
        heapify(self.candidates)

    def _free_load(self) -> dict[int, Loads]:
        """Return the free load of each affected node before the first step."""
        free: dict[int, Loads] = {}
        for change in self.changes:
            for node, growth in change.items():
                if node not in free:
                    used = self.solution.node_load[node] + self.problem.leaving_load[node]
                    free[node] = (self.problem.limit[node] - used).tolist()
                free[node] = [left + one for left, one in zip(free[node], growth, strict=True)]
        return free

    def in_order(self) -> list[Step]:
        """Return all steps."""
        ordered = []
        while self.waiting:
            index = self._first_that_fits()
            if index is None:
                index = self._first_that_is_free()
            if index is None:
                left = sorted(self.waiting)
                index = next((one for one in left if self._full_node(one) is None), left[0])
            self._apply_moves(index)
            ordered.append(self.steps[index])
        return ordered

    def _first_that_fits(self) -> int | None:
        while self.candidates:
            index = self.candidates[0]
            if index in self.waiting and not self._is_blocked(index):
                full = self._full_node(index)
                if full is None:
                    return index
                self._crowd_of(full).put(index, self.changes[index][full])
            heappop(self.candidates)
            self._release(self.first_of.pop(index, None))
        return None

    def _first_that_is_free(self) -> int | None:
        while self.free:
            index = self.free[0]
            if index in self.waiting and not self._is_blocked(index):
                return index
            heappop(self.free)
        return None

    def _is_blocked(self, index: int) -> bool:
        """Defer a step if a sibling that has yet to move is on its target; return whether it was deferred."""
        row, partner = self.steps[index]
        problem = self.problem
        if not problem.chains or partner != NOWHERE:
            return False
        for other in siblings_of(problem, row):
            mover = self.step_of_row.get(other)
            if mover in self.waiting and problem.origin[other] == self.solution.node[row]:
                self.blocked[mover].append(index)
                return True
        return False

    def _full_node(self, index: int) -> int | None:
        """Return a node that a step would make fuller than its limit, if there is one."""
        for node, growth in self.changes[index].items():
            free = self.free_load[node]
            for left, one in zip(free, growth, strict=True):
                if one > 0 and one > left:
                    return node
        return None

    def _apply_moves(self, index: int) -> None:
        self.waiting.remove(index)
        for one in self.blocked.pop(index, []):
            heappush(self.free, one)
            heappush(self.candidates, one)
        for node, growth in self.changes[index].items():
            self.free_load[node] = [left - one for left, one in zip(self.free_load[node], growth, strict=True)]
            if min(growth) < 0:
                self._release(node)

    def _crowd_of(self, node: int) -> _Crowd:
        crowd = self.crowds.get(node)
        if crowd is None:
            crowd = self.crowds[node] = _Crowd(self.steps_of[node], len(self.free_load[node]))
        return crowd

    def _release(self, node: int | None) -> None:
        """Make the first step of a node's crowd that now fits on the node a candidate.

        Once it has been looked at, the next one follows.
        """
        if node is None or node not in self.crowds:
            return
        index = self.crowds[node].take_first(self.free_load[node])
        if index is not None:
            self.first_of[index] = node
            heappush(self.candidates, index)


class _Crowd:
    """The steps that do not fit on a node: a tree over its steps in order of preference, with the least growths.

    Parameters
    ----------
    steps
        All steps that change the node, ascending.
    metrics
        Number of metrics.
    """

    def __init__(self, steps: Sequence[int], metrics: int) -> None:
        self._steps, self._place = steps, {index: place for place, index in enumerate(steps)}
        self._leaves = 1 << max(0, len(steps) - 1).bit_length()
        self._nothing: list[float] = [math.inf] * metrics
        self._least: list[list[float]] = [self._nothing] * (2 * self._leaves)

    def put(self, index: int, growth: Loads) -> None:
        """Add a step with its growth of the load of the node."""
        self._set(index, [one if one > 0 else -math.inf for one in growth])

    def take_first(self, free: Loads) -> int | None:
        """Remove the first step whose growth is free, and return it; None: there is none."""
        place = self._first(1, free)
        if place is None:
            return None
        index = self._steps[place - self._leaves]
        self._set(index, self._nothing)
        return index

    def _set(self, index: int, least: list[float]) -> None:
        place = self._leaves + self._place[index]
        self._least[place] = least
        while place > 1:
            place //= 2
            self._least[place] = list(map(min, self._least[2 * place], self._least[2 * place + 1]))

    def _first(self, place: int, free: Loads) -> int | None:
        """Return the first leaf below a place of the tree whose growth is free."""
        if any(one > left for one, left in zip(self._least[place], free, strict=True)):
            return None
        if place >= self._leaves:
            return place
        found = self._first(2 * place, free)
        return self._first(2 * place + 1, free) if found is None else found


def _is_any_order_right(problem: Problem, solution: Solution, steps: Sequence[Step]) -> bool:
    """Return whether no row goes to a node that another leaves, and all fit, so that no step waits for another."""
    rows = [row for step in steps for row in step if row != NOWHERE]
    nodes = solution.node[rows]
    if not {*nodes.tolist()}.isdisjoint(problem.origin[rows].tolist()):
        return False
    load = solution.node_load[nodes] + problem.leaving_load[nodes]
    return bool((load <= problem.limit[nodes]).all())


def _load_changes(problem: Problem, solution: Solution, step: Step) -> Mapping[int, Loads]:
    """Return the load change of each affected node in a step, in quanta."""
    changes: dict[int, Int] = {}
    for row in step:
        if row != NOWHERE:
            for node, sign in ((int(solution.node[row]), 1), (int(problem.origin[row]), -1)):
                if node != NOWHERE:
                    changes[node] = changes.get(node, 0) + sign * problem.load[row]
    return {node: change.tolist() for node, change in changes.items()}
