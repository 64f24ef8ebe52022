"""The order of a plan's moves: a replica leaves before another takes its place."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plb.array_types import NOWHERE, Int
from plb.search.move_order import Steps, executable_order
from plb.search.result import steps_to
from plb.state.arrays import Problem, Solution
from plb.testing import all_clusters, configuration_of, walks
from tests.engine.strategies import examples


@examples(120)
@given(cluster=all_clusters(), chained=st.booleans(), capacity=st.floats(0.0, 2.0), data=st.data())
def test_order_equals_that_of_checking_every_step_each_time(cluster, chained, capacity, data):
    """It is so after any walk, with any capacity of the nodes, with and without chained moves."""
    configuration = configuration_of(cluster.engine())
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    problem, solution = configuration.problem, configuration.solution
    limit = (problem.limit * capacity).astype(np.int64) if problem.limit.max(initial=0) < 2**40 else problem.limit
    problem = problem._replace(chains=chained, limit=limit)
    changed = np.flatnonzero((solution.node != problem.origin) & (solution.node != NOWHERE))
    steps = steps_to(problem, solution, changed)
    assert listed(executable_order(problem, solution, steps)) == checked_one_by_one(problem, solution, listed(steps))


Step = tuple[int, int]
"""A row that moves, and the row with which it swaps roles, or NOWHERE."""


def listed(steps: Steps) -> list[Step]:
    return list(zip(steps.row.tolist(), steps.partner.tolist(), strict=True))


def checked_one_by_one(problem: Problem, solution: Solution, steps: list[Step]) -> list[Step]:
    """Return the order by the definition: the next step is the first that waits for no sibling and fits."""
    waiting = sorted(steps, key=lambda step: (problem.origin[step[0]] == NOWHERE, step[1] == NOWHERE, step[0]))
    load = solution.node_load + problem.leaving_load
    for step in steps:
        load -= change_of(problem, solution, step)
    ordered = []
    while waiting:
        to_move = {row for step in waiting for row in step}
        free = [step for step in waiting if not waits(problem, solution, step, to_move)] or waiting
        changes = [change_of(problem, solution, step) for step in free]
        fitting = [
            step
            for step, change in zip(free, changes, strict=True)
            if ((change <= 0) | (load + change <= problem.limit)).all()
        ]
        step = (fitting or free)[0]
        waiting.remove(step)
        ordered.append(step)
        load += change_of(problem, solution, step)
    return ordered


def change_of(problem: Problem, solution: Solution, step: Step) -> Int:
    """Return the change of the load of every node by a step, (N, R)."""
    change = np.zeros_like(solution.node_load)
    for row in step:
        if row != NOWHERE:
            change[solution.node[row]] += problem.load[row]
            if problem.origin[row] != NOWHERE:
                change[problem.origin[row]] -= problem.load[row]
    return change


def waits(problem: Problem, solution: Solution, step: Step, to_move: set[int]) -> bool:
    row, partner = step
    if not problem.chains or partner != NOWHERE:
        return False
    siblings, other = [], int(problem.sibling[row])
    while other != row:
        siblings.append(other)
        other = int(problem.sibling[other])
    return any(problem.origin[one] == solution.node[row] and one in to_move for one in siblings)
