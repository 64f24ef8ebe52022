"""The clients in Python: the same calls, which wait or are awaited, over a real connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from cluster.service import client as client_module
from cluster.service.client import AsyncClient, Client, ServiceError
from cluster.service.interfaces.rest import application
from plb import Metric, Node, Partition, PlbConfig, Role, Service
from tests.cluster.service.served import served
from tests.sources import ROOT

CONFIG = PlbConfig(metrics=[Metric("cpu")])
SERVICE = Service("db", target_replicas=2, default_load={Role.PRIMARY: {"cpu": 4}, Role.SECONDARY: {"cpu": 2}})


def with_address(folder: Path, story: Callable[[str], Awaitable[None]]) -> None:
    """Tell a story of the address of a service that listens."""

    async def run() -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
            async with served(folder) as service:
                server = uvicorn.Server(uvicorn.Config(application(service), log_level="error", lifespan="off"))
                task = asyncio.create_task(server.serve(sockets=[listening]))
                while not server.started:
                    await asyncio.sleep(0.01)
                try:
                    await story(f"http://127.0.0.1:{port}")
                finally:
                    server.should_exit = True
                    await task

    asyncio.run(run())


def session(client: Client) -> tuple[Any, ...]:
    """Return what a client is told while it describes a cluster and carries a plan out."""
    client.make(CONFIG, seed=5)
    for name in ("a", "b", "c/d"):
        client.put(Node(name, capacities={"cpu": 8}), now=1.0)
    client.put(SERVICE)
    client.put(Partition("db/0", service="db"), key="first")
    repeated = client.put(Partition("db/0", service="db"), key="first")
    plan = client.plan(now=60.0)
    client.apply(plan["id"])
    node = client.get("partitions/db/0")[0]["node"]
    client.report_loads(["db/0"], [node], [[5]])
    with pytest.raises(ServiceError, match="applied, not ready") as error:
        client.apply(plan["id"])
    client.report_outcomes(plan["id"], [1])
    client.discard(client.plan(call="balance", now=70.0)["id"])
    answers = client.events([{"type": "remove_node", "name": "x"}])
    return repeated["repeated"], plan["document"], error.value.status, answers[0]["problem"], client.get("node_loads")


async def awaited_session(client: AsyncClient) -> tuple[Any, ...]:
    """Return what `session` returns, with calls that are awaited."""
    await client.make(CONFIG, seed=5)
    for name in ("a", "b", "c/d"):
        await client.put(Node(name, capacities={"cpu": 8}), now=1.0)
    await client.put(SERVICE)
    await client.put(Partition("db/0", service="db"), key="first")
    repeated = await client.put(Partition("db/0", service="db"), key="first")
    plan = await client.plan(now=60.0)
    await client.apply(plan["id"])
    node = (await client.get("partitions/db/0"))[0]["node"]
    await client.report_loads(["db/0"], [node], [[5]])
    with pytest.raises(ServiceError, match="applied, not ready") as error:
        await client.apply(plan["id"])
    await client.report_outcomes(plan["id"], [1])
    await client.discard((await client.plan(call="balance", now=70.0))["id"])
    answers = await client.events([{"type": "remove_node", "name": "x"}])
    loads = await client.get("node_loads")
    return repeated["repeated"], plan["document"], error.value.status, answers[0]["problem"], loads


def test_both_clients_are_told_the_same(tmp_path: Path) -> None:
    async def story(address: str) -> None:
        with Client(address, "one") as client:
            told = await asyncio.to_thread(session, client)
        async with AsyncClient(address, "other") as other:
            assert await awaited_session(other) == told
        repeated, document, status, problem, loads = told
        assert (repeated, status, len(document["moves"])) == (True, 409, 2)
        assert "x" in problem["detail"]
        assert sorted(load["cpu"] for load in loads.values()) == [0, 0, 5]

    with_address(tmp_path, story)


def test_a_name_with_a_slash_or_a_space_arrives_as_it_is(tmp_path: Path) -> None:
    async def story(address: str) -> None:
        async with AsyncClient(address, "a cluster") as client:
            await client.make(CONFIG)
            for name in ("a/b", "ü %41?&#"):
                await client.put(Node(name, capacities={"cpu": 1}))
            assert set(await client.get("node_loads")) == {"a/b", "ü %41?&#"}
            await client.remove("nodes", "a/b", now=3.0)
            assert len(await client.get("node_loads")) == 1
            await client.remove_cluster(key="end")
            assert (await client.remove_cluster(key="end"))["repeated"]
            with pytest.raises(ServiceError, match="unknown cluster 'a cluster'"):
                await client.description()

    with_address(tmp_path, story)


def test_a_client_asks_less_and_less_often_for_a_plan_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits at most a quarter longer than it has to, and a second at the end."""
    pauses: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", pauses.append)

    def answer(request: httpx.Request) -> httpx.Response:
        status = "ready" if sum(pauses) >= 60 else "searching"
        return httpx.Response(200, json={"plan": "p1", "status": status, "path": request.url.path})

    with Client("http://service", "main", transport=httpx.MockTransport(answer)) as client:
        assert client.plan(now=60.0)["path"] == "/v1/clusters/main/plans/p1"
    assert 60 <= sum(pauses) < 61
    assert len(pauses) < 80
    for number, pause in enumerate(pauses):
        assert pause <= min(1.0, 0.05 + sum(pauses[:number]) / 4 + 1e-9)


def test_a_service_that_is_not_there_is_an_error_of_the_connection() -> None:
    with Client("http://127.0.0.1:9", "main") as client, pytest.raises(httpx.ConnectError):
        client.get("node_loads")


def test_the_program_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    program = page.split("## In Python")[1].split("```python\n")[1].split("```")[0]

    async def story(address: str) -> None:
        await asyncio.to_thread(exec, program.replace("http://127.0.0.1:8765", address), {})

    with_address(tmp_path, story)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "primary to n0 - a replica is missing"
    assert lines[-1].startswith("cpu of node n0 is 7.9")
