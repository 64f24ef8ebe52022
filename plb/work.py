"""What placement has to do for each service domain: rows without a node, services on every node, surplus replicas."""

from __future__ import annotations

from collections.abc import Sequence

from plb.arrays import NOWHERE
from plb.search.dropping import Surplus
from plb.service_domains import ServiceDomain
from plb.slots import surplus_of
from plb.state import ClusterState


class WorkToPlace:
    """The partitions to look at.

    Parameters
    ----------
    state
        The cluster.
    names
        Names of the partitions; None: all.
    """

    def __init__(self, state: ClusterState, names: Sequence[str] | None) -> None:
        self._state = state
        self._records = (
            list(state.partitions.values()) if names is None else [state.partition(n) for n in dict.fromkeys(names)]
        )

    def of(self, domain: ServiceDomain | None) -> tuple[list[int], list[Surplus]]:
        """Return the rows to place, parents before their children, and the surpluses, children first."""
        records = [r for r in self._records if domain is None or r.service in domain.services]
        if any(service.affinity_to is not None for service in self._state.services):
            records.sort(key=lambda record: self._state.services[record.service].affinity_to is not None)
        node = self._state.rows.node
        missing = [row for record in records for row in record.rows if node[row] == NOWHERE]
        surpluses = [
            Surplus([row for row in record.rows if node[row] != NOWHERE], count)
            for record in reversed(records)
            if (count := surplus_of(self._state, record)) > 0
        ]
        return missing, surpluses
