"""The line protocol: one JSON line a request, one JSON line an answer, in order (docs/line-protocol.md)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from cluster.service.events import HostEvent, LoggedEvent, MakeCluster, RequestError, RequestPlan, Time, decoded
from cluster.service.interfaces.access import Access, Right, check_right
from cluster.service.interfaces.guard import host_and_port, is_loopback
from cluster.service.interfaces.operations import MOST_EVENTS, right_of
from cluster.service.interfaces.problems import RefusedError, problem_of
from cluster.service.interfaces.reads import AnyRead
from cluster.service.replica import PlanRecord
from cluster.service.service import LiveCluster, PlacementService, Receipt
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.model.documents import Document

LONGEST = 16 * 2**20
"""Most bytes of a line."""
MOST_CONNECTIONS = 100
"""Connections at a time."""
SECONDS_TO_BEGIN, SECONDS_OF_SILENCE = 30.0, 3600.0
"""Longest wait for the first request of a connection, and for each later one or for a client to take an answer."""
MOST_READS = 16
"""Questions of a line."""
TCP, UNIX = "tcp://", "unix://"
"""Begins of addresses."""


class Line(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request."""

    cluster: str = "main"
    """Name of the cluster."""
    token: str | None = None
    """Token of the client, needed once in a connection if the service has tokens."""
    now: Time | None = None
    """When the events without a time of their own happen."""
    events: Annotated[list[HostEvent | MakeCluster], Meta(max_length=MOST_EVENTS)] = []
    """What has happened, in order; the first one may make the cluster."""
    reads: Annotated[list[AnyRead], Meta(max_length=MOST_READS)] = []
    """Questions, which are answered after the events."""

    def __post_init__(self) -> None:
        for event in self.events[1:]:
            if isinstance(event, MakeCluster):
                raise ConflictError("line: a cluster is made by the first event of a line")


class UnreadLine(Struct):
    """A request whose events are not read yet."""

    events: Annotated[list[msgspec.Raw], Meta(max_length=MOST_EVENTS)] = []


class Connection:
    """Answers the lines of a client."""

    def __init__(self, service: PlacementService, access: Access) -> None:
        self._service, self._access = service, access
        self._token: str | None = None
        self.is_trusted = False
        """Whether a line was a request; nothing after a first line that is none is read, such as the body that a web
        page has sent.
        """

    async def answer(self, data: bytes) -> Document:
        """Return the answer to a line; one that is no request, or is of no cluster, has the answer ``error``."""
        try:
            if not data.endswith(b"\n"):
                raise RequestError("document", "the line does not end")
            line = decoded(data, Line, first=UnreadLine)
            self._token = line.token or self._token
            actor = self._access.admit(None if self._token is None else f"Bearer {self._token}", Right.READ)
            self.is_trusted = True
            for event in line.events:
                check_right(actor, right_of(event))
            return await self._answer(line, actor.name)
        except PlbError as error:
            return {"error": problem_of(error)}

    async def _answer(self, line: Line, actor: str) -> Document:
        """Return the answer to a request: its events first, then the plan that it asks for, then its reads."""
        receipts = await self._submit(line, actor)
        live = self._service.cluster(line.cluster)
        refusals: list[Document] = []
        plan: PlanRecord | None = None
        for index, (event, receipt) in enumerate(zip(line.events, receipts, strict=True)):
            if receipt.refusal is not None:
                refusals.append({"event": index, "problem": problem_of(receipt.refusal)})
            elif isinstance(event, RequestPlan):
                plan = await live.finished(f"p{receipt.sequence}")
        reads = [await _read(live, read) for read in line.reads]
        return {"sequence": live.sequence, "refusals": refusals, "plan": plan, "reads": reads}

    async def _submit(self, line: Line, actor: str) -> list[Receipt]:
        """Submit the events of a line in order; the cluster is there before the others are checked."""
        for event in line.events:
            event.admit()
            event.now = line.now if event.now is None else event.now
        events: list[LoggedEvent] = [*line.events]
        first = [event for event in events[:1] if isinstance(event, MakeCluster)]
        receipts = await self._service.submit_all(line.cluster, [*first], actor)
        return receipts + await self._service.submit_all(line.cluster, events[len(first) :], actor)


async def _read(live: LiveCluster, read: AnyRead) -> Any:
    """Return the answer to a question, or the error that it has."""
    try:
        return await read.answer(live)
    except PlbError as error:
        return {"error": problem_of(error)}


class LineServer:
    """Serves the line protocol of a service at ``HOST:PORT``, or at ``unix:///PATH``; `access`: the tokens."""

    def __init__(self, service: PlacementService, access: Access | None = None) -> None:
        self._service, self._access = service, access or Access()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        """The Unix socket."""
        self._file: tuple[int, int] | None = None
        """Identity of the file of the socket: another service may have replaced the file since."""

    async def start(self, address: str) -> str:
        """Begin to listen, and return the address for clients; port 0 becomes a free one.

        Raise `InvalidValueError` if it is no address, or without tokens an address that other machines can reach;
        `PlbError` if the address is in use, or the system refuses it.
        """
        try:
            if address.startswith(UNIX):
                return await self._start_at_path(address)
            return await self._start_at_port(address)
        except OSError as error:
            raise PlbError(f"lines: cannot listen on {address}: {error.strerror or error}") from None

    async def _start_at_path(self, address: str) -> str:
        """Listen at a Unix socket that only this user may open."""
        path = Path(address.removeprefix(UNIX))
        listening = _listening_at(path)
        self._path, self._file = path, _file_of(path)
        self._server = await asyncio.start_unix_server(self._accept, sock=listening, limit=LONGEST)
        return address

    async def _start_at_port(self, address: str) -> str:
        """Listen at a port."""
        host, port = host_and_port("lines", "address", address, f"HOST:PORT or {UNIX}/PATH")
        if not self._access.has_tokens and not is_loopback(host):
            raise InvalidValueError("lines", "address", address, "an address of this machine, or a file of tokens")
        self._server = await asyncio.start_server(self._accept, host, port, limit=LONGEST)
        shown = f"[{host}]" if ":" in host else host
        return f"{TCP}{shown}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
        if self._path is not None and self._file == _file_of(self._path):
            self._path.unlink(missing_ok=True)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until its client closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client, or the service, has ended
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer line after line; the next one is read when the client has taken the answer."""
        connection = Connection(self._service, self._access)
        try:
            if len(self._connections) > MOST_CONNECTIONS:
                raise RefusedError(503, f"{MOST_CONNECTIONS} connections are open")
            while data := await _next_line(reader, connection.is_trusted):
                await _write(writer, await connection.answer(data))
                if not connection.is_trusted:
                    return
        except RefusedError as error:
            await _write(writer, {"error": problem_of(error)})


def _listening_at(path: Path) -> socket.socket:
    """Return a Unix socket that listens at a path; one that was left there is removed."""
    with ExitStack() as undone, ExitStack() as opened:
        folder = os.open(path.parent, os.O_RDONLY)
        undone.callback(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)  # another service may have found the same socket that was left
        undone.callback(os.umask, os.umask(0o077))
        listening = opened.enter_context(socket.socket(socket.AF_UNIX))
        _remove_abandoned(path)
        listening.bind(str(path))
        listening.listen()
        opened.pop_all()
    return listening


def _file_of(path: Path) -> tuple[int, int] | None:
    """Return which file is at a path, or None."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _remove_abandoned(path: Path) -> None:
    """Remove a Unix socket at which nobody listens any more."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink()
        except FileNotFoundError:
            pass


async def _next_line(reader: asyncio.StreamReader, is_trusted: bool) -> bytes:
    """Return the next line of a client, at the end of the connection what is there; raise `RefusedError` at a limit."""
    seconds = SECONDS_OF_SILENCE if is_trusted else SECONDS_TO_BEGIN
    try:
        async with asyncio.timeout(seconds):
            return await reader.readuntil(b"\n")
    except TimeoutError:
        raise RefusedError(408, f"no line has come for {seconds:g} s") from None
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        raise RefusedError(413, f"the line has more than {LONGEST:,} bytes") from None


async def _write(writer: asyncio.StreamWriter, answer: Document) -> None:
    """Send a line, and wait until the client has taken all data."""
    writer.write(msgspec.json.encode(answer) + b"\n")
    try:
        async with asyncio.timeout(SECONDS_OF_SILENCE):
            await writer.drain()
    except TimeoutError:
        writer.transport.abort()
        raise ConnectionAbortedError from None
