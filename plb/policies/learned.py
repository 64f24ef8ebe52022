"""The learned policy ([4], DeepPlace) on an engine's cluster: what it sees of nodes and replicas, and what it chooses.

In its game the future of jobs is known. Here it is the expected demand of past tenants (`plb.risk.demand_history`);
without a demand history, replicas are expected to stay as they are. A time step of the game is `step_minutes` on the
host's clock. Usage is a share of a node; usage of a replica to be placed, of the mean capacity of the offered nodes.
The past of a node is what the policy observed at earlier plans. A replica that is to move is not counted on its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.learning.placement_game import WAIT, Observation, ObservationShape
from plb.model import Role
from plb.policies.fits import not_deactivated
from plb.risk.demand_history import ExpectedDemand
from plb.validation import check_known, check_name, check_names, check_number, check_switch

if TYPE_CHECKING:
    from plb.learning.policy import LearnedPolicy

LONGEST_STEP = 1e6
"""Length of a time step by default."""


@attrs.define(kw_only=True, eq=False)
class Learned:
    """Takes the node that a trained network finds the most likely; the checkpoint is read when a search begins."""

    checkpoint: str = attrs.field(default="", metadata={"path": True})
    """File of the trained policy, as `plb learn train` writes it."""
    step_minutes: float = 60.0
    """Length of a time step of the game, minutes."""
    metrics: tuple[str, ...] = ()
    """Metrics for the resources of the game, in their order; empty: metrics with the same names."""
    may_wait: bool = False
    """True: if the network gives waiting the highest probability, the replica is not placed by this plan."""
    name: str = "learned"
    """Name of the policy."""
    _network: LearnedPolicy | None = attrs.field(init=False, default=None)
    _expected: ExpectedDemand | None = attrs.field(init=False, default=None)
    _past: list[tuple[float, Mapping[str, Float]]] = attrs.field(init=False, factory=list)
    """The times of observations, ascending, each with the load of every node then, (R,) shares of its capacity."""
    _view: _View | None = attrs.field(init=False, default=None)
    """The replicas and their expected demand at the begin of the search."""

    def __attrs_post_init__(self) -> None:
        item = f"policy {check_name('policy', self.name)}"
        if not isinstance(self.checkpoint, str | Path):
            raise InvalidValueError(item, "checkpoint", self.checkpoint, "the name of a file")
        self.checkpoint = str(self.checkpoint)
        self.step_minutes = check_number(item, "step_minutes", self.step_minutes, high=LONGEST_STEP, low_open=True)
        self.metrics = check_names(item, "metrics", self.metrics)
        self.may_wait = check_switch(item, "may_wait", self.may_wait)

    def __deepcopy__(self, memo: dict[int, Any]) -> Learned:
        """Return a copy that has seen nothing yet; the network is not changed by use and is shared."""
        copy = attrs.evolve(self)
        copy._network = self._network
        return copy

    def begin(self, configuration: Configuration, rng: np.random.Generator) -> None:
        """Observe the cluster: the expected demand of replicas, and the load of nodes now and at earlier plans."""
        network = self._load()
        columns = self._columns(configuration, network)
        self._remember(configuration, network.shape.past)
        past = self._past_usage(configuration, columns, network.shape.past)
        self._view = _View(configuration, columns, self._forecasts(configuration, network.shape.horizon), past)

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int | None:
        """Return the one of the feasible `nodes`, (n,), that the network prefers for `row`; None: it waits."""
        if self._view is None or self._view.configuration is not configuration or not self._view.knows(row):
            self.begin(configuration, np.random.default_rng(0))
        network, view = self._load(), self._view
        assert view is not None
        observation = self._observe(view, network.shape, row, nodes)
        allowed = np.zeros(configuration.nodes, np.bool_)
        allowed[not_deactivated(configuration, nodes)] = True
        action = network.act(observation, allowed, may_wait=self.may_wait)
        return None if action == WAIT else action - 1

    def memory(self) -> Mapping[str, Any]:
        """Return the observations of the loads of nodes at earlier plans, in the form that `recall` reads."""
        shares = {
            f"shares.{observation}": np.array([*loads.values()]) for observation, (_, loads) in enumerate(self._past)
        }
        return {
            "times": [time for time, _ in self._past],
            "nodes": [[*loads] for _, loads in self._past],
            **shares,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Replace the observations by the ones that `memory` returned."""
        self._past = [
            (time, dict(zip(nodes, memory[f"shares.{observation}"], strict=True)))
            for observation, (time, nodes) in enumerate(zip(memory["times"], memory["nodes"], strict=True))
        ]

    def _load(self) -> LearnedPolicy:
        """Return the trained network, read from the checkpoint at the first call."""
        if self._network is None:
            if not self.checkpoint:
                allowed = 'the file of a trained policy: policy_options = { checkpoint = "…" }'
                raise InvalidValueError(f"policy {self.name}", "checkpoint", self.checkpoint, allowed)
            from plb.learning.policy import LearnedPolicy

            self._network = LearnedPolicy.load(Path(self.checkpoint))
        return self._network

    def _columns(self, configuration: Configuration, network: LearnedPolicy) -> Int:
        """Return the indices of the metrics that stand for the resources of the game, (D,)."""
        metrics, resources = [metric.name for metric in configuration.description.metrics], network.shape.resources
        names = self.metrics or network.resources or tuple(metrics[:resources])
        for name in names:
            check_known("metric", name, metrics, f"policy {self.name}: metrics")
        if len(names) != resources:
            allowed = f"{resources} metrics, one for each resource that {self.checkpoint} was trained with"
            raise InvalidValueError(f"policy {self.name}", "metrics", names, allowed)
        return np.array([metrics.index(name) for name in names], np.int64)

    def _forecasts(self, configuration: Configuration, horizon: int) -> Float:
        """Return the expected demand of each row in the next `horizon` time steps, (M, H, R) in user units."""
        rows = configuration.rows
        load = configuration.problem.load[rows] * configuration.description.quanta
        forecasts = np.zeros((len(configuration.solution.node), horizon, load.shape[1]))
        table, history = configuration.description.replicas, configuration.history
        forecasts[rows] = load[:, np.newaxis]
        if table is None or history is None:
            return forecasts
        seconds = 60.0 * self.step_minutes
        if self._expected is None or self._expected.history is not history:
            self._expected = ExpectedDemand(history, seconds)
        names = [metric.name for metric in configuration.description.metrics]
        metrics = np.array([names.index(name) for name in history.metrics], np.int64)
        roles = map(Role, configuration.problem.role[rows].tolist())
        classes = [configuration.service_of(row).tenant_class for row in rows.tolist()]
        groups = np.array(list(map(self._expected.group_of, classes, roles)), np.int64)
        age = np.maximum(0.0, configuration.now - table.created[rows])
        expected = self._expected.expected_demand(groups, age, load[:, metrics], horizon)
        forecasts[np.ix_(rows, np.arange(horizon), metrics)] = expected
        return forecasts

    def _remember(self, configuration: Configuration, past: int) -> None:
        """Add the present loads of all nodes to the observations; keep the loads of the last `past` time steps."""
        now = configuration.now
        names = [node.name for node in configuration.description.nodes]
        present = dict(zip(names, configuration.shares, strict=False))
        earlier = [(time, shares) for time, shares in self._past if time < now]
        oldest = now - 60.0 * self.step_minutes * past
        first = max(0, sum(time <= oldest for time, _ in earlier) - 1)  # holds at the oldest step
        self._past = [*earlier[first:], (now, present)]

    def _observe(self, view: _View, shape: ObservationShape, row: int, nodes: Int) -> Observation:
        """Return what the network sees of the cluster to place replica `row` on one of `nodes`, (n,)."""
        configuration = view.configuration
        machines = np.concatenate([view.past, view.upcoming(row)], axis=2)
        waiting = configuration.rows[configuration.solution.node[configuration.rows] == NOWHERE]
        queue_rows = np.concatenate([[row], waiting[waiting != row]])[: shape.visible]
        queue = np.zeros((shape.visible, shape.resources, shape.horizon), np.float32)
        queue[: len(queue_rows)] = view.shares_of(queue_rows, nodes)
        occupied = np.bincount(view.placed_without(row)[1], minlength=configuration.nodes) / 10.0
        return Observation(
            machines.astype(np.float32),
            occupied.astype(np.float32),
            queue,
            np.zeros(shape.visible, np.float32),
            np.array([max(0, len(waiting) - shape.visible) / configuration.nodes], np.float32),
            self._arrivals(configuration, shape),
        )

    def _past_usage(self, configuration: Configuration, columns: Int, past: int) -> Float:
        """Return the load of nodes as shares, (N, D, P), at the last `past` steps, by the latest observation then.

        `columns`: (D,) indices of the metrics. Before the first observation, its loads hold.
        """
        times = np.array([time for time, _ in self._past])
        requested = configuration.now - 60.0 * self.step_minutes * np.arange(past, 0, -1)
        usage = np.zeros((configuration.nodes, len(columns), past))
        unused = np.zeros(len(configuration.description.metrics))
        for step, last in enumerate(np.maximum(0, np.searchsorted(times, requested, side="right") - 1)):
            shares = self._past[int(last)][1]
            for node, described in enumerate(configuration.description.nodes):
                usage[node, :, step] = shares.get(described.name, unused)[columns]
        return usage

    def _arrivals(self, configuration: Configuration, shape: ObservationShape) -> np.ndarray[Any, Any]:
        """Return the number of new replicas per node in each of the last `shape.arrivals` time steps, in order."""
        table = configuration.description.replicas
        if table is None:
            return np.zeros(shape.arrivals, np.float32)
        steps = (configuration.now - table.created[configuration.rows]) / (60.0 * self.step_minutes)
        recent = steps[(steps >= 0) & (steps < shape.arrivals)].astype(np.int64)
        counts = np.bincount(recent, minlength=shape.arrivals)[::-1]
        return np.asarray(counts / configuration.nodes, np.float32)


class _View:
    """The replicas of a configuration, whose placement may change meanwhile, with their expected demand.

    `columns`: metrics of the game, (D,); `forecasts`: by row in user units, (rows, H, R); `past`: usage, (N, D, P).
    """

    def __init__(self, configuration: Configuration, columns: Int, forecasts: Float, past: Float) -> None:
        self.configuration, self.past = configuration, past
        self._forecasts = forecasts[:, :, columns]
        capacity = configuration.capacities[:, columns]
        self._finite: Bool = np.isfinite(capacity) & (capacity > 0)
        self._capacity = np.where(self._finite, capacity, 1.0)

    def knows(self, row: int) -> bool:
        """Return whether replica `row` existed when the search began."""
        return row < len(self._forecasts)

    def placed_without(self, row: int) -> tuple[Int, Int]:
        """Return the placed rows but `row`, (n,), and the node of each: a job to be placed is on no machine."""
        rows = self.configuration.rows
        nodes = self.configuration.solution.node[rows]
        is_placed = (nodes != NOWHERE) & (rows != row)
        return rows[is_placed], np.asarray(nodes[is_placed], np.int64)

    def upcoming(self, row: int) -> Float:
        """Return the expected load of each node without `row`, (N, D, H) as a share of its capacity; 0 without one."""
        rows, nodes = self.placed_without(row)
        demand = np.zeros((len(self._capacity), *self._forecasts.shape[1:]))
        np.add.at(demand, nodes, self._forecasts[rows])
        shares = np.where(self._finite[:, np.newaxis], demand / self._capacity[:, np.newaxis], 0.0)
        return np.asarray(shares.transpose(0, 2, 1), np.float64)

    def shares_of(self, rows: Int, nodes: Int) -> Float:
        """Return the expected demand of `rows`, (n,), as (n, D, H) shares of the mean capacity of `nodes`, (m,)."""
        finite = self._finite[nodes].any(axis=0)
        total = np.where(self._finite[nodes], self._capacity[nodes], 0.0).sum(axis=0)
        mean = np.where(finite, total / np.maximum(1, self._finite[nodes].sum(axis=0)), 1.0)
        return np.asarray(np.where(finite, self._forecasts[rows] / mean, 0.0).transpose(0, 2, 1), np.float64)
