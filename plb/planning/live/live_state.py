"""The arrays of the cluster and all sums that follow from them, kept current from call to call.

Reports, descriptions and moves note the rows that they change. Before a search, these rows and those whose expected
demand is due are taken out of the sums, described again and added, so that a call costs what has changed. Services
and the availability of nodes are followed likewise; other nodes, settings or sizes of arrays make all arrays new.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.constraints.application_sums import occupied_nodes, sum_reserved
from plb.constraints.range import check_range
from plb.energy.fragmentation import held_out_nodes
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.imbalance import sum_nodes
from plb.energy.terms import count_again, sum_up
from plb.planning.fixed_point import MOST_FOLLOWED, FixedPoint, row_values
from plb.planning.live.problem import (
    ServiceTables,
    build_problem,
    counting,
    energy_weights,
    local_domains,
    problem_of_domain,
)
from plb.planning.live.replica_arrays import RowChanges, RowSums, affinities
from plb.planning.live.work_lists import WorkLists
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState, application_fields
from plb.state.demand_forecast import Forecast
from plb.state.replica_table import merged
from plb.state.topology import Topology, move_limits


class ArrayInputs(NamedTuple):
    """What the arrays are made for; each changes only as another object."""

    topology: Topology
    tables: ServiceTables
    """The tables of all services."""
    peak: Int32
    """`Problem.peak`, by the forecast of demand."""
    variance_unit: Float
    """`Problem.variance_unit`, by the forecast of demand."""

    @classmethod
    def of(cls, topology: Topology, tables: ServiceTables, demand_forecast: Forecast) -> ArrayInputs:
        """Return the inputs with the present arrays of a forecast."""
        return cls(topology, tables, demand_forecast.peak, demand_forecast.variance_unit)

    def are(self, other_inputs: ArrayInputs, *, but_tables: bool = False) -> bool:
        """Return whether the inputs are the same objects; `but_tables`: topology and service tables may be others."""
        has_same_tables = but_tables or (self.topology is other_inputs.topology and self.tables is other_inputs.tables)
        return has_same_tables and self.peak is other_inputs.peak and self.variance_unit is other_inputs.variance_unit


def can_take_over(problem: Problem, state: ClusterState, before: ArrayInputs, inputs: ArrayInputs) -> bool:
    """Return whether only services or the availability of a few nodes have changed since `problem` was made."""
    return not (
        inputs.tables is before.tables
        or not (inputs.topology is before.topology or inputs.topology.follows is before.topology.token)
        or inputs.tables.limits.most_in_domain is not before.tables.limits.most_in_domain
        or bool(state.service_table.follows.any()) != problem.related
        or state.applications.capacity != len(problem.most_nodes)
        or problem.defragmented.any()
        or problem.reserving.any()
        or state.config.local_domain_weight > 0.0
    )


def changed_fields(state: ClusterState, inputs: ArrayInputs) -> dict[str, Any]:
    """Return the fields of `Problem` to take over, by name, if `can_take_over`: they follow from nodes and services."""
    topology, tables = inputs.topology, inputs.tables
    return {
        "receives": topology.receives,
        "targets": topology.targets,
        "counted": topology.counted,
        "watched": topology.watched,
        "drained": topology.drained,
        "counted_for": tables.counted_for,
        "nodes_of_metric": tables.nodes_of_metric,
        "metric_weight": tables.metric_weight,
        "target_empty": tables.groups["target_empty"],
        "bounded": state.limits_moves,
        **application_fields(state),
    }


SHARE_FOR_ALL = 4
"""If more than a fourth of the rows has changed, all arrays are made new, which is faster."""


class LiveState:
    """The problem and the solution of all services, with every replica on its present node."""

    problem: Problem
    """The problem of all services as of the last update."""
    solution: Solution
    """The solution as of the last update. A search to which it is lent changes it and changes it back."""
    work: WorkLists
    """The rows that call for work in this problem and solution."""
    _sums: RowSums
    """The sums over all rows that neither of both has."""

    def __init__(self, state: ClusterState, fixed_point: FixedPoint) -> None:
        self._state, self._fixed_point = state, fixed_point
        self._made_for: ArrayInputs | None = None
        """Inputs of the present arrays; None: they have to be made new."""
        self._lent_for: ArrayInputs | None = None
        """These, while the solution is lent; else None."""
        self._renewed = 0
        """Rows whose expected demand was computed again since `take_renewed`."""
        self._now = 0.0
        """Time of the last update, in seconds."""
        self._partitions_version = 0
        """`ClusterState.partitions_version` at the last update."""

    def update(
        self,
        topology: Topology,
        tables: ServiceTables,
        demand_forecast: Forecast,
        now: float,
    ) -> None:
        """Bring all arrays to the present state of the cluster and the expected demand at `now`.

        Raise `InvalidValueError` if peaks of a node could exceed their 32 bits, or a percentage of a capacity its 64.
        """
        changes = self._state.rows.changes
        described, changed = changes.described, changes.noted
        same_partitions = self._state.partitions_version == self._partitions_version
        made_for = self._made_for
        is_unchanged = same_partitions and not len(changed) and now == self._now
        if is_unchanged and made_for is not None and ArrayInputs.of(topology, tables, demand_forecast).are(made_for):
            return
        self._made_for = self._lent_for = None  # after an error from here on, all arrays are made new
        changes.take()
        due = demand_forecast.find_due(self._state, now, None if made_for is None else changed)
        self._renewed += len(due)
        inputs = ArrayInputs.of(topology, tables, demand_forecast)
        took_over, changed_nodes = self._take_over_tables(made_for, inputs)
        if changed_nodes:
            on_nodes = np.flatnonzero(np.isin(self.problem.origin, changed_nodes))
            described, changed = merged(described, on_nodes), merged(changed, on_nodes)
        is_current = made_for is not None and inputs.are(made_for, but_tables=took_over)
        has_aged = is_current and self.problem.timeline and now != self._now
        may_be_tied = is_current and self.problem.related and (took_over or not same_partitions)
        self._now, self._partitions_version = now, self._state.partitions_version
        is_current = is_current and self._has_same_local_domains(topology)
        most_changed = max(MOST_FOLLOWED, self._state.rows.capacity // SHARE_FOR_ALL)
        if len(changed) > most_changed:
            self._fixed_point.forget()
        if not is_current or len(described) > most_changed:
            demand_forecast.renew(self._state)
            self._make(topology, tables, demand_forecast)
        elif len(changed) or len(due) or has_aged or may_be_tied or took_over:
            rows = RowChanges(described, changed, due)
            followed = merged(changed, due) if self._fixed_point.remembers_any else changed[:0]
            values_before = row_values(self.problem, self.solution.node, followed) if len(followed) else followed
            affinity, aligned = self.problem.affinity, self.problem.aligned
            stale = self._sums.change(self.problem, self.solution, topology, demand_forecast, rows)
            if took_over:
                stale[list(changed_nodes)] = True
                self._sum_nodes()
            if self._is_counted_otherwise(topology):
                self._make(topology, tables, demand_forecast)
            else:
                self._follow(topology, demand_forecast, stale | has_aged)
                ties = (self.problem.affinity, affinity), (self.problem.aligned, aligned)
                is_retied = self.problem.related and not all(np.array_equal(*arrays) for arrays in ties)
                self._note(described, followed, values_before, is_more=has_aged or is_retied)
        self._made_for = inputs

    def _sum_nodes(self) -> None:
        """Compute again what depends on the tables of nodes, services and applications."""
        self.solution.total[:] = self.solution.squares[:] = 0
        sum_nodes(self.problem, self.solution)
        if self.problem.grouped:
            sum_reserved(self.problem, self.solution)

    def _take_over_tables(self, made_for: ArrayInputs | None, inputs: ArrayInputs) -> tuple[bool, tuple[int, ...]]:
        """Take over other services and nodes in the problem, if `can_take_over`.

        Return whether there were such changes, and the indices of nodes whose availability has changed.
        """
        if made_for is None or not can_take_over(self.problem, self._state, made_for, inputs):
            return False, ()
        self.problem = self.problem._replace(**changed_fields(self._state, inputs))
        return True, () if inputs.topology is made_for.topology else inputs.topology.changed_nodes

    def _note(self, described: Int, followed: Int, values_before: Int, *, is_more: bool) -> None:
        """Tell the lists of work and the fixed point of changed rows.

        `described`: rows that were described again; `followed`: rows whose `row_values` may have changed since these
        were `values_before`, (m, W); `is_more`: whether other rows may have other values as well.
        """
        if is_more:
            self._fixed_point.forget()
        elif len(followed):
            self._fixed_point.follow(followed, values_before, row_values(self.problem, self.solution.node, followed))
        if self.problem.related:  # where a parent moves, its children break a rule
            self.work = WorkLists(self._state, self.problem, self.solution)
        elif len(described):
            self.work.renew(self._state, self.problem, self.solution, described)

    def take_renewed(self) -> int:
        """Return how many rows had their expected demand computed again since the last call."""
        renewed, self._renewed = self._renewed, 0
        return renewed

    def start(self, problem: Problem) -> Solution:
        """Return the solution with replicas on their present nodes; `problem` is of all services or a domain."""
        if problem is self.problem:
            return self.solution
        if len(problem.local_nodes) or len(self.problem.local_nodes):
            return solution_from_scratch(problem, problem.origin.copy())
        solution = self.solution.copy()
        sum_up(problem, solution)
        return solution

    @property
    def is_lent(self) -> bool:
        """Whether a search may be changing the solution."""
        return self._lent_for is not None

    def lend(self) -> None:
        """Let a search change the solution. Unless it is given back, as after an error, all arrays are made new."""
        self._lent_for, self._made_for = self._made_for, None

    def take_back(self) -> None:
        """Take the solution back from a search, which has returned all replicas to their nodes."""
        self._lent_for, self._made_for = None, self._lent_for

    def of_domain(self, topology: Topology, tables: ServiceTables, demand_forecast: Forecast) -> Problem:
        """Return the problem of the service domain of which `tables` are."""
        return problem_of_domain(self._state, topology, demand_forecast, self.problem, tables)

    def _make(self, topology: Topology, tables: ServiceTables, demand_forecast: Forecast) -> None:
        """Make problem, solution and lists new from the state, in the memory of the old arrays."""
        for name in ("problem", "solution"):  # after an error there may be only one
            vars(self).pop(name, None)
        self.problem = build_problem(self._state, topology, demand_forecast, tables)
        self.solution = solution_from_scratch(self.problem, self.problem.origin.copy())
        check_range(self.solution)
        self.work = WorkLists(self._state, self.problem, self.solution)
        self._sums = RowSums(self._state, self.problem)
        self._fixed_point.forget()

    def _is_counted_otherwise(self, topology: Topology) -> bool:
        """Return whether loads are now counted in other units than in the problem: by percentage, or more coarsely."""
        problem = self.problem
        by_percentage, coarseness = counting(self._state, topology, self._sums.all_load, self.solution.node_load)
        is_same = np.array_equal(by_percentage, problem.by_percentage)
        return not (is_same and np.array_equal(coarseness, problem.coarseness))

    def _has_same_local_domains(self, topology: Topology) -> bool:
        """Return whether the same services are local domains as in the arrays."""
        state = self._state
        if state.config.local_domain_weight == 0.0:
            return True
        local = local_domains(state, topology, state.living_indices())["local_of"]
        return np.array_equal(local, self.problem.local_of)

    def _follow(
        self,
        topology: Topology,
        demand_forecast: Forecast,
        stale: Bool,
    ) -> None:
        """Update what follows from the sums over rows; violations of `stale` nodes, a mask (N,), are counted again."""
        problem, solution, state = self.problem, self.solution, self._state
        numbers = self._sums.numbers
        fields: dict[str, Any] = {
            "unspread_rows": numbers.unspread,
            "standbys": numbers.standbys,
            "preferring": numbers.preferring > 0,
            "weights": energy_weights(
                state, demand_forecast, numbers.replicas, problem.by_percentage, problem.coarseness
            ),
        }
        if problem.timeline:
            fields |= demand_forecast.futures(state)
        if problem.related:
            fields |= affinities(state)
        if topology.buffered:
            problem.move_limit[:] = move_limits(topology.limit, topology.move_limit, occupied_nodes(problem, solution))
        differs = problem.timeline or problem.related or any(getattr(problem, name) != fields[name] for name in fields)
        held_out = held_out_nodes(state, topology, solution.node_load)
        if not np.array_equal(held_out, problem.held_out):  # their number changes with the number of usable nodes
            fields["held_out"], differs = held_out, True
        if differs:
            problem = self.problem = problem._replace(**fields)
        count_again(problem, solution, stale)
        sum_up(problem, solution)
        check_range(solution)
