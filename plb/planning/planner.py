"""Makes the plans of an engine: its searches, and the data that are kept between plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import attrs
import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import uninterrupted
from plb.engine_extensions import EngineExtensions
from plb.errors import ConflictError
from plb.extensions.configuration import Configuration
from plb.model import Partition
from plb.model.alternatives import Alternatives, NodeScores
from plb.model.move import Phase
from plb.model.outcome import Idle
from plb.model.plan import Plan, merged
from plb.model.rules import Violation
from plb.planning.explanations.diagnosis import Audit
from plb.planning.explanations.omissions import omissions_of
from plb.planning.explanations.what_if import WhatIf, scores_of
from plb.planning.fixed_point import FixedPoint, Occasion
from plb.planning.live.live_state import LiveState
from plb.planning.live.problem import ServiceTables, build_tables, tables_version
from plb.planning.pending_work import Work, WorkToPlace
from plb.planning.phases import PhaseRun
from plb.planning.plan_start import start_of
from plb.planning.refresh import (
    PHASES,
    Refresh,
    allowance_of,
    idle_outcome,
    keep_due,
    left_of_hour,
    note_moves_of,
    place_within,
    plan_without_nodes,
    why_held_back,
)
from plb.planning.rule_priorities import rule_priorities
from plb.planning.scheduler import Action, DomainRecord, Scheduler
from plb.planning.service_domains import ServiceDomain, ServiceDomains, number_of_replicas, waits_for_upgrade
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import HistoricalSimulation, estimator_of, reports_kept
from plb.search.budget import Budget
from plb.search.extensions import Extensions, extensions_of
from plb.search.transactions import NO_PLACES
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.demand_sources import demand_forecast_of, settings_of_forecast
from plb.state.partition_updates import supposed
from plb.state.replica_table import NO_SLOT
from plb.state.role_slots import fill_every_node, slots_of
from plb.state.topology import Topology, present_topology
from plb.validation import check_number

LATEST = float(2**53)
"""Seconds; times of reports are whole up to this."""
NOT_ASKED = dict.fromkeys(Phase, Idle.NOT_ASKED)
"""Why phases do not run if a host requests others."""


class Planner:
    """Makes the plans of one engine. It does not change the descriptions of the host."""

    def __init__(
        self, state: ClusterState, *, seed: int, history: DemandHistory | None, extensions: EngineExtensions
    ) -> None:
        self.state = state
        self.seed = seed
        self.extensions = extensions
        self._history = history
        self.demand_forecast = demand_forecast_of(state.config, history, seed)
        self.scheduler = Scheduler(state.config)
        self.batch = DomainRecord()
        """The record of all services together, for refreshes that run all stages that are due."""
        self.domains = ServiceDomains(state)
        self.now = 0.0
        """Time of the latest search, in seconds."""
        self.searches = 0
        """Number of searches so far: each has its own random streams."""
        self._fixed_point = FixedPoint()
        self._live = LiveState(state, self._fixed_point)
        self._has_advanced = False  # whether a time was given without a search
        self._topology: Topology | None = None
        self._tables: dict[int | None, ServiceTables] = {}

    @uninterrupted
    def reseed(self, seed: int) -> None:
        """Change the seed. Searches with another one may find what the ones before did not, so they run again."""
        if seed != self.seed:
            self.seed = seed
            self._fixed_point.forget()

    def time(self, now: float | None) -> float:
        """Return the time of a call in seconds: `now`, or if None, the time of the latest search."""
        return self.now if now is None else check_number("engine", "now", now, low=-np.inf)

    def time_of_report(self, at: float | None) -> float:
        """Return the time in seconds of loads that a host reports: `at`, or if None, of the latest call with a time."""
        if at is None:
            return self.now
        time = check_number("report_loads", "at", at, low=-LATEST, high=LATEST)
        has_past = self.searches > 0 or self._has_advanced or self.state.rows.past.newest != NO_SLOT
        if time < self.now and (has_past or self.now != 0.0):
            raise ConflictError(f"report_loads: at = {at!r} is before the latest call, at {self.now!r}")
        return time

    @uninterrupted
    def advance(self, now: float) -> None:
        """Do what a plan at the time `now` does to the described cluster, without a plan."""
        self.fill_every_node()
        self._enter(now)
        self.now, self._has_advanced = now, True

    def enter_slot(self, now: float, rows: Int) -> None:
        """Add the loads of `rows`, (m,), to the time slot of `now`, from which some estimators learn the demand."""
        self._enter(now, rows)
        self.now = now

    def _enter(self, now: float, rows: Int | None = None) -> None:
        """Add the loads of `rows`, (m,), None: of all, to the time slot of `now`; if that counts, plans are stale."""
        if self.demand_forecast.enter(self.state.rows, now, rows):
            self._fixed_point.forget()  # it follows loads of rows, but not the estimator's columns

    # what follows from the state

    def topology(self) -> Topology:
        """Return the topology of the present nodes: their domains, limits and availability."""
        self._topology = present_topology(self.state, self._topology)
        return self._topology

    def problem(self, now: float, domain: ServiceDomain | None = None) -> Problem:
        """Return the arrays of a search over a domain, or over all services, at the time `now`."""
        topology = self.topology()
        self._live.update(topology, self._service_tables(None), self.demand_forecast, now)
        if domain is None:
            return self._live.problem
        return self._live.of_domain(topology, self._service_tables(domain), self.demand_forecast)

    def start(self, problem: Problem) -> Solution:
        """Return the solution of `problem` with every replica on its present node; searches have to restore it."""
        return self._live.start(problem)

    def _service_tables(self, domain: ServiceDomain | None) -> ServiceTables:
        """Return the tables of the services of a domain, None: of all, for the present nodes and services."""
        topology = self.topology()
        key = None if domain is None else domain.key
        tables, tables_of_all = self._tables.get(key), self._tables.get(None)
        if tables is None or tables.version != tables_version(self.state, topology):
            services = self.state.living_indices() if domain is None else domain.services
            limits = None if tables_of_all is None else tables_of_all.limits
            tables = self._tables[key] = build_tables(self.state, topology, services, limits)
        return tables

    def forget_service(self, service: int) -> None:
        """Forget the removed service with this index, and the service domain of which it was the first service."""
        self.scheduler.forget_service(service)
        self._fixed_point.forget_domain(service)
        self._tables.pop(service, None)

    def violations(self, *, soft: bool) -> tuple[Violation, ...]:
        """Return the violations of the present cluster; `soft`: also of rules that are not hard."""
        if not self.state.nodes:
            return ()
        problem = self.problem(self.now)
        solution = self.start(problem)
        audit = Audit(self.state, problem, solution, rule_priorities(self.state.config))
        return (*audit.violations(self._extensions(self.now), soft=soft), *omissions_of(audit))

    def violation_probabilities(self, now: float, partition: str | None, within: float | None) -> Float:
        """Return the probability of a violation of each node, (N,), at the time `now`.

        `partition`: one of which a missing replica is added to each node, or None; `within`: horizon in seconds, None:
        the estimator's. Raise `ConflictError` if the partition misses no replica, or the estimator has no other
        horizon.
        """
        if within is not None:
            check_number("engine", "within", within, low_open=True)
            if not isinstance(estimator_of(self.state.config.estimator), HistoricalSimulation):
                raise ConflictError(f"engine: within = {within!r} needs the estimator historical-simulation")
        row = NOWHERE if partition is None else self._next_missing(partition)
        problem = self.problem(now)
        solution = self.start(problem)
        probabilities = self.demand_forecast.probabilities(self.state, problem, solution, row, within)
        if probabilities is not None:
            return probabilities
        configuration = Configuration(problem, solution)
        if row != NOWHERE:
            return configuration.violation_probabilities_with(row)
        return configuration.violation_probabilities

    def _next_missing(self, partition: str) -> int:
        """Return the row of the first replica that a partition misses; raise `ConflictError` if it misses none."""
        rows = self.state.partition(partition).rows
        missing = [row for row in rows if self.state.rows.node[row] == NOWHERE]
        if not missing:
            raise ConflictError(f"partition {partition}: misses no replica")
        return missing[0]

    def score(self, partition: str, now: float) -> NodeScores:
        """Return the scores of all nodes at the time `now` for the first missing replica of a partition."""
        row = self._next_missing(partition)
        problem = self.problem(now, self.domains.unit_of(self.state.partition(partition).service))
        solution, extensions = self.start(problem), self._extensions(now)
        if extensions is not None and extensions.may_leave_changes:
            solution = extensions.journalled(solution.copy())
        return scores_of(self.state, problem, solution, row, extensions)

    @uninterrupted
    def score_of_new(self, partition: Partition, loads: Mapping[str, float], now: float) -> NodeScores:
        """Return the scores at `now` for a replica, with `loads` by metric, of a partition that the state lacks."""
        try:
            with supposed(self.state, partition, loads):
                return self.score(partition.name, now)
        finally:
            self.problem(now)  # versions are as before, so nothing may remember the versions of the context

    def alternatives(self, partition: str, now: float) -> tuple[Alternatives, ...]:
        """Return the alternatives at `now` of the replicas of a partition; the state of the engine is not changed."""
        record, state = self.state.partition(partition), self.state
        if not state.nodes:
            return ()
        on_every_node = state.services[record.service].on_every_node
        rows = [row for row in slots_of(state, record) if not (on_every_node and state.rows.node[row] == NOWHERE)]
        problem = self.problem(now, self.domains.unit_of(record.service))
        solution, extensions = self.start(problem).copy(), self._extensions(now)
        solution = solution if extensions is None else extensions.journalled(solution)
        what_if = WhatIf(state, problem, solution, extensions)
        return tuple(what_if.of(row) for row in rows)

    def _work_to_place(self, names: Sequence[str] | None, now: float) -> WorkToPlace:
        """Return the work for placement at `now` of the partitions with these names, or None: of all."""
        related = self.problem(now).related
        return WorkToPlace(self.state, names, self._live.work.unfinished, related=related)

    @uninterrupted
    def fill_every_node(self) -> None:
        """Update the slots of services on every node to the present nodes."""
        if self.state.service_table.on_every_node.any():
            fill_every_node(self.state, self.topology())

    def search(
        self,
        domain: ServiceDomain | None,
        now: float,
        budget: Budget,
        earlier_runs: Sequence[PhaseRun],
        swaps_under_way: int | None = None,
    ) -> PhaseRun:
        """Return the search of a domain at its start at the time `now`.

        `earlier_runs`: searches of other domains for the same plan, whose moves count; `swaps_under_way`: before this
        plan, None: not counted yet.
        """
        seed = np.random.SeedSequence([self.seed, self.searches + 1])
        problem = self.problem(now, domain)
        extensions = self._extensions(now)
        solution = self.start(problem)
        if extensions is not None and extensions.may_leave_changes:  # users' code may not undo what it tries
            solution = extensions.journalled(solution.copy())
        elif solution is self._live.solution:
            self._live.lend()
        work, waits = self._live.work, waits_for_upgrade(self.state, domain)
        run = PhaseRun(self.state, problem, solution, seed, budget, work, extensions, waits_for_upgrade=waits)
        run.deduct(earlier_runs)
        if self.state.config.throttles_cluster:
            rows = self.state.rows
            builds = int(np.count_nonzero(rows.building & (rows.node != NOWHERE)))
            run.deduct_under_way(builds, self._swaps_under_way(now) if swaps_under_way is None else swaps_under_way)
        self.now, self.searches = now, self.searches + 1
        return run

    def _swaps_under_way(self, now: float) -> int:
        """Return the number of swaps under way at the time `now`."""
        return self.scheduler.swaps_under_way(self.state.partition_version, now)

    def _take_back(self, run: PhaseRun) -> None:
        """Take the solution back from a search, if it was lent; its plan has been made."""
        if self._live.is_lent:
            if run.solution is self._live.solution:  # else roles have changed in a copy
                run.undo()
            self._live.take_back()

    def _extensions(self, now: float) -> Extensions | None:
        """Return copies of the extensions for one plan at the time `now`, or None if the engine has none."""
        return extensions_of(self.state, self.extensions, now, self.demand_forecast.history)

    @uninterrupted
    def configure(self, extensions: EngineExtensions) -> None:
        """Replace the settings and extensions; if settings of sampling change, demand is sampled again."""
        config = extensions.config
        if settings_of_forecast(config) != settings_of_forecast(self.state.config):
            self.demand_forecast = demand_forecast_of(config, self._history, self.seed)
            self.state.rows.keep_reports(reports_kept(estimator_of(config.estimator)))
        self.extensions = extensions
        self.state.config = self.scheduler.config = config

    # plans

    def refresh(self, now: float, budget: Budget) -> Plan:
        """Return the plan of a refresh at `now`: all phases that are due, or one action for each service domain."""
        if self.state.config.one_action_per_refresh:
            return self._refresh_domains(now, budget)
        due = self.scheduler.stages_due(self.batch, now)
        switched_off = {phase for stage, phase in PHASES.items() if self.scheduler.is_switched_off(stage)}
        phases = [PHASES[stage] for stage in due if PHASES[stage] not in switched_off]
        idle = {phase: Idle.SWITCHED_OFF if phase in switched_off else Idle.NOT_DUE for phase in Phase}
        record_before = self.batch
        try:
            self.batch = record_before.copied()
            self.batch.last_run.update(dict.fromkeys(due, now))
            finish = partial(keep_due, self.batch, record_before)
            return self.run(phases, now, budget, None, idle=idle, finish=finish)
        except BaseException:
            self.batch = record_before
            raise

    def run(
        self,
        phases: Collection[Phase],
        now: float,
        budget: Budget,
        names: Sequence[str] | None,
        *,
        start: Plan | None = None,
        idle: Mapping[Phase, Idle] = NOT_ASKED,
        finish: Callable[[Plan], None] | None = None,
    ) -> Plan:
        """Run `phases` for each service domain at the time `now`, and return the plan.

        `names`: partitions to place, None: all; `start`: from which balancing goes on; `idle`: why other phases idle;
        `finish`: called with a plan that was searched, while an error still leaves everything as it was.
        """
        self.fill_every_node()
        for name in names or ():
            self.state.partition(name)  # raises before anything is changed
        places = NO_PLACES if start is None else start_of(self.state, start)
        if not self.state.nodes:
            reasons = {phase: Idle.NO_NODES if phase in phases else idle[phase] for phase in Phase}
            return self._plan_without_nodes(self.domains.units(), now, names, reasons)
        runs: list[PhaseRun] = []
        plans: list[Plan] = []
        with self._restored_after_error(), self._in_slot(now):
            begun = budget.begun()
            work = self._work_to_place(names, now)
            domains = self.domains.units()
            for number, domain in enumerate(domains):
                run = self.search(domain, now, begun.share(len(domains) - number), runs)
                work_of_domain = work.of(domain)
                run.start = (
                    places.of(np.isin(self.state.rows.service[places.rows], domain.services)) if domain else places
                )
                with run.kernel_errors():
                    occasion = Occasion.of(
                        self.state, self.scheduler, domain, budget, now, is_refresh=idle is not NOT_ASKED
                    )
                    self._run_phases(run, phases, work_of_domain, occasion, plans)
                    for phase in Phase:
                        run.log.note_idle(phase, idle[phase])
                    plans.append(run.plan(work_of_domain.missing if Phase.PLACEMENT in phases else [], domain))
                runs.append(run)
                self._take_back(run)
            plan = self._with_renewed(merged(plans))
            if finish is not None:
                finish(plan)
            return plan

    def _plan_without_nodes(
        self,
        domains: Sequence[ServiceDomain | None],
        now: float,
        names: Sequence[str] | None,
        idle: Mapping[Phase, Idle],
        action: Action | None = None,
    ) -> Plan:
        """Return the plan at `now` of `domains` without nodes: no phase runs, and missing replicas are unplaced.

        `names`: partitions to place, None: all; `idle`: why each phase does not run; `action`: of a refresh, or None.
        """
        work = self._work_to_place(names, now)
        is_asked = idle[Phase.PLACEMENT] is Idle.NO_NODES
        missing = [work.of(domain).missing if is_asked else [] for domain in domains]
        outcomes = [idle_outcome(self.state, domain, idle, action) for domain in domains]
        plans = [
            plan_without_nodes(self.state, *missing_and_outcome)
            for missing_and_outcome in zip(missing, outcomes, strict=True)
        ]
        plan, self.now = merged(plans), now
        if action is not None:
            plan = attrs.evolve(plan, actions={outcome.domain: action.value for outcome in plan.outcomes})
        return self._with_renewed(plan)

    @contextmanager
    def _in_slot(self, now: float) -> Iterator[None]:
        """Enter the slot of the time `now` for an estimator that keeps slots; leave it again after an error."""
        forecast, table = self.demand_forecast, self.state.rows
        newest = table.past.newest
        try:
            self._enter(now)
            yield
        except BaseException:
            if table.past.newest != newest:
                forecast.leave(table)
            raise

    def _run_phases(
        self, run: PhaseRun, phases: Collection[Phase], work: Work, occasion: Occasion, earlier: Sequence[Plan]
    ) -> None:
        """Run `phases` on one service domain: placement, then repair, then balancing if these have moved nothing.

        `earlier`: the plans of the service domains before it.
        """
        moves_left, moves_made = left_of_hour(self.scheduler, earlier, self.now), 0
        if Phase.PLACEMENT in phases:
            run.searches_after = int(Phase.REPAIR in phases)
            allowance = allowance_of(Phase.PLACEMENT, self.state, self.scheduler, earlier, self.now)
            moves_made = place_within(run, work, allowance, moves_left)
        run.limit_moves(None if moves_left is None else moves_left - moves_made + run.moves_so_far)
        if Phase.REPAIR in phases:
            run.searches_after = int(Phase.BALANCING in phases and not run.changed)
            self._fixed_point.search(Phase.REPAIR, run, occasion)
        run.searches_after = 0
        if Phase.BALANCING in phases and not run.changed:
            self._balance(run, occasion, earlier)
        elif Phase.BALANCING in phases:
            run.log.note_idle(Phase.BALANCING, Idle.AFTER_ANOTHER)

    def _balance(self, run: PhaseRun, occasion: Occasion, earlier: Sequence[Plan]) -> None:
        """Balance one service domain unless throttles or a node event forbid it; moves of plans `earlier` count."""
        allowance = allowance_of(Phase.BALANCING, self.state, self.scheduler, earlier, self.now)
        reason = why_held_back(run, self.scheduler, occasion, allowance, self.now)
        if reason is not None:
            run.log.note_idle(Phase.BALANCING, reason)
        else:
            self._fixed_point.search(Phase.BALANCING, run, attrs.evolve(occasion, allowance=allowance))

    def note_applied(self, plan: Plan) -> None:
        """Count the moves of a plan that is carried out for the throttles, unless its refresh has counted them."""
        if not plan.actions:
            note_moves_of(plan, self.scheduler, self.now)

    @contextmanager
    def _restored_after_error(self) -> Iterator[None]:
        """After an error in a search, put back what it changes here; `LiveState` makes the solution lent to it new."""
        policy = self.extensions.kept_policy()
        now, searches, ends = self.now, self.searches, self._fixed_point.ends()
        scheduled = self.scheduler.copied() if self.state.config.one_action_per_refresh else self.scheduler
        try:
            yield
        except BaseException:
            self.now, self.searches, self.scheduler = now, searches, scheduled
            self._fixed_point.restore(ends)
            self.extensions = attrs.evolve(self.extensions, policy=policy)
            raise

    def _with_renewed(self, plan: Plan) -> Plan:
        """Return a plan with the number of replicas whose expected demand was computed again for it."""
        renewed = self._live.take_renewed()
        return attrs.evolve(plan, renewed=renewed) if renewed else plan

    def _refresh_domains(self, now: float, budget: Budget) -> Plan:
        """Return the plan of at most one action for each service domain at the time `now`."""
        self.fill_every_node()
        if not self.state.nodes:
            reasons, action = dict.fromkeys(Phase, Idle.NO_NODES), Action.NONE_NEEDED
            return self._plan_without_nodes(self.domains.found(), now, None, reasons, action)
        begun = budget.begun()
        work, plans, skipped, actions = self._work_to_place(None, now), [], [], {}
        runs: list[PhaseRun] = []
        replicas = number_of_replicas(self.state)
        swaps_under_way = self._swaps_under_way(now) if self.state.config.throttles_cluster else 0
        with self._restored_after_error(), self._in_slot(now):
            domains = self.domains.found()
            for number, domain in enumerate(domains):
                record = self.scheduler.record(domain.key, now)
                if not self.scheduler.is_under_way(record, self.state.partition_version, now):
                    run = self.search(domain, now, begun.share(len(domains) - number), runs, swaps_under_way)
                    runs.append(run)
                    versions = self.state.versions_of(domain.services)
                    work_of_domain = work.of(domain)
                    refresh = Refresh(
                        self.state, self.scheduler, record, domain, run, work_of_domain, *versions, now, replicas
                    )
                    with run.kernel_errors():
                        plans.append(refresh.plan())
                    action = record.last_action
                else:
                    action = Action.SKIPPED
                    skipped.append(idle_outcome(self.state, domain, dict.fromkeys(Phase, Idle.UNDER_WAY), action))
                actions[self.state.services[domain.key].name] = action.value
            plan = merged(plans)
            plan = attrs.evolve(plan, actions=actions, outcomes=(*plan.outcomes, *skipped))
            return self._with_renewed(plan)
