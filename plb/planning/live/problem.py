"""Converts the state to the arrays of a search: from the descriptions of users to the data of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.constraints.rules import fields_of_rules
from plb.energy.fragmentation import held_out_nodes
from plb.energy.imbalance import PARTS, metric_weights
from plb.energy.score import weights_of
from plb.errors import InvalidValueError
from plb.model.quanta import UNLIMITED
from plb.planning.live.domain_limits import DomainLimits, domain_limits
from plb.planning.live.replica_arrays import affinities, arrays_of_replicas, costs_of_moves
from plb.risk.estimators import Evaluation
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Weights
from plb.state.cluster_state import ClusterState, standing_load
from plb.state.demand_forecast import Forecast
from plb.state.topology import Topology, is_packed, node_groups, packing_tables

LARGEST_SQUARES = 2**63
"""Upper bound of n·x² of the fullest node."""


def counting(
    state: ClusterState, topology: Topology, total_load: Int, node_load: Int | None = None
) -> tuple[Bool, Int]:
    """Return `Problem.by_percentage` and `Problem.coarseness`, (R,) each.

    A metric is balanced by percentage only where every node has a capacity for it, above 0. Where n·x², of n nodes with
    load x, would exceed 64 bits, x loses as few binary digits as necessary; Σx and Σx² remain whole numbers.
    `total_load`: (R,) quanta of all replicas; `node_load`: (N, R) quanta without departing replicas, None: summed here.
    """
    by_percentage = np.array([metric.balancing_by_percentage for metric in state.config.metrics], np.bool_)
    by_percentage &= ((state.capacity > 0) & (state.capacity < UNLIMITED)).all(axis=0)
    coarseness = np.zeros(len(by_percentage), np.int64)
    nodes = len(state.capacity)
    if not by_percentage.any() and nodes * float(total_load.sum()) ** 2 < LARGEST_SQUARES / 2:
        return by_percentage, coarseness  # all loads of all metrics on one node would still fit
    highest = _highest_loads(topology, total_load, standing_load(state) if node_load is None else node_load)
    for metric in np.flatnonzero(~by_percentage):
        while nodes * (int(highest[metric]) >> int(coarseness[metric])) ** 2 >= LARGEST_SQUARES:
            coarseness[metric] += 1
    for metric in np.flatnonzero(by_percentage):
        _check_percentage(state, int(metric), nodes, int(highest[metric]))
    return by_percentage, coarseness


def _highest_loads(topology: Topology, total_load: Int, node_load: Int) -> Int:
    """Return the largest load in quanta that a node may have of each metric, (R,).

    `total_load`: (R,) quanta of all replicas; `node_load`: (N, R) quanta.
    """
    limit = np.where(topology.limit < UNLIMITED, topology.limit, total_load)
    highest: Int = np.maximum(node_load.max(axis=0, initial=0), limit.max(axis=0, initial=0))
    highest = np.minimum(highest, total_load)
    return highest


def _check_percentage(state: ClusterState, metric: int, nodes: int, highest: int) -> None:
    """Raise `InvalidValueError` if squared percentages of a metric could exceed 64 bits.

    `metric`: its index; `nodes`: number of nodes; `highest`: load of one node, in quanta; the capacity is the smallest
    one.
    """
    smallest = int(state.capacity[:, metric].min())
    parts = highest * PARTS // smallest
    if highest * PARTS >= 2**63 or nodes * parts**2 >= LARGEST_SQUARES:
        raise InvalidValueError(
            f"metric {state.config.metrics[metric].name}",
            "load of a node over the least capacity",
            highest / smallest,
            "n·(load·2^20/capacity)² < 2^63: without balancing_by_percentage",
        )


def local_domains(state: ClusterState, topology: Topology, services: Iterable[int]) -> dict[str, Any]:
    """Return the fields of `Problem` on local load-balancing domains, for the `services` that are one."""
    services = [service for service in services if _is_local(state, service)]
    local_of = np.full(state.service_table.capacity, NOWHERE)
    local_of[services] = np.arange(len(services))
    feasibility_classes = state.service_table.feasibility_class[services]
    counted = topology.counted & topology.feasibility_classes[feasibility_classes]
    metrics = len(state.config.metrics)
    return {
        "local_of": local_of,
        "local_weight": np.array([_weights(state, service) for service in services]).reshape(len(services), metrics),
        "local_counted": counted,
        "local_nodes": counted.sum(axis=1),
        "uneven": np.zeros((1 + len(services), metrics), np.bool_),
    }


def _is_local(state: ClusterState, service: int) -> bool:
    """Return whether a service, by index, is a local domain: it has at least two partitions and a weight above 0."""
    if state.config.local_domain_weight == 0.0 or len(state.service_partitions[service]) < 2:
        return False
    return sum(_weights(state, service)) > 0.0


def _weights(state: ClusterState, service: int) -> list[float]:
    """Return the weights of the metrics in the local domain of the service with this index, (R,)."""
    service_weights = state.services[service].metrics
    return [
        metric.weight if service_weights is None else service_weights.get(metric.name, 0.0)
        for metric in state.config.metrics
    ]


@attrs.frozen(eq=False)
class ServiceTables:
    """Arrays of a service domain; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    """The `tables_version` of the nodes and services for which the tables hold."""
    services: Sequence[int]
    """Indices of the services of the domain."""
    counted_for: Bool
    nodes_of_metric: Int
    limits: DomainLimits
    """The limits of all services."""
    metric_weight: Float
    groups: dict[str, Any]
    """Domains of nodes, and the data of the strategies of the metrics."""


def tables_version(state: ClusterState, topology: Topology) -> tuple[object, ...]:
    """Return the version of the `ServiceTables`, on which they depend; equal versions mean equal tables."""
    return (topology.version, state.services_version)


def build_tables(
    state: ClusterState, topology: Topology, services: Sequence[int], limits: DomainLimits | None = None
) -> ServiceTables:
    """Return the tables of a domain of `services`, by index; the array of earlier `limits` is kept if they hold."""
    counted_for = _counted_for(state, topology, services)
    return ServiceTables(
        version=tables_version(state, topology),
        services=services,
        counted_for=counted_for,
        nodes_of_metric=counted_for.sum(axis=0),
        limits=domain_limits(state, topology, limits),
        metric_weight=metric_weights(state, services),
        groups={**node_groups(state, topology), **packing_tables(state, counted_for)},
    )


def _counted_for(state: ClusterState, topology: Topology, services: Sequence[int]) -> Bool:
    """Return `Problem.counted_for`, (N, R): a node counts for a metric if it is feasible for one of `services` with it.

    Services on every node do not count.
    """
    table, is_feasible = state.service_table, topology.feasibility_classes
    counted_services = np.array(services, np.int64)
    counted_services = counted_services[~table.on_every_node[counted_services]]
    feasible = np.zeros((len(topology.counted), table.has_metric.shape[1]), np.bool_)
    for metric in range(feasible.shape[1]):
        with_metric = counted_services[table.has_metric[counted_services, metric]]
        present_classes = np.flatnonzero(np.bincount(table.feasibility_class[with_metric], minlength=1))
        feasible[:, metric] = is_feasible[present_classes].any(axis=0) if len(present_classes) else True
    counted: Bool = topology.counted[:, None] & feasible
    return counted


def build_problem(
    state: ClusterState,
    topology: Topology,
    demand_forecast: Forecast,
    tables: ServiceTables,
) -> Problem:
    """Return the arrays of a search over the present state of all services; the arrays of replicas are copies."""
    table = state.rows
    replicas = arrays_of_replicas(state, topology, slice(None))
    replicas |= {field: values.copy() for field, values in replicas.items()}
    replicas["load"] = table.load.copy()
    masks = {"unspread_rows": "unspread", "standbys": "standby", "preferring": "prefers_siblings"}
    for count, mask in masks.items():
        replicas[count] = int(np.count_nonzero(replicas[mask]))
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
    """Return `Problem.weights` for a number of replicas; `by_percentage`, `coarseness`: (R,) how loads are counted."""
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
    """Return the problem of the service domain of `tables`: `problem` of all services, but only its replicas move."""
    is_member = np.isin(problem.service, tables.services)
    replicas = int(np.count_nonzero(state.rows.used & is_member & ~problem.leaving))
    return problem._replace(
        movable=problem.movable & is_member,
        repairable=problem.repairable & is_member,
        metric_weight=tables.metric_weight,
        weights=energy_weights(state, demand_forecast, replicas, problem.by_percentage, problem.coarseness),
        **local_domains(state, topology, tables.services),
    )
