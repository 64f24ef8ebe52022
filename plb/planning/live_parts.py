"""The arrays of the cluster as a part of a snapshot, and back.

A snapshot holds of them what does not follow from the cluster as it is now. They are made again as of the last update,
so that the next one follows the same changes as in the engine of the snapshot.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from plb.array_types import NOWHERE
from plb.model.snapshot import Part
from plb.planning.array_inputs import ArrayInputs
from plb.planning.live_state import LastUpdate, LiveState
from plb.planning.local_domains import local_fields
from plb.planning.problem import build_problem
from plb.planning.service_tables import ServiceTables, tables_version
from plb.state.cluster_state import ClusterState
from plb.state.demand_sources import Forecast
from plb.state.topology import Topology, config_of, topology_version

MOST_COARSE = 62
"""Binary digits by which loads can be cut."""


def may_follow(live: LiveState, state: ClusterState, given: ArrayInputs) -> bool:
    """Return whether an update may follow changes: nodes, services and sizes of arrays are the same as before."""
    if not live.is_made_for(given):
        return False
    described = copy(state)
    described.config = config_of(given.topology)
    same = given.topology.version == topology_version(described)
    same = same and given.tables.version == tables_version(described, given.topology)
    return same and len(live.problem.origin) == state.rows.capacity


def part_of_live(last: LastUpdate, state: ClusterState, demand_forecast: Forecast) -> Part:
    """Return what a snapshot holds of the last update."""
    problem, table = last.problem, state.rows
    unsampled = np.flatnonzero((table.generation > 0) & (~table.used | table.leaving))
    arrays = {
        "changed": last.changed,
        "before": last.before,
        "unsampled": unsampled,
        "unsampled_ceiling": demand_forecast.peak_ceiling[unsampled],
        "local_of": problem.local_of[: len(state.services)].copy(),
        "by_percentage": problem.by_percentage.copy(),
        "coarseness": problem.coarseness.copy(),
        "affinity": last.affinity.copy(),
    }
    return Part({"now": last.now, "partitions_version": last.partitions_version}, arrays)


def last_update_of(
    part: Part,
    state: ClusterState,
    topology: Topology,
    tables: ServiceTables,
    demand_forecast: Forecast,
) -> LastUpdate:
    """Return the last update before a snapshot.

    Rows that have changed since are in no sum, so that what they were changed to raises no error before the next
    update.
    """
    metrics, capacity = len(state.config.metrics), state.rows.capacity
    changed = part.array("changed", (None,), np.int64, low=0, high=capacity - 1)
    if not np.array_equal(changed, state.rows.changes.noted):
        part.refuse("changed", f"{len(changed)} rows", "the rows that the table of rows has as changed")
    local_of = part.array("local_of", (len(state.services),), np.int64)
    local = np.flatnonzero(local_of != NOWHERE)
    unsampled = part.array("unsampled", (None,), np.int64, low=0, high=capacity - 1)
    ceilings = part.array("unsampled_ceiling", (len(unsampled), metrics), np.int64, low=0)
    now = part.value("now", float)
    described = copy(state)
    described.config, described.rows = config_of(topology), state.rows.without_loads(changed)
    demand_forecast.find_due(described, now)
    demand_forecast.renew(described)
    demand_forecast.peak_ceiling[unsampled] = ceilings
    problem = build_problem(described, topology, demand_forecast, tables)
    problem = problem._replace(
        **local_fields(described, topology, local[np.argsort(local_of[local], kind="stable")].tolist()),
        by_percentage=part.array("by_percentage", (metrics,), np.bool_),
        coarseness=part.array("coarseness", (metrics,), np.int64, low=0, high=MOST_COARSE),
    )
    return LastUpdate(
        made_for=ArrayInputs.of(topology, tables, demand_forecast),
        problem=problem,
        affinity=part.array("affinity", (capacity,), np.int64) if problem.related else np.zeros(0, np.int64),
        changed=changed,
        before=part.array("before", (len(changed), None), np.int64),
        now=now,
        partitions_version=part.count("partitions_version"),
    )
