"""The expected demand of a replica over time: the mean over the past tenants of its class and role.

G groups of tenant class and role, A ages in equal steps, R metrics, n replicas, H future steps.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int
from plb.model import Role
from plb.risk.demand_history import DemandHistory

MOST_AGES = 1024
"""Older replicas are expected to stay as they are."""


class ExpectedDemand:
    """The mean course of demand by class and role, and how many tenants live how long.

    Parameters
    ----------
    history
        The past tenants.
    step_seconds
        Time between two steps of what is expected.
    """

    def __init__(self, history: DemandHistory, step_seconds: float) -> None:
        self.history, self.step_seconds = history, step_seconds
        longest = np.ceil(float(history.lifetime.max()) / step_seconds)
        self._ages = np.arange(int(np.clip(longest, 1, MOST_AGES)) + 1) * step_seconds
        groups = len(history.group_start) - 1
        self._mean = np.zeros((groups + 1, len(self._ages), len(history.metrics)))
        self._alive = np.ones((groups + 1, len(self._ages)))
        for group in range(groups):
            self._learn(group)

    def _learn(self, group: int) -> None:
        """Fill in the course of one group; ages that nobody reached have the last mean that there is."""
        first, last = self.history.group_start[group : group + 2]
        if first == last:
            return
        traces = np.arange(first, last)
        order = np.argsort(-self.history.lifetime[traces], kind="stable")
        traces = traces[order]
        lifetime = self.history.lifetime[traces].astype(np.float64)
        reached = np.searchsorted(-lifetime, -self._ages, side="left")
        reached[0] = len(traces)
        for place, age in enumerate(self._ages):
            if not reached[place]:
                self._mean[group, place:] = self._mean[group, place - 1]
                break
            self._mean[group, place] = self.history.demand(age, traces[: reached[place]]).mean(axis=0)
        self._alive[group] = reached / len(traces)

    def group_of(self, tenant_class: str | None, role: Role) -> int:
        """Return the group of a class and role; where the history has none, one of which nothing is expected."""
        code = self.history.class_code(tenant_class)
        return len(self._mean) - 1 if code < 0 else code * len(Role) + int(role)

    def expected_demand(self, group: Int, age: Float, load: Float, horizon: int) -> Float:
        """Return the expected demand at the present step and those after it, (n, H, R) in user units.

        It is the present load and what the mean demand of the group grows by, times the share of those of this age who
        live longer. Of an age that nobody reached, and of a group without tenants, the present load is expected.

        Parameters
        ----------
        group
            (n,) of each replica, from `group_of`.
        age
            (n,) seconds.
        load
            (n, R) present load, metrics in the order of the history.
        horizon
            H.
        """
        last = len(self._ages) - 1
        present = np.clip(age / self.step_seconds, 0, last).astype(np.int64)
        upcoming = np.minimum(present[:, np.newaxis] + np.arange(horizon), last)
        grown = self._mean[group[:, np.newaxis], upcoming] - self._mean[group, present][:, np.newaxis]
        alive = self._alive[group, present]
        lasting = np.divide(
            self._alive[group[:, np.newaxis], upcoming],
            alive[:, np.newaxis],
            out=np.ones(upcoming.shape),
            where=alive[:, np.newaxis] > 0,
        )
        return np.asarray(np.maximum(0.0, load[:, np.newaxis] + grown) * lasting[:, :, np.newaxis], np.float64)
