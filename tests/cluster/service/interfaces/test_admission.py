"""What no client may send: what would stop all answers for long, names that forge the log, and names without a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cluster.service.interfaces import reads as reads_module
from tests.cluster.service.clients import ITS_PATH, made, with_client

METRICS = [{"name": f"m{index}"} for index in range(101)]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "outcomes", "plan": "p1", "failed": [0] * 100},
        {"type": "plan", "call": "place", "partitions": ["db/0"] * 2},
        {"type": "plan", "call": "place", "partitions": [f"db/{index}" for index in range(100_001)]},
        {"type": "service", "service": {"name": "s", "target_replicas": 1_000_000}},
        {"type": "node", "node": {"name": "n", "properties": {f"p{index}": "" for index in range(1001)}}},
        {"type": "node", "node": {"name": "n", "capacities": {f"m{index}": 1 for index in range(1001)}}},
        {"type": "settings", "settings": {"metrics": METRICS}},
        {"type": "node", "node": {"name": "n\n7 forged"}},
        {"type": "node", "node": {"name": "n", "fault_domain": "fd:/\x1b[2J"}},
        {"type": "partition", "partition": {"name": "db/\x00", "service": "db"}},
        {"type": "drain_node", "name": "n\n"},
        {"type": "vacate", "partition": "db/0", "node": "n\x7f"},
        {"type": "drain_node", "name": "n0", "id": ""},
        {"type": "drain_node", "name": "n0", "id": "\n"},
    ],
    ids=lambda event: str(event)[:60],
)
def test_an_event_beyond_a_limit_or_with_control_characters_is_not_logged(tmp_path: Path, event: Any) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        before = (await client.get(ITS_PATH)).json()["sequence"]
        response = await client.post(f"{ITS_PATH}/events", json=[event])
        assert response.status_code in (400, 422), response.text
        assert (await client.get(ITS_PATH)).json()["sequence"] == before

    with_client(tmp_path, story)


def test_more_failed_moves_than_a_plan_has_are_refused_before_they_are_looked_at(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        plan = await made(client, now=60)
        await client.post(f"{ITS_PATH}/plans/{plan['id']}/apply")
        response = await client.post(f"{ITS_PATH}/plans/{plan['id']}/outcomes", json={"failed": [*range(10)]})
        assert (response.status_code, "at most 9" in response.text) == (422, True)

    with_client(tmp_path, story)


@pytest.mark.parametrize("media", ["application/json", "application/msgpack"])
def test_the_length_of_a_batch_is_checked_before_its_events(tmp_path: Path, media: str) -> None:
    encode = msgspec.json.encode if media == "application/json" else msgspec.msgpack.encode

    async def story(client: httpx.AsyncClient) -> None:
        body = encode([{"type": "node", "node": {"name": ""}}] * 10_001)
        response = await client.post(f"{ITS_PATH}/events", content=body, headers={"Content-Type": media})
        assert (response.status_code, "length" in response.text) == (400, True)

    with_client(tmp_path, story)


@pytest.mark.parametrize("read", ["alternatives", "explain"])
def test_a_question_about_very_many_places_is_refused(
    tmp_path: Path, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads_module, "MOST_PLACES", 11)

    async def story(client: httpx.AsyncClient) -> None:
        response = await client.get(f"{ITS_PATH}/{read}", params={"partition": "db/0"})
        assert (response.status_code, response.json()["field"]) == (422, "alternatives")

    with_client(tmp_path, story)
