"""Converts the state to the arrays of a search: from the descriptions of users to the data of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Bool, Int
from plb.constraints.rules import fields_of_rules
from plb.energy.fragmentation import held_out_nodes
from plb.energy.score import weights_of
from plb.planning.load_counting import counting
from plb.planning.local_domains import local_domains
from plb.planning.replica_arrays import affinities, arrays_of_replicas, costs_of_moves
from plb.planning.service_tables import ServiceTables
from plb.risk.estimators import Evaluation
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Weights
from plb.state.cluster_state import ClusterState
from plb.state.defragmentation import is_packed
from plb.state.demand_sources import Forecast
from plb.state.node_loads import standing_load
from plb.state.topology import Topology


def build_problem(
    state: ClusterState,
    topology: Topology,
    demand_forecast: Forecast,
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
    replicas = arrays_of_replicas(state, topology, slice(None))
    replicas |= {name: values.copy() for name, values in replicas.items()}
    replicas["load"] = table.load.copy()
    for number, name in (("unspread_rows", "unspread"), ("standbys", "standby"), ("preferring", "prefers_siblings")):
        replicas[number] = int(np.count_nonzero(replicas[name]))
    replicas["preferring"] = bool(replicas["preferring"])
    return Problem(
        **fields_of_rules(state, topology),
        **_nodes(state, topology, tables),
        **replicas,
        **affinities(state),
        peak=demand_forecast.peak,
        peak_ceiling=demand_forecast.peak_ceiling,
        estimator_rows=demand_forecast.estimator_rows,
        variance_unit=demand_forecast.variance_unit,
        windows=demand_forecast.windows,
        lists_rows=lists_rows(state.config),
        **demand_forecast.futures(state),
        **_energy(state, topology, demand_forecast),
        metric_weight=tables.metric_weight,
        **local_domains(state, topology, tables.services),
        biased=False,
        **tables.groups,
        **costs_of_moves(state),
    )


def lists_rows(config: PlbConfig) -> bool:
    """Return whether the rows on each node are listed."""
    return config.evaluation is Evaluation.TIMELINE or config.larger_neighbourhood_share > 0.0


def _nodes(state: ClusterState, topology: Topology, tables: ServiceTables) -> dict[str, Any]:
    """Return the fields of `Problem` on nodes that no single rule reads alone."""
    return {
        "threshold": topology.threshold,
        "capacity": state.capacity,
        "inverse_capacity": topology.inverse_capacity,
        "counted": topology.counted,
        "counted_for": tables.counted_for,
        "nodes_of_metric": tables.nodes_of_metric,
        "held_out": held_out_nodes(state, topology, standing_load(state)),
        "most_in_domain": tables.limits.most_in_domain,
    }


def _energy(state: ClusterState, topology: Topology, demand_forecast: Forecast) -> dict[str, Any]:
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
    demand_forecast: Forecast,
    replicas: int,
    by_percentage: Bool,
    coarseness: Int,
) -> Weights:
    """Return `Problem.weights` for a number of replicas whose loads are counted in the given units."""
    config = state.config
    in_quanta = not (by_percentage.any() or coarseness.any())
    packed = any(is_packed(metric) for metric in config.metrics)
    return weights_of(
        config,
        replicas=replicas,
        repetitions=demand_forecast.units,
        columns=demand_forecast.peak.shape[2],
        plain_deviation=config.local_domain_weight == 0.0 and not packed and in_quanta,
        sampled=not len(demand_forecast.estimator_rows),
    )


def problem_of_domain(
    state: ClusterState,
    topology: Topology,
    demand_forecast: Forecast,
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
