"""Clients of the interface over HTTP, for tests."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx

from cluster.service.interfaces.access import Access
from cluster.service.interfaces.rest import application
from cluster.service.service import PlacementService
from tests.cluster.service.served import SETTINGS, make, served

HERE = "http://127.0.0.1"
ITS_PATH = "/v1/clusters/main"
PLB = [sys.executable, "-c", "from plb_command import main; main()"]


def client_of(service: PlacementService, access: Access | None = None, **options: Any) -> httpx.AsyncClient:
    """Return a client of the application of a service."""
    transport = httpx.ASGITransport(application(service, access, **options), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=HERE)


def with_client(
    folder: Path,
    story: Callable[[httpx.AsyncClient], Awaitable[None]],
    access: Access | None = None,
    *,
    is_made: bool = True,
    **options: Any,
) -> None:
    """Tell a story of a client of a service; with `is_made` it has the cluster of `make`."""

    async def run() -> None:
        async with served(folder) as service, client_of(service, access, **options) as client:
            if is_made:
                await make(service)
            await story(client)

    asyncio.run(run())


async def made(client: httpx.AsyncClient, **request: Any) -> dict[str, Any]:
    """Ask for a plan, and return it when its search has ended."""
    response = await client.post(f"{ITS_PATH}/plans", json=request)
    assert response.status_code == 202, response.text
    while (plan := (await client.get(response.headers["location"])).json())["status"] == "searching":
        await asyncio.sleep(0.01)
    return dict(plan)


@attrs.frozen
class Process:
    """A server of its own."""

    process: subprocess.Popen[str]
    url: str


@contextmanager
def server(folder: Path, *options: str) -> Iterator[Process]:
    """Serve a directory on a free port, and kill the server at the end."""
    command = [*PLB, "serve", "--data", str(folder), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = re.match(r"https?://\S+", line)
            assert url is not None, line + process.stdout.read()
            yield Process(process, url[0])
        finally:
            process.kill()


__all__ = ["HERE", "ITS_PATH", "PLB", "SETTINGS", "client_of", "made", "server", "with_client"]
