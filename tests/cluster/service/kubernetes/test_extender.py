"""The extender of the scheduler, asked as the scheduler asks."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from cluster.service.events import DrainNode, LoggedEvent, MakeCluster, PutNode, PutPartition, PutService
from cluster.service.service import PlacementService
from tests.cluster.service.clients import ITS_PATH, client_of
from tests.cluster.service.served import CLIENT, CLUSTER, send, served

ARGUMENTS = json.loads((Path(__file__).parent / "extender_args.json").read_text())
SETTINGS = {"metrics": [{"name": "cpu"}, {"name": "memory"}]}
WEB = "shop/Deployment/web"


def described(workload: str = WEB) -> list[LoggedEvent]:
    """Return events that describe four nodes, one of them full and one blocked for the workload, and a pod."""
    service = {"name": workload, "stateful": False, "blocked_nodes": ["n3"]}
    loads = {"instance": {"cpu": 7, "memory": 256}}
    other = {"name": "shop/StatefulSet/db", "stateful": False, "default_load": loads}
    replicas = [{"role": "instance", "node": "n1"}]
    return [
        *(PutNode(node={"name": f"n{n}", "capacities": {"cpu": 8, "memory": 4096}}) for n in range(4)),
        PutService(service=service),
        PutService(service=other),
        PutPartition(partition={"name": "db/0", "service": "shop/StatefulSet/db", "replicas": replicas}),
    ]


def asked(
    folder: Path, story: Callable[[httpx.AsyncClient, PlacementService], Awaitable[Any]], workload: str = WEB
) -> Any:
    """Return what a story of a client of a service returns."""

    async def run() -> Any:
        async with served(folder) as service, client_of(service) as client:
            await send(service, MakeCluster(settings=SETTINGS))
            for receipt in await service.submit_all(CLUSTER, described(workload), CLIENT):
                assert receipt.refusal is None
            return await story(client, service)

    return asyncio.run(run())


async def call(client: httpx.AsyncClient, verb: str, arguments: Any) -> Any:
    """Return the answer to a call."""
    response = await client.post(f"{ITS_PATH}/kubernetes/{verb}", json=arguments)
    assert response.status_code == 200, response.text
    return response.json()


def test_filter_names_the_nodes_that_fit_and_why_the_others_do_not(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, _: PlacementService) -> None:
        assert await call(client, "filter", ARGUMENTS) == {
            "NodeNames": ["n0", "n2"],
            "FailedNodes": {"n1": "capacity (placement service)"},
            "FailedAndUnresolvableNodes": {
                "n3": "placement (placement service)",
                "n9": "the placement service does not know the node",
            },
            "Error": "",
        }

    asked(tmp_path, story)


def test_prioritize_gives_the_node_of_least_energy_ten_and_others_less(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, service: PlacementService) -> None:
        placed = {"name": "db/1", "service": "shop/StatefulSet/db", "replicas": [{"role": "instance", "node": "n0"}]}
        await send(service, PutPartition(partition=placed))
        await send(service, PutNode(node={"name": "n0", "capacities": {"cpu": 32, "memory": 8192}}))
        scores = await call(client, "prioritize", ARGUMENTS)
        assert [entry["Host"] for entry in scores] == ARGUMENTS["NodeNames"]
        by_host = {entry["Host"]: entry["Score"] for entry in scores}
        assert by_host["n2"] == 10
        assert 0 <= by_host["n0"] < 10
        assert by_host["n1"] == by_host["n3"] == by_host["n9"] == 0

    asked(tmp_path, story)


def test_a_pod_asks_for_its_containers_and_sidecars_or_its_largest_init_container(tmp_path: Path) -> None:
    """The first init container asks for 2 cores, the rest for 0.85 cores and 640 MiB; 95 % of a node may be used."""

    async def story(client: httpx.AsyncClient, service: PlacementService) -> None:
        for name, cpu, memory in (("n0", 2.2, 700), ("n1", 2.0, 4096), ("n2", 8, 660)):
            await send(service, PutNode(node={"name": name, "capacities": {"cpu": cpu, "memory": memory}}))
        result = await call(client, "filter", ARGUMENTS)
        assert result["NodeNames"] == ["n0"]

    asked(tmp_path, story)


def test_calls_leave_no_trace_in_the_log_and_in_the_replica_that_answers(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, service: PlacementService) -> None:
        live = service.cluster(CLUSTER)
        sequence, before = live.sequence, live.reader.engine.snapshot().to_bytes()
        answers = [await call(client, verb, ARGUMENTS) for verb in ("filter", "prioritize", "filter")]
        assert answers[0] == answers[2]
        assert (live.sequence, live.reader.engine.snapshot().to_bytes()) == (sequence, before)

    asked(tmp_path, story)


def test_scores_follow_the_events_of_the_cluster(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, service: PlacementService) -> None:
        assert (await call(client, "filter", ARGUMENTS))["NodeNames"] == ["n0", "n2"]
        await send(service, DrainNode(name="n0"))
        result = await call(client, "filter", ARGUMENTS)
        assert result["NodeNames"] == ["n2"]
        assert result["FailedAndUnresolvableNodes"]["n0"] == "node (placement service)"

    asked(tmp_path, story)


def test_a_workload_that_is_not_described_has_the_service_kubernetes(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, _: PlacementService) -> None:
        assert (await call(client, "filter", ARGUMENTS))["NodeNames"] == ["n0", "n2"]

    asked(tmp_path, story, "kubernetes")


def test_without_any_service_the_result_is_an_error_in_words(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, _: PlacementService) -> None:
        result = await call(client, "filter", ARGUMENTS)
        assert result["NodeNames"] is None
        assert result["Error"].startswith("pod shop/web-6d4cf56db6-x7k2p: unknown service 'shop/Deployment/web'")
        response = await client.post(f"{ITS_PATH}/kubernetes/prioritize", json=ARGUMENTS)
        assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")

    asked(tmp_path, story, "another")


def test_bad_calls_are_refused_with_the_field(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient, _: PlacementService) -> None:
        nodes = {"Pod": ARGUMENTS["Pod"], "Nodes": {"items": []}, "NodeNames": None}
        response = await client.post(f"{ITS_PATH}/kubernetes/filter", json=nodes)
        assert (response.status_code, response.json()["field"]) == (400, "NodeNames")
        pod = copy.deepcopy(ARGUMENTS)
        pod["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "half"
        error = (await call(client, "filter", pod))["Error"]
        assert error.startswith("pod shop/web-6d4cf56db6-x7k2p: requests[cpu] = 'half' is not allowed")
        for body in (b"{", b"[]", b'{"Pod": {"metadata": {}}}', b'{"Pod": 3, "NodeNames": ["n0"]}'):
            response = await client.post(f"{ITS_PATH}/kubernetes/filter", content=body)
            assert response.status_code == 400, response.text

    asked(tmp_path, story)
