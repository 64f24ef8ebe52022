"""A cluster as the events of the log make it: an engine, and the plans that were asked for.

Two replicas of a cluster that apply the same entries are equal. The service has a replica that answers, and a replica
that searches and may be some entries behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import attrs
import msgspec

from cluster.service import events
from cluster.service.log import LogEntry, Saved
from plb import PlacementAndLoadBalancing
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.model.documents import Document
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.plan import Plan, plan_of
from plb.model.snapshot import Snapshot
from plb.validation import check_known

logger = logging.getLogger(__name__)

MOST_KEPT = 100
"""Plans that a cluster keeps; the oldest that is closed goes first."""
MOST_OPEN = 8
"""Plans of a cluster that are searched for, or wait for a decision."""


class Status(Enum):
    """What has become of a plan."""

    SEARCHING = "searching"
    READY = "ready"
    APPLIED = "applied"
    DISCARDED = "discarded"
    FAILED = "failed"


OPEN = (Status.SEARCHING, Status.READY)
"""Where a plan may still be discarded."""


class StaleError(ConflictError):
    """The cluster has changed since a plan was made."""


class DefectError(PlbError):
    """An event met a defect of this project; `message`: which event, and the error."""


class PlanRecord(msgspec.Struct, kw_only=True):
    """A plan that was asked for."""

    id: str
    sequence: int
    """Sequence number of the request."""
    now: float
    """Time of the plan, in seconds of the host's clock."""
    generation: int
    """Generation of the cluster that the plan is for."""
    request: events.RequestPlan
    status: Status = Status.SEARCHING
    document: Document | None = None
    """The plan; None while it is searched for."""
    error: str | None = None
    """Why the search ended without a plan."""
    leaving: bool = False
    """Whether it was carried out with departing ends."""
    taken_back: list[int] = msgspec.field(default_factory=list)
    """Positions of the moves that were taken back."""

    @property
    def is_searching(self) -> bool:
        """Whether its result is not in the log yet."""
        return self.status is Status.SEARCHING


class State(msgspec.Struct, kw_only=True):
    """What a replica keeps beside its engine."""

    generation: int = 0
    """Number of events that made earlier plans stale."""
    now: float = 0.0
    """Latest time of an event, in seconds of the host's clock."""
    plans: dict[str, PlanRecord] = msgspec.field(default_factory=dict)
    """The plans that are kept, by id, the oldest first."""
    under_way: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """Ids of the plans whose moves have begun and not ended, by partition and source."""
    weight: int = 0
    """Work to repeat the events since the last saved state, in units of an event."""


Search: TypeAlias = Callable[[events.Engine, PlanRecord], None]
"""Makes the plan of a record with an engine."""


class ClusterReplica:
    """One copy of a cluster.

    `first`: the first event of the cluster; `search`: makes plans, None: plans come from the log; `saved`: the state
    from which the replica continues, None: it begins with `first`.
    """

    def __init__(self, first: events.MakeCluster, search: Search | None = None, saved: Saved | None = None) -> None:
        """Begin with the event that made the cluster, or go on from `saved`; `search` makes plans, None: others do."""
        self._history, self.search = first.past(), search
        if saved is None:
            self.engine, self.state = first.engine(self._history), State()
        else:
            self._go_on_from(Snapshot.from_bytes(saved.engine))
            self.state = msgspec.msgpack.decode(saved.state, type=State)

    def _go_on_from(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of the engine."""
        self.engine = PlacementAndLoadBalancing.from_snapshot(snapshot, history=self._history)

    def saved(self, sequence: int) -> Saved:
        """Return the state after the entry `sequence`, and go on from it, so that a restarted service is equal."""
        self.state.weight = 0
        engine = self.engine.snapshot()
        self._go_on_from(engine)
        return Saved(sequence, engine.to_bytes(), msgspec.msgpack.encode(self.state))

    def apply(self, entry: LogEntry) -> None:
        """Apply an entry of the log.

        Raise `PlbError` if the event does not fit the cluster, which is then as before.
        """
        event, state = entry.event, self.state
        now = event.time(state.now)
        if now < state.now:
            raise InvalidValueError(event.kind, "now", now, f"a time of at least {state.now!r}, the latest one")
        if isinstance(event, events.RequestPlan):
            self._request(entry.sequence, event, now)
        elif isinstance(event, events.OfPlan):
            self._apply_to_plan(event, self.plan(event.plan))
        elif isinstance(event, events.MakeCluster):
            if state.generation:
                raise ConflictError(f"cluster {entry.cluster} exists")
        else:
            event.apply(self.engine, now)
            self._end_moves(event)
        state.now = now
        state.generation += event.makes_stale
        state.weight += event.weight

    def refusal(self, entry: LogEntry) -> PlbError | None:
        """Apply an entry of the log; return why it changes nothing, or None. A defect is a refusal, too."""
        try:
            self.apply(entry)
        except PlbError as error:
            return error
        except Exception as error:
            logger.exception("entry %s of the log met a defect", entry.sequence)
            return DefectError(f"{entry.event.kind}: a defect of plb: {error!r}")
        return None

    def plan(self, plan_id: str) -> PlanRecord:
        """Return the record of a plan; an unknown one raises `UnknownNameError`."""
        check_known("plan", plan_id, self.state.plans)
        return self.state.plans[plan_id]

    def is_stale(self, record: PlanRecord) -> bool:
        """Return whether a plan is open and cannot be applied any more, because the cluster has changed."""
        return record.status in OPEN and record.generation != self.state.generation

    def _request(self, sequence: int, event: events.RequestPlan, now: float) -> None:
        """Record a requested plan, number `sequence`, for the time `now`, and search it if this replica searches."""
        plans = self.state.plans
        if sum(plan.status in OPEN for plan in plans.values()) >= MOST_OPEN:
            raise ConflictError(f"plan: {MOST_OPEN} plans are open; apply or discard one")
        for name in event.partitions or ():
            check_known("partition", name, self.engine.partition_names)
        self.engine.advance(now)
        if len(plans) >= MOST_KEPT:
            del plans[next(name for name, plan in plans.items() if plan.status not in OPEN)]
        record = PlanRecord(
            id=f"p{sequence}", sequence=sequence, now=now, generation=self.state.generation, request=event
        )
        plans[record.id] = record
        if self.search is not None:
            self.search(self.engine, record)

    def _apply_to_plan(self, event: events.OfPlan, record: PlanRecord) -> None:
        """Apply an event of a plan."""
        if isinstance(event, events.PlanMade):
            record.error, record.document = event.document.get("error"), event.document
            if record.status is Status.SEARCHING:
                record.status = Status.READY if record.error is None else Status.FAILED
        elif isinstance(event, events.DiscardPlan):
            self._expect(record, *OPEN)
            record.status = Status.DISCARDED
        elif isinstance(event, events.ApplyPlan):
            self._carry_out(record, leaving=event.leaving)
        elif isinstance(event, events.ReportOutcomes):
            self._take_back(record, event.failed)

    def _expect(self, record: PlanRecord, *allowed: Status) -> None:
        """Raise `ConflictError` unless a plan has one of these statuses."""
        if record.status not in allowed:
            words = " or ".join(status.value for status in allowed)
            raise ConflictError(f"plan {record.id} is {record.status.value}, not {words}")

    def _carry_out(self, record: PlanRecord, *, leaving: bool) -> None:
        """Apply the moves of a plan that is ready and not stale."""
        self._expect(record, Status.READY)
        if self.is_stale(record):
            raise StaleError(
                f"plan {record.id} is of generation {record.generation}, and the cluster is at {self.state.generation}"
            )
        assert record.document is not None
        plan = plan_of(record.document)
        self.engine.apply(plan, leaving=leaving)
        record.status, record.leaving = Status.APPLIED, leaving
        for move in plan.moves if leaving else ():
            if move.kind is MoveKind.MOVE:
                self.state.under_way.setdefault(move.partition, {})[str(move.source)] = record.id

    def _end_moves(self, event: events.LoggedEvent) -> None:
        """Note which moves have ended after an event that may end some."""
        under_way = self.state.under_way
        if isinstance(event, events.RemovePartition):
            under_way.pop(event.name, None)
        elif isinstance(event, events.Vacate):
            under_way.get(event.partition, {}).pop(event.node, None)
        elif isinstance(event, events.PutPartition) and (begun := under_way.get(event.partition["name"])):
            ends = {replica.node for replica in self.engine.replicas(event.partition["name"]) if replica.leaving}
            under_way[event.partition["name"]] = {node: plan for node, plan in begun.items() if node in ends}

    def _take_back(self, record: PlanRecord, failed: list[int]) -> None:
        """Take moves of a plan that was applied back, the last first."""
        self._expect(record, Status.APPLIED)
        assert record.document is not None
        plan, taken_back = plan_of(record.document), {*record.taken_back}
        moves = plan.moves
        if len(failed) > len(moves):
            raise InvalidValueError(
                "outcomes", "failed", f"{len(failed)} positions", f"at most {len(moves)}, the moves"
            )
        for position in failed:
            if not 0 <= position < len(moves):
                raise InvalidValueError("outcomes", "failed", position, f"a position of the {len(moves)} moves")
            if position in taken_back:
                raise ConflictError(f"outcomes: move {position} of plan {record.id} was taken back already")
            if record.leaving:
                self._expect_under_way(record, moves[position])
        positions = sorted({*failed})
        backwards = tuple(inverse(moves[position]) for position in reversed(positions))
        self.engine.apply(attrs.evolve(plan, moves=backwards))
        record.taken_back += positions
        for move in backwards if record.leaving else ():
            self.state.under_way.get(move.partition, {}).pop(str(move.target), None)

    def _expect_under_way(self, record: PlanRecord, move: Move) -> None:
        """Raise `ConflictError` if a move of a plan that left a departing end has ended: its source was vacated."""
        plan = self.state.under_way.get(move.partition, {}).get(str(move.source))
        if move.kind is MoveKind.MOVE and plan != record.id:
            reason = f"no replica is leaving {move.source}" if plan is None else f"plan {plan} has begun another one"
            raise ConflictError(f"outcomes: {move} has ended: {reason}")


TAKEN_BACK = Reason(Phase.REPAIR, "taken back")
"""Reason of the moves that undo others; as they are not of balancing, limits of moves do not count them."""


def inverse(move: Move) -> Move:
    """Return the move that undoes a move; one without such a move raises `ConflictError`."""
    move = attrs.evolve(move, reason=TAKEN_BACK)
    if move.kind in (MoveKind.MOVE, MoveKind.SWAP):
        return attrs.evolve(move, source=move.target, target=move.source)
    if move.kind is MoveKind.ADD:
        return attrs.evolve(move, kind=MoveKind.DROP, source=move.target, target=None)
    raise ConflictError(f"outcomes: {move} cannot be taken back; describe the partition anew")


def plan_for(engine: events.Engine, record: PlanRecord) -> Plan:
    """Return the plan that a record asks for."""
    request, budget = record.request, record.request.budget()
    if request.call == "refresh":
        return engine.refresh(record.now, budget=budget)
    if request.call == "place":
        return engine.place(request.partitions, now=record.now, budget=budget)
    call = engine.repair if request.call == "repair" else engine.balance
    return call(now=record.now, budget=budget)
