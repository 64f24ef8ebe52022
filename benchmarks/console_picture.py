"""Draws the console of the service with Chromium: ``python benchmarks/console_picture.py docs/images/console.png``.

The cluster is the same in every run. Options show other sizes, schemes and pages; ``--seconds`` keeps the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from PIL import Image

from cluster.service.events import (
    ApplyPlan,
    DrainNode,
    LoggedEvent,
    MakeCluster,
    PutNode,
    PutPartition,
    PutService,
    ReportLoads,
    RequestPlan,
)
from cluster.service.interfaces.rest import application, end_streams
from cluster.service.log import Log
from cluster.service.service import PlacementService
from plb import Role

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
CLUSTER = "west"
SETTINGS = {
    "metrics": [{"name": "cpu"}, {"name": "memory"}],
    "estimator": "historical-simulation:slot_minutes=15,slots=8,horizon=4",
    "w_failovers": 1.0,
    "max_moves": 12,
}


def described(nodes: int) -> list[LoggedEvent]:
    """Return the events of nodes in five fault and eight upgrade domains, and of partitions that fill them."""
    capacities = {"cpu": 32.0, "memory": 128.0}
    domains = [
        {"fault_domain": f"fd:/rack{index % 5}", "upgrade_domain": f"ud{index // 5 % 8}"} for index in range(nodes)
    ]
    load = {"primary": {"cpu": 6, "memory": 12}, "secondary": {"cpu": 2, "memory": 12}}
    return [
        *(PutNode(node={"name": f"n{index}", "capacities": capacities, **domains[index]}) for index in range(nodes)),
        PutService(service={"name": "db", "target_replicas": 3, "default_load": load}),
        *(PutPartition(partition={"name": f"db/{index}", "service": "db"}) for index in range(2 * nodes)),
    ]


async def report(service: PlacementService, step: int) -> None:
    """Report loads of all replicas; each partition has its own size, and some grow."""
    engine = service.cluster(CLUSTER).reader.engine
    sizes = np.random.default_rng(7).gamma(2.0, 0.5, 2 * len(engine.nodes)).tolist()
    partitions, nodes, loads = [], [], []
    for index, size in enumerate(sizes):
        cpu = min(6 * size, 14.0) * (1 + 0.05 * step * (index % 7 == 0))
        for replica in engine.replicas(f"db/{index}"):
            partitions.append(f"db/{index}")
            nodes.append(str(replica.node))
            loads.append([cpu if replica.role is Role.PRIMARY else 0.4 * cpu, 12.0])
    event = ReportLoads(partitions=partitions, nodes=nodes, loads=loads, now=900.0 * step)
    await service.submit(CLUSTER, event, "metrics")


async def planned(service: PlacementService, request: RequestPlan, actor: str = "operator") -> str:
    """Ask for a plan, and return its id when it is ready."""
    receipt = await service.submit(CLUSTER, request, actor)
    live, plan = service.cluster(CLUSTER), f"p{receipt.sequence}"
    while live.reader.plan(plan).is_searching:
        await live.changed.wait()
    return plan


async def fill(service: PlacementService, nodes: int) -> None:
    """Make a cluster that has run for a while, drains a node, and has a plan that waits for a decision."""
    await service.submit(CLUSTER, MakeCluster(settings=SETTINGS, seed=54), "operator")
    await service.submit_all(CLUSTER, described(nodes), "operator")
    placed = await planned(service, RequestPlan(now=0.0))
    await service.submit(CLUSTER, ApplyPlan(plan=placed), "operator")
    for step in range(1, 13):
        await report(service, step)
    await service.submit(CLUSTER, DrainNode(name=f"n{nodes - 3}"), "operator")
    await planned(service, RequestPlan(now=12 * 900.0, proposals=100_000))


class Console:
    """A console that a thread serves."""

    def __init__(self, folder: Path) -> None:
        self.url, self.service = "", PlacementService(Log(folder))
        self._ready, self._thread = threading.Event(), threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.service.start()
        self._app = application(self.service)
        config = uvicorn.Config(self._app, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            self._ready.set()
            await self._server.serve(sockets=[listening])
        await self.service.stop()

    def run(self, story: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Return what an asynchronous function of the service returns."""
        return asyncio.run_coroutine_threadsafe(story(self.service, *arguments), self._loop).result()  # type: ignore[arg-type]

    def __enter__(self) -> Console:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._loop.call_soon_threadsafe(end_streams, self._app)
        self._thread.join()


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            yield started
        finally:
            started.close()


def main() -> None:
    """Draw the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--size", default="1360x900", help="width and height of the window")
    parser.add_argument("--address", default="?node=n7", help="query of the page")
    parser.add_argument("--whole", action="store_true", help="draw all of the page, not only the window")
    parser.add_argument("--seconds", type=float, default=0.0, help="go on serving for so long")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as folder, Console(Path(folder)) as console, browser() as started:
        console.run(fill, options.nodes)
        page = started.new_page(viewport={"width": width, "height": height}, color_scheme=options.scheme)
        page.on("console", lambda message: print(message.text))
        begun = time.perf_counter()
        page.goto(f"{console.url}/{options.address}")
        page.get_by_text("live, entry").wait_for()
        print(f"{console.url}: live after {time.perf_counter() - begun:.2f} s")
        page.screenshot(path=options.out, full_page=options.whole)
        Image.open(options.out).quantize(128).save(options.out, optimize=True)
        time.sleep(options.seconds)


if __name__ == "__main__":
    main()
