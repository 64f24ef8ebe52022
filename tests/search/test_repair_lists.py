"""The lists of a repair know every breach, whatever moves: as a pass over all rows and nodes finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.array_types import NOWHERE
from plb.energy.from_scratch import solution_from_scratch
from plb.extensions.configuration import Configuration
from plb.search.repair.breaches import find_breaches, suspects_after
from plb.search.repair.lists import (
    RepairState,
    list_rows_on_nodes,
    new_repair_state,
    next_listed_node,
    note_moves,
    remaining_breaches,
    undo_repair,
)
from plb.search.transactions import try_move
from tests.engine.breaches_by_pass import remaining_by_pass
from tests.engine.ruled_clusters import enforced_rules, visited_configurations
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

steps = st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3), max_size=6)
"""Moves by row and node, step by step; numbers beyond the last count from the first again."""


def state_of(configuration: Configuration, enforced: int) -> RepairState:
    problem, solution = configuration.problem, configuration.solution
    breaches = find_breaches(problem, solution, enforced, np.arange(len(solution.node)))
    state = new_repair_state(problem, breaches, 99)
    list_rows_on_nodes(solution.node, state.on_nodes)
    return state


def make(configuration: Configuration, state: RepairState, step: list[tuple[int, int]]) -> None:
    problem, solution = configuration.problem, configuration.solution
    rows = [row for row in configuration.rows.tolist() if solution.node[row] != NOWHERE]
    begun = int(state.transaction.length[0])
    for number, node in step if rows else ():
        row = rows[number % len(rows)]
        if node % configuration.nodes != solution.node[row]:
            try_move(problem, solution, state.transaction, row, node % configuration.nodes)
    note_moves(problem, solution, state, begun)


def rows_on(state: RepairState, node: int) -> list[int]:
    found, row = [], int(state.on_nodes.first[node])
    while row != NOWHERE:
        found.append(row)
        row = int(state.on_nodes.following[row])
    return found


def assert_current(configuration: Configuration, state: RepairState, enforced: int) -> None:
    """Check the number of breaches, the order of the listed nodes, and the rows of all nodes."""
    problem, solution = configuration.problem, configuration.solution
    for by_partition in (False, True):
        broken, overload = remaining_breaches(problem, solution, enforced, by_partition, state.suspects)
        expected = remaining_by_pass(configuration, enforced, by_partition=by_partition)
        assert broken == expected[0]
        assert overload == pytest.approx(expected[1], abs=1e-3)
    listed, node = [], next_listed_node(state.suspects, NOWHERE)
    while node != NOWHERE:
        listed.append(node)
        node = next_listed_node(state.suspects, node)
    assert listed == np.flatnonzero(state.suspects.is_node).tolist()
    for node in range(configuration.nodes):
        assert sorted(rows_on(state, node)) == np.flatnonzero(configuration.solution.node == node).tolist()


@examples(120)
@given(visited_configurations(), enforced_rules, steps)
def test_lists_find_what_a_pass_over_everything_finds(configuration, enforced, steps):
    """After each step of moves, and after all are undone; then the lists have their first lengths again."""
    state = state_of(configuration, enforced)
    lengths = state.suspects.length.tolist()
    assert_current(configuration, state, enforced)
    for step in steps:
        make(configuration, state, step)
        assert_current(configuration, state, enforced)
    undo_repair(configuration.problem, configuration.solution, state)
    assert_current(configuration, state, enforced)
    assert state.suspects.length.tolist() == lengths
    suspects = state.suspects
    listed = suspects.is_row, suspects.is_node, suspects.is_application
    assert [np.count_nonzero(one) for one in listed] == lengths


@examples(80)
@given(visited_configurations(), enforced_rules, steps)
def test_breaches_after_moves_are_among_the_suspects(configuration, enforced, steps):
    """The rows that broke a rule before all moves, also of visits, and those that moves affect, are enough."""
    problem, solution = configuration.problem, configuration.solution
    everything = np.arange(len(solution.node))
    before = solution_from_scratch(problem, problem.origin.copy())
    breaking = find_breaches(problem, before, enforced, everything).rows
    state = state_of(configuration, enforced)
    for step in steps:
        make(configuration, state, step)
    suspects = suspects_after(problem, solution, breaking, everything)
    found = find_breaches(problem, solution, enforced, suspects).rows.tolist()
    assert found == find_breaches(problem, solution, enforced, everything).rows.tolist()
