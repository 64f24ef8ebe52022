"""Kill a service at random moments, and compare it with a service that nobody kills.

A client sends the same events to both, and sends what was not acknowledged once more after each kill. Nothing that was
acknowledged may be lost, nothing may be applied twice, and all plans have to be the same::

    python benchmarks/service_kills.py --kills 1000

Processes are forked after the imports, so that a start takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cluster.service import searches
from cluster.service.events import HostEvent, MakeCluster, decoded
from cluster.service.log import Log
from cluster.service.service import PlacementService
from plb.model.documents import plain

CLUSTER = "main"
SETTINGS = {"metrics": [{"name": "cpu"}, {"name": "memory"}]}
NODES, PARTITIONS = 12, 40
Document = dict[str, Any]


async def serve(folder: Path, connection: socket.socket) -> None:
    """Answer each line of events with a line of receipts, or of the state, until the connection ends."""
    service = PlacementService(Log(folder))
    await service.start()
    if not service.clusters:
        await service.submit(CLUSTER, MakeCluster(settings=SETTINGS, seed=11), "client")
    reader, writer = await asyncio.open_connection(sock=connection, limit=2**24)
    while line := await reader.readline():
        request = json.loads(line)
        if "wait" in request:
            answer = await result_of(service, request["wait"])
        elif "state" in request:
            answer = state_of(service)
        else:
            events = [decoded(json.dumps(event).encode(), HostEvent) for event in request["events"]]
            receipts = await service.submit_all(CLUSTER, events, "client")
            answer = [[receipt.sequence, receipt.refusal and str(receipt.refusal)] for receipt in receipts]
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


async def result_of(service: PlacementService, plan: str) -> Any:
    """Return the document of a plan when its search has ended."""
    return (await service.cluster(CLUSTER).finished(plan)).document


def state_of(service: PlacementService) -> Any:
    """Return what the service says of the cluster."""
    engine = service.cluster(CLUSTER).reader.engine
    names = [f"db/{index}" for index in range(PARTITIONS)]
    replicas = {name: plain(engine.replicas(name)) for name in names if name in engine._state.partition_names()}
    return {"loads": engine.node_loads(), "replicas": replicas, "violations": [*map(str, engine.violations(soft=True))]}


class Server:
    """A forked process that serves a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.start()

    def start(self) -> None:
        """Fork a process."""
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            asyncio.run(serve(self._folder, theirs))
            os._exit(0)
        theirs.close()
        self._connection = ours
        self._file = ours.makefile("rb")

    def kill(self) -> None:
        """Kill the process at once."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._file.close()
        self._connection.close()

    def ask(self, request: Document, *, patience: float | None = None) -> Any:
        """Return the answer to a request; None: it did not come within `patience` seconds, or the process is dead."""
        self._connection.settimeout(patience)
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            line = self._file.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None


def first_events() -> list[Document]:
    """Return events that describe the cluster."""
    load = {"primary": {"cpu": 3, "memory": 2}, "secondary": {"cpu": 1, "memory": 2}}
    nodes = [
        {"name": f"n{index}", "capacities": {"cpu": 40, "memory": 60}, "fault_domain": f"fd:/r{index % 4}"}
        for index in range(NODES)
    ]
    return [
        *({"type": "node", "node": node} for node in nodes),
        {"type": "service", "service": {"name": "db", "target_replicas": 3, "default_load": load}},
        *({"type": "partition", "partition": {"name": f"db/{i}", "service": "db"}} for i in range(PARTITIONS)),
    ]


def random_events(rng: random.Random, replicas: dict[str, list[Document]]) -> list[Document]:
    """Return events that change loads, nodes and partitions, some of them refused."""
    events: list[Document] = []
    for _ in range(rng.randint(1, 6)):
        kind, node, partition = rng.random(), f"n{rng.randrange(NODES + 1)}", f"db/{rng.randrange(PARTITIONS)}"
        if kind < 0.6:
            placed = [one["node"] for one in replicas.get(partition, []) if one["node"]] or [node]
            load = [float(rng.randint(0, 12)), float(rng.randint(0, 9))]
            events.append({"type": "loads", "partitions": [partition], "nodes": [rng.choice(placed)], "loads": [load]})
        elif kind < 0.75:
            events.append({"type": rng.choice(["drain_node", "undrain_node"]), "name": node})
        elif kind < 0.9:
            events.append({"type": "partition", "partition": {"name": partition, "service": "db", "missing": 1}})
        else:
            events.append({"type": "remove_node", "name": node})
    return events


class Client:
    """Sends the same events to a server that is killed, and to one that is not."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.killed, self.steady, self.rng = Server(folder / "killed"), Server(folder / "steady"), rng
        self.kills = self.sent = self.plans = self.number = 0
        self.replicas: dict[str, list[Document]] = {}

    def send(self, events: list[Document], *, kills: bool) -> tuple[list[Any], list[Any]]:
        """Return the receipts of both; with `kills` one is killed while it works, and told again."""
        for event in events:
            self.number += 1
            event["id"] = f"e{self.number}"
        self.sent += len(events)
        request = {"events": events}
        if kills:
            self.killed.ask(request, patience=self.rng.choice([0.0005, 0.002, 0.005, 0.02]) * self.rng.random())
            self.killed.kill()
            self.kills += 1
            self.killed.start()
        return self.killed.ask(request), self.steady.ask(request)

    def plan(self, call: str, now: float, *, kills: bool) -> None:
        """Have both make a plan and carry it out; with `kills` one is killed while it searches."""
        event = {"type": "plan", "call": call, "now": now, "proposals": 3000}
        (one,), (other,) = self.send([event], kills=False)
        if kills:
            self.killed.ask({"wait": f"p{one[0]}"}, patience=0.03 * self.rng.random())
            self.killed.kill()
            self.kills += 1
            self.killed.start()
        documents = [
            server.ask({"wait": f"p{receipt[0]}"}) for server, receipt in ((self.killed, one), (self.steady, other))
        ]
        if documents[0] != documents[1]:
            raise SystemExit(f"after {self.kills} kills the plans of {event} differ: {documents}")
        self.plans += 1
        for server, receipt in ((self.killed, one), (self.steady, other)):
            decision = {"type": self.rng.choice(["apply"]), "plan": f"p{receipt[0]}", "id": f"a{self.number}"}
            server.ask({"events": [decision]})

    def compare(self) -> None:
        """End with an error if the two differ."""
        states = [server.ask({"state": True}) for server in (self.killed, self.steady)]
        if states[0] != states[1]:
            raise SystemExit(f"after {self.kills} kills and {self.sent} events the clusters differ")
        self.replicas = states[0]["replicas"]


def main() -> None:
    """Kill a service many times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--saved-every", type=int, default=200, help="events after which a state is saved")
    arguments = parser.parse_args()
    searches.SAVED_EVERY = arguments.saved_every
    folder, began = Path(mkdtemp(prefix="plb-kills-")), time.monotonic()
    client = Client(folder, random.Random(arguments.seed))
    client.send(first_events(), kills=False)
    client.plan("place", 0.0, kills=False)
    client.compare()
    now = 0.0
    while client.kills < arguments.kills:
        now += 60.0
        receipts = client.send(random_events(client.rng, client.replicas), kills=True)
        if [refusal for _, refusal in receipts[0]] != [refusal for _, refusal in receipts[1]]:
            raise SystemExit(f"after {client.kills} kills the refusals differ: {receipts}")
        if client.rng.random() < 0.3:
            client.plan(client.rng.choice(["refresh", "repair", "balance"]), now, kills=client.rng.random() < 0.5)
        client.compare()
        if sys.stderr.isatty() or client.kills % 100 == 0:
            print(f"{client.kills} kills", end="\r", file=sys.stderr)
    client.killed.kill()
    client.steady.kill()
    shutil.rmtree(folder)
    print(
        f"{client.kills:,} kills, {client.sent:,} events, {client.plans:,} plans: nothing lost, nothing twice, "
        f"all plans equal ({time.monotonic() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()
