"""How fast a service answers: reads beside a search, durable reports of loads, placements, and a restart after a kill.

    python benchmarks/service.py [--nodes 4000] [--partitions 30000] [--seconds 10] [--json FILE]

The service is a process of its own, and this one is its only client, over HTTP on the same machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import numpy as np

CLUSTER = "/v1/clusters/main"
METRICS, REPLICAS = ("cpu", "memory"), 4
CAPACITY = {"cpu": 80.0, "memory": 400.0}
WAITING = "waiting"
"""Name of a partition without places."""
AT_ONCE = 500
"""Reports of loads in a request."""
BATCH = 2000
"""Events in a request that describes the cluster."""


class Served:
    """A service in a process of its own, and a connection to it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._folder = folder
        self.start()

    def start(self) -> float:
        """Start the service; return the seconds until it is ready."""
        began = time.perf_counter()
        command = [sys.executable, "-c", "from plb_command import main; main()", "serve"]
        options = ["--data", str(self._folder), "--listen", f"127.0.0.1:{self._port}"]
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        while True:
            try:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port)
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.ask("GET", "/readyz")
            except OSError:
                time.sleep(0.01)
            else:
                return time.perf_counter() - began

    def kill(self) -> None:
        """Kill the service at once."""
        self._connection.close()
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def send(self, method: str, path: str, body: Any = None) -> bytes:
        """Return the answer to a request as it came; one that was refused ends the program."""
        data = None if body is None else msgspec.msgpack.encode(body)
        self._connection.request(method, path, data, {"Content-Type": "application/msgpack"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 400:
            raise SystemExit(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the document of the answer to a request."""
        return msgspec.json.decode(self.send(method, path, body))

    def plan(self, **request: Any) -> str:
        """Ask for a plan, and return its id."""
        return str(self.ask("POST", f"{CLUSTER}/plans", request)["plan"])

    def made(self, plan: str) -> Any:
        """Return a plan when its search has ended."""
        while (record := self.ask("GET", f"{CLUSTER}/plans/{plan}"))["status"] == "searching":
            time.sleep(0.001)
        return record


def describe(served: Served, nodes: int, partitions: int, rng: random.Random) -> list[list[str]]:
    """Describe a cluster with all replicas placed; return the nodes of each partition."""
    settings = {"metrics": [{"name": metric} for metric in METRICS], "w_failovers": 0.0, "w_overload": 0.0}
    served.ask("PUT", CLUSTER, {"settings": settings, "seed": 1})
    load = {role: {"cpu": 1.0, "memory": 5.0} for role in ("primary", "secondary")}
    events: list[Any] = [
        {
            "type": "node",
            "node": {
                "name": f"n{index}",
                "capacities": CAPACITY,
                "fault_domain": f"fd:/r{index % 20}",
                "upgrade_domain": f"u{index % 10}",
            },
        }
        for index in range(nodes)
    ]
    events.append({"type": "service", "service": {"name": "db", "target_replicas": REPLICAS, "default_load": load}})
    places = []
    for index in range(partitions):
        first = rng.randrange(nodes)
        places.append([f"n{(first + step * 7) % nodes}" for step in range(REPLICAS)])
        replicas = [{"role": "secondary" if step else "primary", "node": node} for step, node in enumerate(places[-1])]
        events.append(
            {"type": "partition", "partition": {"name": f"db/{index}", "service": "db", "replicas": replicas}}
        )
    for begin in range(0, len(events), BATCH):
        answers = served.ask("POST", f"{CLUSTER}/events", events[begin : begin + BATCH])
        refused = [answer["problem"] for answer in answers if "problem" in answer]
        if refused:
            raise SystemExit(f"refused: {refused[0]}")
    return places


def timed(call: Callable[[], Any]) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    call()
    return 1000.0 * (time.perf_counter() - began)


def quantiles(times: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile of times in milliseconds, and their number."""
    return {"calls": len(times), "p50_ms": float(np.median(times)), "p99_ms": float(np.quantile(times, 0.99))}


def reads_beside_a_search(
    served: Served, places: list[list[str]], seconds: float, rng: random.Random
) -> dict[str, Any]:
    """Return the times of reads while the service searches, a tenth of them after a report of loads."""
    partitions = len(places)
    served.ask("PUT", f"{CLUSTER}/partitions/{WAITING}", {"name": WAITING, "service": "db"})
    plan = served.plan(call="balance", now=1e6, seconds=seconds)
    reads: dict[str, Callable[[], str]] = {
        "replicas of a partition": lambda: f"{CLUSTER}/partitions/db/{rng.randrange(partitions)}",
        "state of the plan": lambda: f"{CLUSTER}/plans/{plan}",
        "loads of all nodes": lambda: f"{CLUSTER}/node_loads",
        "violations": lambda: f"{CLUSTER}/violations",
        "score of all nodes for a replica": lambda: f"{CLUSTER}/score?partition={WAITING}",
    }
    times: dict[str, list[float]] = {name: [] for name in reads}
    while served.ask("GET", f"{CLUSTER}/plans/{plan}")["status"] == "searching":
        if len(times["violations"]) % 10 == 0:
            report(served, places, rng)
        for name, path in reads.items():
            times[name].append(timed(partial(served.send, "GET", path())))
            time.sleep(0.002)
    record = served.made(plan)
    if record["status"] == "ready":
        served.ask("DELETE", f"{CLUSTER}/plans/{plan}")
    return {name: quantiles(of_read) for name, of_read in times.items()}


def explanations(served: Served, partitions: int, rng: random.Random) -> dict[str, Any]:
    """Return the times of explanations and alternatives, which evaluate all nodes for each replica of a partition."""
    figures = {}
    for kind in ("explain", "alternatives"):
        paths = [f"{CLUSTER}/{kind}?partition=db/{rng.randrange(partitions)}" for _ in range(50)]
        figures[kind] = quantiles([timed(partial(served.send, "GET", path)) for path in paths])
    return figures


def report(served: Served, places: list[list[str]], rng: random.Random) -> None:
    """Report `AT_ONCE` loads in a request."""
    first = rng.randrange(len(places))
    chosen = [(first + step) % len(places) for step in range(AT_ONCE // REPLICAS)]
    names = [f"db/{index}" for index in chosen for _ in range(REPLICAS)]
    nodes = [node for index in chosen for node in places[index]]
    loads = [[rng.uniform(0.5, 2.0), rng.uniform(3.0, 7.0)] for _ in names]
    served.ask("POST", f"{CLUSTER}/loads", {"partitions": names, "nodes": nodes, "loads": loads})


def reports(served: Served, places: list[list[str]], seconds: float, rng: random.Random) -> dict[str, float]:
    """Return how many loads a second are reported durably, in requests of `AT_ONCE`."""
    began, requests = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        report(served, places, rng)
        requests += 1
    return {"reports_per_second": requests * AT_ONCE / (time.perf_counter() - began)}


def placements(served: Served, partitions: int, calls: int) -> dict[str, Any]:
    """Return the times from the request of a plan of places until it is ready, and with partition and application."""
    planned, whole = [], []
    for index in range(calls):
        name, began = f"db/{partitions + index}", time.perf_counter()
        served.ask("PUT", f"{CLUSTER}/partitions/{name}", {"name": name, "service": "db"})
        asked = time.perf_counter()
        plan = served.plan(call="place", partitions=[name], now=100.0 + index)
        if len(served.made(plan)["document"]["moves"]) != REPLICAS:
            raise SystemExit(f"{name} found no place")
        planned.append(1000.0 * (time.perf_counter() - asked))
        served.ask("POST", f"{CLUSTER}/plans/{plan}/apply")
        whole.append(1000.0 * (time.perf_counter() - began))
    return {"planned": quantiles(planned), "added, planned and applied": quantiles(whole)}


def main() -> None:
    """Measure a service."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--partitions", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each measurement")
    parser.add_argument("--placements", type=int, default=300)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rng, folder = random.Random(1), Path(mkdtemp(prefix="plb-service-"))
    served = Served(folder)
    try:
        began = time.perf_counter()
        places = describe(served, arguments.nodes, arguments.partitions, rng)
        figures: dict[str, Any] = {
            "nodes": arguments.nodes,
            "replicas": arguments.partitions * REPLICAS,
            "description_seconds": time.perf_counter() - began,
        }
        served.made(served.plan(call="place", now=1.0))  # the first plan compiles or loads kernels
        figures["place a partition of four"] = placements(served, arguments.partitions, arguments.placements)
        figures["reports"] = reports(served, places, arguments.seconds, rng)
        figures["reads beside a search"] = reads_beside_a_search(served, places, arguments.seconds, rng)
        figures["explanations"] = explanations(served, arguments.partitions, rng)
        served.kill()
        figures["restart_seconds"] = served.start()
    finally:
        served.kill()
        shutil.rmtree(folder)
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
