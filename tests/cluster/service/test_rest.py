"""The interface over HTTP: what changes a cluster, what tells of it, and how it refuses."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec

from tests.cluster.service.clients import ITS_PATH, SETTINGS, made, with_client

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
