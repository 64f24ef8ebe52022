"""Pending work of placement by service domain: missing replicas, surplus replicas, and roles to hand over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

import attrs

from plb.array_types import NOWHERE
from plb.model import Role
from plb.planning.dropping import Surplus
from plb.planning.service_domains import ServiceDomain
from plb.planning.upgrades import Handover
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import may_change_role, slots_of, surplus_of


@attrs.frozen(eq=False)
class Work:
    """What placement has to do for a service domain.

    Parameters
    ----------
    missing
        Rows to place, parents before their children.
    surpluses
        Partitions to cut, children first.
    handovers
        Primaries that hand over their role for an upgrade.
    """

    missing: list[int]
    surpluses: list[Surplus]
    handovers: list[Handover]

    @property
    def is_any(self) -> bool:
        """Whether there is work."""
        return bool(self.missing or self.surpluses or self.handovers)


class WorkToPlace:
    """The partitions with work.

    Parameters
    ----------
    state
        The cluster.
    names
        Names of the partitions; None: all.
    unfinished
        Rows of the partitions with work.
    related
        Whether any service follows another.
    """

    def __init__(
        self, state: ClusterState, names: Sequence[str] | None, unfinished: Collection[int], *, related: bool
    ) -> None:
        self._state, self._related = state, related
        self._records = (
            partitions_with_work(state, unfinished)
            if names is None
            else [state.partition(name) for name in dict.fromkeys(names)]
        )

    def of(self, domain: ServiceDomain | None) -> Work:
        """Return what there is to do for a domain; None: for all services."""
        records = [r for r in self._records if domain is None or r.service in domain.services]
        if self._related:
            records.sort(key=lambda record: self._state.services[record.service].affinity_to is not None)
        node = self._state.rows.node
        handovers = [found for record in records if (found := handover_of(self._state, record)) is not None]
        promoted = {handover.partition for handover in handovers if handover.primary == NOWHERE}
        missing = [
            row
            for record in records
            for row in record.rows
            if node[row] == NOWHERE and not (record.name in promoted and self._state.rows.role[row] == Role.PRIMARY)
        ]
        surpluses = [
            Surplus([row for row in record.rows if node[row] != NOWHERE], count)
            for record in reversed(records)
            if (count := surplus_of(self._state, record)) > 0
        ]
        return Work(missing, surpluses, handovers)


def partitions_with_work(state: ClusterState, unfinished: Collection[int]) -> list[PartitionRecord]:
    """Return the partitions for which there may be something to do, in the order in which they were made.

    Parameters
    ----------
    unfinished
        As in `plb.planning.work_lists.WorkLists`.
    """
    names = {state.row_partition[row] for row in unfinished} | state.reported_surplus
    names.update(record.name for record in state.partitions_everywhere())
    return sorted((state.partitions[name] for name in names), key=attrgetter("number"))


def handover_of(state: ClusterState, record: PartitionRecord) -> Handover | None:
    """Return the changes of roles of a partition for an upgrade; None without any."""
    table = state.rows
    if record.still or not record.upgrading:
        return None
    standing = [row for row in slots_of(state, record) if table.node[row] != NOWHERE]
    primary = next((row for row in standing if table.role[row] == Role.PRIMARY), NOWHERE)
    able = may_change_role(state, standing)
    ready = [row for row, free in zip(standing, able, strict=True) if free and table.role[row] == Role.SECONDARY]
    back = [row for row in ready if table.regains[row]]
    if primary != NOWHERE and table.swaps_out[primary]:
        return Handover(record.name, primary, ready, returns=False)
    return Handover(record.name, primary, back, returns=True) if back else None
