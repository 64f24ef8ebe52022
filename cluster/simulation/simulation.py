"""A run: a discrete-event simulation of a cluster whose tenants the engine of a policy places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import numpy as np
import simpy

from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_sections import Growth, Scaling
from cluster.simulation.faults import FailoverManager, NodeStates, make_faults
from cluster.simulation.ledger import Ledger, Metering, Oracle, factors
from cluster.simulation.random_streams import stream, stream_seed
from cluster.simulation.recorder import Recorder, RunResult
from cluster.simulation.run_tables import FAULT
from cluster.simulation.services import (
    ApplicationUse,
    EngineOf,
    Services,
    TenantApplications,
    limits_of,
    make_engine,
    metrics_of,
    nodes_of,
)
from cluster.simulation.simulated_cluster import At, Kind, Process, SimulatedCluster
from cluster.simulation.tenancies import PlanExecution, Tenancies, Tenancy
from cluster.simulation.tenant_arrivals import TenantSequence
from cluster.simulation.tenant_pools import Source
from cluster.simulation.upgrades import Drains, RollingUpgrades
from cluster.simulation.violations import classify, count_reported, needs_repair
from plb import MoveKind, Partition, PlacementAndLoadBalancing, Plan, Replica, Role, Unplaced
from plb.array_types import Float, Int
from plb.compiler import working_time

ARRIVAL = "arrival"
"""Occasion of the first placement of a tenant."""
SCALING = "scaling"
"""Occasion of the placement of further instances and partitions."""


class Simulation:
    """One run of one policy: arrivals, departures, metering, faults, upgrades and copies of moving replicas.

    `sequence` has the tenants that `source` offers to the repeat. `progress` is called after each metering with its
    time, in seconds since the start. `engine_of` makes the engine.
    """

    def __init__(
        self,
        scenario: Scenario,
        source: Source,
        sequence: TenantSequence,
        policy: str,
        repeat: int = 0,
        progress: Callable[[float], None] | None = None,
        engine_of: EngineOf = PlacementAndLoadBalancing,
    ) -> None:
        # long because of the attributes, each with its meaning
        cluster, workload, metrics = scenario.cluster, scenario.workload, metrics_of(scenario, source)
        self._began = working_time()
        """Processor time of the process when the run began, in seconds."""
        self._scenario, self._policy, self._repeat = scenario, policy, repeat
        self._sequence, self._progress = sequence, progress
        self._end = round(scenario.run.days * 86400)
        """Seconds since the start at which the run ends."""
        self._interval = cluster.metering_minutes * 60
        """Seconds between two meterings."""
        nodes = nodes_of(cluster, metrics)
        self._node_names = [node.name for node in nodes]
        self._metric_names = [metric.name for metric in metrics]
        self.env = simpy.Environment(initial_time=0)
        engine_seed = stream_seed(scenario.run.seed, "engine", repeat)
        self.engine = make_engine(scenario, source, policy, engine_seed, engine_of)
        applications = TenantApplications.of(scenario.applications, sequence)
        self._services = Services(
            self.engine,
            sequence,
            source.history,
            workload.initial_demand_percentile,
            applications,
            scenario.applications_of(policy),
        )
        self._use = ApplicationUse(applications, len(nodes), self._metric_names)
        self.ledger = Ledger(self.engine, self._node_names, sequence, Oracle.of(sequence.traces, workload))
        capacity, self._threshold = limits_of(cluster, metrics)
        """The second: (H, R) load at which each node is in violation."""
        terms = scenario.extension_names("terms", policy)
        self.recorder = Recorder(nodes, self._metric_names, capacity, sequence, self._interval, terms)
        shared = SimulatedCluster(scenario, self.env, self.engine, self.ledger, self.recorder)
        self._movement = PlanExecution(shared)
        self.nodes = NodeStates(shared, nodes)
        self.tenancies = Tenancies(shared, self._movement)
        self.scaling = AutoScaling(shared, sequence, self.tenancies)
        self.failover = FailoverManager(shared, self.nodes, self.tenancies, self._movement)
        self._node_events = make_faults(scenario, nodes, repeat)
        """The faults to come, by time."""
        rng = stream(scenario.run.seed, "upgrades", repeat)
        drains = Drains(self.tenancies)
        self.upgrades = RollingUpgrades(shared, self.nodes, self.failover, drains, rng, self._replace)
        self._partitions = sequence.traces.tenant_names().tolist()
        """Name of the partition of each row of the sequence."""
        self._waiting: dict[int, int] = {}
        """Attempts to place the missing replicas, by the row of each tenant that misses one."""
        self._growing: list[Growth] = []
        """The growths that are active."""
        self._events_handled = 0
        """Length of `recorder.node_events` at the last repair after a metering."""
        self._last_balancing: int | None = None
        """When the engine last balanced, in seconds since the start; None before the first time."""
        self.timings: dict[str, float] = dict.fromkeys(("placement", "repair", "balancing"), 0.0)
        """Wall-clock seconds of the engine's plans by phase, without compilation."""

    def run(self) -> RunResult:
        """Run to the end, or until Ctrl-C, and return the result, which is incomplete after Ctrl-C."""
        complete = True
        try:
            self.start()
            self.advance(self._end)
        except KeyboardInterrupt:
            complete = False
        now = min(int(self.env.now), self._end)
        self.timings["total"] = working_time() - self._began
        return self.recorder.result(
            self._policy, self._repeat, now, self.timings, complete=complete, applications=self._use.totals()
        )

    def start(self) -> None:
        """Start all processes."""
        for process in self.processes():
            self.env.process(process)
        self.begin()

    def advance(self, seconds: int) -> None:
        """Run until all events up to `seconds`, or up to the end of the run if earlier, have happened."""
        self.env.run(until=min(seconds, self._end) + 1)

    def begin(self) -> None:
        """Admit the tenants that are placed from the start, and report their demand, as no metering precedes."""
        self._report_past()
        standing = np.flatnonzero(self._sequence.stands).tolist()
        for tenant in standing:
            self._admit(tenant)
        if standing:
            metering = self.ledger.meter(self._now)
            self.engine.report_loads(metering.rows, metering.reported)

    # processes

    def processes(self) -> tuple[Process, ...]:
        """Return the processes of the run."""
        processes = (self._arrivals(), self._departures(), self._metering(), self._faults())
        return (*processes, self.upgrades.process(), *map(self._growth, self._scenario.workload.growth))

    def _arrivals(self) -> Process:
        """Admit each tenant at its arrival, except the tenants that are placed from the start."""
        arrival = self._sequence.arrival
        for tenant in np.flatnonzero(~self._sequence.stands & self._sequence.is_tenant).tolist():
            yield At(self.env, int(arrival[tenant]), Kind.ARRIVAL)
            self._admit(tenant)

    def _departures(self) -> Process:
        """Dismiss all partitions of each tenant at its departure."""
        departure, is_tenant = self._sequence.departure, self._sequence.is_tenant
        by_departure = np.argsort(departure, kind="stable")
        for tenant in by_departure[is_tenant[by_departure]].tolist():
            yield At(self.env, int(departure[tenant]), Kind.DEPARTURE)
            for partition_row in self.scaling.partitions_of(tenant):
                self._dismiss(partition_row)

    def _faults(self) -> Process:
        """Take nodes down and back up at the times of their faults, and place the replicas that are then missing."""
        for event in self._node_events:
            yield At(self.env, event.time, Kind.NODE_LOST if event.goes_down else Kind.NODE_BACK)
            if event.goes_down:
                self._replace(self.failover.node_lost(event.node), FAULT)
            else:
                self.failover.node_back(event.node)

    def _growth(self, growth: Growth) -> Process:
        """Multiply the demand of the tenants of a class by the factor of a growth while the growth lasts."""
        begin = round(growth.at_hours * 3600.0)
        yield At(self.env, begin, Kind.GROWTH)
        self._growing.append(growth)
        self.ledger.growth = factors(self._growing, self._sequence.traces)
        yield At(self.env, begin + round(growth.hours * 3600.0), Kind.GROWTH)
        self._growing.remove(growth)
        self.ledger.growth = factors(self._growing, self._sequence.traces)

    def _metering(self) -> Process:
        """At each metering, repair and balance, then retry the placement of missing replicas and scale tenants."""
        for time in range(self._interval, self._end + 1, self._interval):
            yield At(self.env, time, Kind.METERING)
            metering = self._meter()
            yield At(self.env, time, Kind.RETRY)
            self._replace(self.failover.give_up_waiting(), "rebuild")
            self._retry()
            for change in self.scaling.changes(metering):
                self._scale(change)
            if self._progress is not None:
                self._progress(time)

    # steps of the processes

    @property
    def _now(self) -> int:
        """Whole seconds since the start."""
        return int(self.env.now)

    def _admit(self, tenant: int, occasion: str = ARRIVAL) -> None:
        """Add a tenant, a row of the sequence, to the engine; place it unless it is placed from the start.

        `occasion`: `ARRIVAL` or `SCALING`.
        """
        name = self._partitions[tenant]
        tenancy = self._services.tenancy(tenant, name)
        placed_from_start = [Replica(Role.INSTANCE, self._node_names[node]) for node in self._sequence.nodes_of(tenant)]
        created = int(self._sequence.created[tenant]) if occasion == ARRIVAL else self._now
        self.engine.update_partition(
            Partition(name, service=tenancy.service, replicas=placed_from_start, created=created)
        )
        self.tenancies.admit(tenancy)
        if created < self._now:
            self._report_present(name, tenant)
        if not placed_from_start:
            self._place([tenant], occasion)
            return
        self._movement.take(name, tenant)
        self.tenancies.note_placed(name)

    def _report_past(self) -> None:
        """Report the past loads of the tenants that are there at the start to the engine, metering by metering."""
        begin, sequence = -round(self._scenario.workload.past_days * 86400), self._sequence
        is_present = sequence.is_tenant & (sequence.created < 0) & (begin < 0)
        row_list: list[int] = []
        for tenant in np.flatnonzero(is_present).tolist():
            name = self._partitions[tenant]
            service, created = self._services.tenancy(tenant, name).service, int(sequence.created[tenant])
            self.engine.update_partition(Partition(name, service=service, created=created))
            self.ledger.refresh(name, tenant)
            row_list += [replica.index for replica in self.ledger.placed(name)]
        rows = np.array(row_list, np.int64)
        created_at = sequence.created[self.ledger.tenant[rows]]
        for now in range(begin, 0, self._interval):
            rows_created = rows[created_at < now]
            self._report_moment(rows_created, now)

    def _report_moment(self, rows: Int, now: int) -> None:
        """Report the loads of engine rows at `now`, as `Workload.known_hours` says, for estimators that look back."""
        ahead = round(self._scenario.workload.known_hours * 3600)
        loads = self.ledger.demand(rows, now + ahead) if ahead else self.ledger.reported(rows, now)
        self.engine.report_loads(rows, loads, at=now)

    def _report_present(self, name: str, tenant: int) -> None:
        """Report the present load of a tenant that was created before the run, so that its placement uses it.

        `name`: its partition; `tenant`: its row in the sequence.
        """
        self.ledger.refresh(name, tenant)
        rows = np.array([replica.index for replica in self.ledger.placed(name)], np.int64)
        self.engine.report_loads(rows, self.ledger.reported(rows, self._now))

    def _replace(self, tenancies: Sequence[Tenancy], occasion: str) -> None:
        """Place the missing replicas of tenants, or move their marked replicas; `occasion` as in the table of plans."""
        if tenancies:
            self._place([tenancy.tenant for tenancy in tenancies], occasion)

    def _place(self, tenants: list[int], occasion: str) -> None:
        """Place the missing replicas of tenants, rows of the sequence; without a quorum, a tenant waits for nodes.

        `occasion` as in the table of plans.
        """
        tenant_of = {self._partitions[tenant]: tenant for tenant in tenants}
        placeable = {
            partition: tenant for partition, tenant in tenant_of.items() if not self.tenancies.rests(partition)
        }
        unplaced: Sequence[Unplaced] = ()
        if placeable:
            plan = self._timed("placement", occasion, lambda: self.engine.place(list(placeable), now=self._now))
            self._apply_moves(plan, placeable)
            unplaced = plan.unplaced
        self._note_missing(tenant_of)
        for refusal in unplaced:
            tenant = tenant_of[refusal.partition]
            self.recorder.refusal(self._now, tenant, self._waiting[tenant], refusal, arrives=occasion == ARRIVAL)

    def _dismiss(self, row: int) -> None:
        """Remove the partition of a row of the sequence, with its service if no other partition uses it."""
        name = self._partitions[row]
        self._waiting.pop(row, None)
        self.tenancies.dismiss(name)
        self._movement.cancel(name)
        self.ledger.drop(name)
        self.engine.remove_partition(name)
        self._services.remove(row)

    def _scale(self, change: Change) -> None:
        """Change the number of a tenant's instances or partitions; partitions share its demand."""
        tenant, mechanism = change.tenant, change.scaling.mechanism
        name = self._partitions[tenant]
        self.recorder.scaling(self._now, name, mechanism, change.before, change.after, change.load)
        if mechanism == "instances":
            self._services.scale(tenant, change.after)
            self.tenancies.scale(name, change.after)
            self._place([tenant], SCALING)
            return
        rows = range(tenant, tenant + change.after)
        self.ledger.set_share(rows, 1.0 / change.after)
        for row in range(tenant + change.after, tenant + change.before):
            self._dismiss(row)
        for row in range(tenant + change.before, tenant + change.after):
            self._admit(row, SCALING)

    def _meter(self) -> Metering:
        """Meter, report, and repair if there is a shortage, or if nodes changed since the last repair.

        A policy with extension constraints repairs always: loads may break them without a shortage.
        """
        metering = self.ledger.meter(self._now)
        self.recorder.load(self._now, metering.metered)
        self._use.meter(self.ledger, metering)
        if len(metering.rows):
            if self._scenario.workload.known_hours:
                self._report_moment(metering.rows, self._now)
            self.engine.report_loads(metering.rows, metering.reported)
        plan = None
        node_events = len(self.recorder.node_events)
        may_break_by_load = bool(self._scenario.extension_names("constraints", self._policy))
        if may_break_by_load or node_events > self._events_handled or needs_repair(metering, self._threshold):
            self._events_handled = node_events
            plan = self._timed("repair", "constraint check", lambda: self.engine.repair(now=self._now))
        moves = plan.moves if plan is not None else ()
        largest_on = partial(self.ledger.largest_standing, metering)
        metering_and_repair = metering, self._threshold, moves, self._node_names, self._metric_names
        self.recorder.violations_reported += count_reported(*metering_and_repair)
        self.recorder.shortages(self._now, classify(*metering_and_repair, largest_on))
        if plan is not None:
            self._apply_moves(plan)
        if not moves and self._balancing_is_due():
            self._balance(metering)
        return metering

    def _balance(self, metering: Metering) -> None:
        """Balance by the present loads, or by the means of the last `Workload.balanced_hours` if there are any."""
        self._last_balancing = self._now
        rows, hours = metering.rows, self._scenario.workload.balanced_hours
        if hours and len(rows):
            self.engine.report_loads(rows, self.ledger.mean_demand(rows, self._now, hours))
        plan = self._timed("balancing", "balancing", lambda: self.engine.balance(now=self._now))
        if hours and len(rows):
            self.engine.report_loads(rows, metering.reported)
        self._apply_moves(plan)

    def _balancing_is_due(self) -> bool:
        """Return whether the least interval between two balancings has passed; False if the engine never balances."""
        interval = self.engine.config.min_load_balancing_interval
        if interval is None:
            return False
        return self._last_balancing is None or self._now - self._last_balancing >= interval

    def _retry(self) -> None:
        """Place missing replicas again, and count the time for which tenants wait for their first quorum."""
        if not self._waiting:
            return
        tenants = sorted(self._waiting)
        for tenant in tenants:
            if not self.tenancies.serves(self._partitions[tenant]):
                self.recorder.waiting[tenant] += self._interval
        self._place(tenants, "retry")

    def _apply_moves(self, plan: Plan, arrivals: Mapping[str, int] | None = None) -> None:
        """Start the moves of a plan; `arrivals`: rows of tenants that it may place for the first time, by partition."""
        arrivals = {} if arrivals is None else arrivals
        self._movement.start(plan, arrivals)
        self.failover.build(move for move in plan.moves if move.kind is MoveKind.ADD)
        for partition in arrivals:
            self.tenancies.note_placed(partition)

    def _note_missing(self, tenant_of: Mapping[str, int]) -> None:
        """Count an attempt for each tenant that misses a replica; forget the attempts of complete tenants.

        `tenant_of`: rows of the tenants by partition.
        """
        for partition, tenant in tenant_of.items():
            if any(replica.node is None for replica in self.ledger.placed(partition)):
                self._waiting[tenant] = self._waiting.get(tenant, 0) + 1
            else:
                self._waiting.pop(tenant, None)

    def _timed(self, phase: str, occasion: str, search: Callable[[], Plan]) -> Plan:
        """Return the plan that `search` makes; record it for `occasion`, and add its seconds to `phase`."""
        began = working_time()
        plan = search()
        seconds = working_time() - began
        self.timings[phase] += seconds
        self.recorder.plan(self._now, occasion, plan, seconds)
        return plan


@attrs.frozen
class Change:
    """A change in the number of a tenant's instances or partitions."""

    tenant: int
    """Its row in the sequence of tenants."""
    before: int
    after: int
    """Number of instances or partitions, before and after the change."""
    load: float
    """Mean load of the tenant's replicas in the metric of `scaling`, in user units."""
    scaling: Scaling
    """The section of the scenario that scales the tenant."""


class AutoScaling:
    """Finds, after each metering, the tenants that need more or fewer instances or partitions."""

    def __init__(self, cluster: SimulatedCluster, sequence: TenantSequence, tenancies: Tenancies) -> None:
        """Begin with all tenants at their first size; each is looked at an interval after its arrival."""
        self._cluster, self._sequence, self._tenancies = cluster, sequence, tenancies
        self.sections = [*cluster.scenario.scaling.values()]
        self._names: list[str] = sequence.traces.tenant_names().tolist()
        scaled = np.flatnonzero((sequence.scaling >= 0) & sequence.is_tenant)
        self._interval = {tenant: 60 * self.section_of(tenant).interval_minutes for tenant in scaled.tolist()}
        """Seconds between two looks, by row of the tenant."""
        self._due = np.full(len(sequence.arrival), np.inf)
        self._due[scaled] = sequence.arrival[scaled] + np.array([self._interval[tenant] for tenant in scaled.tolist()])
        """(T,) seconds at which the load of each tenant is looked at next; infinite if never."""
        self._counts = np.where(sequence.is_tenant, 1, 0)
        self._counts[sequence.scales_instances] = sequence.traces.replicas[sequence.scales_instances]
        """(T,) present number of instances or partitions of each tenant."""

    def section_of(self, tenant: int) -> Scaling:
        """Return the section of the scenario that scales a tenant, a row of the sequence."""
        return self.sections[int(self._sequence.scaling[tenant])]

    def partitions_of(self, tenant: int) -> range:
        """Return the rows of the present partitions of a tenant, whose own row is the first."""
        return range(tenant, tenant + (1 if self._sequence.scales_instances[tenant] else int(self._counts[tenant])))

    def changes(self, metering: Metering) -> Iterator[Change]:
        """Yield the changes that are due; tenants with missing, moving or unready replicas are looked at later."""
        due = np.flatnonzero(self._due <= self._cluster.now).tolist()
        loads_by_section: dict[int, Float] = {}
        for tenant in due:
            if self._names[tenant] not in self._tenancies.known:
                self._due[tenant] = np.inf  # it has departed
                continue
            if not all(self._is_settled(row) for row in self.partitions_of(tenant)):
                continue
            interval = self._interval[tenant]
            self._due[tenant] += interval * (1 + (self._cluster.now - self._due[tenant]) // interval)
            section = int(self._sequence.scaling[tenant])
            if section not in loads_by_section:
                loads_by_section[section] = self._mean_loads(metering, self.sections[section])
            change = self._change_of(tenant, float(loads_by_section[section][tenant]))
            if change is not None:
                self._counts[tenant] = change.after
                yield change

    def _is_settled(self, row: int) -> bool:
        """Return whether all replicas of the partition of a row are placed, ready and not moving."""
        name = self._names[row]
        placed = sum(replica.node is not None for replica in self._cluster.ledger.placed(name))
        is_complete = placed == self._tenancies.known[name].replicas
        return self._tenancies.serves(name) and is_complete and self._tenancies.states.is_plain(name)

    def _change_of(self, tenant: int, load: float) -> Change | None:
        """Return the change of a tenant whose replicas have the mean load `load`; None if its number is right."""
        before, scaling = int(self._counts[tenant]), self.section_of(tenant)
        after = scaling.wanted(before, load)
        return None if after == before else Change(tenant, before, after, load, scaling)

    def _mean_loads(self, metering: Metering, scaling: Scaling) -> Float:
        """Return the mean load of the replicas of each tenant in the metric of a section, (T,); 0 without any."""
        ledger, rows = self._cluster.ledger, metering.rows
        is_counted = ~ledger.leaving[rows]
        if scaling.primary_only:
            is_counted &= ledger.is_primary(rows)
        metric = self._sequence.traces.metric_names.index(scaling.metric)
        owner: Int = self._sequence.owner[ledger.tenant[rows[is_counted]]]
        tenants = len(self._counts)
        sums = np.bincount(owner, metering.reported[is_counted, metric], tenants)
        mean: Float = sums / np.maximum(np.bincount(owner, minlength=tenants), 1)
        return mean
