"""The arrays of the cluster and all sums that follow from them, kept current from call to call.

Reports, descriptions and moves note the rows that they change. Before a search, these rows and those whose expected
demand is due are taken out of the sums, described again and added, so that a call costs what has changed. Services
and the availability of nodes are followed likewise; other nodes, settings or sizes of arrays make all arrays new.
"""

from __future__ import annotations

from copy import copy
from operator import add, is_, sub
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.application_sums import count_leaving, count_replica, occupied_nodes, sum_reserved
from plb.constraints.range import check_range
from plb.energy.fragmentation import held_out_nodes
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.imbalance import sum_nodes
from plb.energy.terms import add_load_to_terms, count_again, sum_up
from plb.evaluation.delta import add_to_node
from plb.model.snapshot import Part
from plb.planning.fixed_point import MOST_FOLLOWED, FixedPoint, row_values
from plb.planning.load_counting import counting
from plb.planning.local_domains import local_domains, local_fields
from plb.planning.problem import build_problem, energy_weights, problem_of_domain
from plb.planning.replica_arrays import affinities, arrays_of_replicas
from plb.planning.service_tables import ServiceTables, tables_version
from plb.planning.work_lists import WorkLists
from plb.state.application_fields import application_fields
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import DemandForecast
from plb.state.node_limits import move_limits
from plb.state.observed_forecast import ObservedDemandForecast
from plb.state.replica_table import merged
from plb.state.topology import Topology, config_of, topology_version

SHARE_FOR_ALL = 4
"""If more than one row in so many has changed, all arrays are made new, which is faster."""
MOST_COARSE = 62
"""Binary digits by which loads can be cut."""


class RowNumbers(NamedTuple):
    """How many rows there are of each kind."""

    replicas: int
    """Without those that leave."""
    preferring: int
    unspread: int
    standbys: int


class LiveState:
    """The problem and the solution of all services, with every replica on its present node.

    Parameters
    ----------
    state
        The described cluster.
    fixed_point
        Learns which rows have changed.

    Attributes
    ----------
    problem, solution
        As of the last update. A search to which the solution is lent changes it and changes it back.
    work
        What calls for work in them.
    """

    problem: Problem
    solution: Solution
    work: WorkLists

    def __init__(self, state: ClusterState, fixed_point: FixedPoint) -> None:
        self._state, self._fixed_point = state, fixed_point
        self._made_for: tuple[object, ...] = ()
        self._lent_for: tuple[object, ...] = ()
        self._renewed = 0
        self._now = 0.0
        self._partitions_version = 0
        # of every row as it is in the sums
        self._building: Bool = np.zeros(0, np.bool_)
        self._used: Bool = np.zeros(0, np.bool_)
        self._numbers = RowNumbers(0, 0, 0, 0)
        self._all_load: Int = np.zeros(0, np.int64)
        self._earlier: tuple[Int, Int] | None = None
        """Rows that had changed when a snapshot was taken, and what a search knew of them before."""

    def update(
        self,
        topology: Topology,
        tables: ServiceTables,
        demand_forecast: DemandForecast | ObservedDemandForecast,
        now: float,
    ) -> None:
        """Bring all arrays to the present state of the cluster and the expected demand at `now`.

        Raises
        ------
        InvalidValueError
            The peaks of a node could exceed their 32 bits, or a percentage of a capacity its 64.
        """
        changes = self._state.rows.changes
        described, changed = changes.described, changes.noted
        same_partitions = self._state.partitions_version == self._partitions_version
        unchanged = same_partitions and not len(changed) and self._is_made_for(topology, tables, demand_forecast)
        if unchanged and now == self._now:
            return
        made_for = self._made_for
        self._made_for = self._lent_for = ()  # after an error from here on, all arrays are made new
        changes.take()
        due = demand_forecast.find_due(self._state, now, changed if made_for else None)
        self._renewed += len(due)
        is_followed, nodes = self._follow_tables(made_for, topology, tables)
        if nodes:
            on_nodes = np.flatnonzero(np.isin(self.problem.origin, nodes))
            described, changed = merged(described, on_nodes), merged(changed, on_nodes)
        given = (topology, tables, demand_forecast.peak, demand_forecast.variance_unit)
        is_current = _are_same(given[2:], made_for[2:]) if is_followed else _are_same(given, made_for)
        aged = is_current and self.problem.timeline and now != self._now
        tied = is_current and self.problem.related and (is_followed or not same_partitions)
        self._now, self._partitions_version = now, self._state.partitions_version
        is_current = is_current and self._has_same_local_domains(topology)
        most = max(MOST_FOLLOWED, self._state.rows.capacity // SHARE_FOR_ALL)
        if len(changed) > most:
            self._fixed_point.forget()
        if not is_current or len(described) > most:
            demand_forecast.renew(self._state)
            self._make(topology, tables, demand_forecast)
        elif len(changed) or len(due) or aged or tied or is_followed:
            rows = merged(changed, due)
            followed = rows if self._fixed_point.remembers_any else rows[:0]
            before = self._values_before(followed) if len(followed) else followed
            self._earlier = None
            affinity, aligned = self.problem.affinity, self.problem.aligned
            stale = self._change(topology, demand_forecast, described, changed, due)
            if is_followed:
                stale[list(nodes)] = True
                self._sum_nodes()
            if self._is_counted_otherwise(topology):
                self._make(topology, tables, demand_forecast)
            else:
                self._follow(topology, demand_forecast, stale | aged)
                ties = (self.problem.affinity, affinity), (self.problem.aligned, aligned)
                retied = self.problem.related and not all(np.array_equal(*one) for one in ties)
                self._note(described, followed, before, others=aged or retied)
        self._made_for = given

    def _sum_nodes(self) -> None:
        """Compute again what depends on the tables of nodes, services and applications."""
        self.solution.total[:] = self.solution.squares[:] = 0
        sum_nodes(self.problem, self.solution)
        if self.problem.grouped:
            sum_reserved(self.problem, self.solution)

    def _follow_tables(
        self, made_for: tuple[object, ...], topology: Topology, tables: ServiceTables
    ) -> tuple[bool, tuple[int, ...]]:
        """Take over other services and the availability of a few nodes, if no more has changed since `made_for`.

        Return whether there were such changes, and these nodes.
        """
        if not made_for:
            return False, ()
        before: Any = made_for[0]
        known: Any = made_for[1]
        problem, table = self.problem, self._state.service_table
        same_nodes = topology is before
        packed = problem.defragmented.any() or problem.reserving.any()
        if (
            tables is known
            or not (same_nodes or topology.follows is before.token)
            or tables.limits.most_in_domain is not known.limits.most_in_domain
            or bool(table.follows.any()) != problem.related
            or self._state.applications.capacity != len(problem.most_nodes)
            or packed
            or self._state.config.local_domain_weight > 0.0
        ):
            return False, ()
        self.problem = problem._replace(
            receives=topology.receives,
            targets=topology.targets,
            counted=topology.counted,
            watched=topology.watched,
            counted_for=tables.counted_for,
            nodes_of_metric=tables.nodes_of_metric,
            metric_weight=tables.metric_weight,
            target_empty=tables.groups["target_empty"],
            bounded=self._state.limits_moves,
            tight=problem.keeps_departed or topology.buffered or self._state.applications.capacity > 0,
            **application_fields(self._state),
        )
        return True, () if same_nodes else topology.changed_nodes

    def _is_made_for(
        self, topology: Topology, tables: ServiceTables, demand_forecast: DemandForecast | ObservedDemandForecast
    ) -> bool:
        """Return whether the arrays follow from these tables, and from the peaks of this forecast."""
        return _are_same((topology, tables, demand_forecast.peak, demand_forecast.variance_unit), self._made_for)

    def _note(self, described: Int, rows: Int, before: Int, *, others: bool) -> None:
        """Update what depends on which rows have changed.

        Parameters
        ----------
        described
            Those of which more than loads have changed.
        rows, before
            Those that are followed, and their `row_values` before.
        others
            Whether more than `rows` may have changed.
        """
        if others:
            self._fixed_point.forget()
        elif len(rows):
            self._fixed_point.follow(rows, before, row_values(self.problem, self.solution.node, rows))
        if self.problem.related:  # where a parent moves, its children break a rule
            self.work = WorkLists(self._state, self.problem, self.solution)
        elif len(described):
            self.work.renew(self._state, self.problem, self.solution, described)

    def take_renewed(self) -> int:
        """Return how many rows had their expected demand computed again since the last call."""
        renewed, self._renewed = self._renewed, 0
        return renewed

    def start(self, problem: Problem) -> Solution:
        """Return the solution of `problem`, that of all services or of a service domain; see `lend`."""
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
        return bool(self._lent_for)

    def lend(self) -> None:
        """Let a search change the solution. Unless it is given back, as after an error, all arrays are made new."""
        self._lent_for, self._made_for = self._made_for, ()

    def take_back(self) -> None:
        """Take the solution back from a search, which has returned all replicas to their nodes."""
        self._lent_for, self._made_for = (), self._lent_for

    def of_domain(
        self, topology: Topology, tables: ServiceTables, demand_forecast: DemandForecast | ObservedDemandForecast
    ) -> Problem:
        """Return the problem of a service domain, of which `tables` are."""
        return problem_of_domain(self._state, topology, demand_forecast, self.problem, tables)

    def _values_before(self, rows: Int) -> Int:
        """Return the `row_values` of rows, ascending, at the last update."""
        values = row_values(self.problem, self.solution.node, rows)
        if self._earlier is not None:
            values[np.searchsorted(rows, self._earlier[0])] = self._earlier[1]
        return values

    def is_current_for(
        self, topology: Topology, tables: ServiceTables, demand_forecast: DemandForecast | ObservedDemandForecast
    ) -> bool:
        """Return whether an update may follow changes: nodes, services and sizes of arrays are the same as before."""
        if not self._made_for or (topology, tables) != self._made_for[:2]:
            return False
        state = copy(self._state)
        state.config = config_of(topology)
        same = topology.version == topology_version(state) and tables.version == tables_version(state, topology)
        same = same and len(self.problem.origin) == state.rows.capacity
        return same and self._is_made_for(topology, tables, demand_forecast)

    def part(self, demand_forecast: DemandForecast | ObservedDemandForecast) -> Part:
        """Return what a snapshot holds of the last update: what does not follow from the cluster as it is now."""
        problem, table = self.problem, self._state.rows
        changed = table.changes.noted
        unsampled = np.flatnonzero((table.generation > 0) & (~table.used | table.leaving))
        arrays = {
            "changed": changed,
            "before": self._values_before(changed),
            "unsampled": unsampled,
            "unsampled_ceiling": demand_forecast.peak_ceiling[unsampled],
            "local_of": problem.local_of[: len(self._state.services)].copy(),
            "by_percentage": problem.by_percentage.copy(),
            "coarseness": problem.coarseness.copy(),
            "affinity": problem.affinity.copy() if problem.related else np.zeros(0, np.int64),
        }
        return Part({"now": self._now, "partitions_version": self._partitions_version}, arrays)

    def resume(
        self,
        topology: Topology,
        tables: ServiceTables,
        demand_forecast: DemandForecast | ObservedDemandForecast,
        part: Part,
    ) -> None:
        """Make all arrays as of the last update before a snapshot; the next update follows the changes since.

        Rows that have changed since are in no sum and wait in `_earlier`, so that what they were changed to raises no
        error before the next update.
        """
        metrics, capacity = len(self._state.config.metrics), self._state.rows.capacity
        changed = part.array("changed", (None,), np.int64, low=0, high=capacity - 1)
        if not np.array_equal(changed, self._state.rows.changes.noted):
            part.refuse("changed", f"{len(changed)} rows", "the rows that the table of rows has as changed")
        local_of = part.array("local_of", (len(self._state.services),), np.int64)
        local = np.flatnonzero(local_of != NOWHERE)
        unsampled = part.array("unsampled", (None,), np.int64, low=0, high=capacity - 1)
        ceilings = part.array("unsampled_ceiling", (len(unsampled), metrics), np.int64, low=0)
        described = copy(self._state)
        described.config, described.rows = config_of(topology), self._state.rows.without_loads(changed)
        now = part.value("now", float)
        demand_forecast.find_due(described, now)
        demand_forecast.renew(described)
        demand_forecast.peak_ceiling[unsampled] = ceilings
        problem = build_problem(described, topology, demand_forecast, tables)
        self._take_over(
            problem._replace(
                **local_fields(described, topology, local[np.argsort(local_of[local], kind="stable")].tolist()),
                by_percentage=part.array("by_percentage", (metrics,), np.bool_),
                coarseness=part.array("coarseness", (metrics,), np.int64, low=0, high=MOST_COARSE),
            )
        )
        if problem.related:  # only compared: the next update ties children to their parents again
            self.problem = self.problem._replace(affinity=part.array("affinity", (capacity,), np.int64))
        self._earlier = changed, part.array("before", (len(changed), None), np.int64)
        self._now, self._partitions_version = now, part.count("partitions_version")
        self._made_for = (topology, tables, demand_forecast.peak, demand_forecast.variance_unit)

    def _make(
        self, topology: Topology, tables: ServiceTables, demand_forecast: DemandForecast | ObservedDemandForecast
    ) -> None:
        """Make all arrays new, in the memory of the old ones."""
        for name in ("problem", "solution"):  # after an error there may be only one
            vars(self).pop(name, None)
        self._take_over(build_problem(self._state, topology, demand_forecast, tables))
        self._fixed_point.forget()
        self._earlier = None

    def _take_over(self, problem: Problem) -> None:
        """Form the sums and lists of a problem."""
        self.problem = problem
        self.solution = solution_from_scratch(self.problem, self.problem.origin.copy())
        check_range(self.solution)
        self.work = WorkLists(self._state, self.problem, self.solution)
        table = self._state.rows
        self._building, self._used = table.building.copy(), table.used.copy()
        self._numbers = self._numbers_of(slice(None))
        self._all_load = self.problem.load.sum(axis=0)

    def _change(
        self,
        topology: Topology,
        demand_forecast: DemandForecast | ObservedDemandForecast,
        described: Int,
        changed: Int,
        due: Int,
    ) -> Bool:
        """Take over changed loads, describe rows again, renew the peaks of others, and update all sums over rows.

        Return the nodes with rows whose violations count, (N,).

        Parameters
        ----------
        described
            The rows to describe again.
        changed
            These, and the rows with other loads.
        due
            The rows whose peaks are due.
        """
        problem, solution, state = self.problem, self.solution, self._state
        stale = np.zeros(len(problem.limit), np.bool_)
        _enter_loads(problem, solution, changed, state.rows.load, self._all_load, stale)
        rows = merged(described, due)
        if len(rows):
            _add_rows(problem, solution, self._building, rows, -1, stale)
        if len(described):
            self._numbers = RowNumbers(*map(sub, self._numbers, self._numbers_of(described)))
            for name, values in arrays_of_replicas(state, topology, described).items():
                getattr(problem, name)[described] = values
            solution.node[described] = problem.origin[described]
            self._building[described] = state.rows.building[described]
            self._used[described] = state.rows.used[described]
        demand_forecast.renew(state)
        if len(described):
            self._numbers = RowNumbers(*map(add, self._numbers, self._numbers_of(described)))
        if len(rows):
            _add_rows(problem, solution, self._building, rows, 1, stale)
        return stale

    def _numbers_of(self, rows: Int | slice) -> RowNumbers:
        """Return how many of `rows` are of each kind."""
        problem = self.problem
        of_kinds = (
            self._used[rows] & ~problem.leaving[rows],
            problem.prefers_siblings[rows],
            problem.unspread[rows],
            problem.standby[rows],
        )
        return RowNumbers(*(int(np.count_nonzero(of_kind)) for of_kind in of_kinds))

    def _is_counted_otherwise(self, topology: Topology) -> bool:
        """Return whether loads are now counted in other units."""
        problem = self.problem
        by_percentage, coarseness = counting(self._state, topology, self._all_load, self.solution.node_load)
        same = np.array_equal(by_percentage, problem.by_percentage)
        return not (same and np.array_equal(coarseness, problem.coarseness))

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
        demand_forecast: DemandForecast | ObservedDemandForecast,
        stale: Bool,
    ) -> None:
        """Update what follows from the sums over rows.

        Parameters
        ----------
        stale
            (N,) whether the violations of the node have to be counted again.
        """
        problem, solution, state = self.problem, self.solution, self._state
        numbers = self._numbers
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
        if not np.array_equal(held_out, problem.held_out):  # their number changes with that of usable nodes
            fields["held_out"], differs = held_out, True
        if differs:
            problem = self.problem = problem._replace(**fields)
        count_again(problem, solution, stale)
        sum_up(problem, solution)
        check_range(solution)


def _are_same(these: tuple[object, ...], those: tuple[object, ...]) -> bool:
    """Return whether two tuples have the same objects."""
    return len(these) == len(those) and all(map(is_, these, those))


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
