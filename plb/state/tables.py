"""Applications and services as arrays: one entry each, in arrays that grow by half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int, Int32
from plb.model import MoveCost, Service
from plb.model.quanta import UNLIMITED, MetricQuanta
from plb.model.service import Application
from plb.state.arrays import most_or_any

MOST_REMOVED = 1000
"""Names of removed applications that are kept, so that applications that come and go leave nothing behind."""
FIRST_CAPACITY = 4
"""Entries of the arrays once there is an application with limits."""


class ApplicationTable:
    """The applications of a cluster, and what searches need of applications with an entry, (A,) each unless stated.

    An application has an entry while it binds searches, so that others cost nothing; without any, A is 0.
    """

    def __init__(self, metrics: int) -> None:
        self._metrics = metrics
        self.applications: dict[str, Application] = {}
        """All applications, in the order in which they were made."""
        self.removed: dict[str, None] = {}
        """The names of applications that were removed last, until they are made again; no service may join them."""
        self.entry: dict[str, int] = {}
        """By name of an application with limits, its index in the arrays."""
        self.services: dict[str, dict[int, None]] = {}
        """By name of an application, also of one that does not exist, the indices of the services that name it."""
        self.most_nodes: Int = np.zeros(0, np.int64)
        """(A,) most nodes that the replicas of the application use."""
        self.total_limit: Int = np.zeros((0, metrics), np.int64)
        """(A, R) most quanta of all its replicas together."""
        self.node_limit: Int = np.zeros((0, metrics), np.int64)
        """(A, R) most quanta of its replicas on one node."""
        self.reservation: Int = np.zeros((0, metrics), np.int64)
        """(A, R) quanta that a node with a replica keeps free for it."""

    @property
    def capacity(self) -> int:
        """Number of entries that the arrays can hold; 0 while no application has limits."""
        return len(self.most_nodes)

    @property
    def reserves(self) -> bool:
        """Whether any application has a reservation."""
        return bool(self.reservation.any())

    @property
    def upgrading(self) -> list[int]:
        """The entries of the applications with limits that have upgraded domains."""
        return [entry for name, entry in self.entry.items() if self.applications[name].upgraded_domains]

    def entry_of(self, name: str | None) -> int:
        """Return the entry of the application `name`; NOWHERE for one without limits, an unknown one, or None."""
        return NOWHERE if name is None else self.entry.get(name, NOWHERE)

    def name_of(self, entry: int) -> str:
        """Return the name of the application with an entry."""
        return next(name for name, index in self.entry.items() if index == entry)

    def names(self) -> list[str | None]:
        """Return the name of the application of each entry up to the last one in use; None for an entry not in use."""
        names: list[str | None] = [None] * (max(self.entry.values(), default=NOWHERE) + 1)
        for name, entry in self.entry.items():
            names[entry] = name
        return names

    def reserved_metrics(self) -> dict[str, list[str]]:
        """Return by name of each application with limits the names of the metrics that it reserves."""
        reservations = {name: self.applications[name].node_reservation for name in self.entry}
        return {name: [metric for metric, load in loads.items() if load > 0] for name, loads in reservations.items()}

    def put(self, application: Application, quanta: MetricQuanta) -> None:
        """Enter an application that is new or has changed; `quanta` convert its amounts."""
        item = f"application {application.name}"
        total = quanta.capacities(item, application.total_capacity, field="total_capacity")
        on_node = quanta.capacities(item, application.node_capacity, field="node_capacity")
        reserved = quanta.loads(item, "node_reservation", application.node_reservation)
        self.applications[application.name] = application
        self.removed.pop(application.name, None)
        if not application.binds:
            self._give_back(application.name)
            return
        entry = self.entry.setdefault(application.name, self._free_entry())
        self._fit()
        self.most_nodes[entry] = most_or_any(application.most_nodes)
        self.total_limit[entry], self.node_limit[entry], self.reservation[entry] = total, on_node, reserved

    def remove(self, name: str) -> None:
        """Forget the application `name`."""
        del self.applications[name]
        self.removed[name] = None
        if len(self.removed) > MOST_REMOVED:
            del self.removed[next(iter(self.removed))]
        self._give_back(name)

    def enter(self, name: str, entry: int) -> None:
        """Give the application `name` the index `entry` in the arrays, before it is put."""
        self.entry[name] = entry
        self._fit()

    def join(self, service: int, name: str | None) -> None:
        """Note that the service of index `service` names an application; None: it names none."""
        if name is not None:
            self.services.setdefault(name, {})[service] = None

    def leave(self, service: int, name: str | None) -> None:
        """Note that the service of index `service` no longer names an application; None: it named none."""
        if name is not None:
            del self.services[name][service]
            if not self.services[name]:
                del self.services[name]

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Problem` that follow from the table alone; they are copies."""
        return {
            "grouped": self.capacity > 0,
            "reserves": self.reserves,
            "most_nodes": self.most_nodes.copy(),
            "application_limit": self.total_limit.copy(),
            "application_node_limit": self.node_limit.copy(),
            "reservation": self.reservation.copy(),
        }

    def _give_back(self, name: str) -> None:
        """Free the entry of the application `name`, which has no limits any more."""
        entry = self.entry.pop(name, NOWHERE)
        if entry != NOWHERE:
            for field, array in self._unlimited(1).items():
                getattr(self, field)[entry] = array[0]
            self._fit()

    def _free_entry(self) -> int:
        """Return the first index that no application has as its entry."""
        used = set(self.entry.values())
        return next(entry for entry in range(len(used) + 1) if entry not in used)

    def _fit(self) -> None:
        """Give the arrays the size that holds the last entry in use; sizes grow by half."""
        last = max(self.entry.values(), default=NOWHERE)
        size = 0 if last == NOWHERE else FIRST_CAPACITY
        while size <= last:
            size += size // 2
        if size == self.capacity:
            return
        for field, array in self._unlimited(size).items():
            kept = getattr(self, field)[:size]
            array[: len(kept)] = kept
            setattr(self, field, array)

    def _unlimited(self, size: int) -> dict[str, Int]:
        """Return by name the arrays with `size` entries that limit and reserve nothing."""
        shape = (size, self._metrics)
        return {
            "most_nodes": np.full(size, most_or_any(None)),
            "total_limit": np.full(shape, UNLIMITED),
            "node_limit": np.full(shape, UNLIMITED),
            "reservation": np.zeros(shape, np.int64),
        }


MOVE_COSTS = tuple(MoveCost)
"""The levels of move costs in the order of their codes."""


def code_of_cost(cost: MoveCost | float) -> float:
    """Return a move cost as a number: the position of a level in `MOVE_COSTS`, or −1 − the number of moves."""
    return float(MOVE_COSTS.index(cost)) if isinstance(cost, MoveCost) else -1.0 - cost


class ServiceTable:
    """What arrays of replicas and nodes need of services, (S,) each unless stated otherwise.

    Entries without a service are as of one without requirements. There is always one, the last.
    """

    def __init__(self, metric_names: Sequence[str], capacity: int = 16) -> None:
        self._metric_names = tuple(metric_names)
        metrics = len(self._metric_names)
        self.living: Bool = np.zeros(capacity, np.bool_)
        """Whether there is such a service."""
        self.feasibility_class: Int32 = np.zeros(capacity, np.int32)
        """Index of its requirements on nodes in `ClusterState.feasibility_classes`."""
        self.target_replicas: Int = np.zeros(capacity, np.int64)
        self.stateful: Bool = np.zeros(capacity, np.bool_)
        self.on_every_node: Bool = np.zeros(capacity, np.bool_)
        self.follows: Bool = np.zeros(capacity, np.bool_)
        """Whether it has an affinity to another service."""
        self.application: Int32 = np.full(capacity, NOWHERE, np.int32)
        """Entry of its application in `ApplicationTable`, or NOWHERE."""
        self.move_cost: Float = np.zeros(capacity)
        """Its code, see `code_of_cost`."""
        self.max_moves: Int = np.full(capacity, most_or_any(None))
        """Most replicas that a plan may move."""
        self.has_metric: Bool = np.ones((capacity, metrics), np.bool_)
        """(S, R) whether its replicas report the metric."""
        self.metric_weight: Float = np.full((capacity, metrics), np.nan)
        """(S, R) weight of the metric in the imbalance; not a number where the metric itself determines it."""
        self.limit: Float = np.full((capacity, metrics), np.inf)
        """(S, R) promised maximum of a replica in user units; infinite without a promise."""
        self.made_at: Int = np.zeros(capacity, np.int64)
        """Rises from service to service, in the order in which they were made."""
        self.changed_at: Int = np.zeros(capacity, np.int64)
        """Version of the services at which it was last made, changed or removed."""

    @property
    def capacity(self) -> int:
        """Services that the arrays can hold."""
        return len(self.living)

    @property
    def none(self) -> int:
        """Index of an entry without a service, for rows that are out of use."""
        return self.capacity - 1

    def children(self) -> list[int]:
        """Return the indices of the services with an affinity, in the order in which they were made."""
        following = np.flatnonzero(self.follows)
        children: list[int] = following[np.argsort(self.made_at[following], kind="stable")].tolist()
        return children

    def changed_since(self, version: int) -> Int:
        """Return the indices of the services that were made, changed or removed after a version, ascending."""
        return np.flatnonzero(self.changed_at > version)

    def put(
        self, index: int, service: Service, feasibility_class: int, version: int, application: int = NOWHERE
    ) -> None:
        """Enter a service that is new or has changed.

        `index`, `feasibility_class`: its indices in `ClusterState.services` and `feasibility_classes`; `version`: of
        the services after the change; `application`: the entry of its application, or NOWHERE.
        """
        while index >= self.none:
            self._grow()
        if not self.living[index]:
            self.made_at[index] = version
        self.living[index] = True
        self.feasibility_class[index] = feasibility_class
        self.target_replicas[index] = service.target_replicas
        self.stateful[index] = service.stateful
        self.on_every_node[index] = service.on_every_node
        self.follows[index] = service.affinity_to is not None
        self.application[index] = application
        self.move_cost[index] = code_of_cost(service.move_cost)
        self.max_moves[index] = most_or_any(service.max_moves)
        weights = service.metrics
        self.has_metric[index] = [weights is None or name in weights for name in self._metric_names]
        self.metric_weight[index] = [np.nan if weights is None else weights.get(n, np.nan) for n in self._metric_names]
        self.limit[index] = [service.limits.get(name, np.inf) for name in self._metric_names]
        self.changed_at[index] = version

    def remove(self, index: int, version: int) -> None:
        """Reset the entry at `index`, of a removed service; `version`: of the services after the removal."""
        unused = ServiceTable(self._metric_names, capacity=1)
        for name, array in self._arrays().items():
            array[index] = getattr(unused, name)[0]
        self.changed_at[index] = version

    def _grow(self) -> None:
        """Lengthen the arrays by half."""
        added = ServiceTable(self._metric_names, capacity=self.capacity // 2)
        for name, array in self._arrays().items():
            setattr(self, name, np.concatenate([array, getattr(added, name)]))

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        return {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}
