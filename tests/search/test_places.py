"""Places of moved rows: a search returns from anywhere to any places, with every sum as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from plb.array_types import NOWHERE
from plb.energy.from_scratch import solution_from_scratch
from plb.evaluation.delta import compare_with_scratch
from plb.search.transactions import NO_PLACES, go_to, moved_rows, places_of
from tests.engine.ruled_clusters import visited_configurations
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@examples(60)
@given(visited_configurations(), visited_configurations())
def test_rows_return_from_any_places_to_any_others(visited, other):
    """The solution is then that from scratch with the rows there; all other rows are on their origins."""
    problem, solution = visited.problem, visited.solution
    everything = np.arange(len(solution.node))
    places = places_of(problem, solution, everything)
    assert places.rows.tolist() == np.flatnonzero(solution.node != problem.origin).tolist()
    elsewhere = solution_from_scratch(problem, problem.origin.copy())
    for row in np.flatnonzero(problem.movable).tolist()[: len(other.problem.limit)]:
        visited_node = int(other.solution.node[row % len(other.solution.node)])
        if NOWHERE < visited_node < len(problem.limit):
            elsewhere = solution_from_scratch(problem, _with(elsewhere.node, row, visited_node))
    go_to(problem, elsewhere, places, everything)
    assert np.array_equal(elsewhere.node, solution.node)
    compare_with_scratch(problem, elsewhere, "there")
    go_to(problem, elsewhere, NO_PLACES, everything)
    assert np.array_equal(elsewhere.node, problem.origin)
    compare_with_scratch(problem, elsewhere, "back")
    assert not len(moved_rows(problem, elsewhere, everything))


def _with(nodes, row, node):
    changed = nodes.copy()
    changed[row] = node
    return changed
