"""The interface over HTTP: what changes a cluster, what tells of it, and how it refuses."""

from __future__ import annotations

import asyncio
import json
import resource
import threading
from collections import Counter
from collections.abc import AsyncIterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cluster.service import searches
from cluster.service import service as service_module
from cluster.service.events import DrainNode, Engine, ReportLoads
from cluster.service.interfaces.rest import application, end_streams
from cluster.service.log import NAME, Log, LogEntry, LogError
from cluster.service.replica import PlanRecord
from cluster.service.service import LiveCluster, PlacementService
from plb import Plan
from plb.errors import PlbError
from plb.model.documents import plain
from tests.cluster.service.clients import ITS_PATH, SETTINGS, client_of, made, with_client
from tests.cluster.service.served import CLUSTER, described, make, send, served, with_service

NODE = {"name": "n9", "capacities": {"cpu": 8}}


def test_a_session_describes_a_cluster_and_carries_out_a_plan(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        assert (await client.put(ITS_PATH, json={"settings": SETTINGS, "seed": 3})).json()["sequence"] == 1
        for name in ("a", "b", "c"):
            await client.put(f"{ITS_PATH}/nodes/{name}", json={"name": name, "capacities": {"cpu": 8}})
        service = {"name": "db", "target_replicas": 2, "default_load": {"primary": {"cpu": 4}}}
        assert (await client.put(f"{ITS_PATH}/services/db", json=service)).status_code == 200
        await client.put(f"{ITS_PATH}/partitions/db/0", json={"name": "db/0", "service": "db"})
        plan = await made(client, now=60)
        assert len(plan["document"]["moves"]) == 2
        assert {replica["node"] for replica in (await client.get(f"{ITS_PATH}/partitions/db/0")).json()} == {None}
        assert (await client.post(f"{ITS_PATH}/plans/{plan['id']}/apply")).status_code == 200
        replicas = (await client.get(f"{ITS_PATH}/partitions/db/0")).json()
        assert {replica["node"] for replica in replicas} == {move["target"] for move in plan["document"]["moves"]}
        loads = {"partitions": ["db/0"], "nodes": [replicas[0]["node"]], "loads": [[5]]}
        assert (await client.post(f"{ITS_PATH}/loads", json=loads)).status_code == 200
        assert (await client.get(f"{ITS_PATH}/node_loads")).json()[replicas[0]["node"]] == {"cpu": 5}
        assert (await client.get(f"{ITS_PATH}/violations")).json() == []
        again = await client.post(f"{ITS_PATH}/plans/{plan['id']}/apply")
        assert (again.status_code, again.json()["title"]) == (409, "Conflict")

    with_client(tmp_path, story, is_made=False)


def test_an_event_with_the_id_of_an_earlier_one_is_answered_as_that_one(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        headers = {"Idempotency-Key": "k1"}
        first = (await client.put(f"{ITS_PATH}/nodes/n9", json=NODE, headers=headers)).json()
        again = (await client.put(f"{ITS_PATH}/nodes/n9", json=NODE, headers=headers)).json()
        assert again == {**first, "repeated": True}
        plans = [(await client.post(f"{ITS_PATH}/plans", json={"id": "k2"})).json()["plan"] for _ in range(2)]
        assert plans[0] == plans[1]
        differs = await client.post(f"{ITS_PATH}/plans", json={"id": "k2"}, headers=headers)
        assert differs.status_code == 409

    with_client(tmp_path, story)


def test_a_batch_in_json_or_messagepack_answers_each_event(tmp_path: Path) -> None:
    events = [{"type": "node", "node": NODE}, {"type": "remove_node", "name": "n7"}, {"type": "plan"}]

    async def story(client: httpx.AsyncClient) -> None:
        packed = {"content": msgspec.msgpack.encode(events), "headers": {"Content-Type": "application/msgpack"}}
        for body in ({"json": events}, packed):
            response = await client.post(f"{ITS_PATH}/events", **body)  # type: ignore[arg-type]
            assert response.status_code == 200
            put, refused, plan = response.json()
            assert "problem" not in put
            assert (refused["problem"]["status"], refused["problem"]["name"]) == (404, "n7")
            assert plan["plan"] == f"p{plan['sequence']}"

    with_client(tmp_path, story)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "item"),
    [
        ("PUT", "nodes/n9", b'{"name": "n9", "capac', 400, "request"),
        ("PUT", "nodes/n9", b"[1]", 400, "request"),
        ("PUT", "nodes/n9", b'{"name": "n9", "capacities": {"cpu": 1e400}}', 400, "request"),
        ("PUT", "nodes/n9", b'{"name": "n9", "capacities": {"cpu": %s}}' % (b"9" * 40), 400, "request"),
        ("POST", "events", b'[{"type": "node", "node": {"name": "n9", "version": %s}}]' % (b"9" * 40), 422, "node"),
        ("PUT", "partitions/x", b'{"name": "x", "service": "db", "version": %s}' % (b"9" * 40), 400, "request"),
        ("POST", "events", b'[{"type": "made", "plan": "p1", "document": {}}]', 400, "request"),
        ("POST", "events", b'[{"type": "node", "node": %s' % (b'{"a":' * 100_000), 400, "request"),
        ("POST", "events", b"[%s{}]" % (b'{"type": "plan"},' * 10_001), 400, "request"),
        ("POST", "events", b'[{"type": "plan"}, {"type": "vacate"}]', 400, "request"),
        ("PUT", "nodes/n9", b'{"name": "n9", "colour": "red"}', 422, "node"),
        ("PUT", "nodes/n9", b'{"name": "n9", "capacities": {"cpu": -1}}', 422, "node n9"),
        ("PUT", "nodes/n9", b'{"name": "n8"}', 409, None),
        ("PUT", "nodes/n9?when=3", b'{"name": "n9"}', 400, "request"),
        ("PUT", "nodes/n9?now=nan", b'{"name": "n9"}', 400, "request"),
        ("PUT", f"nodes/{'n' * 1001}", b'{"name": "%s"}' % (b"n" * 1001), 422, "node"),
        ("DELETE", "nodes/n7", b"", 404, "node"),
        ("PUT", "services/s", b'{"name": "s", "default_load": {"tertiary": {}}}', 422, "service s"),
        ("PUT", "services/s", b'{"name": "s", "default_load": {"instance": {"cpu": 1}}}', 422, "service s"),
        ("POST", "loads", b'{"partitions": ["db/0"], "nodes": [], "loads": []}', 422, "loads"),
        ("POST", "loads", b'{"indices": [0], "loads": [[1e308]]}', 422, "report_loads"),
        ("POST", "plans", b'{"call": "destroy"}', 400, "request"),
        ("POST", "plans/p1/apply", b"", 404, "plan"),
        ("GET", "score?partition=db/9", b"", 404, "partition"),
        ("GET", "score", b"", 400, "request"),
        ("POST", "plans/p1", b"", 405, None),
        ("GET", "../../nothing", b"", 404, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_request_has_a_problem_and_changes_nothing(
    method: str, path: str, body: bytes, status: int, item: str | None, tmp_path: Path
) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        before = (await client.get(f"{ITS_PATH}/node_loads")).json()
        response = await client.request(method, f"{ITS_PATH}/{path}", content=body)
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["status"] == status
        assert problem.get("item") == item
        assert problem["detail"]
        assert (await client.get(f"{ITS_PATH}/node_loads")).json() == before

    with_client(tmp_path, story)


def test_large_bodies_and_other_types_are_refused(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(30):
                yield b" " * 100

        for body in (b" " * 2001, parts()):
            assert (await client.post(f"{ITS_PATH}/events", content=body)).status_code == 413
        form = await client.post(f"{ITS_PATH}/events", data={"a": "b"})
        assert form.status_code == 415
        assert form.headers["x-content-type-options"] == "nosniff"

    with_client(tmp_path, story, most_bytes=2000)


def test_while_the_log_cannot_be_written_changes_are_refused_and_reads_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as service, client_of(service) as client:
            await make(service)
            before = (await client.get(ITS_PATH)).json()
            with pytest.MonkeyPatch.context() as patch:

                def full(*_: object) -> None:
                    raise LogError("the log cannot be written: database or disk is full")

                patch.setattr(service._log, "append", full)
                response = await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)
                assert (response.status_code, "full" in response.json()["detail"]) == (507, True)
                assert (await client.post(f"{ITS_PATH}/events", json=[{"type": "plan"}])).status_code == 507
                assert (await client.get("/readyz")).status_code == 503
                assert (await client.get(ITS_PATH)).json() == before
            assert (await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)).status_code == 200
            assert (await client.get("/readyz")).status_code == 200

    asyncio.run(run())


def test_a_limit_of_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / f"{NAME}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            node = {**NODE, "properties": {"p": "v" * 100_000}}
            assert (await client.put(f"{ITS_PATH}/nodes/n9", json=node)).status_code == 507
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)).status_code == 200

    with_client(tmp_path, story)


def test_a_stream_tells_what_becomes_of_a_plan(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        plan = await made(client, now=60)
        answer = asyncio.create_task(client.get(f"{ITS_PATH}/plans/{plan['id']}/events"))
        await asyncio.sleep(0.05)
        await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)
        await asyncio.sleep(0.05)
        assert (await client.delete(f"{ITS_PATH}/plans/{plan['id']}")).status_code == 200
        lines = (await answer).text.split("\n\n")[:-1]
        told = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert [(one["status"], one["stale"]) for one in told] == [
            ("ready", False),
            ("ready", True),
            ("discarded", False),
        ]

    with_client(tmp_path, story)


def test_questions_about_a_partition_are_answered_in_numbers_and_in_words(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        plan = await made(client, now=60)
        await client.post(f"{ITS_PATH}/plans/{plan['id']}/apply", json={"now": 61})
        numbers = (await client.get(f"{ITS_PATH}/alternatives", params={"partition": "db/0"})).json()
        words = (await client.get(f"{ITS_PATH}/explain", params={"partition": "db/0"})).json()
        assert [one["standing"]["node"] for one in numbers] == [one["node"] for one in words]
        assert all(one["node"] in one["text"] for one in words)
        closed = words[0]["nodes"][0]["node"]
        of_node = {"partition": "db/0", "node": closed}
        assert (await client.get(f"{ITS_PATH}/explain", params=of_node)).json()[0]["nodes"][0]["node"] == closed
        full = await client.get(f"{ITS_PATH}/score", params={"partition": "db/0"})
        assert full.status_code == 409
        await client.put(f"{ITS_PATH}/partitions/db/7", json={"name": "db/7", "service": "db"})
        scores = (await client.get(f"{ITS_PATH}/score", params={"partition": "db/7"})).json()
        assert scores["nodes"] == ["n0", "n1", "n2", "n3"]

    with_client(tmp_path, story)


def test_the_documents_of_alternatives_are_those_of_the_model(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service, [*described(), DrainNode(name="n3")])
        engine = service.cluster(CLUSTER).reader.engine
        answer = await client_of(service).get(f"{ITS_PATH}/alternatives", params={"partition": "db/0"})
        replicas = engine.alternatives("db/0")
        right = [{**plain(replica), "places": plain([*replica.places])} for replica in replicas]
        assert answer.json() == msgspec.json.decode(msgspec.json.encode(right))
        assert {node["node"] for node in right[0]["closed"]} == {"n3"}

    with_service(tmp_path, story)


def test_alternatives_do_not_wait_for_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, plan_for = threading.Event(), searches.plan_for

    def waiting_plan_for(engine: Engine, record: PlanRecord) -> Plan:
        assert may_end.wait(60)
        return plan_for(engine, record)

    monkeypatch.setattr(searches, "plan_for", waiting_plan_for)

    async def story(client: httpx.AsyncClient) -> None:
        plan = (await client.post(f"{ITS_PATH}/plans", json={})).json()["plan"]
        for read in ("alternatives", "explain"):
            assert (await client.get(f"{ITS_PATH}/{read}", params={"partition": "db/0"})).status_code == 200
        assert (await client.get(f"{ITS_PATH}/plans/{plan}")).json()["status"] == "searching"
        may_end.set()

    with_client(tmp_path, story)


def test_figures_count_requests_by_route_and_not_by_path(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        for name in ("n0", "n1"):
            await client.delete(f"{ITS_PATH}/nodes/{name}")
        await client.request("BREW", "/coffee")
        text = (await client.get("/metrics")).text
        route = "/v1/clusters/{cluster}/nodes/{name}"
        assert f'plb_requests_total{{method="DELETE",route="{route}",status="200"}} 2.0' in text
        assert 'plb_requests_total{method="other",route="other",status="404"} 1.0' in text
        assert 'plb_cluster_sequence{cluster="main"}' in text

    with_client(tmp_path, story)


def test_a_client_that_never_reads_a_stream_costs_no_memory(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as service, client_of(service) as client:
            await make(service)
            app, sent, is_read = application(service), list[bytes](), asyncio.Event()

            async def send(message: MutableMapping[str, Any]) -> None:
                sent.append(message.get("body", b""))
                if len(sent) > 1:
                    await is_read.wait()

            async def receive() -> MutableMapping[str, Any]:
                await asyncio.Event().wait()
                return {}

            path = f"{ITS_PATH}/events"
            scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}
            stream = asyncio.create_task(app({**scope, "query_string": b""}, receive, send))
            for _ in range(50):
                await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)
            assert len(sent) == 2
            is_read.set()
            end_streams(app)
            await stream
            assert len(sent) <= 4

    asyncio.run(run())


def test_nodes_are_told_as_they_were_described_with_what_is_on_them(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        await client.put(f"{ITS_PATH}/nodes/n9", json={**NODE, "fault_domain": "fd:/a/b"})
        nodes = (await client.get(f"{ITS_PATH}/nodes")).json()
        assert [node["name"] for node in nodes] == ["n0", "n1", "n2", "n3", "n9"]
        assert (await client.put(f"{ITS_PATH}/nodes/n9", json=nodes[4])).status_code == 200
        plan = await made(client, now=60)
        await client.post(f"{ITS_PATH}/plans/{plan['id']}/apply")
        target = plan["document"]["moves"][0]["target"]
        told = (await client.get(f"{ITS_PATH}/nodes/{target}")).json()
        assert told["node"]["name"] == target
        assert sorted(told["partitions"]) == sorted(
            {move["partition"] for move in plan["document"]["moves"] if move["target"] == target}
        )
        assert (await client.get(f"{ITS_PATH}/nodes/n7")).status_code == 404
        assert (await client.head(f"{ITS_PATH}/events")).status_code == 200

    with_client(tmp_path, story)


def test_a_defect_has_an_answer_without_details(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served(tmp_path) as service, client_of(service) as client:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(service, "cluster", lambda _: 1 / 0)
                response = await client.get(f"{ITS_PATH}/plans")
            assert response.status_code == 500
            assert "division" not in response.text
            assert "division" in caplog.text

    asyncio.run(run())


def test_reports_of_much_work_are_written_apart_and_reads_are_answered_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "MOST_TOGETHER", 4)
    monkeypatch.setattr(service_module, "AT_ONCE", 2)
    turns, applied, written = 0, Counter[int](), list[int]()
    apply, append = LiveCluster.apply, Log.append

    def counted_apply(live: LiveCluster, entry: LogEntry) -> PlbError | None:
        applied[turns] += entry.event.weight
        return apply(live, entry)

    def counted_append(log: Log, entries: Sequence[tuple[LogEntry, bytes]], *rest: Any) -> None:
        written.append(len(entries))
        append(log, entries, *rest)

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def story(service: PlacementService) -> None:
        await make(service, described(partitions=10))
        monkeypatch.setattr(LiveCluster, "apply", counted_apply)
        monkeypatch.setattr(Log, "append", counted_append)
        ticker = asyncio.create_task(turn())
        reports = [ReportLoads(indices=[*range(30)], loads=[[float(load)]] * 30) for load in range(3)]
        assert {report.weight for report in reports} == {4}
        small = [DrainNode(name=f"n{index}") for index in range(4)]
        receipts = await asyncio.gather(*(send(service, event) for event in (*reports, *small)))
        ticker.cancel()
        assert [receipt.refusal for receipt in receipts] == [None] * 7
        assert sorted(written[:4]) == [1, 1, 1, 4]
        assert max(applied.values()) == 4
        assert sum(applied.values()) == 16
        assert len(applied) >= 5

    with_service(tmp_path, story)
