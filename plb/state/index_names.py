"""Names for the arrays of a search: nodes, services, partitions and metrics, with loads in user units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import Float
from plb.model import Metric, Node, Service
from plb.risk.demand_history import DemandHistory
from plb.state.cluster_state import ClusterState
from plb.state.replica_table import RowTable


@attrs.frozen(eq=False)
class Description:
    """The names of the indices of a `Problem`.

    Parameters
    ----------
    nodes, services, metrics
        By index: (N,), (S,) and (R,).
    partitions
        Name of the partition of each row that is in use.
    quanta
        (R,) size of a quantum of each metric in user units; without a description, quanta are the unit.
    now
        Time that the search is for, in seconds.
    history
        The past tenants from which demand is sampled, or None.
    replicas
        Further data of each row besides its arrays in a `Problem`; None: no data.
    """

    nodes: Sequence[Node] = ()
    services: Sequence[Service] = ()
    metrics: Sequence[Metric] = ()
    partitions: Mapping[int, str] = attrs.field(factory=dict)
    quanta: Float = attrs.field(factory=lambda: np.ones(1))
    now: float = 0.0
    history: DemandHistory | None = None
    replicas: RowTable | None = None


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
