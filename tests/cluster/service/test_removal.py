"""A cluster that is removed is gone at once and after every restart, the log keeps it, and its name is free."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from cluster.service import searches
from cluster.service.events import DrainNode, MakeCluster, RemoveCluster, ReportLoads, RequestPlan
from cluster.service.interfaces.rest import following
from cluster.service.log import Log
from cluster.service.replay import replay
from cluster.service.service import PlacementService
from plb.errors import UnknownNameError
from tests.cluster.service.clients import ITS_PATH, with_client
from tests.cluster.service.served import CLUSTER, SETTINGS, make, planned, send, served, with_service


def test_it_is_unknown_and_may_be_made_again_with_the_same_ids(tmp_path: Path) -> None:
    """Also with other settings, and also after a restart and in a replay."""

    async def story(service: PlacementService) -> tuple[int, int]:
        await make(service)
        await send(service, DrainNode(name="n0", id="one"))
        assert (await send(service, RemoveCluster(id="end"))).refusal is None
        with pytest.raises(UnknownNameError):
            await send(service, DrainNode(name="n0"))
        assert (await send(service, RemoveCluster(id="end"))).repeated
        with pytest.raises(UnknownNameError):
            await send(service, RemoveCluster())
        await send(service, MakeCluster(settings={"metrics": [{"name": "memory"}]}, seed=9))
        receipt = await send(service, DrainNode(name="n0", id="one"))
        assert (receipt.repeated, str(receipt.refusal)) == (False, "unknown node 'n0'")
        return facts(service)

    def facts(service: PlacementService) -> tuple[int, int]:
        live = service.cluster(CLUSTER)
        assert [metric.name for metric in live.reader.engine.config.metrics] == ["memory"]
        return live.sequence, live.reader.state.generation

    async def restarted(service: PlacementService) -> tuple[int, int]:
        return facts(service)

    before = with_service(tmp_path, story)
    assert with_service(tmp_path, restarted) == before
    with closing(Log(tmp_path, reads_only=True)) as log:
        result = replay(log, CLUSTER)
    assert (result.entries, result.differences) == (before[0], [])


def test_it_stays_away_after_a_restart_with_a_saved_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "SAVED_EVERY", 2)

    async def removed(service: PlacementService) -> None:
        await make(service)
        await planned(service, RequestPlan(now=10.0))
        await send(service, RemoveCluster())

    async def empty(service: PlacementService) -> None:
        assert not service.clusters
        await make(service)
        assert len(service.cluster(CLUSTER).reader.engine.nodes) == 4

    with_service(tmp_path, removed)
    with_service(tmp_path, empty)


def test_events_written_together_take_effect_in_their_order(tmp_path: Path) -> None:
    """What comes after a removal is of no cluster, until there is one again."""

    async def story(service: PlacementService) -> None:
        await make(service)
        events = DrainNode(name="n0", id="a"), RemoveCluster(), DrainNode(name="n1"), MakeCluster(settings=SETTINGS)
        work = (send(service, event) for event in (*events, DrainNode(name="n0", id="a")))
        first, end, lost, again, last = await asyncio.gather(*work, return_exceptions=True)
        assert isinstance(lost, UnknownNameError)
        assert not isinstance(first, BaseException)
        assert not isinstance(end, BaseException)
        assert not isinstance(again, BaseException)
        assert not isinstance(last, BaseException)
        assert [first.refusal, end.refusal, again.refusal] == [None] * 3
        assert (str(last.refusal), last.repeated) == ("unknown node 'n0'", False)

    with_service(tmp_path, story)


def test_whoever_waits_for_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search is stopped, streams end, and nobody waits for its plans."""

    def endless(*_: object) -> NoReturn:
        while True:
            time.sleep(0.001)

    monkeypatch.setattr(searches, "plan_for", endless)

    async def story(service: PlacementService) -> None:
        await make(service)
        live = service.cluster(CLUSTER)
        waits = asyncio.ensure_future(planned(service, RequestPlan()))
        stream = following(live, lambda: "as ever", lambda _: False)
        assert await anext(stream) == "as ever"
        async with asyncio.timeout(20):
            while live.searches._current is None:
                await asyncio.sleep(0.01)
            await send(service, RemoveCluster())
            assert [value async for value in stream] == []
            with pytest.raises(UnknownNameError):
                await waits

    with_service(tmp_path, story)


def test_over_http_it_needs_no_more_than_a_request(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        key = {"Idempotency-Key": "end"}
        answers = [await client.delete(ITS_PATH, headers=key) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[1].json() == {**answers[0].json(), "repeated": True}
        for answer in (
            await client.get(ITS_PATH),
            await client.delete(ITS_PATH),
            await client.post(f"{ITS_PATH}/plans", json={}),
        ):
            assert answer.status_code == 404
        assert (await client.get("/v1/clusters")).json() == []
        assert (await client.put(ITS_PATH, json={"settings": SETTINGS})).status_code == 200

    with_client(tmp_path, story)


def test_reports_that_come_with_the_removal_lose_nothing_else(tmp_path: Path) -> None:
    """Another cluster of the service goes on."""

    async def run() -> None:
        async with served(tmp_path) as service:
            await make(service)
            await service.submit("other", MakeCluster(settings=SETTINGS), "a test")
            events = (
                service.submit("other", ReportLoads(loads=[], at=float(at), now=float(at)), "a test")
                for at in range(50)
            )
            receipts, _ = await asyncio.gather(asyncio.gather(*events), send(service, RemoveCluster()))
            assert [receipt.refusal for receipt in receipts] == [None] * 50
            assert [*service.clusters] == ["other"]

    asyncio.run(run())
