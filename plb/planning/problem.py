"""Converts the state to the arrays of a search: from the descriptions of users to the data of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Bool, Float, Int
from plb.energy.fragmentation import held_out_nodes
from plb.energy.score import weights_of
from plb.evaluation.move_budgets import budgets_of
from plb.planning.load_counting import counting, load_by_node, standing_load
from plb.planning.local_domains import local_domains
from plb.planning.replica_arrays import affinities, arrays_of_replicas, costs_of_moves
from plb.planning.service_tables import ServiceTables
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState
from plb.state.defragmentation import is_packed
from plb.state.demand_forecast import DemandForecast
from plb.state.in_build import replicas_in_build
from plb.state.node_limits import move_limits
from plb.state.observed_forecast import ObservedDemandForecast
from plb.state.topology import Topology


def build_problem(
    state: ClusterState,
    topology: Topology,
    demand_forecast: DemandForecast | ObservedDemandForecast,
    tables: ServiceTables,
) -> Problem:
    """Return the arrays of a search over the present state of all services; those of replicas are copies.

    Parameters
    ----------
    topology
        Tables that follow from the nodes.
    demand_forecast
        What every row is expected to demand.
    tables
        Tables that follow from the services.
    """
    table = state.rows
    replicas = arrays_of_replicas(state, topology, tables.each, slice(None))
    replicas |= {name: values.copy() for name, values in replicas.items()}
    replicas["load"] = table.load.copy()
    for number, name in (("unspread_rows", "unspread"), ("standbys", "standby"), ("preferring", "prefers_siblings")):
        replicas[number] = int(np.count_nonzero(replicas[name]))
    replicas["preferring"] = bool(replicas["preferring"])
    return Problem(
        **_capacity(state, topology),
        **_nodes(state, topology, tables),
        **replicas,
        **affinities(state, tables.each),
        peak=demand_forecast.peak,
        peak_ceiling=demand_forecast.peak_ceiling,
        estimator_rows=demand_forecast.estimator_rows,
        variance_unit=demand_forecast.variance_unit,
        **demand_forecast.futures(state),
        **_energy(state, topology, demand_forecast),
        metric_weight=tables.metric_weight,
        **local_domains(state, topology, tables.services),
        biased=False,
        **tables.groups,
        **costs_of_moves(state),
        **budgets_of(state),
    )


def _capacity(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the fields of `Problem` on capacity: limits, departing loads, replicas in build."""
    config, table = state.config, state.rows
    return {
        "limit": topology.limit,
        "move_limit": move_limits(topology.limit, topology.move_limit, standing_load(state))
        if topology.buffered
        else topology.limit,
        "threshold": topology.threshold,
        "capacity": state.capacity,
        "inverse_capacity": topology.inverse_capacity,
        "leaving_load": load_by_node(state, table.leaving),
        "tight": config.prevent_transient_overcommit or topology.buffered,
        "keeps_departed": config.prevent_transient_overcommit,
        "counts_departed": config.prevent_transient_overcommit,
        "throttles": topology.throttles,
        "in_build": replicas_in_build(state),
        "most_in_build": topology.most_in_build,
    }


def _nodes(state: ClusterState, topology: Topology, tables: ServiceTables) -> dict[str, Any]:
    """Return the fields of `Problem` on nodes and their domains, and on the services for which they are feasible."""
    return {
        "counted": topology.counted,
        "watched": topology.watched,
        "counted_for": tables.counted_for,
        "nodes_of_metric": tables.nodes_of_metric,
        "receives": topology.receives,
        "targets": topology.targets,
        "held_out": held_out_nodes(state, topology, standing_load(state)),
        "domain": topology.domain,
        "parent": topology.parent,
        "siblings": topology.siblings,
        "most_in_domain": tables.most_in_domain,
        "domain_rule": topology.domain_rule,
        "feasibility_classes": topology.feasibility_classes,
        "upgraded": topology.upgraded,
        "chains": state.config.allow_chained_moves,
    }


def _energy(
    state: ClusterState, topology: Topology, demand_forecast: DemandForecast | ObservedDemandForecast
) -> dict[str, Any]:
    """Return the fields of `Problem` on the energy: weights, and how loads are counted."""
    table = state.rows
    by_percentage, coarseness = counting(state, topology, table.load.sum(axis=0))
    replicas = int(np.count_nonzero(table.used & ~table.leaving))
    return {
        "weights": energy_weights(state, demand_forecast, replicas, by_percentage, coarseness),
        "by_percentage": by_percentage,
        "coarseness": coarseness,
    }


def energy_weights(
    state: ClusterState,
    demand_forecast: DemandForecast | ObservedDemandForecast,
    replicas: int,
    by_percentage: Bool,
    coarseness: Int,
) -> Float:
    """Return `Problem.weights` for a number of replicas whose loads are counted in the given units."""
    config = state.config
    in_quanta = not (by_percentage.any() or coarseness.any())
    packed = any(is_packed(metric) for metric in config.metrics)
    return weights_of(
        config,
        replicas=replicas,
        repetitions=demand_forecast.units,
        plain_deviation=config.local_domain_weight == 0.0 and not packed and in_quanta,
        sampled=not len(demand_forecast.estimator_rows),
    )


def problem_of_domain(
    state: ClusterState,
    topology: Topology,
    demand_forecast: DemandForecast | ObservedDemandForecast,
    problem: Problem,
    tables: ServiceTables,
) -> Problem:
    """Return the problem of all services as that of a service domain, of which `tables` are: only its replicas move."""
    member = np.isin(problem.service, tables.services)
    replicas = int(np.count_nonzero(state.rows.used & member & ~problem.leaving))
    return problem._replace(
        movable=problem.movable & member,
        repairable=problem.repairable & member,
        metric_weight=tables.metric_weight,
        weights=energy_weights(state, demand_forecast, replicas, problem.by_percentage, problem.coarseness),
        **local_domains(state, topology, tables.services),
    )
