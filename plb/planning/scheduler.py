"""The actions of a refresh for each service domain: at most one, in turn (docs/service-fabric.md, Phases).

The action is the first stage with work, of those whose interval has passed, the longest waiting first. While moves of
an earlier plan are in progress the domain has no action.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TypeAlias

import attrs

from plb.model import Node
from plb.model.move import MoveKind
from plb.settings.config import PlbConfig

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
THROTTLED = (Action.PLACEMENT_WITH_MOVE, Action.BALANCING)
"""The actions whose moves count against the movement throttles of Service Fabric."""
HOUR = 3600.0
"""Seconds of `PlbConfig.max_moves_per_hour`."""


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
    """Return the event of a change of a node, if any; None as `before`: it is new, as `after`: it is removed."""
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
    """Time of the last run of each stage, in seconds."""
    last_action: Action = Action.NONE_NEEDED
    """What the last refresh that did not skip the domain did."""
    tries: dict[Stage, int] = attrs.field(factory=dict)
    """Number of tries of the present variant of a stage since the last change."""
    tried_at: dict[Stage, Version] = attrs.field(factory=dict)
    """Version of the domain at the last try of a stage."""
    at_fixed_point: Version | None = None
    """Version of the domain, and the allowed moves, with which balancing found nothing to do."""
    under_way: dict[str, tuple[float, int, int]] = attrs.field(factory=dict)
    """For each partition with issued moves: when they were issued, the partition's version then, and the swaps."""

    def copied(self) -> DomainRecord:
        """Return a copy whose mappings do not follow later changes of this record."""
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
        """Return the record of the domain with this key; if it has none, make one, with `now` as its `made`."""
        return self.records.setdefault(key, DomainRecord(made=now))

    def copied(self) -> Scheduler:
        """Return a copy of what refreshes change; events of nodes are the same."""
        records = {key: record.copied() for key, record in self.records.items()}
        return attrs.evolve(self, records=records, issued=list(self.issued), moved=list(self.moved))

    def last_action(self, key: int) -> Action:
        """Return the last action of the domain with this key."""
        return self.records[key].last_action if key in self.records else Action.NONE_NEEDED

    def note_node_event(self, event: NodeChange, services: Iterable[int], now: float) -> None:
        """Record an event of a node at the time `now` for the existing `services`, by index."""
        for service in services:
            self.node_events[service, event] = now

    def forget_service(self, service: int) -> None:
        """Forget a removed service: the node events that it saw, and the domain of which it was the first service."""
        self.records.pop(service, None)
        for event in NodeChange:
            self.node_events.pop((service, event), None)

    def stages_due(self, record: DomainRecord, now: float) -> list[Stage]:
        """Return the stages of a domain whose interval has passed at `now`, the longest waiting first."""
        due = []
        for stage in Stage:
            interval = getattr(self.config, stage.value)
            never_run_since = -math.inf if record.made is None or stage is not Stage.BALANCING else record.made
            last_run = record.last_run.get(stage, never_run_since)
            if interval is not None and now - last_run >= interval:
                due.append((last_run, stage in record.last_run, stage))
        return [stage for _, _, stage in sorted(due, key=lambda entry: entry[:2])]

    def is_switched_off(self, stage: Stage) -> bool:
        """Return whether the settings exclude a stage: repair or balancing; placement is never excluded."""
        config = self.config
        if stage is Stage.CONSTRAINT_CHECK:
            return not config.constraint_check_enabled
        return stage is Stage.BALANCING and not (config.load_balancing_enabled and config.max_percentage_to_move > 0.0)

    def is_under_way(self, record: DomainRecord, version_of: Callable[[str], int | None], now: float) -> bool:
        """Forget moves of `record` that are too old at `now` or of a changed partition; return whether any is left.

        `version_of`: returns the present version of a partition by name; None: it exists no more.
        """
        for partition, (issued, version, _) in list(record.under_way.items()):
            if version_of(partition) != version or now - issued >= _seconds(self.config.max_movement_execution_time):
                del record.under_way[partition]
        return bool(record.under_way)

    def swaps_under_way(self, version_of: Callable[[str], int | None], now: float) -> int:
        """Return the number of swaps under way in all domains at `now`; `version_of`: as in `is_under_way`."""
        under_way = [record for record in self.records.values() if self.is_under_way(record, version_of, now)]
        return sum(swaps for record in under_way for _, _, swaps in record.under_way.values())

    def is_delayed(self, services: Iterable[int], now: float) -> bool:
        """Return whether a node was added or removed too recently before `now` for balancing `services`, by index."""
        delays = {
            NodeChange.NEW: self.config.balancing_delay_after_new_node,
            NodeChange.DOWN: self.config.balancing_delay_after_node_down,
        }
        return self._is_recent(services, delays, now)

    def is_light(self, services: Iterable[int], now: float) -> bool:
        """Return whether a node came or went too recently before `now` to repair the spread of `services`, by index."""
        delays = {
            NodeChange.NEW: self.config.constraint_fix_partial_delay_after_new_node,
            NodeChange.DOWN: self.config.constraint_fix_partial_delay_after_node_down,
        }
        return self._is_recent(services, delays, now)

    def note_moves(self, action: Action, now: float, moves: Mapping[str, int]) -> None:
        """Record the number of `moves` of each partition, by name, in an action at `now`."""
        if moves and (action in THROTTLED or self.config.max_moves_per_hour is not None):
            self.issued.append((now, action, sum(moves.values())))
        if moves and action in THROTTLED:
            self._drop_old_moves(now)
            self.moved += [(now, partition, count) for partition, count in moves.items()]

    def throttled(self, partitions: Iterable[str], now: float) -> set[str]:
        """Return the partitions, by name, that have moved too often before `now` for balancing to move them again."""
        threshold = self.config.movement_per_partition_throttle_threshold
        if threshold is None:
            return set()
        self._drop_old_moves(now)
        moves_of: Counter[str] = Counter()
        for _, partition, count in self.moved:
            moves_of[partition] += count
        return {partition for partition in partitions if moves_of[partition] >= threshold}

    def _drop_old_moves(self, now: float) -> None:
        """Forget the moves of partitions that do not count any more at the time `now`."""
        since = now - _seconds(self.config.movement_per_partition_throttle_counting_interval)
        self.moved = [entry for entry in self.moved if entry[0] > since]

    def allowance(self, action: Action, replicas: int, now: float) -> int | None:
        """Return the number of moves that the throttles leave an action at `now`, or None without a limit.

        `replicas`: number of all replicas, of which some thresholds are shares.
        """
        config = self.config
        if config.global_movement_throttle_counting_interval == 0.0:
            return None
        issued = self._issued_within(_seconds(config.global_movement_throttle_counting_interval), now)
        action_thresholds = {
            Action.PLACEMENT_WITH_MOVE: (
                config.global_movement_throttle_threshold_for_placement,
                config.global_movement_throttle_threshold_percentage_for_placement,
            ),
            Action.BALANCING: (
                config.global_movement_throttle_threshold_for_balancing,
                config.global_movement_throttle_threshold_percentage_for_balancing,
            ),
        }[action]
        total_thresholds = (
            config.global_movement_throttle_threshold,
            config.global_movement_throttle_threshold_percentage,
        )
        allowances = []
        for (threshold, share), counted_actions in ((total_thresholds, THROTTLED), (action_thresholds, (action,))):
            limits = [limit for limit in (threshold, math.floor(share * replicas)) if limit > 0]
            used = sum(moves for past_action, moves in issued if past_action in counted_actions)
            allowances += [max(0, limit - used) for limit in limits]
        return min(allowances, default=None)

    def left_of_hour(self, now: float) -> int | None:
        """Return the number of moves that `max_moves_per_hour` leaves all phases at `now`, or None without a limit."""
        limit = self.config.max_moves_per_hour
        return None if limit is None else max(0, limit - sum(moves for _, moves in self._issued_within(HOUR, now)))

    def _issued_within(self, interval: float, now: float) -> list[tuple[Action, int]]:
        """Return action and number of moves of the actions in the last `interval` seconds before `now`.

        Actions that no limit counts any more are forgotten, and actions in the future, of a clock that was set back.
        """
        kept = max(HOUR, _seconds(self.config.global_movement_throttle_counting_interval))
        self.issued = [entry for entry in self.issued if now - kept < entry[0] <= now]
        return [(action, moves) for time, action, moves in self.issued if time > now - interval]

    def _is_recent(self, services: Iterable[int], delays: dict[NodeChange, float | None], now: float) -> bool:
        """Return whether one of `services` saw an event of a node less than its delay, of `delays`, before `now`."""
        seconds = {event: _seconds(delay) for event, delay in delays.items() if delay != 0.0}
        return bool(seconds and self.node_events) and any(
            now - self.node_events.get((service, event), -math.inf) < delay
            for service in services
            for event, delay in seconds.items()
        )

    def variant(self, record: DomainRecord, stage: Stage, version: Version) -> bool:
        """Return whether the second variant of a stage is due for a domain at this version, and count the try.

        The variants alternate after `plb_action_retry_times` tries; any change begins again with the first.
        """
        if record.tried_at.get(stage) != version:
            record.tries[stage], record.tried_at[stage] = 0, version
        tries = record.tries[stage]
        record.tries[stage] += 1
        return bool(tries // max(1, self.config.plb_action_retry_times) % 2 == 1)


def _seconds(setting: float | None) -> float:
    """Return a setting in seconds, infinite if it is None."""
    return math.inf if setting is None else setting
