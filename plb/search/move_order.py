"""An executable order of the moves of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from plb.array_types import NOWHERE, Int
from plb.state.arrays import Problem, Solution, siblings_of

Step = tuple[int, int]
"""A row that moves, and the row with which it swaps roles, or NOWHERE."""


def executable_order(problem: Problem, solution: Solution, steps: Sequence[Step]) -> list[Step]:
    """Return `steps` in an order in which each target has no sibling and, if possible, enough free capacity.

    Among executable steps, swaps come first, then moves, then new replicas.
    """
    load = solution.node_load + problem.leaving_load
    if _is_any_order_right(problem, solution, load, [row for row, _ in steps]):
        return sorted(steps)
    waiting = sorted(steps, key=lambda step: (problem.origin[step[0]] == NOWHERE, step[1] == NOWHERE, step[0]))
    return _Queue(problem, solution, waiting, load).in_order()


class _Queue:
    """Pending steps in order of preference.

    A step that cannot be executed is deferred until the blocking sibling has moved or the full node has lost load.

    Parameters
    ----------
    steps
        By preference.
    load
        (N, R) final load of the nodes, in quanta; modified.
    """

    def __init__(self, problem: Problem, solution: Solution, steps: Sequence[Step], load: Int) -> None:
        self.problem, self.solution, self.steps = problem, solution, steps
        self.changes = [_load_changes(problem, solution, step) for step in steps]
        for change in self.changes:
            for node, growth in change.items():
                load[node] -= growth
        self.load = load
        self.waiting = set(range(len(steps)))
        self.step_of_row = {row: index for index, step in enumerate(steps) for row in step if row != NOWHERE}
        self.candidates = list(range(len(steps)))
        """Heap of the steps that may be executable within the limits."""
        self.free = list(range(len(steps)))
        """Heap of the steps whose target may have no sibling."""
        self.crowded: defaultdict[int, list[int]] = defaultdict(list)
        """By node, the steps that do not fit on it."""
        self.blocked: defaultdict[int, list[int]] = defaultdict(list)
        """By step, the steps that wait for the sibling that it moves."""
        heapify(self.candidates)

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
                self.crowded[full].append(index)
            heappop(self.candidates)
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
            if ((growth > 0) & (self.load[node] + growth > self.problem.limit[node])).any():
                return node
        return None

    def _apply_moves(self, index: int) -> None:
        self.waiting.remove(index)
        released = self.blocked.pop(index, [])
        for one in released:
            heappush(self.free, one)
        for node, growth in self.changes[index].items():
            self.load[node] += growth
            if (growth < 0).any():
                released = released + self.crowded.pop(node, [])
        for one in released:
            heappush(self.candidates, one)


def _is_any_order_right(problem: Problem, solution: Solution, load: Int, rows: Sequence[int]) -> bool:
    """Return whether all rows are new and fit together, so that no step has to wait for another.

    Parameters
    ----------
    load
        (N, R) final load of the nodes, in quanta.
    """
    nodes = solution.node[rows]
    return bool((problem.origin[rows] == NOWHERE).all() and (load[nodes] <= problem.limit[nodes]).all())


def _load_changes(problem: Problem, solution: Solution, step: Step) -> Mapping[int, Int]:
    """Return the load change of each affected node in a step, (R,) each, in quanta."""
    changes: dict[int, Int] = {}
    for row in step:
        if row != NOWHERE:
            for node, sign in ((int(solution.node[row]), 1), (int(problem.origin[row]), -1)):
                if node != NOWHERE:
                    changes[node] = changes.get(node, 0) + sign * problem.load[row]
    return changes
