"""A rebalancer: it plans moves of pods, logs them with their reasons, and evicts pods only if it is told to.

It balances by thresholds until its past is long enough, then avoids the violations that the past lets it expect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import attrs

from cluster.service.events import apply_event
from cluster.service.kubernetes.description import KubernetesCluster, obstacle
from cluster.service.kubernetes.pods import amounts
from cluster.service.kubernetes.sources import ApiServer, Observed
from plb import Metric, PlacementAndLoadBalancing, PlbConfig
from plb.model.move import Move

DAY, HOUR = 86400.0, 3600.0
SETTINGS = PlbConfig(
    metrics=[Metric("cpu", balancing_threshold=1.25), Metric("memory", balancing_threshold=1.25)],
    estimator="historical-simulation:horizon=1",
    violation_cost=1.0,
    min_load_balancing_interval=DAY,
)
"""Settings unless others are given (docs/rebalancing.md)."""
OUTCOMES = {201: "evicted", 404: "gone already", 409: "replaced meanwhile", 429: "refused by a disruption budget"}
"""What became of an eviction, by status."""
Line: TypeAlias = dict[str, Any]
"""An object of the log."""


class Rebalancer:
    """Plans moves for a cluster, round by round.

    Each object of the log goes to `log`. `is_live`: the cluster is always read as it is; `api` evicts pods, None:
    nothing does; `most_moves`: of a plan, and evictions in 24 hours; `past_hours`: of reports, from which on the past
    decides.
    """

    def __init__(
        self,
        log: Callable[[Line], None],
        *,
        is_live: bool,
        api: ApiServer | None = None,
        settings: PlbConfig = SETTINGS,
        most_moves: int = 5,
        past_hours: float = 24.0,
    ) -> None:
        self._log, self._is_live, self._api, self._settings = log, is_live, api, settings
        self._most_moves, self._past = most_moves, past_hours * HOUR
        self._engine = PlacementAndLoadBalancing(settings)
        self._cluster = KubernetesCluster(settings.metric_names)
        self._reported: list[float] = []
        """Times of the first and the latest usage, in seconds."""
        self._evictions: list[float] = []
        """Times of the evictions of the last 24 hours."""

    def run(self, observed: Observed, now: float) -> None:
        """Plan moves of a cluster read at `now`, in seconds since 1970, log them, and evict if that was asked for.

        If files tell when pods were measured, the latest of these times counts as now.
        """
        usages = observed.usages
        if self._is_live:
            usages = [(now, used) for _, used in usages]  # reports may not be older than the plan before
        elif usages:
            now = usages[-1][0]
        for event in self._cluster.events(observed.nodes, observed.pods):
            apply_event(event, self._engine, now)
        for at, used in usages:
            if not self._reported or at > self._reported[-1]:
                self._reported = [*self._reported[:1], at]
                apply_event(self._cluster.usage(used, at), self._engine, at)
        self._plan(observed, now)

    def _plan(self, observed: Observed, now: float) -> None:
        """Plan, log the plan, and carry it out."""
        self._evictions = [time for time in self._evictions if time > now - DAY]
        past = now - self._reported[0] if self._reported else 0.0
        by_past = self._settings.violation_cost is not None and past >= self._past and bool(self._reported)
        self._engine.configure(self._config(by_past, max(0, self._most_moves - len(self._evictions))))
        plan = self._engine.refresh(now)
        reasons = [obstacle(pod) for pod in self._cluster.pods.values()]
        self._log(
            {
                "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
                "plan": "past" if by_past else "thresholds",
                "past_hours": round(past / HOUR, 1),
                "nodes": len(observed.nodes),
                "pods": len(reasons),
                "fixed": dict(sorted(Counter(filter(None, reasons)).items())),
                "moves": len(plan.moves),
            }
        )
        free = self._free(observed)
        for move in plan.moves:
            self._carry_out(move, free, now)

    def _config(self, by_past: bool, most_moves: int) -> PlbConfig:
        """Return the settings of a plan: only by its past, or only by thresholds."""
        if not by_past:
            return attrs.evolve(self._settings, violation_cost=None, max_moves=most_moves)
        metrics = [attrs.evolve(metric, balancing_threshold=0.0) for metric in self._settings.metrics]
        return attrs.evolve(self._settings, metrics=metrics, max_moves=most_moves)

    def _free(self, observed: Observed) -> dict[str | None, Counter[str]]:
        """Return the amounts of resources that no pod requests, by node."""
        nodes = {node.metadata.name: amounts(node.status.allocatable, "", "") for node in observed.nodes}
        free: dict[str | None, Counter[str]] = {name: Counter(free) for name, free in nodes.items()}
        for name, pod in self._cluster.pods.items():
            free[pod.spec.node_name].subtract(self._cluster.requests[name])
        return free

    def _carry_out(self, move: Move, free: dict[str | None, Counter[str]], now: float) -> None:
        """Log a move, and evict its pod if that was asked for; the scheduler then chooses the node."""
        pod, asked = self._cluster.pods[move.partition], self._cluster.requests[move.partition]
        outcome, message = "proposed", ""
        if any(amount > free[move.target][name] for name, amount in asked.items()):
            outcome = "no room for what it requests"
        elif self._api is not None:
            status, message = self._api.evict(pod)
            outcome = OUTCOMES.get(status, f"failed with status {status}")
            self._evictions += [now] if outcome == OUTCOMES[201] else []
        if outcome in ("proposed", OUTCOMES[201]):
            free[move.target].subtract(asked)
            free[move.source].update(asked)
        line = {"pod": pod.metadata.key, "from": move.source, "to": move.target, "reason": str(move.reason)}
        self._log({**line, "outcome": outcome, **({"message": message} if message else {})})
