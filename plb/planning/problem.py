"""Converts the state to the arrays of a search: from the descriptions of users to the data of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.constraints.range import LARGEST_SUM
from plb.energy.aggregates import PeakSums
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.score import weights_of
from plb.errors import InvalidValueError
from plb.planning.load_counting import counting, load_by_node, standing_load
from plb.planning.replica_arrays import affinities, arrays_of_replicas, costs_of_moves
from plb.planning.service_tables import ServiceTables
from plb.state.arrays import Problem, Solution
from plb.state.cluster import ClusterState
from plb.state.demand_forecast import DemandForecast
from plb.state.in_build import replicas_in_build
from plb.state.observed_forecast import ObservedDemandForecast
from plb.state.packing import is_packed
from plb.state.topology import Topology

NO_BUDGET = 2**31
"""A budget without limit."""


def build_problem(
    state: ClusterState,
    topology: Topology,
    demand_forecast: DemandForecast | ObservedDemandForecast,
    tables: ServiceTables,
) -> Problem:
    """Return the arrays of a search over the present state; most are views of the arrays of the state.

    Parameters
    ----------
    topology
        Tables that follow from the nodes.
    demand_forecast
        What every row is expected to demand.
    tables
        Tables that follow from the services of the search.
    """
    table = state.rows
    everything = len(tables.services) == len(state.services)
    member = table.used if everything else table.used & np.isin(table.service, tables.services)
    return Problem(
        **_capacity(state, topology),
        **_nodes(state, topology, tables),
        **arrays_of_replicas(state, topology, tables.each, member),
        **affinities(state, tables.each),
        peak=demand_forecast.peak,
        peak_ceiling=demand_forecast.peak_ceiling,
        estimator_rows=demand_forecast.estimator_rows,
        variance_unit=demand_forecast.variance_unit,
        **demand_forecast.futures(state),
        **_energy(state, topology, demand_forecast, int(np.count_nonzero(member & ~table.leaving))),
        metric_weight=tables.metric_weight,
        **local_domains(state, topology, tables.services),
        biased=False,
        **tables.groups,
        **costs_of_moves(state, tables.each),
        **_budgets(state),
    )


def _capacity(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the fields of `Problem` on capacity: limits, departing loads, replicas in build."""
    config, table = state.config, state.rows
    return {
        "limit": topology.limit,
        "move_limit": _move_limit(state, topology),
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
        "held_out": _held_out_nodes(state, topology),
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
    state: ClusterState, topology: Topology, demand_forecast: DemandForecast | ObservedDemandForecast, replicas: int
) -> dict[str, Any]:
    """Return the fields of `Problem` on the energy, for a number of replicas: weights, and how loads are counted."""
    config = state.config
    by_percentage, coarseness = counting(state, topology)
    plain_spread = (
        config.local_domain_weight == 0.0
        and not any(is_packed(metric) for metric in config.metrics)
        and not (by_percentage.any() or coarseness.any())
    )
    return {
        "weights": weights_of(
            config,
            replicas=replicas,
            repetitions=demand_forecast.units,
            plain_spread=plain_spread,
            sampled=not len(demand_forecast.estimator_rows),
        ),
        "by_percentage": by_percentage,
        "coarseness": coarseness,
    }


def _budgets(state: ClusterState) -> dict[str, Any]:
    """Return the fields of `Problem` on the largest number of moves: in total, by node and by service."""
    config = state.config

    def limit(most: int | None) -> int:
        return NO_BUDGET if most is None else most

    by_service = [service.max_moves for service in state.services]
    budgets = (config.max_moves, config.max_moves_per_node, *by_service)
    return {
        "bounded": any(most is not None for most in budgets),
        "max_moves": limit(config.max_moves),
        "max_node_moves": np.full(len(state.nodes), limit(config.max_moves_per_node), np.int64),
        "max_service_moves": np.array([*map(limit, by_service)] or [NO_BUDGET], np.int64),
    }


def start_solution(problem: Problem, sums: PeakSums | None = None) -> Solution:
    """Return the solution with every replica on its present node.

    Parameters
    ----------
    sums
        The sums of peaks of the nodes, if they are known; not copied.

    Raises
    ------
    InvalidValueError
        The peaks of a node could exceed their 32 bits.
    """
    solution = solution_from_scratch(problem, problem.origin.copy(), sums)
    _check_range(solution)
    return solution


def _check_range(solution: Solution) -> None:
    """Raise an error for peaks whose sums could overflow (docs/constraints/range.md)."""
    if (highest_sum := int(solution.ceiling.max(initial=0))) > LARGEST_SUM:
        allowed = f"at most {LARGEST_SUM}: give a coarser Metric(quantum=...)"
        raise InvalidValueError("expected demand", "peaks of one node in quanta", highest_sum, allowed)


def _move_limit(state: ClusterState, topology: Topology) -> Int:
    """Return `Problem.move_limit`: a node above it may keep its load."""
    if not topology.buffered:
        return topology.limit
    return np.minimum(topology.limit, np.maximum(topology.move_limit, standing_load(state)))


def local_domains(state: ClusterState, topology: Topology, services: Iterable[int]) -> dict[str, Any]:
    """Return the fields of `Problem` on local load-balancing domains (docs/service-fabric.md, Score).

    One for each service with at least two partitions and a weight above 0, with the weights of the service.
    """
    config = state.config
    local_of = np.full(max(1, len(state.services)), NOWHERE)
    weights: list[list[float]] = []
    counted: list[Bool] = []
    if config.local_domain_weight > 0.0:
        partitions = Counter(record.service for record in state.partitions.values())
        for service in services:
            given = state.services[service].metrics
            of_service = [metric.weight if given is None else given.get(metric.name, 0.0) for metric in config.metrics]
            if partitions[service] >= 2 and sum(of_service) > 0.0:
                local_of[service] = len(weights)
                weights.append(of_service)
                counted.append(
                    topology.counted & topology.feasibility_classes[state.service_feasibility_class[service]]
                )
    nodes = np.array(counted, np.bool_).reshape(len(weights), len(topology.counted))
    return {
        "local_of": local_of,
        "local_weight": np.array(weights).reshape(len(weights), len(config.metrics)),
        "local_counted": nodes,
        "local_nodes": nodes.sum(axis=1),
        "uneven": np.zeros((1 + len(weights), len(config.metrics)), np.bool_),
    }


def _held_out_nodes(state: ClusterState, topology: Topology) -> Int:
    """Return the M nodes that are up and of least W_Max = max over metrics of load/capacity ([1] equation (4))."""
    if not state.config.held_out_nodes:
        return np.zeros(0, np.int64)
    fullest = (standing_load(state) * topology.inverse_capacity).max(axis=1)
    order = np.argsort(fullest[topology.targets], kind="stable")
    return np.sort(topology.targets[order[: state.config.held_out_nodes]])
