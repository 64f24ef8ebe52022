"""The actions of a refresh for each service domain: at most one, in turn (docs/service-fabric.md, Phases).

The action is the first stage with work, of those whose interval has passed, the longest waiting first. While moves of
an earlier plan are in progress the domain has no action.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import attrs

from plb.model import Node
from plb.model.move import MoveKind, Phase
from plb.model.outcome import DomainOutcome, Idle, Proposals, Unplaced
from plb.model.plan import Energy, Plan, PlanMoves
from plb.model.role import Role
from plb.planning.phases import PhaseRun
from plb.planning.service_domains import ServiceDomain, Work, concerned
from plb.settings.config import PlbConfig
from plb.state.cluster_state import ClusterState

Version: TypeAlias = tuple[tuple[int, ...], ...]
"""What the state of a domain, or its state and its loads, are at; equal versions mean that nothing has changed."""


class Action(Enum):
    """What a refresh did for a service domain."""

    NONE_NEEDED = "NoActionNeeded"
    SKIPPED = "ActionSkipped"
    PLACEMENT = "NewReplicaPlacement"
    PLACEMENT_WITH_MOVE = "NewReplicaPlacementWithMove"
    CONSTRAINT_CHECK = "ConstraintCheck"
    BALANCING = "LoadBalancing"


PLACEMENTS = (Action.PLACEMENT, Action.PLACEMENT_WITH_MOVE)
MOVEMENTS = (MoveKind.MOVE, MoveKind.SWAP)
"""Kinds of moves that count against the movement throttles."""


class NodeChange(Enum):
    """An event of a node that delays balancing."""

    NEW = "new"
    DOWN = "down"


class Stage(Enum):
    """The stages of a domain, in the order in which equally long waiting ones are checked."""

    PLACEMENT = "min_placement_interval"
    CONSTRAINT_CHECK = "min_constraint_check_interval"
    BALANCING = "min_load_balancing_interval"


def node_event(before: Node | None, after: Node | None) -> NodeChange | None:
    """Return the event of a change of a node, missing before or after if None; None without an event."""
    was_up, is_up = (node is not None and node.up for node in (before, after))
    if was_up == is_up:
        return None
    return NodeChange.NEW if is_up else NodeChange.DOWN


@attrs.define(eq=False)
class DomainRecord:
    """The data of a domain."""

    made: float | None = None
    """When the domain was first checked, from when on balancing waits an interval; None: it does not wait."""
    last_run: dict[Stage, float] = attrs.field(factory=dict)
    last_action: Action = Action.NONE_NEEDED
    tries: dict[Stage, int] = attrs.field(factory=dict)
    """Number of tries of the present variant of a stage since the last change."""
    tried_at: dict[Stage, Version] = attrs.field(factory=dict)
    """Version of the domain at the last try of a stage."""
    at_fixed_point: Version | None = None
    """Version of the domain at which balancing found nothing to do."""
    under_way: dict[str, tuple[float, int, int]] = attrs.field(factory=dict)
    """For each partition with issued moves: when they were issued, the partition's version then, and the swaps."""

    def copied(self) -> DomainRecord:
        """Return a copy that does not follow later changes."""
        return attrs.evolve(
            self,
            last_run=dict(self.last_run),
            tries=dict(self.tries),
            tried_at=dict(self.tried_at),
            under_way=dict(self.under_way),
        )


@attrs.define(eq=False)
class Scheduler:
    """Chooses the action of every domain at a refresh."""

    config: PlbConfig
    """Intervals, delays and retries."""
    records: dict[int, DomainRecord] = attrs.field(factory=dict)
    """By key of the domain."""
    node_events: dict[tuple[int, NodeChange], float] = attrs.field(factory=dict)
    """When each service last saw an event of a node."""
    issued: list[tuple[float, Action, int]] = attrs.field(factory=list)
    """The recent actions with moves: time, action and number of moves."""
    moved: list[tuple[float, str, int]] = attrs.field(factory=list)
    """The recent moves of partitions: time, partition and number of moves."""

    def record(self, key: int, now: float | None = None) -> DomainRecord:
        """Return the record of the domain with this key; a domain that is new at `now` waits for balancing."""
        return self.records.setdefault(key, DomainRecord(made=now))

    def copied(self) -> Scheduler:
        """Return a copy of what refreshes change; events of nodes are the same."""
        records = {key: record.copied() for key, record in self.records.items()}
        return attrs.evolve(self, records=records, issued=list(self.issued), moved=list(self.moved))

    def last_action(self, key: int) -> Action:
        """Return what the last refresh did for the domain with this key."""
        return self.records[key].last_action if key in self.records else Action.NONE_NEEDED

    def note_node_event(self, event: NodeChange, services: Iterable[int], now: float) -> None:
        """Record an event of a node, for the services that exist then."""
        for service in services:
            self.node_events[service, event] = now

    def forget_service(self, service: int) -> None:
        """Forget a removed service: the events of nodes that it saw, and its domain if it was the first there."""
        self.records.pop(service, None)
        for event in NodeChange:
            self.node_events.pop((service, event), None)

    def stages_due(self, record: DomainRecord, now: float) -> list[Stage]:
        """Return the stages whose interval has passed, the longest waiting first; balancing waits from the start."""
        due = []
        for stage in Stage:
            interval = getattr(self.config, stage.value)
            begun = -math.inf if record.made is None or stage is not Stage.BALANCING else record.made
            last = record.last_run.get(stage, begun)
            if interval is not None and now - last >= interval:
                due.append((last, stage in record.last_run, stage))
        return [stage for _, _, stage in sorted(due, key=lambda entry: entry[:2])]

    def is_switched_off(self, stage: Stage) -> bool:
        """Return whether the settings exclude a stage."""
        config = self.config
        if stage is Stage.CONSTRAINT_CHECK:
            return not config.constraint_check_enabled
        return stage is Stage.BALANCING and not (config.load_balancing_enabled and config.max_percentage_to_move > 0.0)

    def is_under_way(self, record: DomainRecord, version_of: Callable[[str], int | None], now: float) -> bool:
        """Remove moves that are too old, or of another `version_of` their partition; return whether any is left."""
        for partition, (issued, version, _) in list(record.under_way.items()):
            if version_of(partition) != version or now - issued >= _seconds(self.config.max_movement_execution_time):
                del record.under_way[partition]
        return bool(record.under_way)

    def swaps_under_way(self, version_of: Callable[[str], int | None], now: float) -> int:
        """Return the number of swaps under way in all domains."""
        under_way = [record for record in self.records.values() if self.is_under_way(record, version_of, now)]
        return sum(swaps for record in under_way for _, _, swaps in record.under_way.values())

    def is_delayed(self, services: Iterable[int], now: float) -> bool:
        """Return whether a node was added or removed too recently for balancing."""
        delays = {
            NodeChange.NEW: self.config.balancing_delay_after_new_node,
            NodeChange.DOWN: self.config.balancing_delay_after_node_down,
        }
        return self._is_recent(services, delays, now)

    def is_light(self, services: Iterable[int], now: float) -> bool:
        """Return whether a node was added or removed too recently for repairs of the spread over domains."""
        delays = {
            NodeChange.NEW: self.config.constraint_fix_partial_delay_after_new_node,
            NodeChange.DOWN: self.config.constraint_fix_partial_delay_after_node_down,
        }
        return self._is_recent(services, delays, now)

    def note_moves(self, action: Action, now: float, moves: Mapping[str, int]) -> None:
        """Record the number of moves of each partition in an action."""
        if moves and action in (Action.PLACEMENT_WITH_MOVE, Action.BALANCING):
            self.issued.append((now, action, sum(moves.values())))
            self._drop_old_moves(now)
            self.moved += [(now, partition, count) for partition, count in moves.items()]

    def throttled(self, partitions: Iterable[str], now: float) -> set[str]:
        """Return the partitions that have moved too often recently, so that balancing does not move them."""
        threshold = self.config.movement_per_partition_throttle_threshold
        if threshold is None:
            return set()
        self._drop_old_moves(now)
        spent: Counter[str] = Counter()
        for _, partition, count in self.moved:
            spent[partition] += count
        return {partition for partition in partitions if spent[partition] >= threshold}

    def _drop_old_moves(self, now: float) -> None:
        """Forget the moves of partitions that no longer count."""
        since = now - _seconds(self.config.movement_per_partition_throttle_counting_interval)
        self.moved = [entry for entry in self.moved if entry[0] > since]

    def allowance(self, action: Action, replicas: int, now: float) -> int | None:
        """Return the number of moves that the throttles, some of them shares of all `replicas`, leave an action."""
        config = self.config
        since = now - _seconds(config.global_movement_throttle_counting_interval)
        self.issued = [entry for entry in self.issued if entry[0] > since]
        share = {
            Action.PLACEMENT_WITH_MOVE: (
                config.global_movement_throttle_threshold_for_placement,
                config.global_movement_throttle_threshold_percentage_for_placement,
            ),
            Action.BALANCING: (
                config.global_movement_throttle_threshold_for_balancing,
                config.global_movement_throttle_threshold_percentage_for_balancing,
            ),
        }[action]
        total = (config.global_movement_throttle_threshold, config.global_movement_throttle_threshold_percentage)
        left = []
        for (most, part), counted in ((total, tuple(Action)), (share, (action,))):
            limits = [limit for limit in (most, math.floor(part * replicas)) if limit > 0]
            spent = sum(moves for _, done, moves in self.issued if done in counted)
            left += [max(0, limit - spent) for limit in limits]
        return min(left, default=None)

    def _is_recent(self, services: Iterable[int], delays: dict[NodeChange, float | None], now: float) -> bool:
        return any(
            now - self.node_events.get((service, event), -math.inf) < _seconds(delay)
            for service in services
            for event, delay in delays.items()
        )

    def variant(self, record: DomainRecord, stage: Stage, version: Version) -> bool:
        """Return whether the second variant of a stage is due, and count the try.

        The variants alternate after `plb_action_retry_times` tries; any change begins again with the first.
        """
        if record.tried_at.get(stage) != version:
            record.tries[stage], record.tried_at[stage] = 0, version
        tries = record.tries[stage]
        record.tries[stage] += 1
        return bool(tries // max(1, self.config.plb_action_retry_times) % 2 == 1)


def _seconds(setting: float | None) -> float:
    return math.inf if setting is None else setting


PHASES = {
    Stage.PLACEMENT: Phase.PLACEMENT,
    Stage.CONSTRAINT_CHECK: Phase.REPAIR,
    Stage.BALANCING: Phase.BALANCING,
}
"""The phase that each stage runs."""


@attrs.frozen(eq=False)
class Refresh:
    """What a refresh of a domain depends on."""

    state: ClusterState
    scheduler: Scheduler
    record: DomainRecord
    domain: ServiceDomain
    run: PhaseRun
    """The search of the domain, at the start."""
    work: Work
    state_version: tuple[int, ...]
    load_version: tuple[int, ...]
    """What the domain's state and loads are at; equal versions mean that nothing has changed."""
    now: float
    replicas: int
    """Replicas of the whole cluster."""

    def plan(self) -> Plan:
        """Run the action that is due and return its plan, whose moves are under way from now on."""
        action = self.record.last_action = self._act()
        missing = self.work.missing if action in PLACEMENTS else []
        plan = self.run.plan(missing, self.domain, action.value)
        self._note_issued(action, plan)
        return plan

    def _note_issued(self, action: Action, plan: Plan) -> None:
        """Note that the moves of the plan are under way, and count them for the throttles."""
        plan_moves = PlanMoves.of(plan.moves)
        swaps = Counter(plan_moves.of_kinds(MoveKind.SWAP))
        issued = {
            name: (self.now, self.state.partition_version(name) or 0, swaps[name]) for name in {*plan_moves.partition}
        }
        self.record.under_way.update(issued)
        self.scheduler.note_moves(action, self.now, Counter(plan_moves.of_kinds(*MOVEMENTS)))

    def _act(self) -> Action:
        """Run the first stage that is due and has work; return the action."""
        for stage in self.scheduler.stages_due(self.record, self.now):
            action = {
                Stage.PLACEMENT: self._place,
                Stage.CONSTRAINT_CHECK: self._check_constraints,
                Stage.BALANCING: self._balance,
            }[stage]()
            if action is not Action.NONE_NEEDED:
                self.record.last_run[stage] = self.now
                self._note_others(Idle.AFTER_ANOTHER)
                return action
        self._note_others(Idle.NOT_DUE)
        return Action.NONE_NEEDED

    def _note_others(self, why: Idle) -> None:
        """Record why the stages that were not checked do not run."""
        due = self.scheduler.stages_due(self.record, self.now)
        for stage, phase in PHASES.items():
            self.run.log.note_idle(phase, why if stage in due else Idle.NOT_DUE)

    def _idle(self, stage: Stage, why: Idle) -> Action:
        self.run.log.note_idle(PHASES[stage], why)
        return Action.NONE_NEEDED

    def _place(self) -> Action:
        if not (self.work.is_any or self.work.everywhere):
            return self._idle(Stage.PLACEMENT, Idle.NOTHING_TO_PLACE)
        config = self.scheduler.config
        again = self.scheduler.variant(self.record, Stage.PLACEMENT, (self.state_version,))
        with_moves = again and self.work.is_any and config.move_existing_replica_for_placement
        self.run.begin_placement(self.work)
        if with_moves:
            self.run.limit_moves(self.scheduler.allowance(Action.PLACEMENT_WITH_MOVE, self.replicas, self.now))
        if self.work.missing:
            self.run.place(self.work.missing, with_moves=with_moves)
        self.run.return_primaries(self.work.returns)
        return Action.PLACEMENT_WITH_MOVE if with_moves else Action.PLACEMENT

    def _check_constraints(self) -> Action:
        light = self.scheduler.is_light(self.domain.services, self.now)
        if self.scheduler.is_switched_off(Stage.CONSTRAINT_CHECK):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_MOVABLE)
        if not self.run.is_anything_broken(light=light):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_BROKEN)
        self.run.repair(light=light)
        return Action.CONSTRAINT_CHECK

    def _balance(self) -> Action:
        if self.scheduler.is_switched_off(Stage.BALANCING):
            return self._idle(Stage.BALANCING, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.BALANCING, Idle.NOTHING_MOVABLE)
        if self.scheduler.is_delayed(self.domain.services, self.now):
            return self._idle(Stage.BALANCING, Idle.NODE_EVENT)
        version = (self.state_version, self.load_version)
        if self.record.at_fixed_point == version:
            self.run.weigh_for_balancing()
            return self._idle(Stage.BALANCING, Idle.UNCHANGED)
        if not self.run.is_unbalanced:
            return self._idle(Stage.BALANCING, Idle.BALANCED)
        if self._are_too_many_throttled():
            return self._idle(Stage.BALANCING, Idle.PARTITIONS_THROTTLED)
        if self.run.limit_moves(self.scheduler.allowance(Action.BALANCING, self.replicas, self.now)) == 0:
            return self._idle(Stage.BALANCING, Idle.THROTTLED)
        slow = self.scheduler.variant(self.record, Stage.BALANCING, version)
        self.run.balance(slow=slow)
        self.record.at_fixed_point = None if self.run.changed or self.run.is_held_back else version
        return Action.BALANCING

    def _are_too_many_throttled(self) -> bool:
        """Exclude partitions that moved too often; return whether these are too many of the imbalanced ones."""
        config = self.scheduler.config
        if config.movement_per_partition_throttle_threshold is None:
            return False
        partitions = self.run.unbalanced_partitions(self.domain.services)
        throttled = self.scheduler.throttled(partitions, self.now)
        self.run.leave_alone(throttled)
        return len(throttled) > config.movement_throttled_partitions_percentage_threshold * len(partitions)


def idle_outcome(
    state: ClusterState, domain: ServiceDomain | None, idle: Mapping[Phase, Idle], action: Action | None
) -> DomainOutcome:
    """Return the outcome of a domain, or of all services, for which no phase has run."""
    return DomainOutcome(
        *concerned(state, domain),
        phases=(),
        idle=idle,
        immovable={},
        end_reason="nothing to do",
        proposals=Proposals(),
        action=None if action is None else action.value,
    )


def plan_without_nodes(state: ClusterState, missing: Sequence[int], outcome: DomainOutcome) -> Plan:
    """Return the plan of a cluster without nodes, where `missing` rows are unplaced; no array is searched for it."""
    none = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    unplaced = (Unplaced(state.row_partition[row], Role(int(state.rows.role[row])), nodes=0) for row in missing)
    return Plan(moves=(), energy_before=none, energy_after=none, unplaced=tuple(unplaced), outcomes=(outcome,))
