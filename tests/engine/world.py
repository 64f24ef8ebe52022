"""A cluster that changes: two engines with the same reports, the user's input, and the checks after each step.

Both engines must always report the same. One applies plans as a whole, the other move by move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from plb import (
    Application,
    Metric,
    Move,
    MoveKind,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    Plan,
    PlbConfig,
    Role,
    Service,
)
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.score import weights_in_balancing
from plb.energy.terms import energy_of_solution
from plb.engine_extensions import among
from plb.errors import PlbError
from plb.model import ReplicaState, UpgradeMark
from plb.model.move import Phase
from plb.model.outcome import Idle
from plb.model.plan import Energy
from plb.risk import DemandHistory

from .kept_arrays import check_kept
from .rules import Seat, UserInput, breaches, is_feasible, lets_go, limit_of, node_loads, receives

DOMAINS = ("fault_domain", "upgrade_domain")
UPGRADE = ("upgrade", "upgraded")
"""Reasons of moves for an upgrade."""
CONSTRAINTS = ("placement", "capacity", "affinity", "scale_out", "application_capacity", *DOMAINS)
SETTINGS = {"scale_out": "scaleout_count"}
"""How settings name a constraint, where they do not have its name."""


def history_of(metrics: tuple[Metric, ...]) -> DemandHistory:
    """Return a small history of two classes and all roles; later traces are larger."""
    traces, width = 12, len(metrics)
    level = [[trace] * width for trace in range(traces)]
    return DemandHistory.from_columns(
        [metric.name for metric in metrics],
        tenant_class=["gold", "silver"] * 6,
        role=[role for role in Role for _ in range(4)],
        lifetime=[10 * trace for trace in range(traces)],
        level=level,
        initial=[[0] * width] * traces,
        growth=[[5] * width] * traces,
        maximum=level,
    )


def numbers_of(energy: Energy) -> dict[str, float]:
    return {"total": energy.total, **energy.terms}


class World:
    """Two engines and what the user reported to them."""

    objects: ClassVar[Sequence[Any]] = ()
    """Extensions that the settings may name."""

    def __init__(self, metrics: tuple[Metric, ...], settings: dict[str, Any], *, seed: int, history: bool) -> None:
        self.config = PlbConfig(metrics=metrics, **settings)
        self.history = self.past(metrics) if history else None
        extensions = among(self.objects, self.config)
        self.one, self.two = (
            PlacementAndLoadBalancing(self.config, seed=seed, history=self.history, **extensions) for _ in range(2)
        )
        self.nodes: dict[str, Node] = {}
        self.services: dict[str, Service] = {}
        self.partitions: dict[str, Partition] = {}
        self.applications: dict[str, Application] = {}
        self.removed_applications: set[str] = set()
        self.fixed: dict[str, set[int]] = {}
        self.standbys: dict[str, set[int]] = {}
        self.plan: Plan | None = None
        self.version = 0
        self.planned_at = -1

    def past(self, metrics: tuple[Metric, ...]) -> DemandHistory:
        """Return the history of the engines."""
        return history_of(metrics)

    @property
    def given(self) -> UserInput:
        """The user's input so far."""
        return UserInput(self.config, self.nodes, self.services, self.partitions, self.applications)

    # reports

    def call(self, verb: Callable[[PlacementAndLoadBalancing], None]) -> None:
        """Make the same call to both engines."""
        verb(self.one)
        verb(self.two)
        self.version += 1

    def put_node(self, node: Node, now: float | None = None) -> None:
        """Add a node or replace it."""
        self.call(lambda engine: engine.update_node(node, now=now))
        self.nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        """Remove a node, or have the call refused while replicas are there."""
        if any(replica.node == name for partition in self.partitions for replica in self.one.replicas(partition)):
            self.refuse(lambda engine: engine.remove_node(name))
        else:
            self.call(lambda engine: engine.remove_node(name))
            del self.nodes[name]

    def put_service(self, service: Service) -> None:
        """Add a service or replace it, or have the call refused if it joins an application that was removed."""
        known = self.services.get(service.name)
        joins = known is None or known.application != service.application
        if joins and service.application in self.removed_applications:
            self.refuse(lambda engine: engine.update_service(service))
            return
        self.call(lambda engine: engine.update_service(service))
        self.services[service.name] = service

    def put_application(self, application: Application) -> None:
        """Add an application or replace it."""
        self.call(lambda engine: engine.update_application(application))
        self.applications[application.name] = application
        self.removed_applications.discard(application.name)

    def remove_application(self, name: str) -> None:
        """Remove an application, or have the call refused if there is none of this name."""
        if name in self.applications:
            self.call(lambda engine: engine.remove_application(name))
            del self.applications[name]
            self.removed_applications.add(name)
        else:
            self.refuse(lambda engine: engine.remove_application(name))

    def put_partition(self, partition: Partition) -> None:
        """Add a partition or replace it; the engine then has exactly the given replicas."""
        self.call(lambda engine: engine.update_partition(partition))
        self.partitions[partition.name] = partition
        replicas = self.one.replicas(partition.name)
        dropped = {r.node for r in partition.replicas if r.state is ReplicaState.DROPPED}
        marked = {r.node for r in partition.replicas if r.upgrade is not UpgradeMark.NONE}
        gone = {r.node for r in partition.replicas if r.leaving} | dropped - marked
        expected = Counter((r.role, r.node, r.node in gone) for r in partition.replicas)
        assert Counter((r.role, r.node, r.leaving) for r in replicas if r.node is not None) == expected
        at = {r.node: r.index for r in replicas if r.node is not None}
        unready = [r for r in partition.replicas if r.pinned or r.leaving or r.state is not ReplicaState.READY]
        self.fixed[partition.name] = {at[r.node] for r in unready}
        standbys = [r for r in partition.replicas if r.state is ReplicaState.STANDBY or r.node in dropped & marked]
        self.standbys[partition.name] = {at[r.node] for r in standbys}

    def remove_partition(self, name: str) -> None:
        """Remove a partition."""
        self.call(lambda engine: engine.remove_partition(name))
        for known in (self.partitions, self.fixed, self.standbys):
            del known[name]

    def remove_service(self, name: str) -> None:
        """Remove a service."""
        self.call(lambda engine: engine.remove_service(name))
        del self.services[name]

    def configure(self, settings: dict[str, Any]) -> None:
        """Replace the settings."""
        config = PlbConfig(metrics=self.config.metrics, **settings)
        self.call(lambda engine: engine.configure(config))
        self.config = config

    def refuse(self, verb: Callable[[PlacementAndLoadBalancing], object]) -> None:
        """Check that the first engine refuses a call and does not change, so that it stays equal to the second."""
        before = self.snapshot(self.one)
        with pytest.raises(PlbError):
            verb(self.one)
        assert self.snapshot(self.one) == before, "a refused call changes nothing"

    # state

    def snapshot(self, engine: PlacementAndLoadBalancing) -> list[Any]:
        """Return the reports of an engine about its cluster."""
        domains = [(domain.name, domain.services, domain.metrics) for domain in engine.service_domains()]
        replicas = [engine.replicas(name) for name in self.partitions]
        return [replicas, engine.violations(), domains, engine.applications]

    def seats(self) -> dict[int, Seat]:
        """Return every replica slot by index, as the first engine reports it, with the loads of its state."""
        table, metrics = self.one._state.rows, self.config.metric_names
        found = {}
        for name, partition in self.partitions.items():
            still = partition.in_transition or partition.in_quorum_loss
            replicas = self.one.replicas(name)
            leaving = any(r.leaving for r in replicas)
            for r in replicas:
                blocked = r.node is not None and not self._may_leave(name, r.node)
                arriving = leaving and int(table.arriving[r.index]) >= 0
                load = dict(zip(metrics, table.load[r.index].tolist(), strict=True))
                fixed = still or blocked or arriving or r.index in self.fixed[name]
                standby = r.index in self.standbys[name]
                marked = any(one.upgrade is not UpgradeMark.NONE for one in partition.replicas)
                found[r.index] = Seat(
                    r.index, name, r.role, r.node, r.leaving, standby, fixed or r.leaving, load, marked
                )
            found |= self._seats_on_every_node(name, found)
        return found

    def _seats_on_every_node(self, name: str, known: dict[int, Seat]) -> dict[int, Seat]:
        """Return the slots that an engine creates for a service on every node while it plans, and does not report."""
        for engine in (self.one, self.two):
            engine._planner.fill_every_node()
        table, metrics = self.one._state.rows, self.config.metric_names
        return {
            row: Seat(
                row,
                name,
                Role(int(table.role[row])),
                None,
                leaving=False,
                standby=False,
                fixed=False,
                load=dict(zip(metrics, table.load[row].tolist(), strict=True)),
            )
            for row in self.one._state.partition(name).rows
            if row not in known
        }

    def _may_leave(self, partition: str, node: str) -> bool:
        goes = lets_go(self.nodes[node], drains=self.config.drain_removed_nodes)
        return goes and node not in self.given.service_of(partition).blocked_nodes

    def hard_rules(self, *, balancing: bool) -> list[str]:
        """Return the constraints that no plan may break: the hard ones, for balancing the soft ones as well."""
        levels = (0, 1, 2) if balancing else (0,)
        return [
            rule
            for rule in CONSTRAINTS
            if getattr(self.config, f"{SETTINGS.get(rule, rule)}_constraint_priority") in levels
            and getattr(self.config, f"{rule}_enabled", True)
        ]

    # planning

    def ask(self, verb: Callable[[PlacementAndLoadBalancing], Plan], *, balancing: bool = False) -> Plan:
        """Ask both engines for the same plan, and check it."""
        seats = self.seats()
        before = self.snapshot(self.one)
        problems = self._problems()
        plan = verb(self.one)
        assert plan == verb(self.two), "equal engines plan the same"
        assert self.snapshot(self.one) == before, "asking for a plan changes nothing"
        after = self.replay(seats, plan)
        self._check_kept(seats, after, plan)
        self._check_budgets(seats, after, plan)
        rules = self.hard_rules(balancing=balancing)
        if any(move.kind is MoveKind.DROP for move in plan.moves):
            rules = [rule for rule in rules if rule != "affinity"]  # dropping keeps pairs only where it can
        if any(move.reason.rule in UPGRADE for move in plan.moves):
            capacities = ("capacity", "application_capacity")
            relaxed = ("affinity", *(capacities if self.config.relax_capacity_constraint_for_upgrade else ()))
            rules = [rule for rule in rules if rule not in relaxed]
        before, then = (breaches(self.given, known.values(), rules) for known in (seats, after))
        worse = {key: (before.get(key, 0), much) for key, much in then.items() if much > before.get(key, 0)}
        resized = {move.partition for move in plan.moves if self._changes_number(move)}
        for key in [key for key in worse if key[0] in DOMAINS and key[1] in resized and key in before]:
            del worse[key]  # the unevenness of different numbers of replicas does not compare
        placed = {self.partitions[move.partition].service for move in plan.moves if move.kind is MoveKind.ADD}
        for key in [key for key in worse if key[0] == "affinity" and self._parent_of(str(key[1])) in placed]:
            del worse[key]  # parents are placed freely; the next repair moves their children to them
        assert not worse, (worse, plan.moves)
        if "ActionSkipped" not in plan.actions.values():
            self._check_energy(plan, problems, after)
        self.plan, self.planned_at = plan, self.version
        return plan

    def check_kept(self) -> None:
        """Compare the arrays that the first engine keeps between plans with those from scratch."""
        check_kept(self.one)

    def _parent_of(self, partition: str) -> str | None:
        """Return the service that the service of a partition has affinity to."""
        return self.given.service_of(partition).affinity_to

    def _problems(self) -> list[Any]:
        """Return the arrays of each service domain before a plan."""
        planner = self.one._planner
        domains = planner.domains.found() if self.config.one_action_per_refresh else planner.domains.units()
        planner.fill_every_node()
        self.two._planner.fill_every_node()
        return [planner.problem(planner.now, domain) for domain in domains]

    def _check_energy(self, plan: Plan, problems: list[Any], after: dict[int, Seat]) -> None:
        """Compare the energies of a plan with those of configurations from scratch."""
        if len(problems) != len(self.one._planner.domains.units()) or self.one._planner.demand_forecast.repetitions:
            return
        ends = [Energy(0, 0, 0, 0, 0), Energy(0, 0, 0, 0, 0)]
        dropped = {move.index for move in plan.moves if move.kind is MoveKind.DROP}
        balances = [  # a balancing that is skipped has its weight, too
            Phase.BALANCING in outcome.phases or outcome.idle.get(Phase.BALANCING) is Idle.UNCHANGED
            for outcome in plan.outcomes
        ]
        if any(balances) and len(problems) > 1:
            return  # each service domain has a weight of its own
        for problem in problems:
            if any(balances):
                start = solution_from_scratch(problem, problem.origin.copy())
                problem = problem._replace(weights=weights_in_balancing(problem, start))
            place = problem.origin.copy()
            for index in np.flatnonzero(place >= 0).tolist():
                seat = after.get(index)
                if index in dropped:
                    place[index] = -1
                elif seat is not None and seat.node is not None:
                    place[index] = list(self.nodes).index(seat.node)
            for index, seat in after.items():
                if seat.node is not None:
                    place[index] = list(self.nodes).index(seat.node)
            ends[0] += energy_of_solution(problem, solution_from_scratch(problem, problem.origin.copy()))
            end = solution_from_scratch(problem, place)
            replaced = [index for index in np.flatnonzero(place >= 0).tolist() if index not in after]
            if replaced:
                movement, place = end.totals.movement, place.copy()
                place[replaced] = -1
                end = solution_from_scratch(problem, place)
                end.totals.movement = movement
            ends[1] += energy_of_solution(problem, end)
        assert numbers_of(plan.energy_before) == pytest.approx(numbers_of(ends[0]), abs=1e-9)
        promotes = any(move.kind is MoveKind.PROMOTE for move in plan.moves)
        if len(problems) == 1 and not promotes:
            assert numbers_of(plan.energy_after) == pytest.approx(numbers_of(ends[1]), abs=1e-9)

    def replay(self, seats: dict[int, Seat], plan: Plan) -> dict[int, Seat]:
        """Run the moves one by one; each is legal in its turn."""
        at = dict(seats)
        loads = node_loads(at.values())
        start = Counter(loads)
        for number, move in enumerate(plan.moves):
            moved, before = at[move.index], Counter(loads)
            if move.kind in (MoveKind.PROMOTE, MoveKind.VOID):
                self._check_order(move, moved, at)
                continue
            for_upgrade = move.reason.rule in UPGRADE
            assert (moved.partition, moved.role, moved.node) == (move.partition, move.role, move.source), move
            if move.kind is MoveKind.DROP:
                loads.subtract(node_loads([at.pop(move.index)]))
                continue
            changed = [attrs.evolve(moved, node=move.target)]
            if move.kind is MoveKind.SWAP:
                partner = next(
                    s
                    for s in at.values()
                    if (s.partition, s.node, s.role) == (move.partition, move.target, 1) and s.counts
                )
                changed.append(attrs.evolve(partner, node=move.source))
            else:
                self._check_target(moved, str(move.target))
                for seat in [s for s in at.values() if (s.partition, s.node) == (move.partition, move.target)]:
                    assert seat.standby, f"{move}: a replica of the partition is there"
                    loads.subtract(node_loads([at.pop(seat.index)]))
            for seat in changed:
                immovable = not self._may_hand_over(seat) if for_upgrade else seat.fixed or seat.marked
                assert not (immovable and at[seat.index].node is not None), f"{move}: it may not move"
                loads.subtract(node_loads([at[seat.index]]))
                at[seat.index] = seat
                loads.update(node_loads([seat]))
            relaxed = for_upgrade and self.config.relax_capacity_constraint_for_upgrade
            if self.config.capacity_constraint_priority == 0 and not relaxed:
                self._check_capacity(changed, loads, start | before, number, plan)  # the larger of the two
        return at

    def _check_order(self, move: Move, seat: Seat, at: dict[int, Seat]) -> None:
        """Check that a promotion or a void move fits the present state."""
        primaries = [s for s in at.values() if s.partition == move.partition and s.role == Role.PRIMARY and s.counts]
        assert (seat.partition, seat.role, seat.marked) == (move.partition, move.role, True), move
        if move.kind is MoveKind.VOID:
            assert seat.node == move.source, move
            if move.reason.rule == "upgrade":
                assert self.given.service_of(seat.partition).target_replicas == 1, move
                assert self.config.is_singleton_replica_move_allowed_during_upgrade, move
            else:
                assert seat not in primaries, move
            return
        assert (primaries, seat.role, seat.node) == ([], Role.SECONDARY, move.target), move
        node = self.nodes[str(move.target)]
        assert receives(node, new=False, everywhere=False), move
        assert self._may_hand_over(seat), move
        if self.config.placement_constraint_priority == 0:
            assert is_feasible(self.given.service_of(seat.partition), node, primary=True), move

    def _may_hand_over(self, seat: Seat) -> bool:
        """Return whether a replica may change its role for an upgrade on any node: it is ready and not pinned."""
        partition = self.partitions[seat.partition]
        free = seat.index not in self.fixed[seat.partition] and not seat.leaving
        return free and not (partition.in_transition or partition.in_quorum_loss)

    def _check_target(self, moved: Seat, target: str) -> None:
        """Check that the target accepts the replica and is feasible for it."""
        service = self.given.service_of(moved.partition)
        everywhere = service.on_every_node and not service.stateful
        assert receives(self.nodes[target], new=moved.node is None, everywhere=everywhere), (moved, target)
        if self.config.placement_constraint_priority == 0:
            assert is_feasible(service, self.nodes[target], primary=moved.role == Role.PRIMARY), (moved, target)

    def _check_capacity(
        self,
        changed: list[Seat],
        loads: Counter[tuple[str, str]],
        before: Counter[tuple[str, str]],
        number: int,
        plan: Plan,
    ) -> None:
        """Check that the targets have free capacity, or that a later move leaves them: exchanges may have no order.

        A node that was over its limit `before`, at the start or before the move, may keep so much load.
        """
        for seat in changed:
            for metric in seat.load:
                limit = limit_of(self.config, self.nodes[str(seat.node)], metric)
                load = loads[str(seat.node), metric]
                later = plan.moves[number + 1 :]
                leaves = any(m.source == seat.node or (m.kind, m.target) == (MoveKind.SWAP, seat.node) for m in later)
                fits = limit is None or load <= limit or load <= before[str(seat.node), metric]
                assert fits or leaves, (seat, metric, load, limit, plan.moves)

    def _changes_number(self, move: Move) -> bool:
        """Return whether a move may change how many replicas of its partition count in the usable domains."""
        if move.kind is not MoveKind.MOVE:
            return move.kind is not MoveKind.SWAP
        left = self.given.nodes[str(move.source)]
        feasible = is_feasible(self.given.service_of(move.partition), left, primary=False)
        return not (feasible and receives(left, new=True, everywhere=False))

    def _check_kept(self, seats: dict[int, Seat], after: dict[int, Seat], plan: Plan) -> None:
        """Check for lost or doubled replicas; only secondaries that are not pinned and replaced standbys go."""
        kinds = Counter(move.kind for move in plan.moves)
        dropped = [move for move in plan.moves if move.kind is MoveKind.DROP]
        for move in dropped:
            assert move.role != Role.PRIMARY, move
            given = [r for r in self.partitions[move.partition].replicas if r.node == move.source]
            assert all(not r.pinned or r.leaving or r.state is ReplicaState.DROPPED for r in given), move
        waiting = [sum(seat.node is None for seat in known.values()) for known in (seats, after)]
        assert waiting[0] - waiting[1] == kinds[MoveKind.ADD]
        gone = set(seats) - set(after)
        assert gone == {move.index for move in dropped} | {i for i in gone if seats[i].standby}
        per_place = Counter((s.partition, s.node) for s in after.values() if s.node is not None)
        assert max(per_place.values(), default=0) <= 1, "two replicas of a partition on one node"

    def _check_budgets(self, seats: dict[int, Seat], after: dict[int, Seat], plan: Plan) -> None:
        """Check that moves keep to the budgets of service and node."""
        ends: Counter[str] = Counter()
        of_service: Counter[str] = Counter()
        for index, seat in after.items():
            source = seats[index].node
            if None not in (source, seat.node) and source != seat.node:
                ends.update([str(source), str(seat.node)])
                of_service[self.partitions[seat.partition].service] += 1
        for name, moves in of_service.items():
            most = self.services[name].max_moves
            assert most is None or moves <= most, name
        most = self.config.max_moves_per_node
        assert most is None or max(ends.values(), default=0) <= most
        moves = sum(move.kind in (MoveKind.MOVE, MoveKind.SWAP) for move in plan.moves)
        assert self.config.max_moves is None or moves <= self.config.max_moves

    def apply_plan(self, *, leaving: bool) -> None:
        """Apply the last plan if nothing has changed since: as a whole, and move by move."""
        if self.plan is None or self.planned_at != self.version:
            return
        after = self.replay(self.seats(), self.plan)
        leaving = leaving and not self.config.allow_chained_moves  # the next of a chain waits until the first has left
        self.one.apply(self.plan, leaving=leaving)
        for move in self.plan.moves:
            self.two.apply(attrs.evolve(self.plan, moves=(move,)), leaving=leaving)
        self.version += 1
        self._forget_replaced(after)
        promoted = {move.partition: move.target for move in self.plan.moves if move.kind is MoveKind.PROMOTE}
        expected, described = (
            {
                (i if s.partition not in promoted else 0, s.partition, s.role, s.node)
                for i, s in known.items()
                if s.node is not None and not s.leaving
            }
            for known in (after, self.seats())
        )
        secondaries = {(0, name, Role.SECONDARY, node) for name, node in promoted.items()}
        assert secondaries <= expected
        assert described == expected - secondaries | {(0, name, Role.PRIMARY, node) for _, name, _, node in secondaries}
        assert self.snapshot(self.one) == self.snapshot(self.two)

    def _forget_replaced(self, after: dict[int, Seat]) -> None:
        for known in (self.fixed, self.standbys):
            for name in known:
                known[name] &= set(after)
