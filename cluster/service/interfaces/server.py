"""The server: an application on a socket, over TLS if a certificate is given, until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path

import attrs
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from cluster.service.interfaces.access import Access
from cluster.service.interfaces.guard import host_and_port, is_loopback
from cluster.service.interfaces.lines import LineServer
from cluster.service.interfaces.rest import application, end_streams
from cluster.service.log import Log
from cluster.service.service import PlacementService
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.errors import ConflictError, PlbError

MOST_CONNECTIONS = 1000
"""Connections at a time."""
SECONDS_TO_BEGIN = 30
"""Longest wait of a connection for the headers of its first or next request."""
SECONDS_TO_END = 5
"""Time for requests that run when the server is stopped."""
SECONDS_OF_A_THREAD = 0.001
"""How long a search keeps the interpreter from a read."""

SECONDS_TO_COLLECT = 600.0
"""Time after which garbage among long-lived objects is looked for."""


@attrs.frozen
class Transport:
    """Where a server listens, and how it knows its clients."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    """Certificates of the authorities that sign the certificates of clients; if given, no other client can connect."""

    @classmethod
    def of(cls, address: str, **files: Path | None) -> Transport:
        """Return the transport at an address, HOST:PORT; a wrong one raises `InvalidValueError`."""
        host, port = host_and_port("serve", "listen", address, "HOST:PORT, such as 127.0.0.1:8765")
        return cls(host, port, **files)

    def check(self, has_tokens: bool) -> None:
        """Raise `ConflictError` unless clients are known, or are all on this machine."""
        if (self.certificate is None) != (self.key is None) or (self.client_ca and self.certificate is None):
            raise ConflictError("serve: --certificate and --key belong together, and --client-ca needs both")
        if not is_loopback(self.host) and not has_tokens and self.client_ca is None:
            raise ConflictError(
                f"serve: whoever reaches {self.host} could move replicas; give --token-file, or --client-ca with "
                "--certificate and --key, or listen on 127.0.0.1"
            )

    def listening(self) -> socket.socket:
        """Return a socket that listens."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # the protocol is named, because asyncio switches Nagle's delay off only then
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self.host, self.port))
            listening.listen(1024)
            return listening
        except OSError as error:
            listening.close()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise PlbError(f"serve: cannot listen on {self.host}:{self.port}: {reason}") from None

    def url(self, listening: socket.socket) -> str:
        """Return the address of a socket for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{listening.getsockname()[1]}"


def spare_long_lived_objects() -> None:
    """Let the collector of garbage look at what is new only, and at all objects once in `SECONDS_TO_COLLECT`.

    Engines hold some hundred thousand objects, and requests wait while the collector looks at them.
    """
    collected_at = time.monotonic()

    def around(phase: str, info: dict[str, int]) -> None:
        nonlocal collected_at
        if info["generation"] < len(gc.get_threshold()) - 1:
            return
        if phase == "stop":
            gc.freeze()
        elif time.monotonic() - collected_at >= SECONDS_TO_COLLECT:
            gc.unfreeze()
            collected_at = time.monotonic()

    gc.callbacks.append(around)
    gc.freeze()


def load_kernels() -> None:
    """Have an engine take a report and be read, so that the first requests of clients do not wait for machine code."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("load")]))
    engine.update_node(Node("node"))
    engine.update_service(Service("service", target_replicas=2))
    engine.update_partition(Partition("service/0", service="service", replicas=[Replica(Role.PRIMARY, "node")]))
    engine.report_loads([0], [[1.0]])
    engine.node_loads()
    engine.violations()
    engine.violation_probabilities()
    engine.score("service/0")
    engine.alternatives("service/0")


class TimedProtocol(H11Protocol):
    """Connections that wait `SECONDS_TO_BEGIN` for a request, until the end of its headers, and are then closed."""

    _end: asyncio.TimerHandle | None = None
    """Closes the connection; None: a request is answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait(False)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has come, or the end of an answer."""
        super().handle_events()
        self._wait(self.cycle is None or self.cycle.response_complete)

    def _wait(self, waits: bool) -> None:
        """Begin to wait for a request unless this has begun, or end the wait."""
        if waits and self._end is None:
            self._end = self.loop.call_later(SECONDS_TO_BEGIN, self.transport.close)
        elif not waits and self._end is not None:
            self._end.cancel()
            self._end = None


def serve(
    folder: Path,
    transport: Transport,
    tokens: Path | None,
    say: Callable[[str], None],
    beside: Callable[[PlacementService], Awaitable[None]] | None = None,
    lines: str | None = None,
) -> None:
    """Serve the clusters of a directory until SIGINT or SIGTERM.

    `tokens`: file of tokens, or None: all that can connect have all rights; `say`: called with each address when it is
    served; `beside`: runs while the service does; `lines`: address of the line protocol.
    Raise `PlbError` if the directory is served already or cannot be written, or the address cannot be used.
    """
    transport.check(tokens is not None)
    anyone = "loopback" if transport.client_ca is None else "certificate"
    access = Access(anyone=anyone) if tokens is None else Access.of_file(tokens)
    with transport.listening() as listening:
        service = PlacementService(Log(folder))
        app = application(service, access)
        server = uvicorn.Server(_config(app, transport))
        server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]  # `_serve` handles them
        sys.setswitchinterval(SECONDS_OF_A_THREAD)
        asyncio.run(_serve(app, server, listening, transport.url(listening), say, beside, lines))


def _config(app: Starlette, transport: Transport) -> uvicorn.Config:
    """Return the configuration of the server; files that are no certificates raise `PlbError`."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        http=TimedProtocol,
        timeout_keep_alive=SECONDS_TO_BEGIN,
        timeout_graceful_shutdown=SECONDS_TO_END,
        ssl_certfile=transport.certificate,
        ssl_keyfile=None if transport.key is None else str(transport.key),
        ssl_ca_certs=None if transport.client_ca is None else str(transport.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if transport.client_ca is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except ssl.SSLError as error:
        raise PlbError(f"serve: --certificate, --key or --client-ca cannot be used: {error}") from None
    return config


async def _serve(
    app: Starlette,
    server: uvicorn.Server,
    listening: socket.socket,
    url: str,
    say: Callable[[str], None],
    beside: Callable[[PlacementService], Awaitable[None]] | None,
    lines: str | None,
) -> None:
    """Serve `app` on the socket `listening`, which has the address `url`, until a signal; the rest is as in `serve`."""

    def stop() -> None:
        server.force_exit = server.should_exit  # at the second signal
        server.should_exit = True
        end_streams(app)

    service: PlacementService = app.state.service
    await service.start()
    spare_long_lived_objects()
    threading.Thread(target=load_kernels, name="plb kernels", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    task = None if beside is None else asyncio.ensure_future(beside(service))
    line_server = LineServer(service, app.state.access)
    try:
        for address in [url] if lines is None else [url, await line_server.start(lines)]:
            say(address)
        await server.serve(sockets=[listening])
    finally:
        await line_server.stop()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await service.stop()
