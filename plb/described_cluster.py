"""The calls by which a host describes its cluster, and reads its description: nodes, services, partitions, loads."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Int
from plb.compiler import uninterrupted
from plb.errors import InvalidValueError
from plb.model import Application, DeactivationIntent, DeactivationStatus, MoveCost, Node, Partition, Role, Service
from plb.model.partition import PartitionColumns
from plb.planning.explanations.queries import (
    PlacedReplica,
    check_application,
    check_service,
    partitions_on,
    placed_replicas,
    rows_on,
)
from plb.planning.scheduler import node_event
from plb.state.cluster_state import ClusterState
from plb.state.partition_updates import put_partitions, remove_partition
from plb.state.role_slots import rows_in_order
from plb.state.updates import (
    put_application,
    put_nodes,
    put_service,
    put_upgraded_domains,
    remove_application,
    remove_node,
    remove_service,
    reset_loads,
    set_load,
    set_loads,
    set_move_cost,
    set_role_load,
    set_secondary_loads,
)
from plb.validation import check_items, check_kind, check_names

if TYPE_CHECKING:
    from plb.planning.planner import Planner


class DescribedCluster:
    """The calls of an engine that change its description of the cluster, or return it."""

    _state: ClusterState
    """The described cluster."""
    _planner: Planner
    """Makes the plans from the state."""

    def update_node(self, node: Node, *, now: float | None = None) -> None:
        """Add a node, or replace the node of this name.

        Settings can delay balancing after a node was added or removed at `now`.

        Raises
        ------
        UnknownNameError
            If a capacity names an unknown metric.
        InvalidValueError
            If a capacity is too large for the metric's quantum.
        """
        self._update_nodes((check_kind("update_node", "node", node, Node),), now)

    def update_nodes(self, nodes: Iterable[Node], *, now: float | None = None) -> None:
        """Add or replace many nodes at once, as `update_node` does with each.

        After an error nothing has changed.

        Raises
        ------
        UnknownNameError
            If a capacity names an unknown metric.
        InvalidValueError
            If a capacity is too large for the metric's quantum, or an item is no `Node`.
        ConflictError
            If two have the same name.
        """
        self._update_nodes(check_items("update_nodes", "nodes", nodes, Node), now)

    def drain_node(self, name: str, *, now: float | None = None) -> None:
        """Deactivate a node with the intent `remove_node`: repairs empty it, as far as rules and budgets allow.

        `violations` lists the replicas that are still there, and `Plan.undrained` why they could not leave. Neither
        lists those of a node that is down, as no plan can move them: they leave it once the host describes their
        partitions without them, and placement replaces them.

        Raises
        ------
        UnknownNameError
            If the node is not known.
        """
        self._deactivate(name, DeactivationIntent.REMOVE_NODE, now)

    def undrain_node(self, name: str, *, now: float | None = None) -> None:
        """End the deactivation of a node, so that it may receive replicas; an unknown one raises `UnknownNameError`."""
        self._deactivate(name, DeactivationIntent.NONE, now)

    @uninterrupted
    def remove_node(self, name: str, *, now: float | None = None) -> None:
        """Remove a node without replicas: it has no placed replica, no departing end and no standby.

        Raises
        ------
        UnknownNameError
            If the node is not known.
        ConflictError
            If the node has replicas; the message names their partitions.
        """
        time = self._planner.time(now)
        self._note_node_events([(remove_node(self._state, name), None)], time)

    @uninterrupted
    def update_service(self, service: Service) -> None:
        """Add a service, or replace the service of this name.

        Raises
        ------
        InvalidValueError
            If its placement constraint does not parse, or a default load or a limit is too large for the quantum.
        UnknownNameError
            If a default load, a limit or a weight names an unknown metric.
        ConflictError
            If `stateful` changes, it joins an application that was removed, or its parents by affinity lead back to it.
        InsufficientCapacityError
            With `refuse_services_without_capacity`: if it is new, and the default loads of one of its partitions exceed
            what the cluster has left.
        """
        check_kind("update_service", "service", service, Service)
        if self._state.config.refuse_services_without_capacity:
            check_service(self._state, service, self._planner.topology())
        put_service(self._state, service)

    @uninterrupted
    def update_application(self, application: Application) -> None:
        """Add an application, or replace the application of this name; the services that name it belong to it.

        Raises
        ------
        UnknownNameError
            If a capacity or a reservation names an unknown metric.
        InvalidValueError
            If one is too large for the metric's quantum.
        InsufficientCapacityError
            With `refuse_applications_without_capacity`: if what it reserves further for its `minimum_nodes` exceeds
            what the cluster has left.
        """
        check_kind("update_application", "application", application, Application)
        if self._state.config.refuse_applications_without_capacity:
            check_application(self._state, application, self._planner.topology())
        put_application(self._state, application)

    @uninterrupted
    def remove_application(self, name: str) -> None:
        """Remove an application; an unknown one raises `UnknownNameError`.

        Its services keep its name and have no common limits any more. No other may join one of the last thousand that
        were removed until it is made again; names removed before these are like names that were never known.
        """
        remove_application(self._state, name)

    def update_partition(self, partition: Partition) -> None:
        """Add a partition, or update the known partition to the given replicas.

        The engine places the replicas that the service's target number lacks. A replica that changes its node keeps its
        age and largest demand.

        Raises
        ------
        UnknownNameError
            If the service or a node is not known.
        InvalidValueError
            If a role does not fit the service, or a default load of the service is too large for the metric's quantum.
        ConflictError
            If the partition belonged to another service before.
        """
        put_partitions(self._state, (check_kind("update_partition", "partition", partition, Partition),))

    def update_partitions(self, partitions: Iterable[Partition]) -> Int:
        """Add or update many partitions at once, as `update_partition` does with each in turn.

        After an error nothing has changed.

        Parameters
        ----------
        partitions
            Partitions, or `PartitionColumns`, which need no object for each replica.

        Returns
        -------
        (m,) the indices of all their replicas for `report_loads`, partition by partition, in the order of `replicas`:
        of new ones, those described, then those that are missing.

        Raises
        ------
        UnknownNameError
            If a service or a node is not known.
        InvalidValueError
            As `update_partition`, or if an item is no `Partition`.
        ConflictError
            If a partition belonged to another service before, or two have the same name.
        """
        if not isinstance(partitions, PartitionColumns):
            partitions = check_items("update_partitions", "partitions", partitions, Partition)
        return rows_in_order(self._state, put_partitions(self._state, partitions))

    @uninterrupted
    def update_upgraded_domains(self, domains: Iterable[str]) -> None:
        """Set the upgrade domains that the running upgrade has finished; none means that no upgrade runs.

        They are preferred locations, since replicas in other domains have to leave them again soon
        (`prefer_upgraded_uds`).

        Raises
        ------
        InvalidValueError
            If `domains` is a string instead of a collection of names.
        """
        put_upgraded_domains(self._state, domains)

    @uninterrupted
    def remove_partition(self, name: str) -> None:
        """Remove a partition and its replicas; an unknown one raises `UnknownNameError`."""
        remove_partition(self._state, name)

    @uninterrupted
    def remove_service(self, name: str) -> None:
        """Remove a service that has no partitions.

        Raises
        ------
        UnknownNameError
            If the service is not known.
        ConflictError
            If it has partitions.
        """
        self._planner.forget_service(remove_service(self._state, name))

    @uninterrupted
    def report_load(self, partition: str, node: str, loads: Mapping[str, float]) -> None:
        """Report the load of the replica of `partition` on `node`, in user units; other metrics keep their loads.

        Raises
        ------
        UnknownNameError
            If partition, node or metric is not known.
        ConflictError
            If the partition has no replica there.
        InvalidValueError
            If a load is negative, not finite, or too large for the metric's quantum.
        """
        set_load(self._state, partition, node, loads)

    @uninterrupted
    def report_role_load(self, partition: str, role: Role | str, loads: Mapping[str, float]) -> None:
        """Report the load, in user units, of all present and future replicas of a role without a load of their own.

        Raises
        ------
        UnknownNameError
            If partition or metric is not known.
        InvalidValueError
            If the role does not fit the service, or a load is negative, not finite, or too large for the quantum.
        """
        set_role_load(self._state, partition, role, loads)

    @uninterrupted
    def report_secondary_loads(self, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
        """Report the loads of a partition's secondaries, or instances, by node, in user units.

        Future ones have the average of those of the present ones, rounded to a whole number. A placed replica without a
        report keeps its load. Without `use_separate_secondary_load` all have the average of the reported values.

        Raises
        ------
        UnknownNameError
            If partition, node or metric is not known.
        InvalidValueError
            If a load is negative, not finite, or too large for the metric's quantum.
        """
        set_secondary_loads(self._state, partition, loads)

    @uninterrupted
    def report_move_cost(self, partition: str, role: Role | str, cost: MoveCost | str | float) -> None:
        """Report what a move of the replicas of a role costs, instead of the service's move cost.

        Parameters
        ----------
        cost
            A level, or a number in units of the cost of a usual move, at least 0.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        InvalidValueError
            If the role does not fit the service, or there is no such cost.
        """
        set_move_cost(self._state, partition, role, cost)

    @uninterrupted
    def reset_load(self, partition: str) -> None:
        """Forget all reported loads of a partition, so that its replicas have the default loads of their service.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        """
        reset_loads(self._state, partition)

    @uninterrupted
    def report_loads(self, replica_index: npt.ArrayLike, loads: npt.ArrayLike, *, at: float | None = None) -> None:
        """Report the loads of many replicas at once.

        Parameters
        ----------
        replica_index
            (m,) indices from `replicas`, without duplicates.
        loads
            (m, R) loads in user units, metrics in the order of the configuration.
        at
            Time of the loads, in seconds. Historical simulation then enters its slot as a plan at that time does; so a
            host that knows the past reports it moment by moment, the oldest first. None: the next plan enters a slot.

        Raises
        ------
        InvalidValueError
            If an index is unknown or duplicate, a shape does not fit, or a load is negative, not finite or too large
            for the metric's quantum; nothing is changed then.
        ConflictError
            If `at` is before the latest call with a time; nothing is changed then.
        """
        time = self._planner.time_of_report(at)
        set_loads(self._state, replica_index, loads)
        if at is not None:
            self._planner.enter_slot(time, np.asarray(replica_index, np.int64))

    # queries

    def replicas(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition: its role slots in order, then departing ends.

        A service on every node has no waiting replicas; the nodes that it misses are found when a plan is made.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        """
        return placed_replicas(self._state, partition)

    def replica_indices(self, partitions: Sequence[str], nodes: Sequence[str]) -> Int:
        """Return the index of the replica of each partition on a node, (m,), for `report_loads`.

        Parameters
        ----------
        partitions
            (m,) names of partitions.
        nodes
            (m,) names of their nodes. Departing ends do not count.

        Raises
        ------
        UnknownNameError
            If a partition is not known.
        ConflictError
            If a partition has no replica on its node.
        InvalidValueError
            If the arguments are no names, or not equally many.
        """
        item = "replica_indices"
        partitions, nodes = check_names(item, "partitions", partitions), check_names(item, "nodes", nodes)
        if len(partitions) != len(nodes):
            raise InvalidValueError(item, "nodes", len(nodes), f"{len(partitions)} names, one for each partition")
        return rows_on(self._state, partitions, nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the order in which they were made."""
        return tuple(self._state.nodes)

    def partitions_on(self, node: str) -> tuple[str, ...]:
        """Return the partitions with a replica on a node, also a departing one; `UnknownNameError`: it is not known."""
        return partitions_on(self._state, node)

    @property
    def applications(self) -> tuple[Application, ...]:
        """The applications, in the order in which they were made."""
        return tuple(self._state.applications.applications.values())

    @property
    def service_names(self) -> KeysView[str]:
        """The names of the services, in the order in which they were made; it follows changes."""
        return self._state.service_index.keys()

    @property
    def partition_names(self) -> KeysView[str]:
        """The names of the partitions, in the order in which they were made; it follows changes."""
        return self._state.partitions.keys()

    def _deactivate(self, name: str, intent: DeactivationIntent, now: float | None) -> None:
        """Set the deactivation intent of a node, and its status to none."""
        node = self._state.nodes[self._state.node(name)]
        status = DeactivationStatus.NONE
        self.update_node(attrs.evolve(node, deactivation_intent=intent, deactivation_status=status), now=now)

    @uninterrupted
    def _update_nodes(self, nodes: Sequence[Node], now: float | None) -> None:
        """Add or replace checked nodes at time `now`."""
        time = self._planner.time(now)
        self._note_node_events(zip(put_nodes(self._state, nodes), nodes, strict=True), time)

    def _note_node_events(self, changes: Iterable[tuple[Node | None, Node | None]], time: float) -> None:
        """Delay balancing after nodes were added or removed at `time`, as the settings say.

        `changes` has each changed node before and after; None: it did not exist, or does not exist any more.
        """
        for event in dict.fromkeys(node_event(before, after) for before, after in changes):
            if event is not None:
                self._planner.scheduler.note_node_event(event, self._state.living_indices(), time)
