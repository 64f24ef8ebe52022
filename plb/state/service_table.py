"""The services as arrays: one entry a service, in preallocated arrays that grow by half."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int, Int32
from plb.model import MoveCost, Service
from plb.state.arrays import most_or_any

MOVE_COSTS = tuple(MoveCost)
"""The levels of move costs in the order of their codes."""


def code_of_cost(cost: MoveCost | float) -> float:
    """Return a move cost as a number: the position of a level in `MOVE_COSTS`, or −1 − the number of moves."""
    return float(MOVE_COSTS.index(cost)) if isinstance(cost, MoveCost) else -1.0 - cost


def cost_of_code(code: float) -> MoveCost | float:
    """Return the move cost of a code."""
    return MOVE_COSTS[int(code)] if code >= 0 else round(-1.0 - code, 1)


class ServiceTable:
    """What arrays of replicas and nodes need of services, (S,) each unless stated otherwise.

    Entries without a service are as of one without requirements. There is always one, the last.

    Parameters
    ----------
    metric_names
        Names of all metrics of the engine.
    """

    def __init__(self, metric_names: Sequence[str], capacity: int = 16) -> None:
        self._metric_names = tuple(metric_names)
        metrics = len(self._metric_names)
        self.living: Bool = np.zeros(capacity, np.bool_)
        """Whether there is such a service."""
        self.feasibility_class: Int32 = np.zeros(capacity, np.int32)
        """Its requirements on nodes."""
        self.target_replicas: Int = np.zeros(capacity, np.int64)
        self.stateful: Bool = np.zeros(capacity, np.bool_)
        self.on_every_node: Bool = np.zeros(capacity, np.bool_)
        self.follows: Bool = np.zeros(capacity, np.bool_)
        """Whether it has an affinity to another service."""
        self.application: Int32 = np.full(capacity, NOWHERE, np.int32)
        """Entry of its application in `plb.state.application_table.ApplicationTable`, or NOWHERE."""
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
        """An entry without a service, for rows that are out of use."""
        return self.capacity - 1

    def children(self) -> list[int]:
        """Return the services with an affinity, in the order in which they were made."""
        found = np.flatnonzero(self.follows)
        return [int(index) for index in found[np.argsort(self.made_at[found], kind="stable")]]

    def changed_since(self, version: int) -> Int:
        """Return the services that were made, changed or removed after a version, ascending."""
        return np.flatnonzero(self.changed_at > version)

    def put(
        self, index: int, service: Service, feasibility_class: int, version: int, application: int = NOWHERE
    ) -> None:
        """Enter a service that is new or has changed; `application` is the entry of its application."""
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
        """Enter that a service was removed."""
        nothing = ServiceTable(self._metric_names, capacity=1)
        for name, array in self._arrays().items():
            array[index] = getattr(nothing, name)[0]
        self.changed_at[index] = version

    def _grow(self) -> None:
        added = ServiceTable(self._metric_names, capacity=self.capacity // 2)
        for name, array in self._arrays().items():
            setattr(self, name, np.concatenate([array, getattr(added, name)]))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}
