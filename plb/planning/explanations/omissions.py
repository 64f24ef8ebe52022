"""What the description of a host leaves open and no plan mends, so that nothing would happen in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.description import NamedSolution
from plb.model import DeactivationIntent
from plb.model.outcome import UNREPORTED
from plb.model.role import PRIMARY, Role
from plb.model.rules import NO_NUMBERS, Violation
from plb.state.cluster_state import ClusterState


@attrs.frozen
class Omission(Violation):
    """Something that the host has to describe; no repair looks for it."""

    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS
    priority: ClassVar[int] = 0


@attrs.frozen
class OnDownNode(Omission):
    """A replica on a node that is down, which its partition is not described without."""

    rule: ClassVar[str] = "node"

    partition: str
    role: Role
    node: str
    """Name of the partition, role of the replica and name of the node."""

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition} is on node {self.node}, which is down"
        return f"{who}: describe the partition without it, or with the state down if it may come back"


@attrs.frozen
class WithoutMark(Omission):
    """A primary on a node that is paused or restarted, which no plan moves: it has no upgrade mark, or no secondary."""

    rule: ClassVar[str] = "node"

    partition: str
    node: str
    intent: str
    """The intent of the deactivation: `pause` or `restart`."""
    is_alone: bool = False
    """Whether it is the only replica of its partition, so that no mark moves it either."""

    def __str__(self) -> str:
        who = f"primary of {self.partition} is on node {self.node}, which is deactivated ({self.intent})"
        if self.is_alone:
            return f"{who}: it has no secondary, so no plan moves it unless the node is drained"
        return f"{who}: no plan moves it without the mark swap_out"


@attrs.frozen
class Unreported(Omission):
    """A partition without a load, though other partitions have reported theirs."""

    rule: ClassVar[str] = "report"

    partition: str
    """Name of the partition."""

    def __str__(self) -> str:
        return UNREPORTED.format(self.partition)


def omissions_of(named: NamedSolution) -> Iterator[Omission]:
    """Yield what the description of a cluster leaves open: by node, then by partition."""
    state, node = named.state, named.solution.node
    table = state.rows
    stands = ~named.problem.unspread & ~table.leaving
    is_expected = table.still & ~table.building  # the host knows that it does not run
    down = [index for index, described_node in enumerate(state.nodes) if not described_node.up]
    for row in np.flatnonzero(np.isin(node, down) & stands & ~is_expected).tolist():
        yield OnDownNode(state.row_partition[row], named.role_of(row), named.node_of(row))
    waits = (DeactivationIntent.PAUSE, DeactivationIntent.RESTART)
    paused = [
        index
        for index, described_node in enumerate(state.nodes)
        if described_node.up and described_node.deactivation_intent in waits
    ]
    stays = stands & (named.problem.role == PRIMARY) & (~table.upgrading | table.swaps_out)
    for row in np.flatnonzero(np.isin(node, paused) & stays).tolist():
        name, described = state.row_partition[row], state.nodes[int(node[row])]
        is_alone = len(state.partition(name).rows) == 1
        if is_alone or not table.upgrading[row]:
            yield WithoutMark(name, described.name, described.deactivation_intent.value, is_alone)
    yield from map(Unreported, unreported_partitions(state))


def unreported_partitions(state: ClusterState, services: Sequence[int] | None = None) -> tuple[str, ...]:
    """Return the partitions of `services`, by index (None: of all), that count as 0 though others have reported loads.

    They have a replica on a node, no report, no default load, and a metric that they could report.
    """
    table = state.rows
    if not (table.used & table.reported).any():
        return ()
    rows: Int = np.flatnonzero(table.used & ~table.reported & (table.node != NOWHERE))
    rows = rows[~table.load[rows].any(axis=1)]
    if services is not None:
        rows = rows[np.isin(table.service[rows], services)]
    names = dict.fromkeys(state.row_partition[row] for row in rows.tolist())
    return tuple(name for name in names if _reports_nothing(state, name))


def _reports_nothing(state: ClusterState, partition: str) -> bool:
    """Return whether a partition, whose service has a metric, has reported no load of any replica."""
    record = state.partition(partition)
    has_metric = state.services[record.service].metrics != {}
    return has_metric and not state.rows.reported[record.rows].any()
