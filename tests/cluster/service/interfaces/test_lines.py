"""The line protocol: requests and answers in order, and what is refused."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cluster.service.events import LoggedEvent, PlanMade
from cluster.service.interfaces import access as access_module
from cluster.service.interfaces import lines as lines_module
from cluster.service.interfaces.access import Access, Actor, Right
from cluster.service.interfaces.lines import LONGEST, LineServer
from cluster.service.interfaces.operations import MOST_EVENTS
from cluster.service.log import Log, LogEntry, LogError
from cluster.service.replica import Status
from cluster.service.service import PlacementService
from plb.errors import InvalidValueError, PlbError
from tests.cluster.service.clients import server
from tests.cluster.service.served import SETTINGS, described, served
from tests.docs.pages import ROOT, blocks_of

EXAMPLE = ROOT / "examples" / "service" / "line_client.py"

MAKE = {"type": "cluster", "settings": SETTINGS, "seed": 3}


class Client:
    """A client of the line protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, **line: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        return await self.send(msgspec.json.encode(line) + b"\n")

    async def send(self, data: bytes) -> dict[str, Any]:
        """Send bytes and return the next answer."""
        self.writer.write(data)
        return dict(json.loads(await self.reader.readline()))

    async def is_closed(self) -> bool:
        """Return whether the service has closed the connection."""
        return await self.reader.read() == b""


def with_lines(folder: Path, story: Callable[[Client], Awaitable[None]], access: Access | None = None) -> None:
    """Tell the story of a client of a service with no cluster."""

    async def run() -> None:
        async with served(folder) as service:
            lines = LineServer(service, access)
            try:
                client = await connected(await lines.start("127.0.0.1:0"))
                await story(client)
                client.writer.close()
            finally:
                await lines.stop()

    asyncio.run(run())


async def connected(address: str) -> Client:
    """Return a client of a server at an address."""
    if address.startswith("unix://"):
        return Client(*await asyncio.open_unix_connection(address.removeprefix("unix://"), limit=LONGEST))
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return Client(*await asyncio.open_connection(host, int(port), limit=LONGEST))


def documents(events: list[LoggedEvent]) -> list[Any]:
    """Return events as a client sends them."""
    return [msgspec.to_builtins(event) for event in events]


def test_a_simulator_describes_a_cluster_reports_loads_and_waits_for_a_plan_line_by_line(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        answer = await client.ask(events=[MAKE, *documents(described()), {"type": "plan"}], now=600.0)
        plan = answer["plan"]
        assert (answer["refusals"], plan["status"], plan["now"]) == ([], "ready", 600.0)
        assert len(plan["document"]["moves"]) == 9
        reads = [{"read": "replicas", "partitions": ["db/0", "db/1"]}, {"read": "node_loads"}, {"read": "violations"}]
        answer = await client.ask(events=[{"type": "apply", "plan": plan["id"]}], reads=reads)
        replicas, loads, violations = answer["reads"]
        assert (answer["plan"], violations, len(loads), [*replicas]) == (None, [], 4, ["db/0", "db/1"])
        assert sum(load["cpu"] for load in loads.values()) == 3 * (4 + 2 + 2)
        indices = [replica["index"] for replica in replicas["db/0"]]
        report = {"type": "loads", "indices": indices, "loads": [[9.0], [1.0], [1.0]], "at": 700.0}
        assert (await client.ask(events=[report]))["refusals"][0]["problem"]["field"] == "at"
        answer = await client.ask(now=700.0, events=[report], reads=[{"read": "replicas", "partitions": ["db/0"]}])
        assert [replica["load"]["cpu"] for replica in answer["reads"][0]["db/0"]] == [9.0, 1.0, 1.0]

    with_lines(tmp_path, story)


def test_refused_events_and_reads_are_told_by_position_and_the_others_hold(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        refused = [{"type": "remove_node", "name": "none"}, {"type": "upgraded_domains", "domains": ["ud0"]}]
        reads = [{"read": "replicas", "partitions": ["none"]}, {"read": "node_loads"}]
        answer = await client.ask(events=[MAKE, *refused, *documents(described(nodes=1))], reads=reads)
        (refusal,) = answer["refusals"]
        assert refusal["event"] == 1
        assert "none" in refusal["problem"]["detail"]
        assert answer["reads"][0]["error"]["status"] == 404
        assert [*answer["reads"][1]] == ["n0"]
        assert (await client.ask(cluster="other"))["error"]["status"] == 404

    with_lines(tmp_path, story)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"events": [\n', "truncated"),
        (b"\n", "truncated"),
        (b'{"event": []}\n', "event"),
        (b'{"events": [{"type": "loads", "loads": [[1]], "indices": [-1]}]}\n', ">= 0"),
        (b'{"events": [{"type": "loads", "loads": [[1]], "indices": [0], "nodes": ["n0"]}]}\n', "indices"),
        (b'{"events": [{"type": "plan"}, {"type": "cluster", "settings": {"metrics": [{"name": "a"}]}}]}\n', "first"),
        (b'{"now": 1e999}\n', "out of range"),
    ],
)
def test_a_line_that_is_no_request_has_an_error_and_the_connection_goes_on(
    tmp_path: Path, line: bytes, words: str
) -> None:
    async def story(client: Client) -> None:
        await client.ask(events=[MAKE])
        error = (await client.send(line))["error"]
        assert error["status"] in (400, 409, 422)
        assert words in error["detail"]
        assert (await client.ask())["sequence"] == 1

    with_lines(tmp_path, story)


def test_a_connection_that_begins_with_no_request_ends_so_that_no_web_page_can_send_one(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        body = msgspec.json.encode({"events": [MAKE]}) + b"\n"
        assert (await client.send(b"POST / HTTP/1.1\r\nHost: here\r\n\r\n" + body))["error"]["status"] == 400
        assert await client.is_closed()

    with_lines(tmp_path, story)


def test_a_line_without_its_end_is_not_carried_out(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        client.writer.write(msgspec.json.encode({"events": [MAKE]}))
        client.writer.write_eof()
        assert "does not end" in json.loads(await client.reader.readline())["error"]["detail"]

    with_lines(tmp_path, story)


def test_a_line_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        await client.ask(events=[MAKE])
        assert (await client.send(b" " * (LONGEST + 1)))["error"]["status"] == 413
        assert await client.is_closed()

    with_lines(tmp_path, story)


def test_a_connection_that_sends_nothing_ends_sooner_before_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "SECONDS_TO_BEGIN", 0.1)

    async def silent(client: Client) -> None:
        assert json.loads(await client.reader.readline())["error"]["status"] == 408
        assert await client.is_closed()

    async def begun(client: Client) -> None:
        await client.ask(events=[MAKE])
        await asyncio.sleep(0.3)
        assert (await client.ask())["sequence"] == 1
        monkeypatch.setattr(lines_module, "SECONDS_OF_SILENCE", 0.1)
        assert (await client.ask())["sequence"] == 1
        await silent(client)

    with_lines(tmp_path / "silent", silent)
    with_lines(tmp_path / "begun", begun)


def test_lines_are_counted_as_requests_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, access = [100.0], Access()
    access.clock = lambda: now[0]
    monkeypatch.setattr(access_module, "MOST_REQUESTS", 2)
    monkeypatch.setattr(access_module, "RATE", 1.0)

    async def story(client: Client) -> None:
        assert (await client.ask(events=[MAKE]))["sequence"] == 1
        assert (await client.ask())["sequence"] == 1
        assert (await client.ask(events=documents(described())))["error"]["status"] == 429
        now[0] += 1.0
        assert (await client.ask())["sequence"] == 1

    with_lines(tmp_path, story, access)


def test_a_line_has_at_most_as_many_events_as_a_batch(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        await client.ask(events=[MAKE])
        events = [{"type": "upgraded_domains", "domains": []}] * (MOST_EVENTS + 1)
        assert (await client.ask(events=events))["error"]["status"] == 400
        assert (await client.ask())["sequence"] == 1

    with_lines(tmp_path, story)


def test_a_client_that_never_reads_is_not_read_any_more(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        lines = LineServer(service)
        address = await lines.start("127.0.0.1:0")
        try:
            await (client := await connected(address)).ask(events=[MAKE, *documents(described(nodes=200))])
            client.writer.close()
            silent = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
            silent.setblocking(False)
            line = b'{"reads": [' + b", ".join([b'{"read": "node_loads"}'] * 16) + b"]}\n"
            sent, pauses = 0, 0
            while pauses < 20:  # a second in which nothing is taken
                try:
                    sent, pauses = sent + silent.send(line), 0
                except BlockingIOError:
                    pauses += 1
                    await asyncio.sleep(0.05)
            silent.close()
            assert sent < 3 * LONGEST
        finally:
            await lines.stop()

    async def run() -> None:
        async with served(tmp_path) as service:
            await story(service)

    asyncio.run(run())


def test_tokens_give_rights_and_a_line_without_one_ends_the_connection(tmp_path: Path) -> None:
    secrets = {right: f"a secret for {right.name.lower()}" for right in Right}
    digests = {right: hashlib.sha256(secret.encode()).digest() for right, secret in secrets.items()}
    access = Access({digest: Actor(right.name.lower(), right) for right, digest in digests.items()})

    async def story(client: Client) -> None:
        answer = await client.ask(token=secrets[Right.REPORT], events=[MAKE])
        assert answer["error"]["status"] == 403
        assert "error" not in await client.ask(token=secrets[Right.APPLY], events=[MAKE])
        assert "error" not in await client.ask(events=documents(described(nodes=1)))
        answer = await client.ask(token=secrets[Right.READ], events=documents(described(nodes=1)))
        assert answer["error"]["status"] == 403

    async def without(client: Client) -> None:
        assert (await client.ask(events=[MAKE]))["error"]["status"] == 401
        assert await client.is_closed()

    with_lines(tmp_path / "with", story, access)
    with_lines(tmp_path / "without", without, access)


def test_only_this_machine_is_served_without_tokens_and_a_socket_is_its_users_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path / "data") as service:
            for address in ("0.0.0.0:0", "example.org:8766", "127.0.0.1", "127.0.0.1:70000"):
                with pytest.raises(InvalidValueError):
                    await LineServer(service).start(address)
            path, lines = tmp_path / "socket", LineServer(service)
            client = await connected(await lines.start(f"unix://{path}"))
            assert (await client.ask(events=[MAKE]))["sequence"] == 1
            assert path.stat().st_mode & 0o077 == 0
            client.writer.close()
            await lines.stop()
            assert not path.exists()
            with pytest.raises(PlbError, match="cannot listen"):
                await lines.start(f"unix://{tmp_path}/none/socket")

    asyncio.run(run())


def session() -> list[str]:
    """Return the lines of the session on the page."""
    blocks = [block for block in blocks_of("docs/line-protocol.md") if block.content.startswith('{"events"')]
    return [line for block in blocks for line in block.content.splitlines()]


def test_the_session_on_the_page_is_answered_as_the_page_shows(tmp_path: Path) -> None:
    lines = session()
    assert len(lines) == 8

    async def story(client: Client) -> None:
        for request, shown in zip(lines[::2], lines[1::2], strict=True):
            client.writer.write(request.encode() + b"\n")
            answer = (await client.reader.readline()).decode().strip()
            assert re.fullmatch(re.escape(shown).replace("…", ".*"), answer), answer

    with_lines(tmp_path, story)


def test_the_example_places_replicas_and_moves_one_when_their_loads_grow(tmp_path: Path) -> None:
    with server(tmp_path, "--lines", f"unix://{tmp_path}/socket") as here:
        assert here.process.stdout is not None
        assert here.process.stdout.readline().startswith(f"unix://{tmp_path}/socket serves")
    with server(tmp_path, "--lines", "127.0.0.1:0") as here:
        assert here.process.stdout is not None
        address = here.process.stdout.readline().partition(" ")[0].removeprefix("tcp://")
        run = subprocess.run([sys.executable, EXAMPLE, address], capture_output=True, text=True, check=True)
    assert run.stdout == EXAMPLE.with_suffix(".out").read_text()


@pytest.mark.parametrize("line", [{"now": 1e300}, {"now": 1e300, "events": [{"type": "drain_node", "name": "n0"}]}])
def test_a_line_with_a_time_that_the_log_cannot_hold_is_refused(tmp_path: Path, line: dict[str, Any]) -> None:
    async def story(client: Client) -> None:
        await client.ask(events=[MAKE])
        assert (await client.ask(**line))["error"]["status"] == 400
        assert (await client.ask())["sequence"] == 1

    with_lines(tmp_path, story)


def test_a_line_that_waits_for_a_plan_ends_with_an_error_when_the_service_stops(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/socket"
    with server(tmp_path / "data", "--lines", address) as here, socket.socket(socket.AF_UNIX) as client:
        assert here.process.stdout is not None
        here.process.stdout.readline()
        client.connect(address.removeprefix("unix://"))
        client.settimeout(60)
        asked = {"events": [MAKE, *documents(described()), {"type": "plan", "proposals": 2**40}]}
        client.sendall(msgspec.json.encode(asked) + b"\n")
        while not httpx.get(f"{here.url}/v1/clusters/main/plans").content.startswith(b"[{"):
            pass
        here.process.terminate()
        assert json.loads(client.makefile().readline())["error"]["status"] == 503
        assert here.process.wait(60) == 0


def test_a_line_ends_with_an_error_when_the_log_cannot_take_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Log.append

    def full(log: Log, entries: Sequence[tuple[LogEntry, bytes]], *rest: Any) -> None:
        if any(isinstance(entry.event, PlanMade) for entry, _ in entries):
            raise LogError("the log cannot be written: database or disk is full")
        append(log, entries, *rest)

    async def story(client: Client, service: PlacementService) -> None:
        await client.ask(events=[MAKE, *documents(described())])
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", full)
            answer = await client.ask(events=[{"type": "plan"}])
            plan = service.cluster("main").reader.plan("p10")
            assert (plan.is_searching, "disk is full" in str(plan.error)) == (True, True)
        assert "disk is full" in answer["error"]["detail"]
        while plan.is_searching:
            await asyncio.sleep(0.01)
        assert (plan.status, plan.error) == (Status.READY, None)

    async def run() -> None:
        async with served(tmp_path) as service:
            lines = LineServer(service)
            client = await connected(await lines.start("127.0.0.1:0"))
            await story(client, service)
            client.writer.close()
            await lines.stop()

    asyncio.run(run())


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\nb", " ", "a" * 1001])
def test_a_cluster_whose_name_is_no_part_of_a_path_is_not_made(tmp_path: Path, name: str) -> None:
    async def story(client: Client) -> None:
        assert (await client.ask(cluster=name, events=[MAKE]))["error"]["status"] == 422

    with_lines(tmp_path, story)


async def answers(address: str) -> None:
    """Have a server at an address answer a line."""
    client = await connected(address)
    assert (await client.ask())["error"]["status"] == 404
    client.writer.close()
    await client.writer.wait_closed()


def test_a_unix_socket_that_is_served_is_in_use_and_stays_and_one_that_was_left_is_replaced(tmp_path: Path) -> None:
    path, address = tmp_path / "socket", f"unix://{tmp_path}/socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def run() -> None:
        async with served(tmp_path / "data") as service:
            first, second, third = (LineServer(service) for _ in range(3))
            await first.start(address)
            with pytest.raises(PlbError, match="Address already in use"):
                await second.start(address)
            await second.stop()
            await answers(address)
            path.unlink()
            await third.start(address)
            await first.stop()
            await answers(address)
            await third.stop()
            assert not path.exists()

    asyncio.run(run())


def test_of_two_services_that_find_one_left_socket_one_listens_and_one_is_told_that_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would remove the socket of the first if both saw the one that was left."""
    path, removals, unlink = tmp_path / "socket", count(), Path.unlink
    both_have_seen, first_listens = threading.Barrier(2), threading.Event()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    def slow_unlink(file: Path, missing_ok: bool = False) -> None:
        with suppress(threading.BrokenBarrierError):
            both_have_seen.wait(0.2)
        if next(removals):
            first_listens.wait(10)
        unlink(file, missing_ok)

    def listening(_: int) -> socket.socket | OSError:
        try:
            return lines_module._listening_at(path)
        except OSError as error:
            return error
        finally:
            first_listens.set()

    monkeypatch.setattr(Path, "unlink", slow_unlink)
    with ThreadPoolExecutor(2) as threads:
        found = [*threads.map(listening, range(2))]
    (error,) = (one for one in found if isinstance(one, OSError))
    (server,) = (one for one in found if not isinstance(one, OSError))
    assert error.errno == errno.EADDRINUSE
    with server, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        server.accept()[0].close()


def test_a_line_with_an_event_that_no_client_may_send_makes_no_cluster(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        drain = {"type": "drain_node", "name": "n\n"}
        assert (await client.ask(events=[MAKE, drain]))["error"]["status"] == 422
        assert (await client.ask(events=[MAKE]))["sequence"] == 1

    with_lines(tmp_path, story)
