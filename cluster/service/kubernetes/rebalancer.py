"""A rebalancer: it plans moves of pods, logs them with their reasons, and evicts pods only if it is told to.

It balances by thresholds until its past is long enough, then avoids the violations that the past lets it expect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import msgspec

from cluster.service.events import ENCODER, ClusterEvent, decoded
from cluster.service.kubernetes.description import KubernetesCluster, obstacle
from cluster.service.kubernetes.pods import amounts
from cluster.service.kubernetes.sources import ApiServer, Observed
from plb import Metric, PlacementAndLoadBalancing, PlbConfig, Snapshot
from plb.errors import PlbError
from plb.model.documents import Document
from plb.model.move import Move
from workloads.writing import in_one_piece

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


class RebalancerState(msgspec.Struct, forbid_unknown_fields=True):
    """What a rebalancer remembers from run to run."""

    engine: bytes
    """`Snapshot` of its engine."""
    partitions: dict[str, str]
    """The partition of each pod, by namespace and name."""
    reported: list[float]
    """Times of the first and the latest usage, in seconds."""
    evictions: list[float]
    """Times of the evictions of the last 24 hours."""


class Rebalancer:
    """Plans moves for a cluster, round by round.

    Each object of the log goes to `log`. `api` evicts pods; None: no pod is evicted. `most_moves`: largest number of
    moves of a plan, and of evictions in 24 hours. `past_hours`: hours of reports from which on the past decides.
    `state`: file that keeps the state for a restart, None: there is none; a file without a state raises `PlbError`.
    """

    def __init__(
        self,
        log: Callable[[Document], None],
        *,
        api: ApiServer | None = None,
        settings: PlbConfig = SETTINGS,
        most_moves: int = 5,
        past_hours: float = 24.0,
        state: Path | None = None,
    ) -> None:
        """Begin, or go on from the file `state`; `api` None: evict nothing; plans use the past after `past_hours`."""
        self._log, self._api, self._settings = log, api, settings
        self._most_moves, self._past, self._file = most_moves, past_hours * HOUR, state
        self._engine = PlacementAndLoadBalancing(settings)
        self._cluster = KubernetesCluster(settings.metric_names)
        self._evictions: list[float] = []
        """Times of the evictions of the last 24 hours."""
        if state is not None and state.exists():
            self._restore(state)

    def _restore(self, file: Path) -> None:
        """Go on from a state."""
        try:
            state: RebalancerState = decoded(file.read_bytes(), RebalancerState, packed=True)
            snapshot = Snapshot.from_bytes(state.engine)
            self._engine = PlacementAndLoadBalancing.from_snapshot(snapshot, config=self._settings)
        except PlbError as error:
            raise PlbError(f"{file}: not a state that this rebalancer can go on from: {error}") from None
        nodes = [node.name for node in self._engine.nodes]
        self._cluster = KubernetesCluster(self._settings.metric_names, nodes, state.partitions)
        self._cluster.reported, self._evictions = state.reported, state.evictions

    def _save(self) -> None:
        """Write the state, if a file keeps it, so that a whole one is there at every moment."""
        if self._file is not None:
            cluster, engine = self._cluster, self._engine.snapshot().to_bytes()
            state = RebalancerState(engine, cluster.partitions, cluster.reported, self._evictions)
            with in_one_piece(self._file) as file:
                file.write_bytes(ENCODER.encode(state))

    def run(self, observed: Observed, now: float) -> None:
        """Plan moves of a cluster read at `now`, in seconds since 1970, log them, and evict if that was asked for.

        If files tell when pods were measured, the latest of these times counts as now.
        """

        def send(events: Sequence[ClusterEvent]) -> list[str | None]:
            return [self._problem(event, now) for event in events]

        self._plan(observed, self._cluster.tell(observed, now, send))
        self._save()

    def _problem(self, event: ClusterEvent, now: float) -> str | None:
        """Apply an event; return why it is refused, or None."""
        try:
            event.apply(self._engine, event.time(now))
        except PlbError as error:
            self._log({"error": str(error)})
            return str(error)
        return None

    def _plan(self, observed: Observed, now: float) -> None:
        """Plan, log the plan, and carry it out."""
        self._evictions = [time for time in self._evictions if time > now - DAY]
        reported = self._cluster.reported
        past = now - reported[0] if reported else 0.0
        by_past = self._settings.violation_cost is not None and past >= self._past and bool(reported)
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
        """Log a move, evict its pod if there is an API server, and, unless it failed, update `free`, resources by node.

        The scheduler then chooses the node of the new pod.
        """
        pod, requested = self._cluster.pods[move.partition], self._cluster.requests[move.partition]
        outcome, message = "proposed", ""
        if any(amount > free[move.target][name] for name, amount in requested.items()):
            outcome = "no room for what it requests"
        elif self._api is not None:
            status, message = self._api.evict(pod)
            outcome = OUTCOMES.get(status, f"failed with status {status}")
            if outcome == OUTCOMES[201]:
                self._evictions.append(now)
                self._save()  # before the next one, as an end of this process must not make them too many
        if outcome in ("proposed", OUTCOMES[201]):
            free[move.target].subtract(requested)
            free[move.source].update(requested)
        line = {"pod": pod.metadata.key, "from": move.source, "to": move.target, "reason": str(move.reason)}
        self._log({**line, "outcome": outcome, **({"message": message} if message else {})})
