"""The cluster of ``plb serve --demo``: forty nodes, tenants whose loads follow the day, and plans now and then."""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from cluster.service.documents import Document
from cluster.service.events import (
    ApplyPlan,
    DrainNode,
    LoggedEvent,
    MakeCluster,
    PutNode,
    PutPartition,
    PutService,
    RemovePartition,
    RemoveService,
    ReportLoads,
    RequestPlan,
    UndrainNode,
)
from cluster.service.replica import Status
from cluster.service.service import LiveCluster, PlacementService
from plb.errors import PlbError

logger = logging.getLogger(__name__)

NAME, ACTOR = "demo", "demo"
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
    """Sends the events of the demonstration; the same ones in every run, except for what plans change.

    Parameters
    ----------
    service
        The service, which has started.
    """

    def __init__(self, service: PlacementService) -> None:
        self._service, self._random = service, np.random.default_rng(54)
        self._step, self._next, self._tenants = 0, 0, dict[str, tuple[float, float]]()
        """Mean processor load and time of the peak, as a share of a day, by partition."""
        self._plan: str | None = None
        self._drained: str | None = None

    @property
    def _live(self) -> LiveCluster:
        return self._service.cluster(NAME)

    @property
    def _now(self) -> float:
        return self._step * SECONDS

    async def _send(self, *events: LoggedEvent) -> list[int]:
        """Log and apply events; return their sequence numbers."""
        receipts = await self._service.submit_all(NAME, list(events), ACTOR)
        return [receipt.sequence for receipt in receipts]

    async def begin(self) -> None:
        """Make the cluster with its nodes and tenants, and place them."""
        await self._service.submit(NAME, MakeCluster(settings=SETTINGS, seed=54), ACTOR)
        nodes = (self._node(index) for index in range(NODES))
        await self._send(*(PutNode(node=node, now=0.0) for node in nodes))
        for _ in range(TENANTS):
            await self._send(*self._arrival())

    def _node(self, index: int) -> Document:
        domains = {"fault_domain": f"fd:/rack{index % 5}", "upgrade_domain": f"ud{index // 5}"}
        return {"name": f"n{index:02}", "capacities": CAPACITIES, **domains}

    def _arrival(self) -> list[LoggedEvent]:
        """Return the events of a new tenant, a service of one partition."""
        name, cpu = f"tenant{self._next:03}", float(self._random.choice([1.0, 2.0, 4.0, 8.0]))
        self._next += 1
        self._tenants[name] = (cpu, float(self._random.normal(0.55, 0.12)))
        loads = {"primary": {"cpu": cpu, "memory": 5 * cpu}, "secondary": {"cpu": cpu / 4, "memory": 5 * cpu}}
        service = {"name": name, "target_replicas": int(self._random.choice([1, 3])), "default_load": loads}
        partition = {"name": f"{name}/0", "service": name, "created": self._now}
        return [PutService(service=service, now=self._now), PutPartition(partition=partition)]

    def _departure(self) -> list[LoggedEvent]:
        """Return the events of a tenant that leaves."""
        name = str(self._random.choice([*self._tenants]))
        del self._tenants[name]
        return [RemovePartition(name=f"{name}/0", now=self._now), RemoveService(name=name)]

    def _loads(self) -> ReportLoads:
        """Return the loads of all placed replicas now."""
        partitions, nodes, loads = list[str](), list[str](), list[list[float]]()
        hour = self._now / DAY
        for name, (mean, peak) in self._tenants.items():
            busy = 0.6 + 0.7 * np.cos(2 * np.pi * (hour - peak)) ** 2 + 0.3 * self._random.random()
            for replica in self._live.reader.engine.replicas(f"{name}/0"):
                if replica.node is not None and not replica.leaving:
                    cpu = mean * busy * (0.25 if replica.role.name == "SECONDARY" else 1.0)
                    partitions.append(f"{name}/0")
                    nodes.append(replica.node)
                    loads.append([round(float(cpu), 2), 5 * mean])
        return ReportLoads(partitions=partitions, nodes=nodes, loads=loads, at=self._now, now=self._now)

    async def step(self) -> None:
        """Let a step of time pass."""
        self._step += 1
        await self._send(self._loads())
        turn = self._step % PLAN_EVERY
        if turn == 1:
            await self._send(*self._changes())
            (sequence,) = await self._send(RequestPlan(now=self._now))
            self._plan = f"p{sequence}"
        plan = self._live.reader.state.plans.get(self._plan or "")
        if turn == 1 + WAIT and plan is not None and plan.status is Status.READY:
            await self._send(ApplyPlan(plan=plan.id, now=self._now))

    def _changes(self) -> list[LoggedEvent]:
        """Return the events of some hours: a tenant comes, one leaves, and at times a node is emptied or returns."""
        events = [*self._arrival(), *self._departure()]
        if self._drained is not None:
            events.append(UndrainNode(name=self._drained, now=self._now))
            self._drained = None
        elif self._random.random() < 0.3:
            self._drained = f"n{self._random.integers(NODES):02}"
            events.append(DrainNode(name=self._drained, now=self._now))
        return events


async def run_demo(service: PlacementService) -> None:
    """Run the demonstration until it is cancelled; a cluster of an earlier one is served as it was left."""
    if NAME in service.clusters:
        return
    demo = Demo(service)
    try:
        await demo.begin()
        while True:
            await demo.step()
            await asyncio.sleep(PAUSE)
    except PlbError:
        logger.exception("the demonstration has ended")
