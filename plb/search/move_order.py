"""In which order the moves of a plan can be carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from plb.array_types import NOWHERE, Int
from plb.state.arrays import Problem, Solution, siblings_of

Step = tuple[int, int]
"""A row that moves, and the row it swaps roles with, or NOWHERE."""


def executable_order(problem: Problem, solution: Solution, steps: Sequence[Step]) -> list[Step]:
    """Return `steps` so that each target is free of siblings and, if possible, has room when its turn comes.

    Where that leaves a choice swaps come first, then moves, then new replicas.
    """
    load = solution.node_load + problem.leaving_load
    if _is_any_order_right(problem, solution, load, [row for row, _ in steps]):
        return sorted(steps)
    waiting = sorted(steps, key=lambda step: (problem.origin[step[0]] == NOWHERE, step[1] == NOWHERE, step[0]))
    return _Queue(problem, solution, waiting, load).in_order()


class _Queue:
    """Steps that wait for their turn, the first of those that can be carried out next.

    A step that cannot is set aside, and looked at again when a sibling has moved or a node it fills has lost load.

    Parameters
    ----------
    steps
        By preference.
    load
        (N, R) steps of the nodes in the end; changed.
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
        self.hopeful = list(range(len(steps)))
        """Heap of those that may be free and fit."""
        self.free = list(range(len(steps)))
        """Heap of those that may be free."""
        self.crowded: defaultdict[int, list[int]] = defaultdict(list)
        """By node, steps that do not fit on it."""
        self.blocked: defaultdict[int, list[int]] = defaultdict(list)
        """By step, those that wait for a sibling that it moves."""
        heapify(self.hopeful)

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
        while self.hopeful:
            index = self.hopeful[0]
            if index in self.waiting and not self._sets_aside(index):
                full = self._full_node(index)
                if full is None:
                    return index
                self.crowded[full].append(index)
            heappop(self.hopeful)
        return None

    def _first_that_is_free(self) -> int | None:
        while self.free:
            index = self.free[0]
            if index in self.waiting and not self._sets_aside(index):
                return index
            heappop(self.free)
        return None

    def _sets_aside(self, index: int) -> bool:
        """Set a step aside if a sibling that has yet to move stands on its target, and tell whether."""
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
        looked_at_again = self.blocked.pop(index, [])
        for one in looked_at_again:
            heappush(self.free, one)
        for node, growth in self.changes[index].items():
            self.load[node] += growth
            if (growth < 0).any():
                looked_at_again = looked_at_again + self.crowded.pop(node, [])
        for one in looked_at_again:
            heappush(self.hopeful, one)


def _is_any_order_right(problem: Problem, solution: Solution, load: Int, rows: Sequence[int]) -> bool:
    """Tell whether all rows are new and have room together: none frees a place, and none waits for room.

    Parameters
    ----------
    load
        (N, R) steps of the nodes in the end.
    """
    nodes = solution.node[rows]
    return bool((problem.origin[rows] == NOWHERE).all() and (load[nodes] <= problem.limit[nodes]).all())


def _load_changes(problem: Problem, solution: Solution, step: Step) -> Mapping[int, Int]:
    """Return by how much the load of each node changes in a step, (R,) each."""
    changes: dict[int, Int] = {}
    for row in step:
        if row != NOWHERE:
            for node, sign in ((int(solution.node[row]), 1), (int(problem.origin[row]), -1)):
                if node != NOWHERE:
                    changes[node] = changes.get(node, 0) + sign * problem.load[row]
    return changes
