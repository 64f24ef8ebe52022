"""The difference between two plans: new, removed and moved replicas."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Int, Int32
from plb.errors import ConflictError
from plb.provisioning.plan import ProvisioningPlan

NOWHERE = -1
"""No node."""
_TURNS = 2**31
"""More than the replicas of an application."""


@attrs.frozen(eq=False)
class Moves:
    """Moves from one plan to another, not in an order in which they could be applied.

    Parameters
    ----------
    nodes
        Names of the nodes of both plans.
    application
        (M,) application, by index in the instance.
    source, target
        (M,) source and target, by index in `nodes`. `NOWHERE`: a replica is new, or
        is removed.
    count
        (M,) number of replicas.
    """

    nodes: tuple[str, ...]
    application: Int32
    source: Int32
    target: Int32
    count: Int32

    @property
    def moved(self) -> int:
        """Number of replicas on another node."""
        return int(self.count[(self.source != NOWHERE) & (self.target != NOWHERE)].sum())

    @property
    def placed(self) -> int:
        """Number of new replicas."""
        return int(self.count[self.source == NOWHERE].sum())

    @property
    def removed(self) -> int:
        """Number of removed replicas."""
        return int(self.count[self.target == NOWHERE].sum())


def moves_between(before: ProvisioningPlan, after: ProvisioningPlan) -> Moves:
    """Return the moves that lead from one plan to another, as few as possible; nodes are known by their names.

    Raises
    ------
    ConflictError
        The plans are for different applications.
    """
    if before.instance.applications != after.instance.applications:
        raise ConflictError(
            f"plans for {before.instance.name} and {after.instance.name}: they have different applications"
        )
    names = tuple(dict.fromkeys((*before.node_names(), *after.node_names())))
    pairs, change = _changes(before, after, names)
    gone, come = (np.divmod(np.repeat(pairs, np.maximum(0, sign * change)), len(names)) for sign in (-1, 1))
    gone_key, come_key = _turns(gone[0]), _turns(come[0])
    keys = np.union1d(gone_key, come_key)
    rows = np.full((3, len(keys)), NOWHERE)
    rows[0] = keys // _TURNS
    rows[1, np.searchsorted(keys, gone_key)] = gone[1]
    rows[2, np.searchsorted(keys, come_key)] = come[1]
    (application, source, target), count = np.unique(rows.astype(np.int32), axis=1, return_counts=True)
    return Moves(names, application, source, target, count.astype(np.int32))


def _changes(before: ProvisioningPlan, after: ProvisioningPlan, names: tuple[str, ...]) -> tuple[Int, Int]:
    """Return pairs of application and node as numbers, in order, and the change of the replicas of each."""
    number = {name: place for place, name in enumerate(names)}
    found, counts = [], []
    for plan, sign in ((before, -1), (after, 1)):
        node = np.array([number[name] for name in plan.node_names()], np.int64)
        found.append(plan.application.astype(np.int64) * len(number) + node[plan.node])
        counts.append(sign * plan.count.astype(np.int64))
    pairs, place = np.unique(np.concatenate(found), return_inverse=True)
    change = np.zeros(len(pairs), np.int64)
    np.add.at(change, place, np.concatenate(counts))
    return pairs, change


def _turns(application: Int) -> Int:
    """Return, for applications in order, the rank of each entry of an application."""
    first = np.searchsorted(application, application)
    return application * _TURNS + np.arange(len(application)) - first
