"""The record of a run: interruptions of tenants, moves, upgrades and violations, as tables and totals at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import polars as pl

from cluster.simulation.run_tables import (
    BALANCING,
    EXTENSION_TERMS,
    FAULT,
    PLACEMENT,
    UPGRADE,
    VIOLATION,
    Amount,
    ApplicationTotals,
    Count,
    RunTotals,
    frame_of,
    frame_of_rows,
)
from cluster.simulation.tenant_arrivals import TenantSequence
from cluster.simulation.violations import NodeShortage, ViolationOutcome
from plb import Node
from plb.array_types import Float, Int
from plb.model.move import Move, MoveKind, Phase
from plb.model.outcome import Unplaced
from plb.model.plan import Energy, Plan

CAUSES = {"capacity": VIOLATION, "eviction": PLACEMENT, "new replica": PLACEMENT, "upgraded": UPGRADE}
"""Cause of a move by its rule; any other rule is its own cause."""


@attrs.define(eq=False)
class MoveRecord:
    """A move of a replica between nodes, under way or ended."""

    started: int
    """When the move started, in seconds since the start."""
    move: Move
    """The engine's move."""
    copied_gb: float
    """Data to copy, GB."""
    ended: int | None = None
    """When the move ended, in seconds since the start; None until then."""
    outcome: str = "under way"
    """``"completed"``, ``"departed"`` (the tenant left first), ``"failed"`` (a node was lost) or ``"under way"``."""

    @property
    def cause(self) -> str:
        """One of the causes of `cluster.simulation.run_tables`, or the rule behind the move."""
        reason = self.move.reason
        return BALANCING if reason.phase is Phase.BALANCING else CAUSES.get(reason.rule, reason.rule)

    @property
    def why(self) -> str:
        """The reason in words."""
        reason = self.move.reason
        return f"node {reason.node} went down" if reason.rule == FAULT else str(reason)

    @property
    def is_failover(self) -> bool:
        """Whether it is a failover: every move except moves of balancing."""
        return self.move.reason.phase is not Phase.BALANCING


@attrs.define(eq=False)
class UpgradeRecord:
    """A step of an upgrade: one domain that is upgraded or rolled back."""

    upgrade: int
    """Number of the upgrade, from 0."""
    domain: str
    """The upgrade domain."""
    begin: int
    end: int | None = None
    """Seconds since the start; `end` is None until the step ends."""
    rolls_back: bool = False
    """Whether the domain returns to its previous version."""
    outcome: str = "under way"
    """``"healthy"``, ``"unhealthy"``, ``"unsafe"`` (a tenant would have lost its quorum for too long) or ``"under
    way"``.
    """


SLOWEST_PLANS = 20
"""Number of plans whose seconds are kept."""


@attrs.frozen
class SlowPlan:
    """The duration of a plan."""

    plan: Count
    """Its row in the run's table of plans, from 0."""
    seconds: Amount
    """Wall-clock seconds, without compilation."""


@attrs.frozen(eq=False)
class RunSummary:
    """The figures of one run of one policy."""

    policy: str
    """Name of the policy."""
    repeat: int
    """Number of the repeat, from 0."""
    totals: Mapping[str, Any]
    """Figures of the run, without timings, as in ``summary.json``."""
    timings: Mapping[str, float]
    """Wall-clock seconds by part and in ``"total"``, without compilation; not reproducible."""
    slowest: tuple[SlowPlan, ...]
    """The slowest plans, the slowest first; not reproducible."""
    complete: bool
    """False if the run was interrupted; tables and totals then end at the interruption."""

    @property
    def days(self) -> float:
        """Simulated days."""
        return float(self.totals["simulated_seconds"]) / 86400.0

    def figure(self, name: str) -> float:
        """Return a figure by name: one of `totals`, or ``"wall_seconds"``, the total of `timings`.

        The mean of an extension term is ``"extension_terms.NAME"``.
        """
        if name.startswith(EXTENSION_TERMS):
            return float(self.extension_terms[name.removeprefix(EXTENSION_TERMS)])
        return float(self.timings["total"] if name == "wall_seconds" else self.totals[name])

    @property
    def extension_terms(self) -> Mapping[str, float]:
        """Means over time of the extension terms, by name, without their weights."""
        means: Mapping[str, float] = self.totals.get("extension_terms", {})
        return means


@attrs.frozen(eq=False)
class RunResult(RunSummary):
    """The result of one run of one policy: a `RunSummary` with tables."""

    tables: Mapping[str, pl.DataFrame]
    """Data frames by name (see `cluster.simulation.run_tables`)."""


class Recorder:
    """Collects the events of a run.

    `capacity`: (H, R), infinite where a node has none; `metering_seconds`: interval of the meterings;
    `extension_terms`: names of the terms of the policy. Times are seconds since the start, and tenants are rows of
    `sequence`.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        metric_names: Sequence[str],
        capacity: Float,
        sequence: TenantSequence,
        metering_seconds: int,
        extension_terms: Sequence[str] = (),
    ) -> None:
        """Begin without records; `capacity`: (H, R) in the order of `nodes` and `metric_names`."""
        self._nodes = tuple(nodes)
        self.node_names, self.metric_names = tuple(node.name for node in nodes), tuple(metric_names)
        self.capacity, self._sequence, self._metering_seconds = capacity, sequence, metering_seconds
        self._extension_terms = tuple(extension_terms)
        tenants = len(sequence.arrival)
        self.availability = Availability()
        """Interruptions of tenants."""
        self.quorum_losses = self.node_faults = 0
        """Losses of a quorum, and faults of nodes, so far."""
        self.violations_reported = 0
        """Violations by the reported loads so far."""
        self.node_events: list[tuple[int, str, bool, str]] = []
        """Time, node, whether it goes down, and cause of each event of a node."""
        self.upgrades: list[UpgradeRecord] = []
        self._scalings: list[tuple[Any, ...]] = []
        """Rows of the table of scalings."""
        self.waiting = np.zeros(tenants, np.int64)
        """(T,) seconds until a quorum of the replicas of each tenant was first placed."""
        self.failovers = np.zeros(tenants, np.int64)
        """(T,) failovers of the replicas of each tenant, with its further partitions."""
        self.refused = np.zeros(tenants, np.bool_)
        """(T,) whether a replica of each tenant could not be placed at its arrival."""
        self.moves: list[MoveRecord] = []
        self._load_times: list[int] = []
        self._loads: list[Float] = []
        """(H, R) load of all nodes at each of `_load_times`."""
        self._shortages: list[tuple[Any, ...]] = []
        self._refusals: list[tuple[Any, ...]] = []
        self._plans: list[tuple[Any, ...]] = []
        """Rows of the tables of shortages, refusals and plans."""
        self._plan_seconds: list[float] = []
        """Wall-clock seconds of each plan."""
        self._outcomes: dict[ViolationOutcome, dict[tuple[int, int], bool]] = {
            outcome: {} for outcome in ViolationOutcome
        }
        """Whether the shortages are avoidable, by outcome, then by time and node."""

    def load(self, now: int, metered: Float) -> None:
        """Record the load of all nodes at a metering, (H, R)."""
        self._load_times.append(now)
        self._loads.append(metered)

    def shortages(self, now: int, shortages: Sequence[NodeShortage]) -> None:
        """Record the shortages of a metering."""
        for shortage in shortages:
            names = self.node_names[shortage.node], self.metric_names[shortage.metric]
            loads = shortage.standing, shortage.departing, shortage.threshold
            self._shortages.append((now, *names, *loads, shortage.outcome.value, shortage.avoidable))
            avoidable, time_and_node = self._outcomes[shortage.outcome], (now, shortage.node)
            avoidable[time_and_node] = avoidable.get(time_and_node, True) and shortage.avoidable

    def plan(self, now: int, occasion: str, plan: Plan, seconds: float) -> None:
        """Record a plan for `occasion`: its size, its search, its energies and its wall-clock seconds."""
        self._plan_seconds.append(seconds)
        counts = plan.proposals
        overview = (now, occasion, len(plan.moves), len(plan.unplaced), plan.end_reason)
        search = (counts.generated, counts.scored, counts.reached_monte_carlo, counts.accepted)
        before, after = plan.energy_before, plan.energy_after
        extension_terms = (
            energy.extension_terms.get(term, 0.0) for term in self._extension_terms for energy in (before, after)
        )
        self._plans.append((*overview, *search, *_energies(before), *_energies(after), *extension_terms))

    def refusal(self, now: int, tenant: int, attempt: int, unplaced: Unplaced, *, arrives: bool) -> None:
        """Record that a replica could not be placed at attempt number `attempt`; `arrives`: its tenant arrives now."""
        self.refused[self._sequence.owner[tenant]] |= arrives
        why = json.dumps(dict(unplaced.ruled_out), sort_keys=True)
        role = unplaced.role.name.lower()
        self._refusals.append((now, unplaced.partition, role, attempt, why, unplaced.nodes))

    def move(self, record: MoveRecord, tenant: int) -> None:
        """Record the start of a move of a tenant's replica."""
        self.moves.append(record)
        self.failovers[self._sequence.owner[tenant]] += record.is_failover

    def scaling(self, now: int, partition: str, mechanism: str, before: int, after: int, load: float) -> None:
        """Record that `mechanism`, instances or partitions, scales a tenant from `before` to `after` at mean `load`."""
        self._scalings.append((now, partition, mechanism, before, after, load))

    def failover(self, now: int, move: Move, tenant: int) -> None:
        """Record an immediate failover: a secondary becomes the primary, or a replica restarts on another node."""
        self.move(MoveRecord(now, move, 0.0, now, "completed"), tenant)

    def result(
        self,
        policy: str,
        repeat: int,
        now: float,
        timings: dict[str, float],
        *,
        complete: bool,
        applications: Mapping[str, ApplicationTotals] | None = None,
    ) -> RunResult:
        """Return the tables and totals up to `now`; `applications`: totals of the use of each application, by name.

        `timings`: wall-clock seconds by part; `complete`: whether the run was not interrupted.
        """
        names = self._sequence.traces.tenant_names().tolist()
        rows = {
            "nodes": [
                (node.name, f"fd:/{'/'.join(node.fault_domain_path)}", node.upgrade_domain_name) for node in self._nodes
            ],
            "shortages": self._shortages,
            "moves": [_move_row(record) for record in self.moves],
            "refusals": self._refusals,
            "plans": self._plans,
            "node_events": self.node_events,
            "scalings": self._scalings,
            "upgrades": [attrs.astuple(record) for record in self.upgrades],
            "interruptions": [
                (names[interruption.tenant], interruption.begin, interruption.end, interruption.cause)
                for interruption in self.availability.interruptions
            ],
        }
        tables = {
            name: frame_of_rows(name, policy, repeat, table_rows, self._extension_terms)
            for name, table_rows in rows.items()
        }
        tables["node_load"] = self._node_load(policy, repeat)
        downtime = self.availability.downtime(
            self._sequence.arrival, self._sequence.departure, self._sequence.owner, now
        )
        tables["tenants"] = self._tenants(policy, repeat, now, downtime)
        totals = self._totals(now, downtime, tables["plans"], applications or {})
        slowest_first = np.argsort(-np.array(self._plan_seconds), kind="stable")[:SLOWEST_PLANS]
        slowest = tuple(SlowPlan(plan, self._plan_seconds[plan]) for plan in slowest_first.tolist())
        return RunResult(policy, repeat, totals.as_json(), timings, slowest, complete, tables)

    def _totals(
        self, now: float, downtime: Float, plans: pl.DataFrame, applications: Mapping[str, ApplicationTotals]
    ) -> RunTotals:
        """Return the figures of ``summary.json`` up to `now`; `downtime`: (T,) seconds; `plans`: the table of plans."""
        failovers = [record for record in self.moves if record.is_failover]
        causes = Counter(record.cause for record in failovers)
        return RunTotals(
            simulated_seconds=now,
            tenants=int((self._sequence.is_tenant & (self._sequence.arrival <= now)).sum()),
            **self._totals_of_shortages(),
            failovers=len(failovers),
            failovers_by_cause=dict(sorted(causes.items())),
            moves=len(self.moves),
            moves_by_cause=dict(sorted(Counter(record.cause for record in self.moves).items())),
            swaps=sum(record.move.kind is MoveKind.SWAP for record in self.moves),
            copied_gb=float(sum(record.copied_gb for record in self.moves)),
            placement_failures=int(self.refused.sum()),
            refusals=len(self._refusals),
            downtime_seconds=float(downtime.sum()),
            availability=self._availability(now, downtime),
            quorum_losses=self.quorum_losses,
            node_faults=self.node_faults,
            upgraded_domains=sum(record.outcome == "healthy" and not record.rolls_back for record in self.upgrades),
            rolled_back_domains=sum(record.rolls_back for record in self.upgrades),
            scale_outs=sum(after > before for *_, before, after, _ in self._scalings),
            scale_ins=sum(after < before for *_, before, after, _ in self._scalings),
            waiting_seconds=int(self.waiting[self._sequence.is_tenant].sum()),
            plans=len(plans),
            proposals_drawn=int(plans["drawn"].sum()),
            proposals_scored=int(plans["scored"].sum()),
            applications=applications,
            extension_terms={
                term: _mean_after_plans(plans, f"{EXTENSION_TERMS}{term}", now) for term in self._extension_terms
            },
        )

    def _totals_of_shortages(self) -> dict[str, Any]:
        """Return the figures of shortages; a step is a metering time and a node."""
        steps = {outcome: len(places) for outcome, places in self._outcomes.items()}
        avoidable = {outcome: sum(places.values()) for outcome, places in self._outcomes.items()}
        violation, unresolved = ViolationOutcome.VIOLATION, ViolationOutcome.UNRESOLVED
        return {
            "violations": steps[violation],
            "violations_avoidable": avoidable[violation],
            "violations_unavoidable": steps[violation] - avoidable[violation],
            "violations_reported": self.violations_reported,
            "violation_rows": sum(outcome == violation.value for *_, outcome, _ in self._shortages),
            "shortages_covered": steps[ViolationOutcome.COVERED],
            "shortages_unresolved": steps[unresolved],
            "shortages_unresolved_unavoidable": steps[unresolved] - avoidable[unresolved],
            "violated_node_minutes": sum(steps.values()) * self._metering_seconds / 60.0,
        }

    def _availability(self, now: float, downtime: Float) -> float | None:
        """Return the share of all stays up to `now` for which tenants were available; None without any stay.

        `downtime`: (T,) seconds.
        """
        stays = np.clip(np.minimum(self._sequence.departure, now) - self._sequence.arrival, 0, None)
        stay = stays[self._sequence.is_tenant].sum()
        return 1.0 - float(downtime.sum()) / float(stay) if stay > 0 else None

    def _node_load(self, policy: str, repeat: int) -> pl.DataFrame:
        """Return the table of the loads of all nodes at all meterings."""
        nodes, metrics, times = len(self.node_names), len(self.metric_names), len(self._load_times)
        loads = np.array(self._loads).reshape(times, nodes, metrics)
        share = np.full(loads.shape, np.nan)
        np.divide(loads, self.capacity, out=share, where=np.isfinite(self.capacity) & (self.capacity > 0))
        columns = {
            "time_s": np.repeat(np.array(self._load_times, np.int64), nodes * metrics),
            "node": np.tile(np.repeat(np.array(self.node_names, np.object_), metrics), times),
            "metric": np.tile(np.array(self.metric_names, np.object_), times * nodes),
            "load": loads.ravel(),
            "share": pl.Series(share.ravel()).fill_nan(None),
        }
        return frame_of("node_load", policy, repeat, columns)

    def _tenants(self, policy: str, repeat: int, now: float, downtime: Float) -> pl.DataFrame:
        """Return the table of the tenants that arrived up to `now`; `downtime`: (T,) seconds."""
        sequence, traces = self._sequence, self._sequence.traces
        rows = np.flatnonzero(sequence.is_tenant & (sequence.arrival <= now))
        downtime, arrival, departure = downtime[rows], sequence.arrival[rows], sequence.departure[rows]
        stay = np.minimum(departure, now) - arrival
        availability = np.divide(stay - downtime, stay, out=np.full(len(rows), np.nan), where=stay > 0)
        columns = {
            "tenant": traces.tenant_names()[rows].tolist(),
            "tenant_class": traces.class_names()[rows].tolist(),
            "replicas": traces.replicas[rows],
            "arrival_s": arrival,
            "departure_s": departure,
            "refused": self.refused[rows],
            "waiting_s": self.waiting[rows],
            "downtime_s": downtime,
            "availability": pl.Series(availability).fill_nan(None),
            "failovers": self.failovers[rows],
        }
        return frame_of("tenants", policy, repeat, columns)


@attrs.define
class Interruption:
    """A time during which a tenant is unavailable."""

    tenant: int
    """Row of the tenant."""
    begin: int
    end: float | None
    """Seconds since the start; `end` is None until it ends."""
    cause: str
    """One of `cluster.simulation.run_tables`, or the constraint that made the primary move."""


class Availability:
    """The interruptions of all tenants; a tenant is a row of the sequence, and times are seconds since the start."""

    def __init__(self) -> None:
        self.interruptions: list[Interruption] = []
        self._open: dict[int, Interruption] = {}
        """The interruptions without a known end, by row of the tenant."""

    def interrupt(self, tenant: int, now: int, seconds: float, cause: str) -> None:
        """Record that a tenant is unavailable for some seconds from `now` on because of `cause`."""
        if seconds > 0:
            self.interruptions.append(Interruption(tenant, now, now + seconds, cause))

    def lose(self, tenant: int, now: int, cause: str) -> bool:
        """Record that `cause` makes a tenant unavailable from `now` on; return whether it was available before."""
        if tenant in self._open:
            return False
        self._open[tenant] = Interruption(tenant, now, None, cause)
        self.interruptions.append(self._open[tenant])
        return True

    def regain(self, tenant: int, now: int, seconds: float = 0.0) -> None:
        """Record that a tenant is available again, `seconds` from now."""
        open_interruption = self._open.pop(tenant, None)
        if open_interruption is not None:
            open_interruption.end = now + seconds

    def is_lost(self, tenant: int) -> bool:
        """Return whether a tenant is unavailable with no known end."""
        return tenant in self._open

    def downtime(self, arrival: Int, departure: Int, owner: Int, now: float) -> Float:
        """Return the seconds for which each tenant, or a partition of it, was unavailable up to `now`, (T,).

        `arrival`, `departure`: (T,) seconds since the start; `owner`: (T,) the tenant of each row.
        """
        seconds = np.zeros(len(arrival))
        by_tenant: dict[int, list[Interruption]] = {}
        for interruption in self.interruptions:
            by_tenant.setdefault(int(owner[interruption.tenant]), []).append(interruption)
        for tenant, interruptions in by_tenant.items():
            seconds[tenant] = _union(interruptions, float(arrival[tenant]), min(float(departure[tenant]), now))
        return seconds


def _union(interruptions: Iterable[Interruption], first: float, last: float) -> float:
    """Return the seconds of the union of interruptions between the times `first` and `last`."""
    seconds, counted_to = 0.0, first
    for interruption in sorted(interruptions, key=lambda span: span.begin):
        begin, end = (
            max(float(interruption.begin), counted_to),
            min(last if interruption.end is None else interruption.end, last),
        )
        if end > begin:
            seconds += end - begin
            counted_to = end
    return seconds


def _energies(energy: Energy) -> tuple[float, ...]:
    """Return an energy's values in the order of `cluster.simulation.run_tables.TERMS`."""
    risk = (energy.expected_failovers, energy.expected_overload)
    return (energy.total, energy.movement, energy.imbalance, energy.fragmentation, *risk)


def _mean_after_plans(plans: pl.DataFrame, term: str, now: float) -> float:
    """Return the mean over time of an energy after the last plan, from the first plan up to `now`; 0 without plans."""
    values = plans[f"{term}_after"].to_numpy()
    seconds = np.diff(plans["time_s"].to_numpy(), append=now)
    if not seconds.any():
        return float(values[-1]) if len(values) else 0.0
    return float(np.average(values, weights=seconds))


def _move_row(record: MoveRecord) -> tuple[Any, ...]:
    """Return the row of a move in the table of moves."""
    move, reason = record.move, record.move.reason
    what_moves = (record.started, move.partition, move.role.name.lower(), move.kind.value, move.source, move.target)
    why_it_moves = (reason.phase.value, record.cause, reason.rule, record.is_failover, reason.metric)
    return (*what_moves, *why_it_moves, record.copied_gb, record.ended, record.outcome, record.why)
