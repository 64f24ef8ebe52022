"""Runs the steps of a scenario on the engine and stores the observations for its expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from plb import Checks, ConflictError, InsufficientCapacityError, PlacementAndLoadBalancing, PlbConfig, Role
from plb.model.metric import MetricSettings
from plb.settings.service_fabric import by_original_name
from tests.service_fabric.actions import CollectedActions, after_moves, domains_with_moves
from tests.service_fabric.described import (
    application_from,
    metrics_of,
    name_of,
    node_from,
    partition_from,
    service_from,
    stateful_services,
)
from tests.service_fabric.scenario import Scenario, Step

REAL_CLOCK = 0.0
"""Constant time of the original real clock during a scenario, used for node, partition and load updates."""

MAPS = by_original_name(MetricSettings)
"""The settings that are maps of metrics. Entries for metrics without a service are omitted."""

ROLE_FIELDS = {"primary": Role.PRIMARY, "secondary": Role.SECONDARY, "instance": Role.INSTANCE}
"""The fields of loads and move costs that apply to a whole role."""

SWITCHES = {"constraint_check": "constraint_check_enabled", "balancing": "load_balancing_enabled"}
"""The settings of the phases that a host may switch off."""

NO_ERROR = "Success"
"""The error of an update that was accepted."""
REMOVED = "ApplicationInstanceDeleted"
"""The error of a service of an application that was removed."""
INSUFFICIENT = "InsufficientClusterCapacity"
"""The error of an application or a service for which the cluster has too little left."""

FAILOVER_MANAGER = "Failover."
"""Prefix of the names of settings of the failover manager."""
SINGLETONS = FAILOVER_MANAGER + "IsSingletonReplicaMoveAllowedDuringUpgrade"
"""The one of them that affects the engine."""


class ServiceDomain(Protocol):
    """The attributes of service domains of the engine that the adapter reads."""

    name: str
    services: tuple[str, ...]
    metrics: tuple[str, ...]
    last_action: str


@attrs.define
class PendingUpdates:
    """Updates that wait for the next refresh, in order for each kind."""

    nodes: list[Step] = attrs.field(factory=list)
    partitions: list[Step] = attrs.field(factory=list)
    reports: list[Step] = attrs.field(factory=list)


class Player:
    """One engine, with the failover manager of the original tests.

    The engine plans and receives no applied plans; only updates of the scenario change the cluster. The metrics of the
    scenario are collected in advance, because those of an engine never change.
    """

    def __init__(self, scenario: Scenario, settings: Mapping[str, Any], *, seed: int) -> None:
        self.scenario = scenario
        self.actions = CollectedActions()
        self.updates_from_plb = 0
        self.update_error = NO_ERROR
        self._settings = dict(settings)
        self._switches: dict[str, bool] = {}
        self._checks_services = False
        self._metrics = metrics_of(scenario)
        self._metric_names = frozenset(metric.name for metric in self._metrics)
        self._stateful = stateful_services(scenario)
        self._seed = seed
        self._engine = PlacementAndLoadBalancing(self._config(), seed=seed)
        self._pending = PendingUpdates()
        self._blocked: dict[str, tuple[int, ...]] = {}
        self._services: dict[str, Step] = {}
        self._nodes: set[int] = set()
        self._partitions: dict[int, Step] = {}
        self._failover_table: dict[int, Step] = {}

    def play(self, step: Step) -> None:
        """Run one step of any operation except ``expect``."""
        operation = OPERATIONS.get(step["op"])
        if operation is None:
            raise NotImplementedError(f"op {step['op']!r}: not played, as it is not described")
        operation(self, step)

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the collected actions."""
        written = {step["name"] for step in self.scenario.steps_of("service") if not step["stateful"]}
        return self.actions.texts({one for one, step in self._partitions.items() if step["service"] in written})

    def service_domains(self) -> tuple[ServiceDomain, ...]:
        """Return the service domains of the engine."""
        return self._engine.service_domains()

    def node_load(self, node: int, metric: str) -> float:
        """Return the load of a node."""
        return self._engine.node_loads()[name_of(node)][metric]

    def replica_load(self, step: Step) -> float:
        """Return the load that the engine has for the replica of an expectation; 0 without one.

        An effective load is that of the replica that the partition would have there.
        """
        role = Role[step["role"].upper()] if step["service"] in self._stateful else Role.INSTANCE
        partition, node, metric = name_of(step["id"]), name_of(step["node"]), step["metric"]
        replicas = self._engine.replicas(partition)
        loads = [one.load[metric] for one in replicas if one.node == node and one.role is role]
        if loads or not step["effective"]:
            return loads[0] if loads else 0.0
        return self._engine.expected_load(partition, role)[metric]

    def in_build_count(self, node: int, metric: str | None) -> int:
        """Return the number of replicas in build on a node, of all services or of the domain of a metric."""
        domains = [one for one in self.service_domains() if metric is None or metric in one.metrics]
        services = {service for domain in domains for service in domain.services}
        return sum(
            replica.in_build and replica.node == name_of(node)
            for number, step in self._partitions.items()
            if step["service"] in services
            for replica in self._engine.replicas(name_of(number))
        )

    def total_capacity(self, metric: str) -> float:
        """Return the capacity of the cluster for a metric."""
        return self._engine.total_capacities()[metric]

    # settings

    def _config(self) -> PlbConfig:
        fields: dict[str, Any] = {"checks": Checks.PHASE} if "test_mode_only" in self.scenario.features else {}
        if SINGLETONS in self._settings:
            fields["is_singleton_replica_move_allowed_during_upgrade"] = self._settings[SINGLETONS]
        settings = {
            key: {name: of for name, of in value.items() if name in self._metric_names} if key in MAPS else value
            for key, value in self._settings.items()
            if not key.startswith(FAILOVER_MANAGER)
        }
        fields |= {name: False for name, on in self._switches.items() if not on}
        fields["refuse_applications_without_capacity"] = True
        fields["refuse_services_without_capacity"] = self._checks_services
        return PlbConfig.from_service_fabric(settings, metrics=self._metrics, **fields)

    def _set(self, step: Step) -> None:
        self._settings[step["key"]] = step["value"]
        self._engine.configure(self._config())

    def _switch_phases(self, step: Step) -> None:
        self._switches = {name: step[field] for field, name in SWITCHES.items()}
        self._engine.configure(self._config())

    # immediate updates

    def _put_application(self, step: Step) -> None:
        application = application_from(step, self._metric_names)
        self._note_error(lambda: self._engine.update_application(application))

    def _note_error(self, update: Callable[[], None]) -> None:
        """Make an update that may be refused, and note its error."""
        self.update_error = NO_ERROR
        try:
            update()
        except ConflictError:
            self.update_error = REMOVED  # services of a scenario make no other conflict
        except InsufficientCapacityError:
            self.update_error = INSUFFICIENT

    def _upgrade_cluster(self, step: Step) -> None:
        self._engine.update_upgraded_domains(step["completed_uds"] if step["in_progress"] else ())

    def _put_service_type(self, step: Step) -> None:
        self._blocked[step["name"]] = tuple(step["blocklist"])
        for service in self._services.values():
            if service["service_type"] == step["name"]:
                self._hand_over_service(service)

    def _put_service(self, step: Step) -> None:
        self._hand_over_service(step)
        if self.update_error == NO_ERROR:
            self._services[step["name"]] = step

    def _hand_over_service(self, step: Step) -> None:
        blocked = self._blocked.get(step["service_type"], ())
        stateful = step["name"] in self._stateful
        service = service_from(step, stateful=stateful, blocked_nodes=blocked)
        if self._needs_capacity(step) != self._checks_services:
            self._checks_services = not self._checks_services
            self._engine.configure(self._config())
        self._note_error(lambda: self._engine.update_service(service))

    def _needs_capacity(self, step: Step) -> bool:
        """Return whether a service may be refused: its size is known, and so are nodes, of which updates wait."""
        return bool(step.get("partition_count") and step.get("target_replica_set_size") and self._nodes)

    def _delete_service_type(self, step: Step) -> None:
        self._put_service_type({**step, "blocklist": ()})

    def _delete_service(self, step: Step) -> None:
        self._process_pending()
        for number in [number for number, one in self._partitions.items() if one["service"] == step["name"]]:
            self._remove_partition(number)
        if self._services.pop(step["name"], None) is not None:
            self._engine.remove_service(step["name"])

    def _delete_application(self, step: Step) -> None:
        for name in [name for name, service in self._services.items() if service["application"] == step["name"]]:
            self._delete_service({"name": name})
        if any(one.name == step["name"] for one in self._engine.applications):
            self._engine.remove_application(step["name"])

    def _remove_partition(self, number: int) -> None:
        if self._partitions.pop(number, None) is not None:
            self._engine.remove_partition(name_of(number))

    def _reset(self, _: Step) -> None:
        self.__init__(self.scenario, self._settings, seed=self._seed)  # type: ignore[misc]

    # buffered updates

    def _buffer_node(self, step: Step) -> None:
        self._pending.nodes.append(step)

    def _buffer_partition(self, step: Step) -> None:
        self._pending.partitions.append(step)

    def _buffer_report(self, step: Step) -> None:
        self._pending.reports.append(step)

    def _process_pending(self, _: Step | None = None) -> None:
        pending, self._pending = self._pending, PendingUpdates()
        for step in pending.nodes:
            self._hand_over_node(step)
        for step in pending.partitions:
            if step["op"] == "delete_partition":
                self._remove_partition(step["id"])
            else:
                self._hand_over_partition(step)
        for step in pending.reports:
            REPORTS[step["op"]](self, step)

    def _hand_over_node(self, step: Step) -> None:
        self._nodes.add(step["id"])
        self._engine.update_node(node_from(step, self._metric_names), now=REAL_CLOCK)

    def _hand_over_partition(self, step: Step) -> None:
        if step["service"] not in self._services:
            return
        self._partitions[step["id"]] = step
        service = self._services[step["service"]]
        partition = partition_from(
            step,
            stateful=service["name"] in self._stateful,
            on_every_node=service["on_every_node"],
            nodes=self._nodes,
        )
        self._engine.update_partition(partition)

    # reports

    def _report_load(self, step: Step) -> None:
        if step["metric"] not in self._metric_names:
            return
        for field, role in self._reported_roles(step).items():
            self._report_role_load(step, role, step[field])
        if step.get("secondary_per_node"):
            self._report_secondaries(step)

    def _reported_roles(self, step: Step) -> dict[str, Role]:
        """Return the fields of a report that apply to its partition; an unknown partition has none."""
        if step["id"] not in self._partitions:
            return {}
        stateful = self._partitions[step["id"]]["service"] in self._stateful
        allowed = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
        return {field: role for field, role in ROLE_FIELDS.items() if field in step and role in allowed}

    def _report_role_load(self, step: Step, role: Role, load: float) -> None:
        self._engine.report_role_load(name_of(step["id"]), role, {step["metric"]: load})

    def _report_secondaries(self, step: Step) -> None:
        reported = {int(node): load for node, load in step["secondary_per_node"].items()}
        loads = {name_of(node): {step["metric"]: load} for node, load in reported.items() if node in self._nodes}
        if step["id"] in self._partitions and loads:
            self._engine.report_secondary_loads(name_of(step["id"]), loads)

    def _reset_load(self, step: Step) -> None:
        if step["id"] in self._partitions:
            self._engine.reset_load(name_of(step["id"]))

    def _report_move_cost(self, step: Step) -> None:
        costs = {field: step[field] for field in ROLE_FIELDS if field in step}
        by_node = {*(step.get("secondary_per_node") or {}).values()}
        if len(by_node) > 1:
            raise NotImplementedError("move_cost that differs by secondary: not played, as no shared scenario has it")
        if by_node:
            costs["secondary"] = by_node.pop()
        for field, role in self._reported_roles(costs | {"id": step["id"]}).items():
            self._engine.report_move_cost(name_of(step["id"]), role, costs[field])

    # refreshes

    def _refresh(self, step: Step) -> None:
        self._process_pending()
        if not self._nodes:
            return  # the engine requires a node, and the original has nothing to do
        plan = self._engine.refresh(seen_at(step["at"], raw=step.get("raw", False)))
        self.actions.collect(plan)
        if plan.moves:
            self.updates_from_plb += domains_with_moves(plan.moves, self._domain_of_partition())

    def _domain_of_partition(self) -> dict[str, str]:
        domain_of = {service: domain.name for domain in self.service_domains() for service in domain.services}
        return {name_of(number): domain_of[step["service"]] for number, step in self._partitions.items()}

    # the failover manager

    def _clear(self, _: Step) -> None:
        self.actions.clear()
        self.updates_from_plb = 0
        self._failover_table.clear()

    def _clear_actions(self, _: Step) -> None:
        self.actions.clear()

    def _note_partition(self, step: Step) -> None:
        self._failover_table[step["id"]] = step

    def _push_table(self, _: Step) -> None:
        self._pending.partitions.extend(self._failover_table.values())

    def _apply(self, _: Step) -> None:
        for number, moves in self.actions.by_partition():
            if number in self._failover_table:
                self._failover_table[number] = after_moves(self._failover_table[number], moves)
        self.actions.clear()


def seen_at(at: float, *, raw: bool) -> float:
    """Return the time of a refresh for the engine: one second later if the engine is ahead of the real clock."""
    return at if raw or at <= REAL_CLOCK else at + 1.0


Operation = Callable[[Player, Step], None]

OPERATIONS: Mapping[str, Operation] = {
    "config": Player._set,
    "node": Player._buffer_node,
    "service_type": Player._put_service_type,
    "service": Player._put_service,
    "partition": Player._buffer_partition,
    "load": Player._buffer_report,
    "move_cost": Player._buffer_report,
    "reset_load": Player._buffer_report,
    "process_pending": Player._process_pending,
    "refresh": Player._refresh,
    "clear": Player._clear,
    "clear_actions": Player._clear_actions,
    "fm_partition": Player._note_partition,
    "fm_push": Player._push_table,
    "apply": Player._apply,
    "delete_partition": Player._buffer_partition,
    "delete_service": Player._delete_service,
    "delete_service_type": Player._delete_service_type,
    "application": Player._put_application,
    "delete_application": Player._delete_application,
    "cluster_upgrade": Player._upgrade_cluster,
    "movement_enabled": Player._switch_phases,
    "reset": Player._reset,
}
"""The method for each operation with known fields."""

REPORTS: Mapping[str, Operation] = {
    "load": Player._report_load,
    "move_cost": Player._report_move_cost,
    "reset_load": Player._reset_load,
}
"""The method for each kind of buffered report."""
