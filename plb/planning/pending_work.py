"""Pending work of placement by service domain: missing and surplus replicas, and changes of roles for upgrades."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

import attrs

from plb.array_types import NOWHERE
from plb.model import DeactivationIntent
from plb.model.role import PRIMARY, SECONDARY
from plb.planning.dropping import Surplus
from plb.planning.service_domains import ServiceDomain
from plb.planning.upgrades import Handover, Return, return_of
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import may_change_role, slots_of, surplus_of


@attrs.frozen(eq=False)
class Work:
    """What placement has to do for a service domain."""

    missing: list[int]
    """Rows to place, parents before their children."""
    surpluses: list[Surplus]
    """Partitions to cut, children first."""
    handovers: list[Handover]
    """Primaries that hand over their role for an upgrade."""
    returns: list[Return]
    """Places to which replicas return after an upgrade."""
    everywhere: bool = False
    """Whether a partition is on every node: Service Fabric then runs placement also if nothing is missing."""

    @property
    def is_any(self) -> bool:
        """Whether any replica is to be placed, dropped, given another role, or returned to a kept place."""
        return bool(self.missing or self.surpluses or self.handovers or self.returns)


class WorkToPlace:
    """The partitions with work for placement.

    `names`: of the partitions, or None: all with `unfinished` rows; `related`: whether any service has a parent.
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
        """Return the work of placement for a service domain; None: for all services."""
        records = [record for record in self._records if domain is None or record.service in domain.services]
        if self._related:
            # parents come before their children
            records.sort(key=lambda record: self._state.services[record.service].affinity_to is not None)
        node = self._state.rows.node
        handovers = [handover for record in records if (handover := handover_of(self._state, record)) is not None]
        promoted = {handover.partition for handover in handovers if handover.primary == NOWHERE and handover.returns}
        # where a secondary is promoted, the missing primary gets no other place
        missing = [
            row
            for record in records
            for row in record.rows
            if node[row] == NOWHERE and not (record.name in promoted and self._state.rows.role[row] == PRIMARY)
        ]
        surpluses = [
            Surplus([row for row in record.rows if node[row] != NOWHERE], count)
            for record in reversed(records)
            if (count := surplus_of(self._state, record)) > 0
        ]
        returns = [returning for record in records if (returning := return_of(self._state, record)) is not None]
        everywhere = any(self._state.services[record.service].on_every_node for record in records)
        return Work(missing, surpluses, handovers, returns, everywhere)


def partitions_with_work(state: ClusterState, unfinished: Collection[int]) -> list[PartitionRecord]:
    """Return the partitions with replicas to place, drop or hand over, in the order in which they were made.

    `unfinished`: rows that wait for a place, or of partitions in upgrade or with too many replicas (`WorkLists`).
    """
    names = {state.row_partition[row] for row in unfinished} | state.reported_surplus
    names.update(record.name for record in state.partitions_everywhere())
    return sorted((state.partitions[name] for name in names), key=attrgetter("number"))


def handover_of(state: ClusterState, record: PartitionRecord) -> Handover | None:
    """Return the changes of roles of a partition for an upgrade; None without any."""
    table = state.rows
    if record.still or not record.upgrading:
        return None
    placed = [row for row in slots_of(state, record) if table.node[row] != NOWHERE]
    primary = next((row for row in placed if table.role[row] == PRIMARY), NOWHERE)
    secondaries = [row for row in placed if table.role[row] == SECONDARY]
    swaps_out = next((row for row in record.rows if table.swaps_out[row]), NOWHERE)
    if swaps_out != NOWHERE:
        return _swap_out_of(state, record, swaps_out, primary, secondaries)
    regaining = [row for row in secondaries if table.regains[row]]
    primary_moves = any(table.moving[row] and table.role[row] == PRIMARY for row in record.rows)
    if not regaining or primary_moves:
        return None
    return Handover(record.name, primary, regaining, marked=regaining[0], void=regaining[0], returns=True)


def _swap_out_of(
    state: ClusterState, record: PartitionRecord, primary_out: int, primary: int, secondaries: list[int]
) -> Handover | None:
    """Return the change of roles of a partition of which the primary is to be swapped out; None without any.

    `primary_out`: the row with that mark; `primary`: row of the placed primary, or NOWHERE; `secondaries`: rows of the
    placed ones. A move of kind void reports that the role cannot change, only for services with one target replica
    while single replicas may move in upgrades: if all secondaries are on deactivated nodes, or the only one moves away.
    """
    table = state.rows
    is_single = state.services[record.service].target_replicas == 1
    is_single &= state.config.is_singleton_replica_move_allowed_during_upgrade
    if secondaries:
        may_change = may_change_role(state, secondaries)
        ready = [row for row, is_able in zip(secondaries, may_change, strict=True) if is_able]
        nodes = [state.nodes[table.node[row]] for row in secondaries]
        are_deactivated = all(node.deactivation_intent is not DeactivationIntent.NONE for node in nodes)
        void = primary_out if is_single and are_deactivated else NOWHERE
        return Handover(record.name, primary, ready, marked=primary_out, void=void, returns=False)
    present_rows = [row for row in record.rows if table.node[row] != NOWHERE and not table.standby[row]]
    moving_secondaries = [row for row in present_rows if table.moving[row] and table.role[row] == SECONDARY]
    if is_single and len(present_rows) == len(record.rows) == 2 and moving_secondaries:
        return Handover(record.name, NOWHERE, (), marked=primary_out, void=moving_secondaries[0], returns=False)
    return None
