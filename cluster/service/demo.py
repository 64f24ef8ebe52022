"""The cluster of ``plb serve --demo``: forty nodes, tenants whose loads follow the day, and plans now and then."""

from __future__ import annotations

import asyncio
import logging
from math import ceil

import numpy as np

from cluster.service import events
from cluster.service.replica import Status
from cluster.service.service import LiveCluster, PlacementService
from plb import DeactivationIntent
from plb.errors import PlbError
from plb.model.documents import Document

logger = logging.getLogger(__name__)

NAME, ACTOR, TENANT = "demo", "demo", "tenant"
NODES, TENANTS, DAY = 40, 110, 86_400.0
CAPACITIES = {"cpu": 20.0, "memory": 128.0}
SECONDS = 900.0
"""Simulated seconds of a step, a slot of the estimator."""
PAUSE = 1.0
"""Seconds of the clock of a step."""
PLAN_EVERY, WAIT = 12, 6
"""Steps between plans, and between a plan and its application: time to decide otherwise in the console."""
SETTINGS: Document = {
    "metrics": [{"name": "cpu"}, {"name": "memory"}],
    "estimator": "historical-simulation:slot_minutes=15,slots=96,horizon=16",
    "max_moves": 12,
}


class Demo:
    """Sends the events of the demonstration: the same events in every run, except for what plans change.

    All but the time is read from the cluster, so that a demonstration continues an earlier one.
    `service`: the service, which has started.
    """

    def __init__(self, service: PlacementService) -> None:
        self._service, self._step = service, 0

    @property
    def _live(self) -> LiveCluster:
        """The cluster of the demonstration."""
        return self._service.cluster(NAME)

    @property
    def _now(self) -> float:
        """Present time of the demonstration, in seconds."""
        return self._step * SECONDS

    async def _send(self, *sent: events.LoggedEvent) -> None:
        """Log and apply events."""
        await self._service.submit_all(NAME, sent, ACTOR)

    async def begin(self) -> None:
        """Make the cluster with its nodes and tenants; an existing cluster continues at its own time."""
        if NAME not in self._service.clusters:
            await self._send(events.MakeCluster(settings=SETTINGS, seed=54))
        self._step = ceil(self._live.reader.state.now / SECONDS)
        if self._step:
            return
        await self._send(*(events.PutNode(node=self._node(index), now=0.0) for index in range(NODES)))
        for number in range(TENANTS):
            await self._send(*self._arrival(number))

    def _node(self, index: int) -> Document:
        """Return the description of node number `index`."""
        domains = {"fault_domain": f"fd:/rack{index % 5}", "upgrade_domain": f"ud{index // 5}"}
        return {"name": f"n{index:02}", "capacities": CAPACITIES, **domains}

    def _arrival(self, number: int) -> list[events.LoggedEvent]:
        """Return the events of a new tenant, a service of one partition."""
        name, (cpu, _, replicas) = f"{TENANT}{number:03}", tenant(number)
        loads = {"primary": {"cpu": cpu, "memory": 5 * cpu}, "secondary": {"cpu": cpu / 4, "memory": 5 * cpu}}
        service = {"name": name, "target_replicas": replicas, "default_load": loads}
        partition = {"name": f"{name}/0", "service": name, "created": self._now}
        return [events.PutService(service=service, now=self._now), events.PutPartition(partition=partition)]

    def _tenants(self) -> list[str]:
        """Return the names of the services of the tenants that are there."""
        return [name for name in self._live.reader.engine.service_names if name.startswith(TENANT)]

    def _loads(self, random: np.random.Generator) -> events.ReportLoads:
        """Return the loads of all placed replicas now."""
        partitions, nodes, loads = list[str](), list[str](), list[list[float]]()
        for name in self._tenants():
            mean, peak, _ = tenant(int(name.removeprefix(TENANT)))
            busy = 0.6 + 0.7 * np.cos(2 * np.pi * (self._now / DAY - peak)) ** 2 + 0.3 * random.random()
            for replica in self._live.reader.engine.replicas(f"{name}/0"):
                if replica.node is not None and not replica.leaving:
                    cpu = mean * busy * (0.25 if replica.role.name == "SECONDARY" else 1.0)
                    partitions.append(f"{name}/0")
                    nodes.append(replica.node)
                    loads.append([round(float(cpu), 2), 5 * mean])
        return events.ReportLoads(partitions=partitions, nodes=nodes, loads=loads, at=self._now, now=self._now)

    async def step(self) -> None:
        """Let a step of time pass."""
        self._step += 1
        random, turn = np.random.default_rng([54, self._step]), self._step % PLAN_EVERY
        await self._send(self._loads(random))
        if turn == 1:
            await self._send(*self._changes(random), events.RequestPlan(now=self._now))
        plan_time = self._now - WAIT * SECONDS
        for plan in [*self._live.reader.state.plans.values()] if turn == 1 + WAIT else []:
            if plan.now == plan_time and plan.status is Status.READY:
                await self._send(events.ApplyPlan(plan=plan.id, now=self._now))

    def _changes(self, random: np.random.Generator) -> list[events.LoggedEvent]:
        """Return the events of some hours: a tenant comes, one leaves, and at times a node is emptied or returns."""
        leaves = str(random.choice(self._tenants()))
        changes = [
            *self._arrival(TENANTS + self._step // PLAN_EVERY),
            events.RemovePartition(name=f"{leaves}/0", now=self._now),
            events.RemoveService(name=leaves),
        ]
        nodes = self._live.reader.engine.nodes
        drained = [node.name for node in nodes if node.deactivation_intent is not DeactivationIntent.NONE]
        changes += [events.UndrainNode(name=name, now=self._now) for name in drained]
        if not drained and random.random() < 0.3:
            changes.append(events.DrainNode(name=f"n{random.integers(NODES):02}", now=self._now))
        return changes


def tenant(number: int) -> tuple[float, float, int]:
    """Return mean processor load, time of the peak as a share of a day, and number of replicas of a tenant."""
    random = np.random.default_rng([58, 0, number])
    return float(random.choice([1.0, 2.0, 4.0, 8.0])), float(random.normal(0.55, 0.12)), int(random.choice([1, 3]))


async def run_demo(service: PlacementService) -> None:
    """Run the demonstration until it is cancelled; one of an earlier run goes on."""
    demo = Demo(service)
    try:
        await demo.begin()
        while True:
            await demo.step()
            await asyncio.sleep(PAUSE)
    except PlbError:
        logger.exception("the demonstration has ended")
