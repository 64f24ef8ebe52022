"""A served cluster and an engine in process are equal after every event, whatever is sent and whenever it restarts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from cluster.service import searches
from cluster.service.events import (
    ApplyPlan,
    DiscardPlan,
    DrainNode,
    LoggedEvent,
    MakeCluster,
    PutNode,
    PutPartition,
    PutService,
    RemoveNode,
    RemovePartition,
    RemoveService,
    ReportLoads,
    RequestPlan,
    UndrainNode,
    Vacate,
)
from cluster.service.log import Log
from cluster.service.replica import StaleError
from cluster.service.service import PlacementService
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica
from plb import Service as ModelService
from plb.errors import ConflictError, PlbError
from plb.model.plan import of_move
from tests.cluster.service.served import CLUSTER, planned, send

Result = TypeVar("Result")
Engine = PlacementAndLoadBalancing
name, amount = st.integers(0, 3), st.integers(0, 12)
ESTIMATOR = "historical-simulation:horizon=1,slots=24,slot_minutes=10"
SETTINGS = {"metrics": [{"name": "cpu"}], "estimator": ESTIMATOR}
BUDGET = 300
"""Proposals of a plan."""


class ServedCluster(RuleBasedStateMachine):
    """A service and an engine in process that are told the same."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = Path(mkdtemp(prefix="plb-served-"))
        self.engine = Engine(PlbConfig(metrics=[Metric("cpu")], estimator=ESTIMATOR), seed=3)
        self.plan: tuple[str, Any] | None = None
        self.now = 0.0
        self.service = self.opened(self.folder)
        self.wait(send(self.service, MakeCluster(settings=SETTINGS, seed=3)))
        self.describe()

    def describe(self) -> None:
        """Describe a small cluster to begin with."""
        for node in range(3):
            self.node(node, 12, True)
        self.put_service(0, 2, 4)
        for partition in range(3):
            self.put_partition(partition, 0, partition)

    def wait(self, work: Awaitable[Result]) -> Result:
        """Return the result of asynchronous work."""
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    def opened(self, folder: Path) -> PlacementService:
        """Return a service of the log in a directory."""

        async def start() -> PlacementService:
            service = PlacementService(Log(folder))
            await service.start()
            return service

        return self.wait(start())

    def both(self, event: LoggedEvent, call: Callable[[Engine], Any]) -> None:
        """Send an event, make the call in process, and compare what came of it and the clusters."""
        self.refuse_alike(self.wait(send(self.service, event)).refusal, call)
        self.compare()

    def refuse_alike(self, refusal: PlbError | None, call: Callable[[Engine], Any]) -> None:
        """Make the call in process, and compare its error with a refusal of the service."""
        message = None
        try:
            call(self.engine)
        except PlbError as error:
            message = str(error)
        assert (None if refusal is None else str(refusal)) == message

    def compare(self) -> None:
        """Compare the clusters."""
        served = self.service.cluster(CLUSTER).reader.engine
        assert served.violation_probabilities() == self.engine.violation_probabilities()
        assert served.node_loads() == self.engine.node_loads()
        assert served.violations(soft=True) == self.engine.violations(soft=True)
        assert self.replicas(served) == self.replicas(self.engine)

    def replicas(self, engine: Engine) -> list[Any]:
        """Return the replicas of all partitions of an engine."""
        return [engine.replicas(partition) for partition in engine._state.partition_names()]

    @rule(node=name, capacity=amount, up=st.booleans())
    def node(self, node: int, capacity: int, up: bool) -> None:
        fields = {"capacities": {"cpu": 4 * capacity}, "upgrade_domain": f"u{node % 2}", "up": up}
        document = {"name": f"n{node}", **fields}
        self.both(
            PutNode(node=document, now=self.now),
            lambda engine: engine.update_node(Node(f"n{node}", **fields), now=self.now),
        )

    @rule(node=name)
    def remove_node(self, node: int) -> None:
        self.both(RemoveNode(name=f"n{node}"), lambda engine: engine.remove_node(f"n{node}", now=self.now))

    @rule(node=name, drains=st.booleans())
    def drain(self, node: int, drains: bool) -> None:
        event = DrainNode(name=f"n{node}") if drains else UndrainNode(name=f"n{node}")
        self.both(event, lambda engine: getattr(engine, event.kind)(f"n{node}", now=self.now))

    @rule(service=name, size=st.integers(1, 3), load=amount)
    def put_service(self, service: int, size: int, load: int) -> None:
        fields = {"target_replicas": size, "default_load": {"primary": {"cpu": load}, "secondary": {"cpu": 1}}}
        self.both(
            PutService(service={"name": f"s{service}", **fields}),
            lambda engine: engine.update_service(ModelService(f"s{service}", **fields)),
        )

    @rule()
    def put_service_on_every_node(self) -> None:
        fields = {"stateful": False, "on_every_node": True, "default_load": {"instance": {"cpu": 2}}}
        self.both(
            PutService(service={"name": "agent", **fields}),
            lambda engine: engine.update_service(ModelService("agent", **fields)),
        )
        self.both(
            PutPartition(partition={"name": "agent/0", "service": "agent"}),
            lambda engine: engine.update_partition(Partition("agent/0", service="agent")),
        )

    @rule(service=name)
    def remove_service(self, service: int) -> None:
        self.both(RemoveService(name=f"s{service}"), lambda engine: engine.remove_service(f"s{service}"))

    @rule(partition=name, service=name, primary=st.none() | name)
    def put_partition(self, partition: int, service: int, primary: int | None) -> None:
        replicas = [] if primary is None else [{"role": "primary", "node": f"n{primary}"}]
        document = {"name": f"p{partition}", "service": f"s{service}", "replicas": replicas}
        model = [Replica(**replica) for replica in replicas]
        self.both(
            PutPartition(partition=document),
            lambda engine: engine.update_partition(Partition(f"p{partition}", service=f"s{service}", replicas=model)),
        )

    @rule(partition=name)
    def remove_partition(self, partition: int) -> None:
        self.both(RemovePartition(name=f"p{partition}"), lambda engine: engine.remove_partition(f"p{partition}"))

    @rule(partition=name, node=name, load=st.integers(-1, 40), at=st.none() | st.integers(-1800, 1800))
    def report(self, partition: int, node: int, load: int, at: int | None) -> None:
        at = None if at is None else min(at, int(self.now))

        def call(engine: Engine) -> None:
            for replica in engine.replicas(f"p{partition}"):
                if replica.node == f"n{node}" and not replica.leaving:
                    engine.report_loads([replica.index], [[load]], at=at)
                    return
            raise ConflictError(f"loads: partition p{partition} has no replica on node n{node}")

        self.both(ReportLoads(partitions=[f"p{partition}"], nodes=[f"n{node}"], loads=[[load]], at=at), call)

    @rule(partition=name, node=name)
    def vacate(self, partition: int, node: int) -> None:
        self.both(
            Vacate(partition=f"p{partition}", node=f"n{node}"),
            lambda engine: engine.vacate(f"p{partition}", f"n{node}"),
        )

    @rule(call=st.sampled_from(["refresh", "place", "repair", "balance"]), later=st.integers(0, 600))
    def make_plan(self, call: str, later: int) -> None:
        self.discard()
        self.now += later
        record = self.wait(planned(self.service, RequestPlan(call=call, now=self.now, proposals=BUDGET)))
        plan = getattr(self.engine, call)(now=self.now, budget=BUDGET)
        assert record.document is not None
        assert record.document["moves"] == [of_move(move) for move in plan.moves]
        assert record.document["energy_after"]["total"] == plan.energy_after.total
        self.plan = (record.id, plan)

    def discard(self) -> None:
        """Give the open plan up, if there is one."""
        if self.plan is not None:
            assert self.wait(send(self.service, DiscardPlan(plan=self.plan[0]))).refusal is None
        self.plan = None

    @precondition(lambda self: self.plan is not None)
    @rule(leaving=st.booleans())
    def apply(self, leaving: bool) -> None:
        assert self.plan is not None
        (plan_id, plan), self.plan = self.plan, None
        refusal = self.wait(send(self.service, ApplyPlan(plan=plan_id, leaving=leaving))).refusal
        if not isinstance(refusal, StaleError):
            self.refuse_alike(refusal, lambda engine: engine.apply(plan, leaving=leaving))
        self.compare()

    @rule(kills=st.booleans())
    def restart(self, kills: bool) -> None:
        """Open the log again, after a stop or as a killed process has left it."""
        old = self.service
        if kills:
            copied = Path(mkdtemp(prefix="plb-served-"))
            shutil.copytree(self.folder, copied, dirs_exist_ok=True)
            self.wait(old.stop())
            shutil.rmtree(self.folder)
            self.folder = copied
        else:
            self.wait(old.stop())
        self.service = self.opened(self.folder)
        self.compare()

    def teardown(self) -> None:
        self.wait(self.service.stop())
        self.loop.close()
        shutil.rmtree(self.folder)


class TwoServices(ServedCluster):
    """A service that restarts, and one that never does; both save their states often."""

    def describe(self) -> None:
        self.steady = self.opened(self.steady_folder)
        self.wait(send(self.steady, MakeCluster(settings=SETTINGS, seed=3)))
        super().describe()

    @initialize()
    def begin(self) -> None:
        self.steady_folder = Path(mkdtemp(prefix="plb-served-"))
        super().begin()

    def both(self, event: LoggedEvent, _call: Callable[[Engine], Any]) -> None:
        refusals = [self.wait(send(service, event)).refusal for service in (self.service, self.steady)]
        assert str(refusals[0]) == str(refusals[1])
        self.compare()

    def compare(self) -> None:
        served, steady = (service.cluster(CLUSTER).reader for service in (self.service, self.steady))
        assert served.engine.violation_probabilities() == steady.engine.violation_probabilities()
        assert served.state.generation == steady.state.generation
        assert served.engine.node_loads() == steady.engine.node_loads()
        assert served.engine.violations(soft=True) == steady.engine.violations(soft=True)
        assert self.replicas(served.engine) == self.replicas(steady.engine)

    @rule(call=st.sampled_from(["refresh", "place", "repair", "balance"]), later=st.integers(0, 600))
    def make_plan(self, call: str, later: int) -> None:
        self.discard()
        self.now += later
        request = RequestPlan(call=call, now=self.now, proposals=BUDGET)
        records = [self.wait(planned(service, request)) for service in (self.service, self.steady)]
        assert records[0].document == records[1].document
        self.open_plans = [record.id for record in records]
        self.plan = (records[0].id, None)

    def discard(self) -> None:
        if self.plan is not None:
            self.decide(lambda plan_id: DiscardPlan(plan=plan_id))

    @precondition(lambda self: self.plan is not None)
    @rule(leaving=st.booleans())
    def apply(self, leaving: bool) -> None:
        self.decide(lambda plan_id: ApplyPlan(plan=plan_id, leaving=leaving))

    def decide(self, event: Callable[[str], LoggedEvent]) -> None:
        """Send both services an event of their open plan."""
        self.plan = None
        for service, plan_id in zip((self.service, self.steady), self.open_plans, strict=True):
            self.wait(send(service, event(plan_id)))
        self.compare()

    def teardown(self) -> None:
        self.wait(self.steady.stop())
        shutil.rmtree(self.steady_folder)
        super().teardown()


def test_a_service_that_was_killed_goes_on_like_one_that_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log and its saved state give the same cluster and the same plans."""
    monkeypatch.setattr(searches, "SAVED_EVERY", 8)
    steps = settings(max_examples=40, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(TwoServices, settings=steps)


def test_a_served_cluster_is_equal_to_an_engine_in_process_after_every_event() -> None:
    """Refusals, loads, violations, replicas and plans are the same, also after restarts."""
    steps = settings(max_examples=40, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(ServedCluster, settings=steps)
