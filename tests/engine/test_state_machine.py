"""A state machine sends random events to the engine; each step keeps every invariant.

`World` checks each plan. No hard constraint is newly broken, no replica is lost or doubled, energies are exact, moves
can run in their order, `apply` accepts them, planning changes nothing, and equal engines make the same plan. Errors
change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from plb import Checks, Metric, Move, MoveCost, MoveKind, Partition, Phase, PlbConfig, Reason, Replica, Role, Service
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState, UpgradeMark

from .strategies import examples
from .whole_strategies import (
    APPLICATIONS,
    NODES,
    PARTITIONS,
    SERVICES,
    budgets,
    loads_of_a_replica,
    mostly,
    plain_node,
    plain_partition,
    whole_applications,
    whole_metrics,
    whole_nodes,
    whole_partitions,
    whole_services,
    whole_settings,
)
from .world import World

STATEFUL = {name: index != 2 for index, name in enumerate(SERVICES)}
"""Which services are stateful; this cannot change."""
some_partition = st.sampled_from(PARTITIONS)
some_node = st.sampled_from(NODES)
host_actions = st.sampled_from(["apply", "start", "ignore"])
"""What the host does with a plan."""


class EngineMachine(RuleBasedStateMachine):
    """Random events in a cluster."""

    world: World
    world_kind: ClassVar[type[World]] = World
    settings_kind: ClassVar[Callable[[], st.SearchStrategy[dict[str, Any]]]] = staticmethod(whole_settings)
    now = 0.0

    @initialize(data=st.data(), random=st.randoms(use_true_random=False), seed=st.integers(0, 3))
    def begin(self, data: st.DataObject, random: Random, seed: int) -> None:
        """Start with a few nodes, services and partitions, under any settings."""
        checks = data.draw(mostly(Checks.OFF, Checks.PHASE, Checks.STEP))
        whole = {**data.draw(self.settings_kind()), "checks": checks}
        self.world = self.world_kind(data.draw(whole_metrics()), whole, seed=seed, history=data.draw(st.booleans()))
        for name in NODES[: data.draw(st.integers(3, 6))]:
            self.world.put_node(plain_node(random, name, self.metrics))
        for name in APPLICATIONS[: data.draw(st.sampled_from([0, 0, 1, 2]))]:
            self.put_application(data, name)
        for name in SERVICES[: data.draw(st.integers(1, 3))]:
            self.put_service(data, name)
        for name in PARTITIONS[: data.draw(st.integers(3, 8))]:
            service = random.choice(sorted(self.world.services))
            self.world.put_partition(
                plain_partition(random, name, self.world.services[service], list(self.world.nodes))
            )
        self.report_loads(random, 12)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of the world."""
        return self.world.config.metrics

    def _reported(self, name: str) -> list[Replica]:
        """Return the replicas of a partition as a host reports them.

        A primary that another one replaced during its standby comes back as a secondary.
        """
        placed = [r for r in self.world.one.replicas(name) if r.node is not None]
        primaries = [r.node for r in placed if r.role == Role.PRIMARY and not r.leaving]
        return [
            Replica(Role.SECONDARY if r.node in primaries[:-1] else r.role, r.node, leaving=r.leaving) for r in placed
        ]

    # events

    @rule(data=st.data(), name=some_node, late=st.booleans())
    def update_node(self, data: st.DataObject, name: str, late: bool) -> None:
        """Add a node, or change all its fields."""
        self.world.put_node(data.draw(whole_nodes(name, self.metrics)), self.now if late else None)

    @rule(name=some_node)
    def remove_node(self, name: str) -> None:
        """Remove a node, unless it has replicas or is the last one."""
        if name in self.world.nodes and len(self.world.nodes) > 1:
            self.world.remove_node(name)

    @rule(name=some_node, up=st.booleans())
    def node_fails_or_returns(self, name: str, up: bool) -> None:
        """Let a node fail or return."""
        if name in self.world.nodes:
            self.world.put_node(attrs.evolve(self.world.nodes[name], up=up), self.now)

    @rule(name=some_node, intent=st.sampled_from(DeactivationIntent), status=st.sampled_from(DeactivationStatus))
    def node_is_deactivated(self, name: str, intent: DeactivationIntent, status: DeactivationStatus) -> None:
        """Deactivate a node, or activate it again."""
        if name in self.world.nodes:
            node = attrs.evolve(self.world.nodes[name], deactivation_intent=intent, deactivation_status=status)
            self.world.put_node(node)

    @rule(data=st.data(), name=st.sampled_from(SERVICES))
    def put_service(self, data: st.DataObject, name: str) -> None:
        """Add a service, or change it."""
        made = whole_services(name, self.metrics, stateful=STATEFUL[name], child=name != SERVICES[0])
        self.world.put_service(data.draw(made))

    @rule(data=st.data(), name=st.sampled_from(APPLICATIONS))
    def put_application(self, data: st.DataObject, name: str) -> None:
        """Add an application, or change its limits."""
        self.world.put_application(data.draw(whole_applications(name, self.metrics)))

    @rule(name=st.sampled_from(APPLICATIONS))
    def remove_application(self, name: str) -> None:
        """Remove an application, whose services then have no common limits."""
        self.world.remove_application(name)

    @rule(data=st.data(), name=some_partition)
    def put_partition(self, data: st.DataObject, name: str) -> None:
        """Add a partition, or change it."""
        if name in self.world.partitions:
            service = self.world.partitions[name].service
        elif self.world.services:
            service = data.draw(st.sampled_from(sorted(self.world.services)))
        else:
            return
        drawn = whole_partitions(name, self.world.services[service], list(self.world.nodes))
        self.world.put_partition(data.draw(drawn))

    @rule(
        name=some_partition,
        place=st.integers(0, 3),
        state=st.sampled_from([None, *ReplicaState]),
        leaving=mostly(False, False, True),
        still=mostly(False, False, True),
        missing=mostly(None, 0, 1, -1),
    )
    def replica_changes(
        self, name: str, place: int, state: ReplicaState | None, leaving: bool, still: bool, missing: int | None
    ) -> None:
        """Change the state of one replica, or lose it."""
        if name not in self.world.partitions:
            return
        replicas = self._reported(name)
        if place < len(replicas):
            known = replicas[place]
            replicas[place : place + 1] = (
                [] if state is None else [attrs.evolve(known, state=state, leaving=leaving or known.leaving)]
            )
        given = self.world.partitions[name]
        self.world.put_partition(attrs.evolve(given, replicas=replicas, missing=missing, in_transition=still))

    @rule(domains=st.sets(st.sampled_from(["u0", "u1", "u2"])))
    def domains_are_upgraded(self, domains: set[str]) -> None:
        """Report the upgrade domains that are upgraded."""
        self.world.call(lambda engine: engine.update_upgraded_domains(domains))

    @rule(name=some_partition, place=st.integers(0, 2), lost=st.booleans(), budget=budgets, then=host_actions)
    def role_is_to_change(self, name: str, place: int, lost: bool, budget: int | None, then: str) -> None:
        """Let an upgrade ask a primary to hand over its role, or ask for the role to return, and place.

        With `lost` the primary is gone before its role returns.
        """
        if name not in self.world.partitions or not self.world.given.service_of(name).stateful:
            return
        replicas = self._reported(name)
        if place < len(replicas):
            primary = replicas[place].role == Role.PRIMARY
            mark = UpgradeMark.SWAP_OUT if primary else UpgradeMark.PRIMARY_RETURNS
            replicas[place] = attrs.evolve(replicas[place], upgrade=mark)
            if lost and not primary:
                replicas = [r for r in replicas if r.role != Role.PRIMARY]
            self.world.put_partition(attrs.evolve(self.world.partitions[name], replicas=replicas))
            self.place(budget, None, then)

    @rule(name=some_partition)
    def remove_partition(self, name: str) -> None:
        """Remove a partition."""
        if name in self.world.partitions:
            self.world.remove_partition(name)

    @rule(name=st.sampled_from(SERVICES))
    def remove_service(self, name: str) -> None:
        """Remove a service, unless it has partitions."""
        if name not in self.world.services:
            return
        if any(partition.service == name for partition in self.world.partitions.values()):
            self.world.refuse(lambda engine: engine.remove_service(name))
        else:
            self.world.remove_service(name)

    @rule(name=some_partition, node=some_node, load=loads_of_a_replica)
    def report_load(self, name: str, node: str, load: float) -> None:
        """Report the load of a replica."""
        exists = name in self.world.partitions and node in {r.node for r in self.world.one.replicas(name)}
        loads = {self.metrics[0].name: load}
        if exists:
            self.world.call(lambda engine: engine.report_load(name, node, loads))
        else:
            self.world.refuse(lambda engine: engine.report_load(name, node, loads))

    @rule(name=some_partition, role=st.sampled_from(Role), load=loads_of_a_replica)
    def report_role_load(self, name: str, role: Role, load: float) -> None:
        """Report the load of a role."""
        if self._has_role(name, role):
            self.world.call(lambda engine: engine.report_role_load(name, role, {self.metrics[-1].name: load}))
        else:
            self.world.refuse(lambda engine: engine.report_role_load(name, role, {self.metrics[-1].name: load}))

    @rule(name=some_partition, role=st.sampled_from(Role), cost=st.sampled_from(MoveCost))
    def report_move_cost(self, name: str, role: Role, cost: MoveCost) -> None:
        """Report the move cost of a role."""
        if self._has_role(name, role):
            self.world.call(lambda engine: engine.report_move_cost(name, role, cost))
        else:
            self.world.refuse(lambda engine: engine.report_move_cost(name, role, cost))

    def _has_role(self, name: str, role: Role) -> bool:
        if name not in self.world.partitions:
            return False
        return (role == Role.INSTANCE) != self.world.given.service_of(name).stateful

    @rule(
        random=st.randoms(use_true_random=False),
        largest=st.integers(0, 15),
        ahead=st.none() | st.sampled_from([0.0, 60.0, 7200.0]),
    )
    def report_loads(self, random: Random, largest: int, ahead: float | None = None) -> None:
        """Report the load of all replicas, perhaps of a moment after the latest call."""
        rows = [r.index for name in self.world.partitions for r in self.world.one.replicas(name)]
        loads = [[float(random.randint(0, largest)) for _ in self.metrics] for _ in rows]
        if rows:
            at = None if ahead is None else self.world.one._planner.now + ahead
            self.world.call(lambda engine: engine.report_loads(rows, loads, at=at))

    @rule(data=st.data(), checks=mostly(Checks.OFF, Checks.PHASE, Checks.STEP))
    def configure(self, data: st.DataObject, checks: Checks) -> None:
        """Replace the settings."""
        self.world.configure({**data.draw(self.settings_kind()), "checks": checks})

    # plans

    @rule(forth=st.sampled_from([0.0, 1.0, 10.0, -5.0]), budget=budgets, then=host_actions)
    def refresh(self, forth: float, budget: int | None, then: str) -> None:
        """Let time pass, or go back, and run the phases that are due."""
        self.now += forth
        self.world.ask(lambda engine: engine.refresh(self.now, budget=budget))
        self.act_on_plan(then)

    @rule(budget=budgets, names=st.none() | st.lists(some_partition, max_size=3), then=host_actions)
    def place(self, budget: int | None, names: list[str] | None, then: str) -> None:
        """Place all missing replicas, or those of some partitions."""
        known = None if names is None else [name for name in names if name in self.world.partitions]
        self.world.ask(lambda engine: engine.place(known, budget=budget))
        self.act_on_plan(then)

    @rule(budget=budgets, then=host_actions)
    def repair(self, budget: int | None, then: str) -> None:
        """Repair breaches."""
        self.world.ask(lambda engine: engine.repair(budget=budget))
        self.act_on_plan(then)

    @rule(budget=budgets, then=host_actions)
    def balance(self, budget: int | None, then: str) -> None:
        """Balance the loads."""
        self.world.ask(lambda engine: engine.balance(budget=budget), balancing=True)
        self.act_on_plan(then)

    @rule(random=st.randoms(use_true_random=False), budget=budgets, then=host_actions)
    def balance_other_loads(self, random: Random, budget: int | None, then: str) -> None:
        """Balance after a change of all loads."""
        self.report_loads(random, 15)
        self.balance(budget, then)

    @rule(name=some_node, budget=budgets, then=host_actions)
    def repair_a_smaller_node(self, name: str, budget: int | None, then: str) -> None:
        """Repair after a node has lost most of its capacity."""
        if name in self.world.nodes:
            node = self.world.nodes[name]
            self.world.put_node(attrs.evolve(node, capacities={m: c // 3 for m, c in node.capacities.items()}))
            self.repair(budget, then)

    def act_on_plan(self, then: str) -> None:
        """Apply the plan just made, start its moves, or ignore it."""
        if then != "ignore":
            self.world.apply_plan(leaving=then == "start")

    @rule(data=st.data(), name=some_partition)
    def vacate(self, data: st.DataObject, name: str) -> None:
        """Remove a leaving replica."""
        if name not in self.world.partitions:
            return
        ends = [r.node for r in self.world.one.replicas(name) if r.leaving and r.node is not None]
        if ends:
            node = data.draw(st.sampled_from(sorted(ends)))
            self.world.call(lambda engine: engine.vacate(name, node))

    # invalid calls

    @rule(number=st.integers(0, 12), name=some_partition)
    def invalid_call(self, number: int, name: str) -> None:
        """Refuse an invalid call, and change nothing."""
        world, node = self.world, next(iter(self.world.nodes.values()))
        known = next(iter(world.partitions), None)
        stray = Move(MoveKind.MOVE, name, Role.SECONDARY, "nowhere", "n0", Reason(Phase.REPAIR, "energy"), 1.0)
        empty = attrs.evolve(world.one.place([]), moves=(stray,))
        world.two.place([])
        calls: list[Any] = [
            lambda engine: engine.update_node(attrs.evolve(node, up=not node.up), now=math.nan),
            lambda engine: engine.update_node(attrs.evolve(node, capacities={"unheard-of": 1.0})),
            lambda engine: engine.update_service(Service(SERVICES[0], placement_constraint="zone ==")),
            lambda engine: engine.update_service(Service("new", metrics={"unheard-of": 1.0})),
            lambda engine: engine.update_partition(Partition(name, service="unheard-of")),
            lambda engine: engine.refresh(math.nan),
            lambda engine: engine.balance(budget=-1),
            lambda engine: engine.place([name, "unheard-of"]),
            lambda engine: engine.report_loads([10**6], [[1.0] * len(self.metrics)]),
            lambda engine: engine.configure(PlbConfig(metrics=[Metric("unheard-of")])),
            lambda engine: engine.apply(empty),
            lambda engine: engine.vacate(name, "unheard-of"),
            lambda engine: engine.report_move_cost(known or name, Role.PRIMARY, "unheard-of"),
        ]
        world.refuse(calls[number])

    @invariant()
    def engines_agree(self) -> None:
        """Compare the reports of the two engines."""
        world = getattr(self, "world", None)
        if world is not None:
            assert world.snapshot(world.one) == world.snapshot(world.two)

    @invariant()
    def kept_arrays_equal_those_from_scratch(self) -> None:
        """Compare the kept arrays of one engine with those from scratch; the other engine is not compared."""
        world = getattr(self, "world", None)
        if world is not None:
            world.check_kept()


@pytest.mark.parametrize(
    "count", [pytest.param(30, marks=pytest.mark.kernels), pytest.param(600, marks=pytest.mark.slow)]
)
def test_events_keep_every_invariant(count):
    options = settings(examples(count), stateful_step_count=20)
    run_state_machine_as_test(EngineMachine, settings=options)
