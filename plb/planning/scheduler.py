"""The actions of a refresh for each service domain: at most one, in turn (docs/service-fabric.md, Phases).

A stage whose interval has passed is checked, the longest waiting first; the first with work
is the action. While moves of an earlier plan are in progress the domain has no action.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from plb.model import Node
from plb.model.move import MoveKind
from plb.model.snapshot import Part
from plb.settings.config import PlbConfig


class Action(Enum):
    """What a refresh did for a service domain."""

    NONE_NEEDED = "NoActionNeeded"
    SKIPPED = "ActionSkipped"
    PLACEMENT = "NewReplicaPlacement"
    PLACEMENT_WITH_MOVE = "NewReplicaPlacementWithMove"
    CONSTRAINT_CHECK = "ConstraintCheck"
    BALANCING = "LoadBalancing"


ACTIONS = [action.value for action in Action]
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
    """Return the event of a change of a node; None without one. A missing node is None."""
    was_up, is_up = (node is not None and node.up for node in (before, after))
    if was_up == is_up:
        return None
    return NodeChange.NEW if is_up else NodeChange.DOWN


@attrs.define(eq=False)
class DomainRecord:
    """The data of a domain."""

    made: float = -math.inf
    """When the domain was first checked."""
    last_run: dict[Stage, float] = attrs.field(factory=dict)
    last_action: Action = Action.NONE_NEEDED
    tries: dict[Stage, int] = attrs.field(factory=dict)
    """Number of tries of the present variant of a stage since the last change."""
    tried_at: dict[Stage, object] = attrs.field(factory=dict)
    """Version of the domain at the last try of a stage."""
    at_fixed_point: object = None
    """Version of the domain at which balancing found nothing to do."""
    under_way: dict[str, tuple[float, int, int]] = attrs.field(factory=dict)
    """For each partition with issued moves: when they were issued, the partition's version then, and the swaps."""

    def values(self) -> dict[str, Any]:
        """Return the record as values of JSON, for a snapshot."""
        return {
            "made": None if self.made == -math.inf else self.made,
            "last_action": self.last_action.value,
            "stages": {field: {stage.name: one for stage, one in getattr(self, field).items()} for field in OF_STAGES},
            "at_fixed_point": self.at_fixed_point,
            "under_way": [[name, *issued] for name, issued in self.under_way.items()],
        }

    def copied(self) -> DomainRecord:
        """Return a copy that does not follow later changes."""
        copies: dict[str, Any] = {field: dict(getattr(self, field)) for field in (*OF_STAGES, "under_way")}
        return attrs.evolve(self, **copies)

    @classmethod
    def of_part(cls, part: Part) -> DomainRecord:
        """Return the record of these values."""
        stages = part.under("stages")
        known = {stage.name: stage for stage in Stage}
        fields: dict[str, Any] = {}
        for field in OF_STAGES:
            given = stages.value(field, dict)
            of_field = stages.under(field)
            if (kind := OF_STAGES[field]) is not None:
                given = {name: of_field.value(name, kind) for name in given}
            fields[field] = {known[stages.member(field, name, known)]: version_of(one) for name, one in given.items()}
        if part.values.get("made") is not None:
            fields["made"] = part.value("made", float)
        return cls(
            **fields,
            last_action=Action(part.member("last_action", part.values.get("last_action"), ACTIONS)),
            at_fixed_point=version_of(part.values.get("at_fixed_point")),
            under_way={name: tuple(issued) for name, *issued in part.entries("under_way", str, float, int, int)},
        )


OF_STAGES: Mapping[str, type[float] | None] = {"last_run": float, "tries": int, "tried_at": None}
"""Fields of a `DomainRecord` with an entry for each stage, and the type of the entries; None: a version."""


def version_of(value: object) -> object:
    """Return a version that was read as lists as the tuples that it was."""
    return tuple(map(version_of, value)) if isinstance(value, list) else value


class Scheduler:
    """Chooses the action of every domain at a refresh.

    Parameters
    ----------
    config
        Intervals, delays and retries.
    """

    def __init__(self, config: PlbConfig) -> None:
        self.config = config
        self._records: dict[int, DomainRecord] = {}
        self._node_events: dict[tuple[int, NodeChange], float] = {}
        self._issued: list[tuple[float, Action, int]] = []
        self._moved: list[tuple[float, str, int]] = []

    def record(self, key: int, now: float = -math.inf) -> DomainRecord:
        """Return the record of the domain with this key; one that is new at `now` waits an interval for balancing."""
        return self._records.setdefault(key, DomainRecord(made=now))

    def values(self) -> dict[str, Any]:
        """Return what is remembered as values of JSON, for a snapshot."""
        return {
            "domains": {str(key): record.values() for key, record in self._records.items()},
            "node_events": [[service, event.value, at] for (service, event), at in self._node_events.items()],
            "issued": [[at, action.value, moves] for at, action, moves in self._issued],
            "moved": [list(entry) for entry in self._moved],
        }

    def take(self, part: Part) -> None:
        """Remember what a snapshot says."""
        domains = part.under("domains")
        self._records = {int(key): DomainRecord.of_part(domains.under(key)) for key in domains.values}
        events = part.entries("node_events", int, str, float)
        self._node_events = {(service, NodeChange(event)): at for service, event, at in events}
        self._issued = [(at, Action(action), moves) for at, action, moves in part.entries("issued", float, str, int)]
        self._moved = [(at, partition, count) for at, partition, count in part.entries("moved", float, str, int)]

    def copied(self) -> Scheduler:
        """Return a copy of what refreshes change; events of nodes are the same."""
        copy = Scheduler(self.config)
        copy._records = {key: record.copied() for key, record in self._records.items()}
        copy._node_events = self._node_events
        copy._issued, copy._moved = list(self._issued), list(self._moved)
        return copy

    def last_action(self, key: int) -> Action:
        """Return what the last refresh did for the domain with this key."""
        return self._records[key].last_action if key in self._records else Action.NONE_NEEDED

    def note_node_event(self, event: NodeChange, services: Iterable[int], now: float) -> None:
        """Record an event of a node, for the services that exist then."""
        for service in services:
            self._node_events[service, event] = now

    def forget_service(self, service: int) -> None:
        """Forget a removed service: the events of nodes that it saw, and its domain if it was the first there."""
        self._records.pop(service, None)
        for event in NodeChange:
            self._node_events.pop((service, event), None)

    def stages_due(self, record: DomainRecord, now: float) -> list[Stage]:
        """Return the stages whose interval has passed, the longest waiting first; balancing waits from the start."""
        due = []
        for stage in Stage:
            interval = getattr(self.config, stage.value)
            begun = record.made if stage is Stage.BALANCING else -math.inf
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
        """Remove moves that are completed or too old; return whether any is left.

        Parameters
        ----------
        version_of
            Returns the version of a partition, None if it was removed. A partition that was updated after its moves
            were planned has completed or abandoned them.
        """
        for partition, (issued, version, _) in list(record.under_way.items()):
            if version_of(partition) != version or now - issued >= _seconds(self.config.max_movement_execution_time):
                del record.under_way[partition]
        return bool(record.under_way)

    def swaps_under_way(self, version_of: Callable[[str], int | None], now: float) -> int:
        """Return the number of swaps under way in all domains; arguments as in `is_under_way`."""
        under_way = [one for one in self._records.values() if self.is_under_way(one, version_of, now)]
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
            self._issued.append((now, action, sum(moves.values())))
            self._drop_old_moves(now)
            self._moved += [(now, partition, count) for partition, count in moves.items()]

    def throttled(self, partitions: Iterable[str], now: float) -> set[str]:
        """Return the partitions that have moved too often recently, so that balancing does not move them."""
        threshold = self.config.movement_per_partition_throttle_threshold
        if threshold is None:
            return set()
        self._drop_old_moves(now)
        spent: Counter[str] = Counter()
        for _, partition, count in self._moved:
            spent[partition] += count
        return {partition for partition in partitions if spent[partition] >= threshold}

    def _drop_old_moves(self, now: float) -> None:
        """Forget the moves of partitions that no longer count."""
        since = now - _seconds(self.config.movement_per_partition_throttle_counting_interval)
        self._moved = [entry for entry in self._moved if entry[0] > since]

    def allowance(self, action: Action, replicas: int, now: float) -> int | None:
        """Return the number of moves that the throttles still allow an action; None: unlimited.

        Parameters
        ----------
        replicas
            Replicas of the cluster, of which some limits are shares.
        """
        config = self.config
        since = now - _seconds(config.global_movement_throttle_counting_interval)
        self._issued = [entry for entry in self._issued if entry[0] > since]
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
            spent = sum(moves for _, done, moves in self._issued if done in counted)
            left += [max(0, limit - spent) for limit in limits]
        return min(left, default=None)

    def _is_recent(self, services: Iterable[int], delays: dict[NodeChange, float | None], now: float) -> bool:
        return any(
            now - self._node_events.get((service, event), -math.inf) < _seconds(delay)
            for service in services
            for event, delay in delays.items()
        )

    def variant(self, record: DomainRecord, stage: Stage, version: object) -> bool:
        """Return whether the second variant of a stage is due, and count the try.

        The first variant is tried `plb_action_retry_times` times, then the second as often, and so on; any change
        begins again with the first.
        """
        if record.tried_at.get(stage) != version:
            record.tries[stage], record.tried_at[stage] = 0, version
        tries = record.tries[stage]
        record.tries[stage] += 1
        return bool(tries // max(1, self.config.plb_action_retry_times) % 2 == 1)


def _seconds(setting: float | None) -> float:
    return math.inf if setting is None else setting
