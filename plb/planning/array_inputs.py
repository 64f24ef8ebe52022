"""What the arrays of the cluster follow from besides its rows, and which changes of it they take over."""

from __future__ import annotations

from typing import Any, NamedTuple

from plb.array_types import Float, Int32
from plb.planning.service_tables import ServiceTables
from plb.state.application_fields import application_fields
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState
from plb.state.demand_sources import Forecast
from plb.state.topology import Topology


class ArrayInputs(NamedTuple):
    """What the arrays are made for; each changes only as another object."""

    topology: Topology
    tables: ServiceTables
    """Those of all services."""
    peak: Int32
    """Of the forecast of demand, as `variance_unit`."""
    variance_unit: Float

    @classmethod
    def of(cls, topology: Topology, tables: ServiceTables, demand_forecast: Forecast) -> ArrayInputs:
        """Return the inputs with the present arrays of a forecast."""
        return cls(topology, tables, demand_forecast.peak, demand_forecast.variance_unit)

    def are(self, others: ArrayInputs, *, but_tables: bool = False) -> bool:
        """Return whether all are the same objects; `but_tables`: all but the tables of nodes and services."""
        same_tables = but_tables or (self.topology is others.topology and self.tables is others.tables)
        return same_tables and self.peak is others.peak and self.variance_unit is others.variance_unit


def can_take_over(problem: Problem, state: ClusterState, before: ArrayInputs, given: ArrayInputs) -> bool:
    """Return whether there are other tables, and only services or the availability of a few nodes have changed.

    Parameters
    ----------
    problem
        Made for `before`.
    """
    return not (
        given.tables is before.tables
        or not (given.topology is before.topology or given.topology.follows is before.topology.token)
        or given.tables.limits.most_in_domain is not before.tables.limits.most_in_domain
        or bool(state.service_table.follows.any()) != problem.related
        or state.applications.capacity != len(problem.most_nodes)
        or problem.defragmented.any()
        or problem.reserving.any()
        or state.config.local_domain_weight > 0.0
    )


def changed_fields(problem: Problem, state: ClusterState, given: ArrayInputs) -> dict[str, Any]:
    """Return the fields of `Problem` that follow from the tables which `problem` can take over."""
    topology, tables = given.topology, given.tables
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
        "tight": problem.keeps_departed or topology.buffered or state.applications.capacity > 0,
        **application_fields(state),
    }
