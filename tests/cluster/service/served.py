"""Services with a small cluster, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from cluster.service.events import LoggedEvent, MakeCluster, PutNode, PutPartition, PutService, RequestPlan
from cluster.service.log import Log
from cluster.service.replica import PlanRecord
from cluster.service.service import PlacementService, Receipt

Result = TypeVar("Result")
CLUSTER, CLIENT = "main", "a test"
SETTINGS = {"metrics": [{"name": "cpu"}]}
LOADS = {"primary": {"cpu": 4}, "secondary": {"cpu": 2}}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[PlacementService]:
    """Serve the clusters of a directory."""
    service = PlacementService(Log(folder))
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def with_service(folder: Path, story: Callable[[PlacementService], Awaitable[Result]]) -> Result:
    """Return what `story` returns of a service."""

    async def run() -> Result:
        async with served(folder) as service:
            return await story(service)

    return asyncio.run(run())


def described(nodes: int = 4, partitions: int = 3) -> list[LoggedEvent]:
    """Return events that describe a cluster with partitions of three replicas that have no place yet."""
    service = {"name": "db", "target_replicas": 3, "default_load": LOADS}
    return [
        *(PutNode(node={"name": f"n{index}", "capacities": {"cpu": 32}}) for index in range(nodes)),
        PutService(service=service),
        *(PutPartition(partition={"name": f"db/{index}", "service": "db"}) for index in range(partitions)),
    ]


async def make(service: PlacementService, events: list[LoggedEvent] | None = None) -> None:
    """Make the cluster `CLUSTER` from events; None: those of `described`."""
    await send(service, MakeCluster(settings=SETTINGS, seed=3))
    for receipt in await service.submit_all(CLUSTER, described() if events is None else events, CLIENT):
        assert receipt.refusal is None


async def send(service: PlacementService, event: LoggedEvent) -> Receipt:
    """Send an event of the cluster `CLUSTER`."""
    return await service.submit(CLUSTER, event, CLIENT)


async def planned(service: PlacementService, request: RequestPlan) -> PlanRecord:
    """Ask for a plan of the cluster `CLUSTER`, and wait until its search has ended."""
    receipt = await send(service, request)
    assert receipt.refusal is None, receipt.refusal
    return await service.cluster(CLUSTER).finished(f"p{receipt.sequence}")
