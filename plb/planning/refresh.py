"""A refresh of one service domain: the action that is due, and its search (docs/service-fabric.md, Phases)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from plb.model.move import MoveKind, Phase
from plb.model.outcome import DomainOutcome, Idle, Proposals, Unplaced
from plb.model.plan import Energy, Plan, PlanMoves
from plb.model.role import Role
from plb.planning.pending_work import Work
from plb.planning.phases import PhaseRun
from plb.planning.scheduler import MOVEMENTS, PLACEMENTS, Action, DomainRecord, Scheduler, Stage
from plb.planning.service_domains import ServiceDomain, concerned
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

    def _note_others(self, reason: Idle) -> None:
        """Note why stages do not run: `reason` for those that are due, NOT_DUE for others.

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
        """Run placement if it has work; with moves of existing replicas in its second variant."""
        if not (self.work.is_any or self.work.everywhere):
            return self._idle(Stage.PLACEMENT, Idle.NOTHING_TO_PLACE)
        config = self.scheduler.config
        is_second_variant = self.scheduler.variant(self.record, Stage.PLACEMENT, (self.state_version,))
        with_moves = is_second_variant and self.work.is_any and config.move_existing_replica_for_placement
        self.run.begin_placement(self.work)
        if with_moves:
            self.run.limit_moves(self.scheduler.allowance(Action.PLACEMENT_WITH_MOVE, self.replicas, self.now))
        if self.work.missing:
            self.run.place(self.work.missing, with_moves=with_moves)
        self.run.return_primaries(self.work.returns)
        return Action.PLACEMENT_WITH_MOVE if with_moves else Action.PLACEMENT

    def _check_constraints(self) -> Action:
        """Run a repair if anything is broken and repairs are allowed."""
        is_light = self.scheduler.is_light(self.domain.services, self.now)
        if self.scheduler.is_switched_off(Stage.CONSTRAINT_CHECK):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_MOVABLE)
        if not self.run.is_anything_broken(light=is_light):
            return self._idle(Stage.CONSTRAINT_CHECK, Idle.NOTHING_BROKEN)
        self.run.repair(light=is_light)
        return Action.CONSTRAINT_CHECK

    def _balance(self) -> Action:
        """Run balancing if anything is unbalanced, and neither delays, throttles nor the last result forbid it."""
        if self.scheduler.is_switched_off(Stage.BALANCING):
            return self._idle(Stage.BALANCING, Idle.SWITCHED_OFF)
        if not self.run.is_anything_movable:
            return self._idle(Stage.BALANCING, Idle.NOTHING_MOVABLE)
        if self.scheduler.is_delayed(self.domain.services, self.now):
            return self._idle(Stage.BALANCING, Idle.NODE_EVENT)
        allowance = self.scheduler.allowance(Action.BALANCING, self.replicas, self.now)
        version = (self.state_version, self.load_version, (self.state.rows.past.newest,))
        end = (*version, () if allowance is None else (allowance,))
        if self.record.at_fixed_point == end:
            self.run.weigh_for_balancing()
            return self._idle(Stage.BALANCING, Idle.UNCHANGED)
        if not self.run.may_balance:
            return self._idle(Stage.BALANCING, Idle.BALANCED)
        if self._are_too_many_throttled():
            return self._idle(Stage.BALANCING, Idle.PARTITIONS_THROTTLED)
        if self.run.limit_moves(allowance) == 0:
            return self._idle(Stage.BALANCING, Idle.THROTTLED)
        is_slow = self.scheduler.variant(self.record, Stage.BALANCING, version)
        self.run.balance(slow=is_slow)
        self.record.at_fixed_point = None if self.run.changed or self.run.is_held_back else end
        return Action.BALANCING

    def _are_too_many_throttled(self) -> bool:
        """Exclude partitions that moved too often; return whether these are too many of the imbalanced ones."""
        config = self.scheduler.config
        if config.movement_per_partition_throttle_threshold is None:
            return False
        services = self.domain.services
        partitions = self.run.partitions_at_risk(services) if self.run.is_at_risk else []
        partitions = partitions or self.run.unbalanced_partitions(services)
        throttled = self.scheduler.throttled(partitions, self.now)
        self.run.leave_alone(throttled)
        return len(throttled) > config.movement_throttled_partitions_percentage_threshold * len(partitions)


def balancing_moves_of(plan: Plan) -> Counter[str]:
    """Return the number of moves and swaps of balancing of each partition in a plan, by name."""
    return Counter(
        move.partition for move in plan.moves if move.kind in MOVEMENTS and move.reason.phase is Phase.BALANCING
    )


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
