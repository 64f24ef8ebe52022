"""The cluster as arrays: one row a node, one row a replica, whole-number loads, and the maps from names to rows.

A replica row is a *role slot* of a partition: age, largest demand and sampled traces belong to it and survive moves. A
row without a node is a missing replica. Three modules change the state: `plb.state.updates` (nodes, services,
applications and loads), `plb.state.partition_updates` and `plb.state.applied_moves`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.errors import UnknownNameError
from plb.model import Metric, MoveCost, Node, Role, Service
from plb.model.expressions import Expression, parse_expression
from plb.model.partition import PartitionNames
from plb.model.quanta import MetricQuanta
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import estimator_of, reports_kept
from plb.settings.config import PlbConfig
from plb.state.arrays import NO_BUDGET
from plb.state.replica_table import RowTable
from plb.state.tables import ApplicationTable, ServiceTable
from plb.validation import ReadOnlyMapping

NO_REPORTS: Mapping[Any, Any] = ReadOnlyMapping({})
"""The reports of a partition without any; all share it, as objects for each would make garbage collection slower."""
UNNUMBERED = (None, None)
"""`PartitionRecord.described` of a partition whose last description had no number."""


@attrs.define(eq=False)
class PartitionRecord:
    """What the state keeps of a partition."""

    name: str
    service: int
    """Index of its service."""
    created: float
    """Time in seconds."""
    rows: list[int]
    """Its rows of `RowTable`: its slots, then departing ends and standbys."""
    number: int
    """Rises from partition to partition, in the order in which they were made."""
    promotions: int = 0
    """How often another replica has become the primary."""
    slot_keys: tuple[int, ...] = ()
    """Keys of its first slots since the last promotion, as far as they were needed: `plb.state.role_slots.slot_key`."""
    version: int = 0
    """Rises with every update."""
    described: tuple[int | None, int | None] = UNNUMBERED
    """Number of its last description, and the number of missing replicas in it; `UNNUMBERED` if it had no number."""
    missing: int | None = None
    """Number of missing replicas, below 0 of surplus ones; None: given by the target of its service."""
    misplaced: int = 0
    """For a service on every node: number of replicas on infeasible nodes, if no node misses one."""
    still: bool = False
    """True while it is in transition or in quorum loss: none of its replicas moves."""
    upgrading: bool = False
    """True while its last description has a replica marked by an upgrade, also after the requested change."""
    role_load: Mapping[Role, Mapping[str, float]] = NO_REPORTS
    """Reported loads by role, for replicas without their own report."""
    secondary_load: Mapping[str, Mapping[str, float]] = NO_REPORTS
    """Loads of secondaries reported by node: by metric and name of the node."""
    move_cost: Mapping[Role, MoveCost | float] = NO_REPORTS
    """Reported move costs by role."""


@attrs.frozen
class FeasibilityClass:
    """The requirements of a service on nodes."""

    expression: Expression
    """Its placement constraint."""
    blocked: frozenset[str]
    """Names of the nodes on which it may not be placed."""


class ClusterState:
    """Nodes, services, partitions and replicas, without data that follow from them."""

    def __init__(self, config: PlbConfig) -> None:
        self.config = config
        self.quanta = MetricQuanta(config.metrics)
        metrics = len(config.metrics)
        self.nodes: list[Node] = []
        self.node_index: dict[str, int] = {}
        """By name."""
        self.upgraded_domains: frozenset[str] = frozenset()
        """Upgrade domains that are completed in the running upgrade."""
        self.capacity: Int = np.zeros((0, metrics), np.int64)
        """(N, R) quanta."""
        self.services: list[Service] = []
        """Also removed services, until their indices are used again."""
        self.service_index: dict[str, int] = {}
        """By name, without removed services; in the order in which they were made."""
        self.free_services: list[int] = []
        """The indices of removed services, a heap."""
        self.service_table = ServiceTable(config.metric_names)
        self.applications = ApplicationTable(metrics)
        self.partitions: dict[str, PartitionRecord] = {}
        """By name, in the order in which they were made."""
        self.partitions_made = 0
        """Number of partitions so far."""
        self.reported_surplus: set[str] = set()
        """Names of the partitions whose last description has surplus replicas."""
        self.rows = RowTable(metrics)
        self.rows.keep_reports(reports_kept(estimator_of(config.estimator)))
        self.row_partition: dict[int, str] = {}
        """Name of the partition of each row that is in use."""
        self.feasibility_classes: list[FeasibilityClass] = [FeasibilityClass(parse_expression(""), frozenset())]
        self.feasibility_class_index: dict[tuple[str, frozenset[str]], int] = {("", frozenset()): 0}
        """By the placement constraint and the blocked nodes of a service."""
        self.default_loads: dict[int, Mapping[Role, Int]] = {}
        """By service, `plb.state.role_slots.default_loads`, once they were needed."""
        self.node_version = 0
        """Increases with every change of a node."""
        self.structure_version = 0
        """Increases with every change of a node other than of its availability, with other upgraded domains, and with
        every new feasibility class."""
        self.availability_changes: dict[int, int] = {}
        """For each node of the present structure that has come into service or left it: the version of the nodes then.

        Entries from before the tables of nodes were made are dropped.
        """
        self.services_version = 0
        """Rises with every service or application that is made, changed or removed."""
        self.partitions_version = 0
        """Rises with every partition that is made or removed."""
        self.service_partitions: list[dict[str, PartitionRecord]] = []
        """By index of the service, its partitions by name."""
        self.service_version: list[int] = []
        """For each service, rises with every change to it or to one of its partitions."""
        self._partition_names: list[str] | None = None
        """The names of the partitions in order; None at first and after one was removed, until they are needed."""
        self.load_version: list[int] = []
        """For each service, increases with every report of a load or a move cost."""

    @property
    def limits_moves(self) -> bool:
        """Whether the settings or a service limit moves, builds or swaps: `plb.state.arrays.Problem.bounded`."""
        settings_limit = (self.config.max_moves, self.config.max_moves_per_node) != (None, None)
        settings_limit |= self.config.throttles_cluster
        return settings_limit or bool((self.service_table.max_moves < NO_BUDGET).any())

    def add_partitions(self, records: Sequence[PartitionRecord]) -> None:
        """Add the `records` of new partitions; their rows may be made later."""
        self.partitions.update((record.name, record) for record in records)
        if self._partition_names is not None:
            self._partition_names += [record.name for record in records]
        for record in records:
            self.service_partitions[record.service][record.name] = record
        self.partitions_version += len(records)
        self.partitions_made += len(records)

    def forget_partition(self, record: PartitionRecord) -> None:
        """Remove the partition of `record`, whose rows were released, and raise the versions that depend on it."""
        del self.partitions[record.name]
        self._partition_names = None
        del self.service_partitions[record.service][record.name]
        self.partitions_version += 1
        self.reported_surplus.discard(record.name)
        self.service_version[record.service] += 1

    def partition_names(self) -> PartitionNames:
        """Return the names of the partitions, in the order in which they were made."""
        if self._partition_names is None:
            self._partition_names = list(self.partitions)
        return PartitionNames(self._partition_names)

    def living_services(self) -> dict[int, Service]:
        """Return by index the services that were not removed, in the order in which they were made."""
        return {index: self.services[index] for index in self.service_index.values()}

    def living_indices(self) -> list[int]:
        """Return the indices of the services that were not removed, in the order in which they were made."""
        return list(self.service_index.values())

    def partitions_everywhere(self) -> list[PartitionRecord]:
        """Return the partitions of services on every node, in the order in which they were made."""
        services = np.flatnonzero(self.service_table.on_every_node).tolist()
        records = [record for service in services for record in self.service_partitions[service].values()]
        return sorted(records, key=attrgetter("number"))

    def service(self, name: str, context: str = "") -> int:
        """Return the index of a service; `context` names the item whose update refers to it, for the error."""
        if not isinstance(name, str) or name not in self.service_index:
            raise UnknownNameError("service", name, self.service_index, context)
        return self.service_index[name]

    def feasibility_class_of(self, service: int) -> FeasibilityClass:
        """Return what a service requires of nodes."""
        return self.feasibility_classes[int(self.service_table.feasibility_class[service])]

    def node(self, name: str, context: str = "") -> int:
        """Return the index of a node; `context` names the item whose update refers to it, for the error."""
        if not isinstance(name, str) or name not in self.node_index:
            raise UnknownNameError("node", name, self.node_index, context)
        return self.node_index[name]

    def partition(self, name: str, context: str = "") -> PartitionRecord:
        """Return the record of a partition; `context` names the item whose update refers to it, for the error."""
        if not isinstance(name, str) or name not in self.partitions:
            raise UnknownNameError("partition", name, self.partitions, context)
        return self.partitions[name]

    def partition_version(self, name: str) -> int | None:
        """Return a number that increases with every update of a partition; None for an unknown name."""
        record = self.partitions.get(name)
        return None if record is None else record.version

    def versions_of(self, services: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the version of the nodes with `service_version` of the services of these indices, and `load_version`.

        Equal first members mean equal nodes and descriptions, equal second ones equal loads.
        """
        indices = list(services)
        described = (self.node_version, *(self.service_version[index] for index in indices))
        return described, tuple(self.load_version[index] for index in indices)


def standing_load(state: ClusterState) -> Int:
    """Return the load of every node in quanta, (N, R), without departing replicas."""
    table = state.rows
    return load_by_node(state, (table.node != NOWHERE) & ~table.leaving)


def load_by_node(state: ClusterState, counted: Bool) -> Int:
    """Return the load of the `counted` rows, (M,), on each node, (N, R) quanta."""
    rows = np.flatnonzero(counted)
    load = np.zeros(state.capacity.shape[::-1], np.int64)
    if len(rows):
        nodes, loads = state.rows.node[rows], state.rows.load[rows]
        for metric, node_load in enumerate(load):  # metric by metric, as NumPy is ten times faster in one dimension
            np.add.at(node_load, nodes, loads[:, metric])
    return np.ascontiguousarray(load.T)


def reserved_load(state: ClusterState) -> Int:
    """Return what every node keeps free for applications beyond their loads there, (N, R) quanta."""
    table, applications = state.rows, state.applications
    reserved = np.zeros_like(state.capacity)
    if not applications.reserves:
        return reserved
    rows = np.flatnonzero(table.used & (table.node != NOWHERE) & ~table.leaving)
    application = state.service_table.application[table.service[rows]]
    rows, application = rows[application != NOWHERE], application[application != NOWHERE]
    pairs = np.stack([application, table.node[rows]], axis=1)
    distinct, pair_of_row = np.unique(pairs, axis=0, return_inverse=True)
    load = np.zeros((len(distinct), reserved.shape[1]), np.int64)
    np.add.at(load, pair_of_row.reshape(-1), table.load[rows])
    np.add.at(reserved, distinct[:, 1], np.maximum(0, applications.reservation[distinct[:, 0]] - load))
    return reserved


@attrs.frozen(eq=False)
class Description:
    """What the indices of a `Problem` stand for."""

    nodes: Sequence[Node] = ()
    """(N,)"""
    services: Sequence[Service] = ()
    """(S,)"""
    metrics: Sequence[Metric] = ()
    """(R,)"""
    partitions: Mapping[int, str] = attrs.field(factory=dict)
    """Name of the partition of each row that is in use."""
    quanta: Float = attrs.field(factory=lambda: np.ones(1))
    """(R,) size of a quantum of each metric in user units; without a description, quanta are the unit."""
    now: float = 0.0
    """Time that the search is for, in seconds."""
    history: DemandHistory | None = None
    """The past tenants from which demand is sampled, or None."""
    replicas: RowTable | None = None
    """Further data of each row besides its arrays in a `Problem`; None: no data."""


def describe(state: ClusterState, now: float = 0.0, history: DemandHistory | None = None) -> Description:
    """Return what the indices of the present state stand for, valid until it changes; `now`: `Description.now`."""
    return Description(
        tuple(state.nodes),
        tuple(state.services),
        state.config.metrics,
        state.row_partition,
        state.quanta.quanta,
        now,
        history,
        state.rows,
    )


def application_fields(state: ClusterState) -> dict[str, Any]:
    """Return the fields of `Problem` on applications; they are copies."""
    return {
        **state.applications.fields(),
        "application_upgraded": _upgraded_nodes(state),
        "completed_domains": _completed_domains(state),
    }


def _completed_domains(state: ClusterState) -> Int:
    """Return `Problem.completed_domains`, (A+1,); zeros if upgraded domains are not preferred."""
    table = state.applications
    completed = np.zeros(table.capacity + 1, np.int64)
    if state.config.prefer_upgraded_uds:
        domains = {node.upgrade_domain_name for node in state.nodes}
        for name, entry in table.entry.items():
            completed[entry] = len(domains & table.applications[name].upgraded_domains)
        completed[-1] = len(domains & state.upgraded_domains)
    return completed


def _upgraded_nodes(state: ClusterState) -> Bool:
    """Return `Problem.application_upgraded`, (A, N); all false if upgraded domains are not preferred."""
    table = state.applications
    upgraded = np.zeros((table.capacity, len(state.nodes)), np.bool_)
    for name, entry in table.entry.items():
        domains = table.applications[name].upgraded_domains
        if domains and state.config.prefer_upgraded_uds:
            upgraded[entry] = [node.upgrade_domain_name in domains for node in state.nodes]
    return upgraded
