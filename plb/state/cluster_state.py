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
"""Of a partition without reports; all share it, because objects for each would make garbage collection slower."""
UNNUMBERED = (None, None)
"""Of a partition whose last description had no number."""


@attrs.define(eq=False)
class PartitionRecord:
    """The record of a partition: its rows by role slot."""

    name: str
    service: int
    created: float
    rows: list[int]
    number: int
    """Rises from partition to partition, in the order in which they were made."""
    promotions: int = 0
    slot_keys: tuple[int, ...] = ()
    """Keys of its first slots since the last promotion, once they were needed; see `plb.state.role_slots`."""
    version: int = 0
    """Rises with every update."""
    described: tuple[int | None, int | None] = UNNUMBERED
    """Number of its last description, and the number of missing replicas in it; `UNNUMBERED` if it had no number."""
    missing: int | None = None
    """Number of missing replicas, below 0 of surplus ones; None: given by the target of its service."""
    misplaced: int = 0
    """For a service on every node: replicas on infeasible nodes, if no node misses one."""
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
        self.upgraded_domains: frozenset[str] = frozenset()
        """Upgrade domains that are completed in the running upgrade."""
        self.capacity: Int = np.zeros((0, metrics), np.int64)
        self.services: list[Service] = []
        """Also removed services, until their indices are used again."""
        self.service_index: dict[str, int] = {}
        """Without removed services; in the order in which they were made."""
        self.free_services: list[int] = []
        """The indices of removed services, a heap."""
        self.service_table = ServiceTable(config.metric_names)
        self.applications = ApplicationTable(metrics)
        self.partitions: dict[str, PartitionRecord] = {}
        self.partitions_made = 0
        """Number of partitions so far."""
        self.reported_surplus: set[str] = set()
        """Names of the partitions whose last description has surplus replicas."""
        self.rows = RowTable(metrics)
        self.rows.keep_reports(reports_kept(estimator_of(config.estimator)))
        self.row_partition: dict[int, str] = {}
        self.feasibility_classes: list[FeasibilityClass] = [FeasibilityClass(parse_expression(""), frozenset())]
        self.feasibility_class_index: dict[tuple[str, frozenset[str]], int] = {("", frozenset()): 0}
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
        """The partitions of each service."""
        self.service_version: list[int] = []
        """For each service, rises with every change to it or to one of its partitions."""
        self._partition_names: list[str] | None = None
        """The names of the partitions in order; None at first and after one was removed, until they are needed."""
        self.load_version: list[int] = []
        """For each service, increases with every report of a load or a move cost."""

    @property
    def limits_moves(self) -> bool:
        """Whether the settings or a service limit moves, builds or swaps: `plb.state.arrays.Problem.bounded`."""
        of_settings = (self.config.max_moves, self.config.max_moves_per_node) != (None, None)
        of_settings |= self.config.throttles_cluster
        return of_settings or bool((self.service_table.max_moves < NO_BUDGET).any())

    def add_partitions(self, records: Sequence[PartitionRecord]) -> None:
        """Add new partitions; their rows may be made later."""
        self.partitions.update((record.name, record) for record in records)
        if self._partition_names is not None:
            self._partition_names += [record.name for record in records]
        for record in records:
            self.service_partitions[record.service][record.name] = record
        self.partitions_version += len(records)
        self.partitions_made += len(records)

    def forget_partition(self, record: PartitionRecord) -> None:
        """Remove a partition, whose rows are given back."""
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
        """Return the services that were not removed by index, in the order in which they were made."""
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
        """Return the index of a service."""
        if not isinstance(name, str) or name not in self.service_index:
            raise UnknownNameError("service", name, self.service_index, context)
        return self.service_index[name]

    def feasibility_class_of(self, service: int) -> FeasibilityClass:
        """Return what a service requires of nodes."""
        return self.feasibility_classes[int(self.service_table.feasibility_class[service])]

    def node(self, name: str, context: str = "") -> int:
        """Return the index of a node."""
        if not isinstance(name, str) or name not in self.node_index:
            raise UnknownNameError("node", name, self.node_index, context)
        return self.node_index[name]

    def partition(self, name: str, context: str = "") -> PartitionRecord:
        """Return the record of a partition."""
        if not isinstance(name, str) or name not in self.partitions:
            raise UnknownNameError("partition", name, self.partitions, context)
        return self.partitions[name]

    def partition_version(self, name: str) -> int | None:
        """Return a number that increases with every update of a partition; None for an unknown name."""
        record = self.partitions.get(name)
        return None if record is None else record.version

    def versions_of(self, services: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return versions of the nodes and of the descriptions of `services`, and of their loads."""
        chosen = list(services)
        state = (self.node_version, *(self.service_version[index] for index in chosen))
        return state, tuple(self.load_version[index] for index in chosen)


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
        for metric, of_metric in enumerate(load):  # metric by metric, as NumPy is ten times faster in one dimension
            np.add.at(of_metric, nodes, loads[:, metric])
    return np.ascontiguousarray(load.T)


def reserved_load(state: ClusterState) -> Int:
    """Return what every node keeps free for applications beyond their loads in quanta, (N, R)."""
    table, applications = state.rows, state.applications
    kept = np.zeros_like(state.capacity)
    if not applications.reserves:
        return kept
    rows = np.flatnonzero(table.used & (table.node != NOWHERE) & ~table.leaving)
    application = state.service_table.application[table.service[rows]]
    rows, application = rows[application != NOWHERE], application[application != NOWHERE]
    places, place = np.unique(np.stack([application, table.node[rows]], axis=1), axis=0, return_inverse=True)
    load = np.zeros((len(places), kept.shape[1]), np.int64)
    np.add.at(load, place.reshape(-1), table.load[rows])
    np.add.at(kept, places[:, 1], np.maximum(0, applications.reservation[places[:, 0]] - load))
    return kept


@attrs.frozen(eq=False)
class Description:
    """The names of the indices of a `Problem`."""

    nodes: Sequence[Node] = ()
    services: Sequence[Service] = ()
    metrics: Sequence[Metric] = ()
    """By index: (N,), (S,) and (R,)."""
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
    """Return the names for the arrays of the present state; valid until the state changes."""
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
    """Return `Problem.completed_domains`, (A+1,)."""
    table = state.applications
    completed = np.zeros(table.capacity + 1, np.int64)
    if state.config.prefer_upgraded_uds:
        domains = {node.upgrade_domain_name for node in state.nodes}
        for name, entry in table.entry.items():
            completed[entry] = len(domains & table.applications[name].upgraded_domains)
        completed[-1] = len(domains & state.upgraded_domains)
    return completed


def _upgraded_nodes(state: ClusterState) -> Bool:
    """Return `Problem.application_upgraded`, (A, N)."""
    table = state.applications
    upgraded = np.zeros((table.capacity, len(state.nodes)), np.bool_)
    for name, entry in table.entry.items():
        domains = table.applications[name].upgraded_domains
        if domains and state.config.prefer_upgraded_uds:
            upgraded[entry] = [node.upgrade_domain_name in domains for node in state.nodes]
    return upgraded
