"""The capacity that a cluster has left, and the refusal of applications and services that exceed it.

Left is the capacity of the nodes that are up and active, less buffers, less loads, less what applications have reserved
and do not use (docs/constraints/applications.md).
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.errors import InsufficientCapacityError
from plb.model import Role, Service
from plb.model.application import Application
from plb.model.quanta import UNLIMITED, MetricQuanta
from plb.state.cluster_state import ClusterState
from plb.state.node_loads import standing_load
from plb.state.role_slots import default_loads
from plb.state.topology import Topology


def check_application(state: ClusterState, application: Application, topology: Topology) -> None:
    """Raise an error if what an application reserves further exceeds what the cluster has left.

    What it uses already counts as part of its reservation.

    Raises
    ------
    InsufficientCapacityError
        With the first metric of which too little is left.
    """
    known = state.applications.applications.get(application.name)
    quanta, used = state.quanta.copy(), _used_by(state, application.name)
    needed = np.maximum(0, _reserved(quanta, application) - used)
    if known is not None:
        needed -= np.maximum(0, _reserved(quanta, known) - used)
    _check(quanta, f"application {application.name}", needed, _capacity_left(state, topology))


def check_service(state: ClusterState, service: Service, topology: Topology) -> None:
    """Raise an error if the default loads of a partition of a new service exceed what the cluster has left for it.

    What its application has reserved and does not use is left for it.

    Raises
    ------
    InsufficientCapacityError
        With the first metric of which too little is left.
    """
    if service.name in state.service_index:
        return
    quanta = state.quanta.copy()
    loads = default_loads(quanta, service)
    everywhere = int(np.count_nonzero(topology.counted))
    replicas = everywhere if service.on_every_node else max(1, service.target_replicas)
    first, other = (Role.PRIMARY, Role.SECONDARY) if service.stateful else (Role.INSTANCE, Role.INSTANCE)
    needed = loads[first] + (replicas - 1) * loads[other]
    left = _capacity_left(state, topology)
    application = state.applications.applications.get(service.application or "")
    if application is not None:
        left += _unused(state, application)
    _check(quanta, f"service {service.name}", needed, left)


def _check(quanta: MetricQuanta, item: str, needed: Int, left: Int) -> None:
    """Raise an error for the first metric of which less is left than needed; (R,) quanta each."""
    short = np.flatnonzero((needed > 0) & (needed > left))
    if len(short):
        name = quanta.metrics[int(short[0])].name
        numbers = (quanta.to_user(name, int(of[short[0]])) for of in (needed, left))
        raise InsufficientCapacityError(item, name, *numbers)


def _capacity_left(state: ClusterState, topology: Topology) -> Int:
    """Return what the cluster has left of each metric, (R,) quanta; `UNLIMITED` where a node has no capacity."""
    counted = topology.counted
    limit = topology.move_limit[counted]
    unlimited = (limit >= UNLIMITED).any(axis=0)
    found = np.where(unlimited, 0, limit).sum(axis=0) - standing_load(state)[counted].sum(axis=0)
    for application in state.applications.applications.values():
        found -= _unused(state, application)
    return np.asarray(np.where(unlimited, UNLIMITED, found), np.int64)


def _unused(state: ClusterState, application: Application) -> Int:
    """Return what an application has reserved for its fewest nodes and does not use, (R,) quanta."""
    return np.asarray(np.maximum(0, _reserved(state.quanta, application) - _used_by(state, application.name)), np.int64)


def _reserved(quanta: MetricQuanta, application: Application) -> Int:
    """Return the reservation of an application for its fewest nodes, (R,) quanta, which it may fix."""
    amounts = quanta.loads(f"application {application.name}", "node_reservation", application.node_reservation)
    return np.asarray(application.minimum_nodes * amounts, np.int64)


def _used_by(state: ClusterState, name: str) -> Int:
    """Return the load of the placed replicas of an application, (R,) quanta."""
    rows = [
        row
        for service in state.applications.services.get(name, ())
        for record in state.service_partitions[service].values()
        for row in record.rows
        if state.rows.node[row] != NOWHERE and not state.rows.leaving[row]
    ]
    return np.asarray(state.rows.load[rows].sum(axis=0), np.int64)
