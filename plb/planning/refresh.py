"""A refresh of one service domain: the action that is due, and its search (docs/service-fabric.md, Phases)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

import attrs

from plb.model.move import MoveKind, Phase
from plb.model.outcome import DomainOutcome, Idle, Proposals, Unplaced
from plb.model.plan import Energy, Plan, PlanMoves
from plb.model.role import Role
from plb.planning.fixed_point import Occasion
from plb.planning.pending_work import Work
from plb.planning.phases import PhaseRun
from plb.planning.scheduler import MOVEMENTS, PLACEMENTS, THROTTLED, Action, DomainRecord, Scheduler, Stage
from plb.planning.service_domains import ServiceDomain, concerned, number_of_replicas
from plb.state.cluster_state import ClusterState

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
    """The scheduler's record of the domain."""
    domain: ServiceDomain
    run: PhaseRun
    """The search of the domain, at the start."""
    work: Work
    """The work of placement for the domain."""
    state_version: tuple[int, ...]
    """What the domain's state is at; equal versions mean that nothing has changed."""
    load_version: tuple[int, ...]
    """What the domain's loads are at; equal versions mean that no load has changed."""
    now: float
    """Time of the refresh, in seconds."""
    replicas: int
    """Number of placed replicas of the whole cluster."""

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
        moves = Counter(plan_moves.of_kinds(*MOVEMENTS))
        if action not in THROTTLED:
            moves = counted_moves_of(plan)
        self.scheduler.note_moves(action, self.now, moves)

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

    def _note_others(self, reason: Idle) -> None:
        """Note why stages do not run: `reason` for stages that are due, NOT_DUE for others.

        A reason noted before stays (`PhaseLog.note_idle`), and phases that have run tell none (`PhaseLog.outcome`).
        """
        due = self.scheduler.stages_due(self.record, self.now)
        for stage, phase in PHASES.items():
            self.run.log.note_idle(phase, reason if stage in due else Idle.NOT_DUE)

    def _idle(self, stage: Stage, reason: Idle) -> Action:
        """Record that the phase of a stage does not run for `reason`, and return that no action was needed."""
        self.run.log.note_idle(PHASES[stage], reason)
        return Action.NONE_NEEDED

    def _place(self) -> Action:
        """Run placement if it has work, in its second variant with moves of existing replicas; return the action."""
        if not (self.work.is_any or self.work.everywhere):
            return self._idle(Stage.PLACEMENT, Idle.NOTHING_TO_PLACE)
        config = self.scheduler.config
        is_second_variant = self.scheduler.variant(self.record, Stage.PLACEMENT, (self.state_version,))
        with_moves = is_second_variant and self.work.is_any and config.move_existing_replica_for_placement
        self.run.begin_placement(self.work)
        if with_moves:
            self.run.limit_moves(self.scheduler.allowance(Action.PLACEMENT_WITH_MOVE, self.replicas, self.now))
        if self.work.missing:
            with self.run.limited_to(self.scheduler.left_of_hour(self.now)):
                self.run.place(self.work.missing, with_moves=with_moves)
        self.run.return_primaries(self.work.returns)
        return Action.PLACEMENT_WITH_MOVE if with_moves else Action.PLACEMENT

    def _check_constraints(self) -> Action:
        """Run a repair if anything is broken and the settings allow repairs; return the action of the refresh."""
        is_light = self.scheduler.is_light(self.domain.services, self.now)
        if self.scheduler.is_switched_off(Stage.CONSTRAINT_CHECK):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_MOVABLE)
        if not self.run.is_anything_broken(light=is_light):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_BROKEN)
        self.run.limit_moves(self.scheduler.left_of_hour(self.now))
        self.run.repair(light=is_light)
        return Action.CONSTRAINT_CHECK

    def _balance(self) -> Action:
        """Balance if a metric is uneven and no delay, throttle or earlier result forbids it; return the action."""
        if self.scheduler.is_switched_off(Stage.BALANCING):
            return self._idle(Stage.BALANCING, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.BALANCING, Idle.NOTHING_MOVABLE)
        if self.scheduler.is_delayed(self.domain.services, self.now):
            return self._idle(Stage.BALANCING, Idle.NODE_EVENT)
        allowance = self.scheduler.allowance(Action.BALANCING, self.replicas, self.now)
        moves_left_in_hour = self.scheduler.left_of_hour(self.now)
        version = (self.state_version, self.load_version, (self.state.rows.past.newest,))
        fixed_point = (*version, *(() if limit is None else (limit,) for limit in (allowance, moves_left_in_hour)))
        if self.record.at_fixed_point == fixed_point:
            self.run.weigh_for_balancing()
            return self._idle(Stage.BALANCING, Idle.UNCHANGED)
        if not self.run.may_balance:
            return self._idle(Stage.BALANCING, Idle.BALANCED)
        if are_too_many_throttled(self.run, self.scheduler, self.domain.services, self.now):
            return self._idle(Stage.BALANCING, Idle.PARTITIONS_THROTTLED)
        self.run.limit_moves(moves_left_in_hour)
        if self.run.limit_moves(allowance) == 0:
            return self._idle(Stage.BALANCING, Idle.THROTTLED)
        is_slow = self.scheduler.variant(self.record, Stage.BALANCING, version)
        self.run.balance(slow=is_slow)
        self.record.at_fixed_point = None if self.run.changed or self.run.is_held_back else fixed_point
        return Action.BALANCING


def are_too_many_throttled(run: PhaseRun, scheduler: Scheduler, services: Sequence[int], now: float) -> bool:
    """Exclude partitions that moved too often before `now` from a run of balancing over `services`, by index.

    Return whether they are too large a share of the partitions that balancing may move.
    """
    config = scheduler.config
    if config.movement_per_partition_throttle_threshold is None:
        return False
    partitions = run.partitions_at_risk(services) if run.is_at_risk else []
    partitions = partitions or run.unbalanced_partitions(services)
    throttled = scheduler.throttled(partitions, now)
    run.leave_alone(throttled)
    return len(throttled) > config.movement_throttled_partitions_percentage_threshold * len(partitions)


ACTION_OF_PHASE = {
    Phase.PLACEMENT: Action.PLACEMENT_WITH_MOVE,
    Phase.REPAIR: Action.CONSTRAINT_CHECK,
    Phase.BALANCING: Action.BALANCING,
}
"""The action as which the throttles count the moves of a phase."""
OF_UPGRADES = ("upgrade", "upgraded")
"""Rules of the reasons of moves that change roles for an upgrade; no limit of moves holds them back."""


def counted_moves_of(plan: Plan, phases: Container[Phase] = tuple(Phase)) -> Counter[str]:
    """Return the number of moves and swaps of phases of each partition in a plan, by name, without upgrades."""
    return Counter(
        move.partition
        for move in plan.moves
        if move.kind in MOVEMENTS and move.reason.phase in phases and move.reason.rule not in OF_UPGRADES
    )


def note_moves_of(plan: Plan, scheduler: Scheduler, now: float) -> None:
    """Count the moves of an applied plan for the throttles, as made at `now`."""
    config = scheduler.config
    if config.throttles_moves or config.throttles_partitions or config.max_moves_per_hour is not None:
        for phase, action in ACTION_OF_PHASE.items():
            scheduler.note_moves(action, now, counted_moves_of(plan, (phase,)))


def allowance_of(
    phase: Phase, state: ClusterState, scheduler: Scheduler, earlier: Sequence[Plan], now: float
) -> int | None:
    """Return the moves that the throttles of Service Fabric leave a phase at `now`; None: no limit.

    `earlier`: the plans of other service domains in the same plan.
    """
    if not scheduler.config.throttles_moves:
        return None
    allowance = scheduler.allowance(ACTION_OF_PHASE[phase], number_of_replicas(state), now)
    if allowance is None:
        return None
    return max(0, allowance - sum(counted_moves_of(plan, (phase,)).total() for plan in earlier))


def left_of_hour(scheduler: Scheduler, earlier: Sequence[Plan], now: float) -> int | None:
    """Return the moves that `max_moves_per_hour` leaves a domain at `now` after the plans `earlier`; None: no limit."""
    moves_left = scheduler.left_of_hour(now)
    if moves_left is None:
        return None
    return max(0, moves_left - sum(counted_moves_of(plan).total() for plan in earlier))


def place_within(run: PhaseRun, work: Work, allowance: int | None, left: int | None) -> int:
    """Hand over roles, drop surplus replicas and place missing ones, or note that there is no such work.

    `allowance`: most moves that free capacity; `left`: most of all moves in the hour; None: the limit of the settings.
    Return the number of moves that free capacity.
    """
    run.begin_placement(work)
    before = run.moves_so_far
    if work.missing:
        with run.limited_to(allowance), run.limited_to(left):
            run.place(work.missing)
    elif not work.is_any:
        run.log.note_idle(Phase.PLACEMENT, Idle.NOTHING_TO_PLACE)
    moves_made = run.moves_so_far - before
    run.return_primaries(work.returns)
    return moves_made


HELD_BACK = (Idle.THROTTLED, Idle.PARTITIONS_THROTTLED, Idle.NODE_EVENT)
"""Why balancing does not run although it is due, and stays due."""


def keep_due(record: DomainRecord, before: DomainRecord, plan: Plan) -> None:
    """Leave balancing as due in the `record` of a refresh as in the one `before`, if its plan holds balancing back."""
    if any(outcome.idle.get(Phase.BALANCING) in HELD_BACK for outcome in plan.outcomes):
        record.last_run.pop(Stage.BALANCING)
        if Stage.BALANCING in before.last_run:
            record.last_run[Stage.BALANCING] = before.last_run[Stage.BALANCING]


def why_held_back(
    run: PhaseRun, scheduler: Scheduler, occasion: Occasion, allowance: int | None, now: float
) -> Idle | None:
    """Limit the moves of balancing to `allowance`, and return which delay or throttle forbids it at `now`, or None."""
    is_limited = allowance is not None or scheduler.config.max_moves_per_hour is not None
    is_exhausted = is_limited and run.limit_moves(allowance) == 0
    if not run.may_balance:
        return None
    if occasion.is_delayed:
        return Idle.NODE_EVENT
    if is_exhausted:
        return Idle.THROTTLED
    are_too_many = are_too_many_throttled(run, scheduler, occasion.services, now)
    return Idle.PARTITIONS_THROTTLED if are_too_many else None


def idle_outcome(
    state: ClusterState, domain: ServiceDomain | None, idle: Mapping[Phase, Idle], action: Action | None
) -> DomainOutcome:
    """Return the outcome of a domain, None: of all services, in which no phase has run; `idle`: why, by phase."""
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
    no_energy = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    unplaced = (Unplaced(state.row_partition[row], Role(int(state.rows.role[row])), nodes=0) for row in missing)
    return Plan(
        moves=(), energy_before=no_energy, energy_after=no_energy, unplaced=tuple(unplaced), outcomes=(outcome,)
    )
