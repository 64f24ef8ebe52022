"""The sums over the rows of the cluster: changed rows are taken out of all sums, described again, and added.

Sums are whole numbers, so they equal those that are made from scratch.
"""

from __future__ import annotations

from operator import add, sub
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.application_sums import count_leaving, count_replica
from plb.energy.terms import add_load_to_terms
from plb.evaluation.delta import add_to_node
from plb.planning.replica_arrays import arrays_of_replicas
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.demand_sources import Forecast
from plb.state.replica_table import merged
from plb.state.topology import Topology


class RowNumbers(NamedTuple):
    """How many rows there are of each kind."""

    replicas: int
    """Without those that leave."""
    preferring: int
    unspread: int
    standbys: int


class RowChanges(NamedTuple):
    """Rows whose part of the sums is another, ascending."""

    described: Int
    """The rows to describe again."""
    changed: Int
    """These, and the rows with other loads."""
    due: Int
    """The rows whose peaks are due."""


class RowSums:
    """What each row is in the sums, and the sums over all rows that no array of a solution has.

    Parameters
    ----------
    state
        The described cluster.
    problem
        Its arrays; all rows are in the sums as they are described there.

    Attributes
    ----------
    numbers
        How many rows there are of each kind.
    all_load
        (R,) the load of all rows together, quanta.
    """

    def __init__(self, state: ClusterState, problem: Problem) -> None:
        self._state = state
        # of every row as it is in the sums
        self._building: Bool = state.rows.building.copy()
        self._used: Bool = state.rows.used.copy()
        self.numbers = self._numbers_of(problem, slice(None))
        self.all_load: Int = problem.load.sum(axis=0)

    def change(
        self,
        problem: Problem,
        solution: Solution,
        topology: Topology,
        demand_forecast: Forecast,
        rows: RowChanges,
    ) -> Bool:
        """Take over changed loads, describe rows again, renew the peaks of others, and update all sums over rows.

        Return the nodes with rows whose violations count, (N,).

        Parameters
        ----------
        problem, solution
            The arrays and the sums; changed.
        """
        state, described = self._state, rows.described
        stale = np.zeros(len(problem.limit), np.bool_)
        _enter_loads(problem, solution, rows.changed, state.rows.load, self.all_load, stale)
        other = merged(described, rows.due)
        if len(other):
            _add_rows(problem, solution, self._building, other, -1, stale)
        if len(described):
            self.numbers = RowNumbers(*map(sub, self.numbers, self._numbers_of(problem, described)))
            for name, values in arrays_of_replicas(state, topology, described).items():
                getattr(problem, name)[described] = values
            solution.node[described] = problem.origin[described]
            self._building[described] = state.rows.building[described]
            self._used[described] = state.rows.used[described]
        demand_forecast.renew(state)
        if len(described):
            self.numbers = RowNumbers(*map(add, self.numbers, self._numbers_of(problem, described)))
        if len(other):
            _add_rows(problem, solution, self._building, other, 1, stale)
        return stale

    def _numbers_of(self, problem: Problem, rows: Int | slice) -> RowNumbers:
        """Return how many of `rows` are of each kind."""
        of_kinds = (
            self._used[rows] & ~problem.leaving[rows],
            problem.prefers_siblings[rows],
            problem.unspread[rows],
            problem.standby[rows],
        )
        return RowNumbers(*(int(np.count_nonzero(of_kind)) for of_kind in of_kinds))


@kernel
def _enter_loads(problem: Problem, solution: Solution, rows: Int, load: Int, all_load: Int, stale: Bool) -> None:
    """Take over the loads of `rows`, in the sums of their nodes, too.

    Parameters
    ----------
    load
        (M+1, R) the loads of all rows, quanta.
    all_load
        (R,) the load of all rows together; modified.
    stale
        (N,) set to true for nodes with such rows whose violations depend on what was reported; modified.
    """
    for row in rows:
        node = problem.origin[row]
        stays = node != NOWHERE and not problem.leaving[row]
        if stays:
            add_load_to_terms(problem, solution, row, node, -1)
            stale[node] |= problem.timeline
        if problem.grouped and node != NOWHERE:
            _count_in_application(problem, solution, row, node, -1)
        for metric in range(load.shape[1]):
            change = load[row, metric] - problem.load[row, metric]
            all_load[metric] += change
            if node != NOWHERE and not stays:
                problem.leaving_load[node, metric] += change
            problem.load[row, metric] = load[row, metric]
        if stays:
            add_load_to_terms(problem, solution, row, node, 1)
        if problem.grouped and node != NOWHERE:
            _count_in_application(problem, solution, row, node, 1)


@kernel
def _count_in_application(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times a row on `node` to the sums of its application; a leaving one counts only in what leaves."""
    if problem.leaving[row]:
        count_leaving(problem, row, node, sign)
    else:
        count_replica(problem, solution, row, node, sign)


@kernel
def _add_rows(problem: Problem, solution: Solution, building: Bool, rows: Int, sign: int, stale: Bool) -> None:
    """Add `sign` times each of `rows` to all sums of its node, and note the node.

    Parameters
    ----------
    building
        (M,) whether the row is in build.
    stale
        (N,) set to true for nodes with such rows that stay.
    """
    for row in rows:
        node = problem.origin[row]
        if node == NOWHERE:
            continue
        if building[row]:
            problem.in_build[node] += sign
        if problem.leaving[row]:
            for metric in range(problem.load.shape[1]):
                problem.leaving_load[node, metric] += sign * problem.load[row, metric]
        else:
            add_to_node(problem, solution, row, node, sign)
            stale[node] = True
        if problem.grouped:
            _count_in_application(problem, solution, row, node, sign)
