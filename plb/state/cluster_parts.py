"""The described cluster as a part of a snapshot, and back.

What follows from other fields is not written (`DERIVED`); a test compares the two lists with the fields of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from plb.model import Application, Node, Service
from plb.model.expressions import parse_expression
from plb.model.plain_values import items_of, table_of
from plb.model.quanta import UNLIMITED
from plb.model.snapshot import Part, joined
from plb.risk.estimators import estimator_of, reports_kept
from plb.settings.config import PlbConfig
from plb.state.cluster_state import ClusterState, FeasibilityClass
from plb.state.partition_parts import LARGEST_NUMBER, part_of_partitions, take_partitions
from plb.state.replica_table import RowTable

Key = TypeVar("Key")

VERSIONS = ("node_version", "structure_version", "services_version", "partitions_version")
"""Numbers that plans compare with those of the last call."""
OF_SERVICES = ("service_version", "load_version")
"""Lists with a whole number for each service."""
WRITTEN = (
    *VERSIONS,
    *OF_SERVICES,
    "nodes",
    "upgraded_domains",
    "capacity",
    "services",
    "service_index",
    "applications",
    "partitions",
    "partitions_made",
    "reported_surplus",
    "quanta",
    "rows",
    "feasibility_classes",
)
"""Fields of `ClusterState` that a snapshot holds."""
DERIVED = (
    "config",
    "node_index",
    "row_partition",
    "service_partitions",
    "service_table",
    "free_services",
    "feasibility_class_index",
    "availability_changes",
    "_partition_names",
    "default_loads",
)
"""The others: the settings have a part of their own; changes of nodes are noted from one table of nodes to the next."""


def part_of_cluster(state: ClusterState) -> Part:
    """Return nodes, services, partitions and replicas."""
    values: dict[str, Any] = {
        **{name: getattr(state, name) for name in VERSIONS},
        "nodes": table_of(Node, state.nodes),
        "services": table_of(Service, state.services),
        "present_services": [*state.service_index.values()],
        "upgraded_domains": sorted(state.upgraded_domains),
        "applications": table_of(Application, state.applications.applications.values()),
        "application_entries": state.applications.names(),
        "removed_applications": list(state.applications.removed),
        "feasibility_classes": [[text, sorted(blocked)] for text, blocked in _in_order(state.feasibility_class_index)],
        **state.quanta.values(),
    }
    arrays = {name: np.array(getattr(state, name), np.int64) for name in OF_SERVICES}
    arrays["service_feasibility_class"] = state.service_table.feasibility_class[: len(state.services)].astype(np.int64)
    parts = {
        "cluster": Part(values, {**arrays, "capacity": state.capacity.copy()}),
        "rows": state.rows.part(),
        "partitions": part_of_partitions(state),
    }
    return joined({}, parts)


def _in_order(index: Mapping[Key, int]) -> list[Key]:
    """Return keys in the order of their indices."""
    return sorted(index, key=index.__getitem__)


def cluster_of(part: Part, config: PlbConfig) -> ClusterState:
    """Return the state of a part.

    Raises
    ------
    PlbError
        If it does not hold what such a part consists of.
    """
    state, given = ClusterState(config), part.under("cluster")
    for name in VERSIONS:
        setattr(state, name, given.count(name, high=LARGEST_NUMBER))
    state.quanta.take(given)
    state.nodes = items_of(Node, given.under("nodes"))
    state.node_index = {node.name: index for index, node in enumerate(state.nodes)}
    shape = (len(state.nodes), len(config.metrics))
    state.capacity = given.array("capacity", shape, np.int64, low=0, high=UNLIMITED)
    state.upgraded_domains = frozenset(given.names("upgraded_domains"))
    _take_applications(state, given)
    _take_services(state, given)
    kept = reports_kept(estimator_of(config.estimator))
    nodes, services = len(state.nodes), len(state.services)
    state.rows = RowTable.of_part(part.under("rows"), len(config.metrics), kept, nodes, services)
    take_partitions(state, part.under("partitions"))
    return state


def _take_applications(state: ClusterState, given: Part) -> None:
    """Give the state its applications, with the entries that they had."""
    table, entries = state.applications, given.value("application_entries", list)
    applications = items_of(Application, given.under("applications"))
    binding = sorted(application.name for application in applications if application.binds)
    if sorted(str(name) for name in entries if name is not None) != binding:
        given.refuse("application_entries", entries, f"None, or each of {', '.join(binding) or 'no names'} once")
    for entry, name in enumerate(entries):
        if name is not None:
            table.enter(name, entry)
    for application in applications:
        table.put(application, state.quanta)
    table.removed = dict.fromkeys(given.names("removed_applications"))


def _take_services(state: ClusterState, given: Part) -> None:
    """Give the state its services, also those that were removed, whose indices are free."""
    state.services = items_of(Service, given.under("services"))
    count = len(state.services)
    present = given.value("present_services", list)
    for index in present:
        given.member("present_services", index, range(count))
    state.service_index = {state.services[index].name: index for index in present}
    state.feasibility_class_index, state.feasibility_classes = {}, []
    for entry in given.value("feasibility_classes", list):
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], list):
            given.refuse("feasibility_classes", entry, "a constraint and the names of blocked nodes")
        text, blocked = str(entry[0]), frozenset(map(str, entry[1]))
        state.feasibility_class_index[text, blocked] = len(state.feasibility_classes)
        state.feasibility_classes.append(FeasibilityClass(parse_expression(text), blocked))
    for name in OF_SERVICES:
        setattr(state, name, given.array(name, (count,), np.int64, low=0).tolist())
    high = len(state.feasibility_classes) - 1
    classes = given.array("service_feasibility_class", (count,), np.int64, low=0, high=high).tolist()
    living = set(present)
    for index, (service, feasibility_class) in enumerate(zip(state.services, classes, strict=True)):
        application = state.applications.entry_of(service.application)
        state.service_table.put(index, service, feasibility_class, state.services_version, application)
        if index in living:
            state.applications.join(index, service.application)
        else:
            state.service_table.remove(index, state.services_version)
    state.service_table.made_at[present] = np.arange(len(present))
    state.free_services = [index for index in range(count) if index not in living]
